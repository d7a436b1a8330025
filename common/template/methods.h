// The methods of Python's built-in types that a template may call: those that change nothing. One row in a table each.
#pragma once

#include <span>
#include <string_view>

#include "common/template/callable.h"

namespace tercet::chat {

struct Method {
  std::string_view name;
  MethodBody body;
};

std::span<const Method> StringMethods();
std::span<const Method> ListMethods();  // of tuples and ranges as well
std::span<const Method> DictMethods();
std::span<const Method> NumberMethods();
std::span<const Method> CyclerMethods();

}  // namespace tercet::chat
