// Finds stop strings in a text that arrives in pieces, without letting any part of one through.
//
// The answer ends at the first occurrence of any stop string in the order of the text: the smallest find() over all of
// them on the whole text, however that text was cut into pieces. Where two begin at the same place the shorter one counts.
// Text is held back only while it may still turn out to be the beginning of a stop string.
//
// Every stop string is followed by its Knuth-Morris-Pratt automaton, so the cost is (bytes × stop strings) for any input.
// Positions are bytes from the first byte fed. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tercet::gateway {

class StopMatcher {
 public:
  struct Match {
    int64_t begin;
    int64_t end;
  };

  // No stop string may be empty; an empty list lets everything through.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Takes more text. Once settled() nothing more is looked at.
  void Feed(std::string_view text);

  // No more text comes: what was still undecided is decided.
  void Finish();

  // The match is known, and no further text could bring an earlier one.
  bool settled() const { return settled_; }
  const std::optional<Match>& match() const { return match_; }

  // Everything before this position is certainly part of the answer (up to the match, if there is one).
  int64_t released() const { return released_; }

 private:
  struct Automaton {
    std::string stop;
    std::vector<int32_t> fallback;  // KMP: length of the longest proper border of each prefix
    int32_t matched = 0;            // longest prefix of `stop` that ends here
    bool done = false;
  };

  void Step(char byte);
  int64_t EarliestPending() const;

  std::vector<Automaton> automata_;
  int64_t position_ = 0;
  int64_t released_ = 0;
  std::optional<Match> match_;
  bool settled_ = false;
};

}  // namespace tercet::gateway
