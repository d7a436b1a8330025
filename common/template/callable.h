// What a template can call: macros, methods of values, built-in functions.
#pragma once

#include <string>
#include <string_view>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

struct MacroNode;   // ast.h
struct Activation;  // interpreter.h

struct MacroObject final : Object {
  const MacroNode* node;
  Activation* outer;  // the variables around its definition; kept by the interpreter until the render ends
  std::string name;   // empty for the caller of a call block
};

// A method of a built-in type. `self` is of the type that it belongs to.
using MethodBody = Value (*)(Runtime& runtime, const Value& self, Arguments& arguments);

struct MethodObject final : Object {
  Value self;
  std::string_view name;
  MethodBody body;
};

using FunctionBody = Value (*)(Runtime& runtime, Arguments& arguments);

struct FunctionObject final : Object {
  FunctionObject(std::string_view function_name, FunctionBody function_body)
      : name(function_name), body(function_body) {
    references = -1;
  }
  std::string_view name;
  FunctionBody body;
};

// The method `name` of a value's type, bound to it; missing when there is none. Methods that would change the value are
// there, as undefined values whose use fails.
Value FindMethod(Runtime& runtime, const Value& self, std::string_view name);
// The functions that every template sees (range, namespace, raise_exception, …); missing when there is none.
Value FindGlobal(std::string_view name);

}  // namespace tercet::chat
