// GPT-2's alphabet for byte-level vocabularies: each byte is written as one printable character, so that a token is always a
// readable text. Bytes that are printable in Latin-1 stand for themselves, the others for U+0100, U+0101, … in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tercet::text {

// The bytes which `token` writes; nothing if it holds a character outside the alphabet.
std::optional<std::string> BytesOfToken(std::string_view token);

// How a byte is written.
std::string TokenOfByte(unsigned char byte);

}  // namespace tercet::text
