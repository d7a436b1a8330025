// Unicode classes of code points, as pre-tokenizers use them. Thread-safe.
#pragma once

#include <cstdint>

namespace tercet::text {

enum class CharacterClass : uint8_t {
  kOther,    // punctuation, symbols, marks, control characters, unassigned
  kLetter,   // \p{L}
  kNumber,   // \p{N}
  kSpace,    // \s: White_Space, without line ends
  kNewline,  // \r and \n
};

CharacterClass ClassOf(char32_t code_point);

}  // namespace tercet::text
