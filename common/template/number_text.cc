#include "common/template/number_text.h"

#include <cstdlib>
#include <string>

#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

}  // namespace

Value ParseInteger(Runtime& runtime, std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return Value();
  text = Strip(text, nullptr, true, true);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  bool prefixed = false;
  if (text.size() > 1 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(2);
      prefixed = true;
    }
  }
  const bool zeros_only = base == 0 && !text.empty() && text[0] == '0';
  if (base == 0) base = 10;
  if (text.empty()) return Value();
  bool big = false;
  int64_t number = 0;
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {
      // Between digits only; right after a prefix counts.
      if (i + 1 == text.size() || text[i + 1] == '_' || (i == 0 && !prefixed)) return Value();
      continue;
    }
    const int digit = DigitValue(text[i]);
    if (digit >= base || (zeros_only && digit != 0)) return Value();
    digits.push_back(text[i]);
    big = big || __builtin_mul_overflow(number, base, &number) || __builtin_sub_overflow(number, digit, &number);
  }
  // Counted downwards, so that the smallest integer fits.
  if (!big && (negative || number != INT64_MIN)) return Value::Int(negative ? number : -number);
  if (base != 10) Fail("an integer grows beyond 64 bits, which is not supported");
  if (digits.size() > 4300) return Value();
  digits.erase(0, digits.find_first_not_of('0'));
  return runtime.BigInt(StrCat(negative ? "-" : "", digits));
}

std::optional<double> ParseFloat(std::string_view text) {
  text = Strip(text, nullptr, true, true);
  std::string plain;
  bool digit = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '_') {
      const bool between = i > 0 && i + 1 < text.size() && DigitValue(text[i - 1]) < 10 && DigitValue(text[i + 1]) < 10;
      if (!between) return std::nullopt;
      continue;
    }
    digit = digit || DigitValue(c) < 10;
    plain.push_back(c);
  }
  std::string_view word = plain;
  if (!word.empty() && (word[0] == '-' || word[0] == '+')) word.remove_prefix(1);
  const std::string lower = Lower(word);
  const bool special = lower == "inf" || lower == "infinity" || lower == "nan";
  // strtod also takes hexadecimal floats and nan(…), which Python does not.
  if (!special && (!digit || lower.find_first_not_of("0123456789.e+-") != std::string::npos)) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(plain.c_str(), &end);
  if (plain.empty() || end != plain.c_str() + plain.size()) return std::nullopt;
  return number;
}

}  // namespace tercet::chat
