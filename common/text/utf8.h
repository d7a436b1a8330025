// UTF-8: decoding, checking, and replacing what is malformed. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tercet::text {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

struct CodePoint {
  char32_t value;
  uint32_t bytes;  // 1 … 4
};

// The code point at text[at]; the text is valid UTF-8 and `at` a boundary inside it.
CodePoint DecodeAt(std::string_view text, size_t at);

// What begins at bytes[at].
struct Utf8Unit {
  enum class Kind { kValid, kInvalid, kIncomplete } kind;
  // Bytes that belong together: the character, the malformed part that one U+FFFD stands for, or the incomplete character
  // up to the end of the text.
  uint32_t bytes;
};
// Malformed parts are cut as Python's bytes.decode("utf-8", "replace") does: the longest prefix of a valid character is one
// part (Unicode, section 3.9, "maximal subpart").
Utf8Unit NextUnit(std::string_view bytes, size_t at);

bool IsValidUtf8(std::string_view text);

// Valid UTF-8 in any case.
std::string ReplaceInvalid(std::string_view bytes);

}  // namespace tercet::text
