// How Python prints values: str(), repr(), and the shortest digits of a float.
#pragma once

#include <string>
#include <string_view>

#include "common/template/value.h"

namespace tercet::chat {

// repr(float): "1.0", "1e-05", "1e+16", "inf", "nan".
std::string FloatRepr(double number);
std::string StringRepr(std::string_view text);
// repr(value); throws when what a namespace holds nests too deep.
std::string Repr(const Value& value);
// str(value): what {{ value }} prints. Undefined is empty.
std::string Str(const Value& value);
// The same, appended.
void AppendStr(const Value& value, std::string* out);

}  // namespace tercet::chat
