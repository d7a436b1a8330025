// Python's two ways to format: '%d of %s' % (…) and '{} of {name:>5}'.format(…).
#pragma once

#include <string>
#include <string_view>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

// format % arguments
Value PercentFormat(Runtime& runtime, const Value& format, const Value& arguments);
// format.format(*positional, **keywords), in the sandbox: fields reach attributes and items as templates do.
Value BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments);

// How one value is laid out.
struct FormatSpec {
  std::string fill = " ";  // one character
  char align = 0;          // < > ^ = or 0: the type's own
  char sign = '-';         // - + or space
  bool alternate = false;
  bool zero = false;
  bool grouped = false;  // thousands by commas
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

// A number as digits with sign, prefix and groups, unpadded. Throws for a type that does not fit.
std::string FormatInteger(int64_t number, const FormatSpec& spec);
std::string FormatFloat(double number, const FormatSpec& spec);
// Pads to the width; `align` is used where the spec has none. A number's zeros go behind its sign.
std::string Pad(std::string text, const FormatSpec& spec, char align);

}  // namespace tercet::chat
