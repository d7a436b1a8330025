#include "services/gateway/generation/stop_matcher.h"

#include <algorithm>

namespace tercet::gateway {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    Automaton automaton;
    automaton.stop = stop;
    automaton.fallback.resize(stop.size() + 1, 0);
    for (size_t i = 1, border = 0; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border]) border = automaton.fallback[border];
      if (stop[i] == stop[border]) ++border;
      automaton.fallback[i + 1] = static_cast<int32_t>(border);
    }
    automata_.push_back(std::move(automaton));
  }
}

void StopMatcher::Step(char byte) {
  ++position_;
  for (Automaton& automaton : automata_) {
    if (automaton.done) continue;
    while (automaton.matched > 0 && automaton.stop[automaton.matched] != byte) {
      automaton.matched = automaton.fallback[automaton.matched];
    }
    if (automaton.stop[automaton.matched] == byte) ++automaton.matched;
    if (automaton.matched < static_cast<int32_t>(automaton.stop.size())) continue;
    // Later occurrences of the same string begin later, so this one is all that matters of it.
    automaton.done = true;
    int64_t begin = position_ - automaton.matched;
    if (!match_.has_value() || begin < match_->begin) match_ = Match{begin, position_};
  }
}

int64_t StopMatcher::EarliestPending() const {
  int64_t earliest = position_;
  for (const Automaton& automaton : automata_) {
    if (!automaton.done) earliest = std::min(earliest, position_ - automaton.matched);
  }
  return earliest;
}

void StopMatcher::Feed(std::string_view text) {
  if (settled_) return;
  if (automata_.empty()) {
    released_ = position_ += static_cast<int64_t>(text.size());
    return;
  }
  for (char byte : text) {
    Step(byte);
    if (match_.has_value() && EarliestPending() >= match_->begin) {
      settled_ = true;
      released_ = match_->begin;
      return;
    }
  }
  released_ = match_.has_value() ? std::min(match_->begin, EarliestPending()) : EarliestPending();
}

void StopMatcher::Finish() {
  if (settled_) return;
  released_ = match_.has_value() ? match_->begin : position_;
  settled_ = match_.has_value();
}

}  // namespace tercet::gateway
