#include <utility>

#include "common/template/interpreter.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"

namespace tercet::chat {

Value Interpreter::Call(const Value& callee, Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kMacro:
      return CallMacro(*callee.as<MacroObject>(), arguments);
    case Kind::kMethod: {
      const auto& method = *callee.as<MethodObject>();
      if (method.self.is(Kind::kString)) runtime_.StepOver(method.self);
      return method.body(runtime_, method.self, arguments);
    }
    case Kind::kFunction:
      return callee.as<FunctionObject>()->body(runtime_, arguments);
    case Kind::kLoop: {
      const auto& loop = *callee.as<LoopObject>();
      if (loop.node == nullptr) Fail("The loop must have the 'recursive' marker to be called recursively.");
      if (arguments.positional.size() != 1 || !arguments.keywords.empty())
        Fail("loop() takes one argument, an iterable");
      const Value iterable = arguments.positional[0];
      return RunRecursive(*loop.node, iterable, loop.outer, loop.depth0 + 1);
    }
    case Kind::kJoiner: {
      auto* joiner = callee.as<JoinerObject>();
      if (!arguments.positional.empty() || !arguments.keywords.empty()) Fail("a joiner takes no arguments");
      return std::exchange(joiner->used, true) ? joiner->separator : runtime_.String("");
    }
    case Kind::kUndefined:
      FailUndefined(callee);
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kCycler:
      break;
  }
  Fail("'", TypeName(callee), "' object is not callable");
}

Value Interpreter::CallMacro(const MacroObject& macro, Arguments& arguments) {
  const CallDepth depth(*this);
  const Runtime::Level level(runtime_);
  const MacroNode& node = *macro.node;
  Capture capture(*this);
  Frame frame(*this, node.function, macro.outer);
  BindMacro(macro, arguments, *frame);
  Enter(node.scope, *frame);
  for (const Parameter& parameter : node.parameters) {
    Value& slot = Slot(parameter.name->variable, *frame);
    if (!slot.missing()) continue;
    if (parameter.otherwise != nullptr) {
      slot = Evaluate(*parameter.otherwise, *frame);
    } else {
      slot = runtime_.UndefinedHint(StrCat("parameter ", StringRepr(parameter.name->name.text()), " was not provided"));
    }
  }
  Execute(node.body, *frame);
  return runtime_.String(std::move(capture.text));
}

void Interpreter::BindMacro(const MacroObject& macro, Arguments& arguments, Activation& activation) {
  const MacroNode& node = *macro.node;
  auto& positional = arguments.positional;
  auto& keywords = arguments.keywords;
  const auto take = [&](std::string_view name) {
    for (auto it = keywords.begin(); it != keywords.end(); ++it) {
      if (it->first != name) continue;
      Value value = std::move(it->second);
      keywords.erase(it);
      return value;
    }
    return Value();
  };
  const size_t count = node.parameters.size();
  for (size_t i = 0; i < count; ++i) {
    const NameExpr& name = *node.parameters[i].name;
    Slot(name.variable, activation) = i < positional.size() ? positional[i] : take(name.name.text());
  }
  if (node.uses_caller && !node.explicit_caller) {
    Value caller = take("caller");
    if (caller.missing()) caller = runtime_.UndefinedHint("No caller defined");
    Slot(node.caller, activation) = std::move(caller);
  }
  const std::string shown = macro.name.empty() ? "None" : StringRepr(macro.name);
  if (node.uses_kwargs) {
    const Value rest = runtime_.NewDict();
    for (auto& [name, value] : keywords) rest.as<DictObject>()->Set(runtime_.String(name), value);
    runtime_.Seal(rest);
    Slot(node.kwargs, activation) = rest;
  } else if (!keywords.empty()) {
    if (!take("caller").missing()) Fail("macro ", shown, " was invoked with a caller that it does not use");
    Fail("macro ", shown, " takes no keyword argument ", StringRepr(keywords[0].first));
  }
  if (node.uses_varargs) {
    Values rest;
    for (size_t i = count; i < positional.size(); ++i) rest.push_back(positional[i]);
    Slot(node.varargs, activation) = runtime_.Tuple(std::move(rest));
  } else if (positional.size() > count) {
    Fail("macro ", shown, " takes not more than ", count, " argument(s)");
  }
}

}  // namespace tercet::chat
