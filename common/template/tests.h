// Jinja2's built-in tests (`value is name`).
#pragma once

#include <string_view>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

struct Test {
  std::string_view name;
  bool (*body)(Runtime& runtime, const Value& input, Arguments& arguments);
};

// Null when there is no such test.
const Test* FindTest(std::string_view name);

}  // namespace tercet::chat
