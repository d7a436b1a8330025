#include "common/template/string_literal.h"

#include <algorithm>
#include <cctype>

#include "common/template/error.h"
#include "common/template/text.h"
#include "fmt/format.h"

namespace tercet::chat {
namespace {

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// The character written as `count` hexadecimal digits after the escape at `at`.
char32_t HexEscape(std::string_view text, size_t at, size_t count, size_t offset) {
  char32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const int digit = at + 2 + i < text.size() ? DigitValue(text[at + 2 + i]) : 99;
    if (digit >= 16) FailAt(offset + at, "a string has a truncated \\", text.substr(at + 1, 1), " escape");
    value = value * 16 + static_cast<char32_t>(digit);
  }
  if (value > 0x10FFFF) FailAt(offset + at, "a string has an escape above U+10FFFF");
  if (value >= 0xD800 && value < 0xE000) {
    FailAt(offset + at, "a string has the escape of a surrogate, which no UTF-8 text can hold");
  }
  return value;
}

// decimal = decimal * base + digit, on digits as text.
void MultiplyAdd(std::string* decimal, int base, int digit) {
  int carry = digit;
  for (size_t i = decimal->size(); i-- > 0;) {
    const int value = ((*decimal)[i] - '0') * base + carry;
    (*decimal)[i] = static_cast<char>('0' + value % 10);
    carry = value / 10;
  }
  while (carry > 0) {
    decimal->insert(decimal->begin(), static_cast<char>('0' + carry % 10));
    carry /= 10;
  }
}

}  // namespace

size_t StringEnd(std::string_view source, size_t begin) {
  for (size_t at = begin + 1; at < source.size(); ++at) {
    if (source[at] == '\\') {
      ++at;
    } else if (source[at] == source[begin]) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::string UnescapeString(std::string_view text, size_t offset) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out.push_back(text[at++]);
      continue;
    }
    if (at + 1 >= text.size()) FailAt(offset + at, "a string ends with a backslash");
    const char c = text[at + 1];
    switch (c) {
      case '\n':
        break;
      case '\\':
      case '\'':
      case '"':
        out.push_back(c);
        break;
      case 'a':
        out.push_back('\a');
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'v':
        out.push_back('\v');
        break;
      case 'x':
        AppendUtf8(HexEscape(text, at, 2, offset), &out);
        at += 2;
        break;
      case 'u':
        AppendUtf8(HexEscape(text, at, 4, offset), &out);
        at += 4;
        break;
      case 'U':
        AppendUtf8(HexEscape(text, at, 8, offset), &out);
        at += 8;
        break;
      case 'N':
        FailAt(offset + at, "a string has a \\N{name} escape, which is not supported; write \\u and four digits");
      default:
        if (c >= '0' && c <= '7') {
          char32_t value = 0;
          size_t digits = 0;
          while (digits < 3 && at + 1 + digits < text.size() && text[at + 1 + digits] >= '0' &&
                 text[at + 1 + digits] <= '7') {
            value = value * 8 + static_cast<char32_t>(text[at + 1 + digits++] - '0');
          }
          AppendUtf8(value, &out);
          at += digits - 1;
        } else if (static_cast<uint8_t>(c) >= 0x80) {
          // Jinja2 writes such a character as an escape before it resolves escapes; the backslash then takes that
          // one's.
          size_t end = at + 1;
          const auto character = static_cast<uint32_t>(DecodeNext(text, &end));
          out += character < 0x100     ? fmt::format("\\x{:02x}", character)
                 : character < 0x10000 ? fmt::format("\\u{:04x}", character)
                                       : fmt::format("\\U{:08x}", character);
          at = end - 2;
        } else {
          out.push_back('\\');
          out.push_back(c);
        }
    }
    at += 2;
  }
  return out;
}

size_t IntegerLiteral(std::string_view source, size_t begin, std::string* decimal) {
  size_t at = begin;
  int base = 10;
  if (source[at] == '0' && at + 1 < source.size()) {
    const char mark = static_cast<char>(std::tolower(static_cast<unsigned char>(source[at + 1])));
    const int candidate = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    const size_t first = at + 2 + (at + 2 < source.size() && source[at + 2] == '_');
    if (candidate != 10 && first < source.size() && DigitValue(source[first]) < candidate) {
      base = candidate;
      at = first;
    }
  }
  // A decimal that begins with 0 has no other digits: 012 is 0, then 12.
  const bool zeros = base == 10 && source[at] == '0';
  *decimal = "0";
  const auto takes = [&](size_t i) {
    return i < source.size() && DigitValue(source[i]) < base && (!zeros || source[i] == '0');
  };
  while (takes(at) || (at < source.size() && source[at] == '_' && takes(at + 1))) {
    if (source[at] != '_') {
      if (decimal->size() > 4300) FailAt(begin, "an integer has more than 4300 digits");
      MultiplyAdd(decimal, base, DigitValue(source[at]));
    }
    ++at;
  }
  decimal->erase(0, std::min(decimal->find_first_not_of('0'), decimal->size() - 1));
  return at;
}

}  // namespace tercet::chat
