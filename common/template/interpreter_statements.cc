#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/template/arguments.h"
#include "common/template/interpreter.h"
#include "common/template/repr.h"

namespace tercet::chat {

Interpreter::Interpreter(Runtime& runtime, const Program& program, const nlohmann::ordered_json& variables)
    : runtime_(runtime), program_(program), variables_(variables) {
  resolved_.resize(program.resolved_names.size());
  for (size_t i = 0; i < resolved_.size(); ++i) {
    const auto found = variables_.find(program.resolved_names[i]);
    resolved_[i] = found != variables_.end() ? runtime_.FromJson(*found) : FindGlobal(program.resolved_names[i]);
  }
}

Interpreter::~Interpreter() {
  // Activations hold macros, which hold nothing but pointers to activations: no order matters.
  for (const auto& activation : kept_) activation->slots.clear();
}

Interpreter::Frame::Frame(Interpreter& interpreter, const FunctionCode& code, Activation* outer)
    : interpreter_(interpreter), captured_(code.captured) {
  if (!interpreter.free_.empty()) {
    activation_ = std::move(interpreter.free_.back());
    interpreter.free_.pop_back();
  } else {
    activation_ = std::make_unique<Activation>();
  }
  activation_->slots.resize(code.slots);
  activation_->outer = outer;
  if (captured_)
    interpreter_.runtime_.meter().Take(static_cast<int64_t>(sizeof(Activation) + code.slots * sizeof(Value)));
}

Interpreter::Frame::~Frame() {
  if (captured_) {
    interpreter_.kept_.push_back(std::move(activation_));
  } else {
    activation_->slots.clear();
    interpreter_.free_.push_back(std::move(activation_));
  }
}

Interpreter::CallDepth::CallDepth(Interpreter& interpreter) : interpreter_(interpreter) {
  if (++interpreter_.calls_ > interpreter_.runtime_.limits().max_calls) {
    --interpreter_.calls_;
    Fail("macros or recursive loops call each other deeper than ", interpreter_.runtime_.limits().max_calls, " levels");
  }
}

std::string Interpreter::Run() {
  Capture capture(*this);
  Frame frame(*this, program_.function, nullptr);
  root_ = &*frame;
  Enter(program_.scope, *frame);
  Execute(program_.body, *frame);
  return std::move(capture.text);
}

Value Interpreter::Resolve(uint16_t name_index) { return resolved_[name_index]; }

void Interpreter::Enter(const ScopeCode& scope, Activation& activation) {
  for (const ScopeEntry& entry : scope) {
    switch (entry.action) {
      case ScopeEntry::Action::kResolve:
        activation.slots[entry.slot] = Resolve(entry.source.slot);
        break;
      case ScopeEntry::Action::kAlias:
        activation.slots[entry.slot] = Slot(entry.source, activation);
        break;
      case ScopeEntry::Action::kUnset:
        activation.slots[entry.slot] = Value();
        break;
      case ScopeEntry::Action::kParameter:
        break;
    }
  }
}

void Interpreter::Leave(const ScopeCode& scope, Activation& activation) {
  for (const ScopeEntry& entry : scope) activation.slots[entry.slot] = Value();
}

void Interpreter::CountOutput(size_t bytes) {
  output_bytes_ += static_cast<int64_t>(bytes);
  if (output_bytes_ > runtime_.limits().max_output_bytes) {
    Fail("the template writes more than ", runtime_.limits().max_output_bytes, " bytes");
  }
}

void Interpreter::Emit(const Value& value) {
  const size_t before = output_->size();
  runtime_.StepOver(value);
  AppendStr(value, output_);
  CountOutput(output_->size() - before);
}

Interpreter::Flow Interpreter::Execute(const Body& body, Activation& activation) {
  for (const auto& statement : body) {
    const Flow flow = Execute(*statement, activation);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement, Activation& activation) {
  const Runtime::Level level(runtime_);
  runtime_.Step();
  offset_ = statement.offset;
  switch (statement.kind) {
    case StatementKind::kOutput:
      Output(static_cast<const OutputNode&>(statement), activation);
      return Flow::kNext;
    case StatementKind::kFor:
      return For(static_cast<const ForNode&>(statement), activation);
    case StatementKind::kIf:
      return If(static_cast<const IfNode&>(statement), activation);
    case StatementKind::kSet:
      Set(static_cast<const SetNode&>(statement), activation);
      return Flow::kNext;
    case StatementKind::kSetBlock:
      return SetBlock(static_cast<const SetBlockNode&>(statement), activation);
    case StatementKind::kMacro: {
      const auto& node = static_cast<const MacroNode&>(statement);
      Slot(node.name->variable, activation) = MakeMacro(node, activation);
      return Flow::kNext;
    }
    case StatementKind::kCallBlock:
      CallBlock(static_cast<const CallBlockNode&>(statement), activation);
      return Flow::kNext;
    case StatementKind::kFilterBlock:
      return FilterBlock(static_cast<const FilterBlockNode&>(statement), activation);
    case StatementKind::kWith:
      return With(static_cast<const WithNode&>(statement), activation);
    case StatementKind::kBlock:
      Block(static_cast<const BlockNode&>(statement));
      return Flow::kNext;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kLoad:
      Fail("'", static_cast<const LoadNode&>(statement).tag,
           "' needs other templates, and a chat template stands alone");
  }
  return Flow::kNext;
}

void Interpreter::Output(const OutputNode& node, Activation& activation) {
  for (const ExprPtr& part : node.parts) {
    if (part->kind == ExprKind::kConstant) {
      Emit(static_cast<const ConstantExpr&>(*part).value);
    } else {
      Emit(Evaluate(*part, activation));
    }
  }
}

Interpreter::Flow Interpreter::If(const IfNode& node, Activation& activation) {
  for (const auto& [test, body] : node.branches) {
    if (Truth(Evaluate(*test, activation))) return Execute(body, activation);
  }
  return Execute(node.otherwise, activation);
}

void Interpreter::CheckNamespaces(const Expr& target, Activation& activation) {
  if (target.kind == ExprKind::kNamespaceTarget) {
    const auto& member = static_cast<const AttributeExpr&>(target);
    At(target);
    if (!Slot(static_cast<const NameExpr&>(*member.object).variable, activation).is(Kind::kNamespace)) {
      Fail("cannot assign attribute on non-namespace object");
    }
  } else if (target.kind == ExprKind::kTuple) {
    for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) CheckNamespaces(*item, activation);
  }
}

void Interpreter::Set(const SetNode& node, Activation& activation) {
  CheckNamespaces(*node.target, activation);
  const Value value = Evaluate(*node.value, activation);
  Assign(*node.target, value, activation);
}

void Interpreter::Assign(const Expr& target, const Value& value, Activation& activation) {
  switch (target.kind) {
    case ExprKind::kName:
      Slot(static_cast<const NameExpr&>(target).variable, activation) = value;
      return;
    case ExprKind::kNamespaceTarget: {
      const auto& member = static_cast<const AttributeExpr&>(target);
      const Value space = Slot(static_cast<const NameExpr&>(*member.object).variable, activation);
      if (!space.is(Kind::kNamespace)) Fail("cannot assign attribute on non-namespace object");
      for (auto& [name, attribute] : space.as<NamespaceObject>()->attributes) {
        if (name == member.name.text()) {
          attribute = value;
          return;
        }
      }
      space.as<NamespaceObject>()->attributes.emplace_back(member.name.text(), value);
      return;
    }
    default: {
      const auto& targets = static_cast<const ItemsExpr&>(target).items;
      At(target);
      if (LengthOf(value) < 0 && !value.is(Kind::kGenerator))
        Fail("cannot unpack non-iterable ", TypeName(value), " object");
      const auto iterator = Iterate(runtime_, value);
      Values items;
      Value item;
      while (items.size() <= targets.size() && iterator->Next(&item)) items.push_back(std::move(item));
      if (items.size() > targets.size()) Fail("too many values to unpack (expected ", targets.size(), ")");
      if (items.size() < targets.size()) {
        Fail("not enough values to unpack (expected ", targets.size(), ", got ", items.size(), ")");
      }
      for (size_t i = 0; i < items.size(); ++i) Assign(*targets[i], items[i], activation);
    }
  }
}

Interpreter::Flow Interpreter::SetBlock(const SetBlockNode& node, Activation& activation) {
  CheckNamespaces(*node.target, activation);
  Value text;
  {
    Capture capture(*this);
    Enter(node.scope, activation);
    const Flow flow = Execute(node.body, activation);
    if (flow != Flow::kNext) return flow;
    text = runtime_.String(std::move(capture.text));
  }
  if (node.filter != nullptr) {
    const Value* outer = std::exchange(block_text_, &text);
    const absl::Cleanup restore = [&] { block_text_ = outer; };
    text = Evaluate(*node.filter, activation);
  }
  Leave(node.scope, activation);
  Assign(*node.target, text, activation);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::FilterBlock(const FilterBlockNode& node, Activation& activation) {
  Value text;
  Enter(node.scope, activation);
  {
    Capture capture(*this);
    const Flow flow = Execute(node.body, activation);
    if (flow != Flow::kNext) return flow;
    text = runtime_.String(std::move(capture.text));
  }
  const Value* outer = std::exchange(block_text_, &text);
  const absl::Cleanup restore = [&] { block_text_ = outer; };
  Emit(Evaluate(*node.filter, activation));
  Leave(node.scope, activation);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::With(const WithNode& node, Activation& activation) {
  Enter(node.scope, activation);
  for (const auto& [target, value] : node.variables) Assign(*target, Evaluate(*value, activation), activation);
  const Flow flow = Execute(node.body, activation);
  Leave(node.scope, activation);
  return flow;
}

void Interpreter::CallBlock(const CallBlockNode& node, Activation& activation) {
  const Value caller = MakeMacro(*node.caller, activation);
  if (node.call == nullptr) {
    Arguments none;
    Emit(Call(caller, none));
  } else {
    Emit(CallExpression(*node.call, activation, &caller));
  }
}

void Interpreter::Block(const BlockNode& node) {
  const CallDepth depth(*this);
  Frame frame(*this, node.function, nullptr);
  Enter(node.scope, *frame);
  // Blocks see the template's top-level variables as they are now.
  for (const ScopeEntry& entry : node.scope) {
    if (entry.action != ScopeEntry::Action::kResolve) continue;
    for (const auto& [name, slot] : program_.exported) {
      if (name == entry.source.slot && !root_->slots[slot].missing()) (*frame).slots[entry.slot] = root_->slots[slot];
    }
  }
  Execute(node.body, *frame);
}

Value Interpreter::MakeMacro(const MacroNode& node, Activation& activation) {
  auto* macro = runtime_.Make<MacroObject>();
  macro->node = &node;
  macro->outer = &activation;
  if (node.name != nullptr) macro->name = node.name->name.text();
  return Value(Kind::kMacro, macro);
}

}  // namespace tercet::chat
