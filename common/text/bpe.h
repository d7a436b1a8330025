// Byte-pair merging of one piece of text: starting from its bytes, the pair of neighbours with the lowest rank is merged, the
// leftmost first among equals, until no pair has a rank.
//
// Time O(n log n) in the piece's length. Immutable; thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/vocabulary.h"

namespace tercet::text {

class BytePairEncoder {
 public:
  // INVALID_ARGUMENT: a merge that is no pair, or a byte without a token. `whole_piece_first`: see PretokenizerRules.
  static absl::StatusOr<BytePairEncoder> Create(const Vocabulary& vocabulary, bool whole_piece_first);

  // Appends the ids of `piece` (raw bytes, not empty) to `ids`.
  void Encode(std::string_view piece, std::vector<uint32_t>* ids) const;

 private:
  struct Merge {
    uint32_t rank;
    uint32_t id;
  };
  static uint64_t Pair(uint32_t left, uint32_t right) { return (uint64_t{left} << 32) | right; }

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  // Whole tokens by the bytes they stand for.
  absl::flat_hash_map<std::string, uint32_t, TextHash, std::equal_to<>> id_of_bytes_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
  std::array<uint32_t, 256> id_of_byte_;
  bool whole_piece_first_ = false;
};

}  // namespace tercet::text
