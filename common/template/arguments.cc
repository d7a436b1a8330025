#include "common/template/arguments.h"

#include <algorithm>
#include <utility>

namespace tercet::chat {

void BindArguments(Arguments& arguments, std::string_view callee, const std::string_view* parameters, size_t count,
                   size_t required, Value* bound) {
  if (arguments.positional.size() > count) {
    Fail(callee, "() takes at most ", count, " arguments (", arguments.positional.size(), " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = arguments.positional[i];
  for (auto& [name, value] : arguments.keywords) {
    const auto* found = std::find(parameters, parameters + count, std::string_view(name));
    if (found == parameters + count) Fail(callee, "() got an unexpected keyword argument '", name, "'");
    Value& slot = bound[found - parameters];
    if (!slot.missing()) Fail(callee, "() got multiple values for argument '", name, "'");
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i].missing()) Fail(callee, "() missing required argument: '", parameters[i], "'");
  }
}

void NoKeywords(const Arguments& arguments, std::string_view callee) {
  if (!arguments.keywords.empty()) Fail(callee, "() takes no keyword arguments");
}

void NoArguments(const Arguments& arguments, std::string_view callee) {
  NoKeywords(arguments, callee);
  if (!arguments.positional.empty()) Fail(callee, "() takes no arguments (", arguments.positional.size(), " given)");
}

int64_t RequireInt(const Value& value, std::string_view what) {
  if (!value.is_integral()) Fail(what, ": '", TypeName(value), "' object cannot be interpreted as an integer");
  return value.integer();
}

const std::string& RequireString(const Value& value, std::string_view what) {
  if (!value.is(Kind::kString)) Fail(what, " must be str, not ", TypeName(value));
  return value.text();
}

}  // namespace tercet::chat
