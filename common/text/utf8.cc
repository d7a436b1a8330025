#include "common/text/utf8.h"

namespace tercet::text {

CodePoint DecodeAt(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  auto tail = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3f); };
  unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(char32_t(lead & 0x1f) << 6) | tail(1), 2};
  if (lead < 0xf0) return {(char32_t(lead & 0x0f) << 12) | (tail(1) << 6) | tail(2), 3};
  return {(char32_t(lead & 0x07) << 18) | (tail(1) << 12) | (tail(2) << 6) | tail(3), 4};
}

Utf8Unit NextUnit(std::string_view bytes, size_t at) {
  using Kind = Utf8Unit::Kind;
  auto lead = static_cast<unsigned char>(bytes[at]);
  if (lead < 0x80) return {Kind::kValid, 1};
  // The second byte's range keeps out overlong forms, surrogates and values beyond U+10FFFF; the later ones are 80 … BF.
  uint32_t length;
  unsigned char low = 0x80, high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return {Kind::kInvalid, 1};
  }
  for (uint32_t i = 1; i < length; ++i) {
    if (at + i >= bytes.size()) return {Kind::kIncomplete, i};
    auto next = static_cast<unsigned char>(bytes[at + i]);
    if (next < low || next > high) return {Kind::kInvalid, i};
    low = 0x80;
    high = 0xbf;
  }
  return {Kind::kValid, length};
}

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    Utf8Unit unit = NextUnit(text, at);
    if (unit.kind != Utf8Unit::Kind::kValid) return false;
    at += unit.bytes;
  }
  return true;
}

std::string ReplaceInvalid(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    Utf8Unit unit = NextUnit(bytes, at);
    text += unit.kind == Utf8Unit::Kind::kValid ? bytes.substr(at, unit.bytes) : kReplacement;
    at += unit.bytes;
  }
  return text;
}

}  // namespace tercet::text
