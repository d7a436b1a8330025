#include "common/text/character_class.h"

#include <utf8proc.h>

#include <vector>

namespace tercet::text {
namespace {

CharacterClass Compute(char32_t c) {
  if (c == '\r' || c == '\n') return CharacterClass::kNewline;
  // The White_Space property (Unicode, PropList.txt).
  if ((c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
      c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000) {
    return CharacterClass::kSpace;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharacterClass::kNumber;
    default: return CharacterClass::kOther;
  }
}

}  // namespace

CharacterClass ClassOf(char32_t code_point) {
  // One byte a code point; filled at the first use in a few milliseconds.
  static const auto* table = [] {
    auto* classes = new std::vector<CharacterClass>(0x110000);
    for (char32_t c = 0; c < 0x110000; ++c) (*classes)[c] = Compute(c);
    return classes;
  }();
  return code_point < 0x110000 ? (*table)[code_point] : CharacterClass::kOther;
}

}  // namespace tercet::text
