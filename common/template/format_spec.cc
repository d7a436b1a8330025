// Numbers and padding, common to both ways of formatting.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/template/error.h"
#include "common/template/format.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

constexpr int64_t kMaxWidth = 1'000'000;
constexpr int64_t kMaxPrecision = 1000;

std::string Group(std::string digits) {
  const size_t end = digits.find_first_not_of("0123456789");
  size_t at = end == std::string::npos ? digits.size() : end;
  while (at > 3) digits.insert(at -= 3, ",");
  return digits;
}

std::string Signed(bool negative, char sign, std::string text) {
  if (negative) return StrCat("-", text);
  if (sign == '+' || sign == ' ') return StrCat(std::string_view(&sign, 1), text);
  return text;
}

std::string Printed(const char* format, int precision, double number) {
  char buffer[1400];  // 309 digits before the point, 1000 behind it
  const int size = std::snprintf(buffer, sizeof buffer, format, precision, number);
  return std::string(buffer, static_cast<size_t>(size));
}

}  // namespace

std::string FormatInteger(int64_t number, const FormatSpec& spec) {
  const bool negative = number < 0;
  uint64_t rest = negative ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  unsigned base = 10;
  std::string prefix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'i':
    case 'u':
    case 'n':
      break;
    case 'x':
    case 'X':
      base = 16;
      prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    default:
      Fail("Unknown format code '", std::string(1, spec.type), "' for object of type 'int'");
  }
  std::string digits;
  do {
    digits.insert(digits.begin(), (spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % base]);
    rest /= base;
  } while (rest > 0);
  if (spec.grouped) digits = Group(std::move(digits));
  return Signed(negative, spec.sign, (spec.alternate ? prefix : "") + digits);
}

std::string FormatFloat(double number, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) Fail("a format's precision is above ", kMaxPrecision);
  const bool negative = std::signbit(number) && !std::isnan(number);
  const double magnitude = std::abs(number);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  std::string text;
  switch (spec.type) {
    case 'f':
    case 'F':
      text = Printed(spec.alternate ? "%#.*f" : "%.*f", precision, magnitude);
      break;
    case 'e':
      text = Printed(spec.alternate ? "%#.*e" : "%.*e", precision, magnitude);
      break;
    case 'E':
      text = Printed(spec.alternate ? "%#.*E" : "%.*E", precision, magnitude);
      break;
    case 'g':
    case 'n':
      text = Printed(spec.alternate ? "%#.*g" : "%.*g", precision, magnitude);
      break;
    case 'G':
      text = Printed(spec.alternate ? "%#.*G" : "%.*G", precision, magnitude);
      break;
    case '%':
      text = Printed("%.*f", precision, magnitude * 100) + "%";
      break;
    case 0:
      if (spec.precision < 0) {
        text = FloatRepr(magnitude);
      } else {
        // As 'g', but with a digit behind the point unless it has an exponent.
        text = Printed("%.*g", precision, magnitude);
        if (std::isfinite(magnitude) && text.find_first_of(".e") == std::string::npos) text += ".0";
      }
      break;
    default:
      Fail("Unknown format code '", std::string(1, spec.type), "' for object of type 'float'");
  }
  if (spec.grouped) text = Group(std::move(text));
  return Signed(negative, spec.sign, std::move(text));
}

std::string Pad(std::string text, const FormatSpec& spec, char align) {
  if (spec.width > kMaxWidth) Fail("a format's width is above ", kMaxWidth);
  const int64_t missing = spec.width - CountCodePoints(text);
  if (missing <= 0) return text;
  if (spec.align != 0) align = spec.align;
  const auto fill = [&](int64_t count) {
    std::string out;
    for (int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  switch (align) {
    case '<':
      return text + fill(missing);
    case '^':
      return fill(missing / 2) + text + fill(missing - missing / 2);
    case '=': {
      size_t begin = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
      if (text.size() > begin + 1 && text[begin] == '0' &&
          std::string_view("xXob").find(text[begin + 1]) != std::string_view::npos) {
        begin += 2;
      }
      return text.substr(0, begin) + fill(missing) + text.substr(begin);
    }
    default:
      return fill(missing) + text;
  }
}

}  // namespace tercet::chat
