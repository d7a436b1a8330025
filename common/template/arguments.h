// Matches the arguments of a call with the parameters of a built-in, as Python does.
#pragma once

#include <array>
#include <string_view>

#include "common/template/error.h"
#include "common/template/repr.h"
#include "common/template/value.h"

namespace tercet::chat {

// Throws unless positional and keyword arguments fill `parameters` in order: each at most once, the first `required`
// all. A parameter that got nothing is a missing Value.
void BindArguments(Arguments& arguments, std::string_view callee, const std::string_view* parameters, size_t count,
                   size_t required, Value* bound);

template <size_t kCount>
std::array<Value, kCount> Bind(Arguments& arguments, std::string_view callee,
                               const std::array<std::string_view, kCount>& parameters, size_t required) {
  std::array<Value, kCount> bound;
  BindArguments(arguments, callee, parameters.data(), kCount, required, bound.data());
  return bound;
}

void NoKeywords(const Arguments& arguments, std::string_view callee);
void NoArguments(const Arguments& arguments, std::string_view callee);

// What the argument must be; each throws a TypeError's sentence that names `what`.
int64_t RequireInt(const Value& value, std::string_view what);
const std::string& RequireString(const Value& value, std::string_view what);
inline int64_t IntOr(const Value& value, int64_t otherwise, std::string_view what) {
  return value.missing() ? otherwise : RequireInt(value, what);
}
inline bool TruthOr(const Value& value, bool otherwise) { return value.missing() ? otherwise : Truth(value); }

}  // namespace tercet::chat
