// Literals in a template's expressions: strings with Python's escapes, integers in four bases.
#pragma once

#include <string>
#include <string_view>

namespace tercet::chat {

// One past the closing quote of the string that begins at `begin`, or npos.
size_t StringEnd(std::string_view source, size_t begin);
// Resolves escapes as Python's unicode-escape codec does; `offset` is where the text lies in the template, for errors.
std::string UnescapeString(std::string_view text, size_t offset);
// One past the integer that begins at `begin` (a digit); its decimal digits in *decimal.
size_t IntegerLiteral(std::string_view source, size_t begin, std::string* decimal);

}  // namespace tercet::chat
