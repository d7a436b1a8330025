// Text as Python sees it, on UTF-8: positions and lengths are code points, character classes are those of str's
// methods.
//
// Strings given to these functions are UTF-8 (the library checks templates and variables where they come in).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tercet::chat {

bool IsUtf8(std::string_view text);
int64_t CountCodePoints(std::string_view text);
// Decodes the character at *position and moves behind it.
char32_t DecodeNext(std::string_view text, size_t* position);
// The character that ends at *position, which then becomes its beginning.
char32_t DecodePrevious(std::string_view text, size_t* position);
void AppendUtf8(char32_t character, std::string* out);
// Byte where the code point `index` begins; text.size() when there are fewer.
size_t ByteOffset(std::string_view text, int64_t index);
bool IsAscii(std::string_view text);

// Python's str.is… for one character.
bool IsSpace(char32_t character);
bool IsAlphabetic(char32_t character);
bool IsDecimal(char32_t character);
bool IsDigit(char32_t character);
bool IsNumeric(char32_t character);
bool IsUpper(char32_t character);
bool IsLower(char32_t character);
bool IsTitle(char32_t character);
bool IsPrintable(char32_t character);
inline bool IsAlphanumeric(char32_t character) {
  return IsAlphabetic(character) || IsDecimal(character) || IsDigit(character) || IsNumeric(character);
}
// May stand in an identifier (after the first place).
bool IsIdentifierPart(char32_t character);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string CaseFold(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);
// str.title, which is not the filter `title`.
std::string TitleCase(std::string_view text);

// Without the characters of `characters` (white space when null) at the ends chosen.
std::string_view Strip(std::string_view text, const std::string_view* characters, bool left, bool right);
// As str.splitlines.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);
// str.split and str.rsplit; by white space when `separator` is null. `limit` below 0: no limit.
std::vector<std::string_view> Split(std::string_view text, const std::string_view* separator, int64_t limit);
std::vector<std::string_view> SplitRight(std::string_view text, const std::string_view* separator, int64_t limit);
// First place of `needle` at or after `from`, or npos. Linear time.
size_t Find(std::string_view text, std::string_view needle, size_t from = 0);
// Last place, or npos.
size_t FindLast(std::string_view text, std::string_view needle);
std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t limit);
// markupsafe.escape: & < > ' ".
std::string EscapeHtml(std::string_view text);

}  // namespace tercet::chat
