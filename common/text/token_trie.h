// Finds which of a set of tokens, if any, a text has at a position: the longest one. Immutable after the last Add;
// thread-safe then.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tercet::text {

class TokenTrie {
 public:
  // `token` is not empty.
  void Add(std::string_view token, uint32_t id) {
    uint32_t node = 0;
    for (char c : token) {
      auto [edge, added] = edges_.try_emplace(Edge(node, c), static_cast<uint32_t>(ids_.size()));
      if (added) ids_.push_back(kNone);
      node = edge->second;
    }
    ids_[node] = id;
  }

  bool empty() const { return edges_.empty(); }

  struct Match {
    uint32_t id;
    size_t bytes;
  };
  std::optional<Match> LongestAt(std::string_view text, size_t at) const {
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t i = at; i < text.size(); ++i) {
      auto edge = edges_.find(Edge(node, text[i]));
      if (edge == edges_.end()) break;
      node = edge->second;
      if (ids_[node] != kNone) longest = Match{ids_[node], i + 1 - at};
    }
    return longest;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  static uint64_t Edge(uint32_t node, char c) { return (uint64_t{node} << 8) | static_cast<unsigned char>(c); }

  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  std::vector<uint32_t> ids_{kNone};
};

}  // namespace tercet::text
