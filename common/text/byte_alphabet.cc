#include "common/text/byte_alphabet.h"

#include <array>

#include "common/text/utf8.h"

namespace tercet::text {
namespace {

bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

// Character of each byte, and byte of each character below U+0144; -1: none.
struct Tables {
  std::array<char32_t, 256> character;
  std::array<int, 0x144> byte;
  Tables() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      character[b] = StandsForItself(b) ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = b;
    }
  }
};

const Tables& Alphabet() {
  static const Tables tables;
  return tables;
}

}  // namespace

std::optional<std::string> BytesOfToken(std::string_view token) {
  const Tables& alphabet = Alphabet();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    if (NextUnit(token, at).kind != Utf8Unit::Kind::kValid) return std::nullopt;
    CodePoint point = DecodeAt(token, at);
    if (point.value >= alphabet.byte.size() || alphabet.byte[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet.byte[point.value]);
    at += point.bytes;
  }
  return bytes;
}

std::string TokenOfByte(unsigned char byte) {
  char32_t c = Alphabet().character[byte];
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
}

}  // namespace tercet::text
