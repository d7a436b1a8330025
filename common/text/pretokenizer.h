// How a text is cut into pieces before byte-pair merging. Merges never cross a piece.
//
// The rules are regular expressions in the models' own definitions; here they are scanners with the same result, which run in
// linear time and constant stack. A row of the table in pretokenizer.cc is a rule; it names the values of
// tokenizer.ggml.pre to which it belongs. Immutable; thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tercet::text {

struct PretokenizerRules {
  enum class Digits {
    kRun,         // " ?\p{N}+"
    kUpToThree,   // "\p{N}{1,3}"
    kSingle,      // "\p{N}"
    kSplitFirst,  // each \p{N} is cut out before anything else is looked at; the rest falls into separate texts
  };
  Digits digits;
  // Apostrophe contractions ('s 't 're 've 'm 'll 'd) in upper case as well.
  bool any_case_contractions;
  // Letters may take any one character before them along ("[^\r\n\p{L}\p{N}]?\p{L}+"), symbols the line ends behind them
  // (" ?[^\s\p{L}\p{N}]+[\r\n]*"), and white space up to a line end is one piece ("\s*[\r\n]+"). Otherwise letters and
  // symbols take one space along.
  bool line_rules;
  // A piece which is a token as a whole is that token, whatever the merges say.
  bool whole_piece_first;
};

// UNIMPLEMENTED: this build has no rules by that name. Guessing would give wrong ids.
absl::StatusOr<PretokenizerRules> FindPretokenizer(const std::string& name);

// End of the piece that begins at text[begin]; text is valid UTF-8 and begin < text.size().
size_t PieceEnd(const PretokenizerRules& rules, std::string_view text, size_t begin);

}  // namespace tercet::text
