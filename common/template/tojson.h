// The tojson filter as Hugging Face transformers defines it: json.dumps, nothing escaped for HTML.
#pragma once

#include <string>
#include <string_view>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // one level's
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Throws for what JSON has no form for: undefined values, generators, macros, …
std::string ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);
// The filter: tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False).
Value ToJsonFilter(Runtime& runtime, const Value& value, Arguments& arguments);

}  // namespace tercet::chat
