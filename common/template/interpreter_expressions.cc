#include <utility>

#include "common/template/filters.h"
#include "common/template/interpreter.h"
#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/tests.h"

namespace tercet::chat {

Value& Interpreter::Slot(const VariableRef& reference, Activation& activation) {
  Activation* at = &activation;
  for (uint16_t hop = 0; hop < reference.hops; ++hop) at = at->outer;
  return at->slots[reference.slot];
}

Value Interpreter::Name(const NameExpr& expr, Activation& activation) {
  const Value& value = Slot(expr.variable, activation);
  return value.missing() ? runtime_.UndefinedName(expr.name) : value;
}

Value Interpreter::Evaluate(const Expr& expr, Activation& activation) {
  runtime_.Step();
  if (expr.kind == ExprKind::kConstant) return static_cast<const ConstantExpr&>(expr).value;
  if (expr.kind == ExprKind::kName) return Name(static_cast<const NameExpr&>(expr), activation);
  const Runtime::Level level(runtime_);
  return EvaluateNested(expr, activation);
}

Value Interpreter::EvaluateNested(const Expr& expr, Activation& activation) {
  switch (expr.kind) {
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kConcat:
      return Items(static_cast<const ItemsExpr&>(expr), activation);
    case ExprKind::kDict:
      return Dict(static_cast<const ItemsExpr&>(expr), activation);
    case ExprKind::kBinary: {
      const auto& binary = static_cast<const BinaryExpr&>(expr);
      const Value left = Evaluate(*binary.left, activation);
      const Value right = Evaluate(*binary.right, activation);
      At(expr);
      return Binary(runtime_, binary.op, left, right);
    }
    case ExprKind::kAnd: {
      const auto& binary = static_cast<const BinaryExpr&>(expr);
      Value left = Evaluate(*binary.left, activation);
      return Truth(left) ? Evaluate(*binary.right, activation) : left;
    }
    case ExprKind::kOr: {
      const auto& binary = static_cast<const BinaryExpr&>(expr);
      Value left = Evaluate(*binary.left, activation);
      return Truth(left) ? left : Evaluate(*binary.right, activation);
    }
    case ExprKind::kNot:
      return Value::Bool(!Truth(Evaluate(*static_cast<const UnaryExpr&>(expr).operand, activation)));
    case ExprKind::kNegative: {
      const Value operand = Evaluate(*static_cast<const UnaryExpr&>(expr).operand, activation);
      At(expr);
      return Negative(runtime_, operand);
    }
    case ExprKind::kPositive: {
      const Value operand = Evaluate(*static_cast<const UnaryExpr&>(expr).operand, activation);
      At(expr);
      return Positive(operand);
    }
    case ExprKind::kCompare:
      return Chain(static_cast<const CompareExpr&>(expr), activation);
    case ExprKind::kConditional: {
      const auto& choice = static_cast<const ConditionalExpr&>(expr);
      if (Truth(Evaluate(*choice.test, activation))) return Evaluate(*choice.then, activation);
      if (choice.otherwise != nullptr) return Evaluate(*choice.otherwise, activation);
      return runtime_.UndefinedHint("the inline if-expression evaluated to false and no else section was defined.");
    }
    case ExprKind::kAttribute: {
      const auto& attribute = static_cast<const AttributeExpr&>(expr);
      const Value object = Evaluate(*attribute.object, activation);
      At(expr);
      return GetAttribute(runtime_, object, attribute.name);
    }
    case ExprKind::kItem:
      return Item(static_cast<const ItemExpr&>(expr), activation);
    case ExprKind::kCall:
      return CallExpression(static_cast<const CallExpr&>(expr), activation, nullptr);
    case ExprKind::kFilter:
      return FilterExpression(static_cast<const FilterExpr&>(expr), activation);
    case ExprKind::kTest:
      return TestExpression(static_cast<const TestExpr&>(expr), activation);
    case ExprKind::kConstant:
    case ExprKind::kName:
      break;  // Evaluate
    case ExprKind::kSlice:
      // Only several at once reach here (a[1:2, 3]); a lone slice is part of its ItemExpr.
      At(expr);
      Fail("a slice among several indices is not supported");
    case ExprKind::kNamespaceTarget:
      break;  // Assign
  }
  return Value::None();
}

Value Interpreter::Items(const ItemsExpr& expr, Activation& activation) {
  Values items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(Evaluate(*item, activation));
  if (expr.kind == ExprKind::kConcat) return Concatenate(runtime_, items);
  return expr.kind == ExprKind::kList ? runtime_.List(std::move(items)) : runtime_.Tuple(std::move(items));
}

Value Interpreter::Dict(const ItemsExpr& expr, Activation& activation) {
  const Value dict = runtime_.NewDict();
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    Value key = Evaluate(*expr.items[i], activation);
    Value value = Evaluate(*expr.items[i + 1], activation);
    At(expr);
    RequireHashable(key);
    dict.as<DictObject>()->Set(std::move(key), std::move(value));
  }
  runtime_.Seal(dict);
  return dict;
}

Value Interpreter::Chain(const CompareExpr& expr, Activation& activation) {
  Value left = Evaluate(*expr.first, activation);
  for (const auto& [op, operand] : expr.rest) {
    Value right = Evaluate(*operand, activation);
    At(expr);
    if (!Compare(runtime_, op, left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::Item(const ItemExpr& expr, Activation& activation) {
  const Value object = Evaluate(*expr.object, activation);
  if (expr.index->kind != ExprKind::kSlice) {
    const Value index = Evaluate(*expr.index, activation);
    At(expr);
    return GetItem(runtime_, object, index);
  }
  const auto& slice = static_cast<const SliceExpr&>(*expr.index);
  const auto bound = [&](const ExprPtr& part) { return part == nullptr ? Value() : Evaluate(*part, activation); };
  const Value start = bound(slice.start), stop = bound(slice.stop), step = bound(slice.step);
  At(expr);
  return Slice(runtime_, object, start, stop, step);
}

Arguments Interpreter::EvaluateArguments(const CallArguments& arguments, Activation& activation) {
  Arguments evaluated;
  evaluated.positional.reserve(arguments.positional.size());
  for (const ExprPtr& argument : arguments.positional) evaluated.positional.push_back(Evaluate(*argument, activation));
  for (const auto& [name, argument] : arguments.keywords) {
    evaluated.keywords.emplace_back(name, Evaluate(*argument, activation));
  }
  if (arguments.rest != nullptr) {
    for (Value& value : Collect(runtime_, Evaluate(*arguments.rest, activation))) {
      evaluated.positional.push_back(std::move(value));
    }
  }
  if (arguments.keyword_rest != nullptr) {
    const Value rest = Evaluate(*arguments.keyword_rest, activation);
    At(*arguments.keyword_rest);
    if (!rest.is(Kind::kDict)) Fail("argument after ** must be a mapping, not ", TypeName(rest));
    for (const auto& [key, value] : rest.as<DictObject>()->items) {
      if (!key.is(Kind::kString)) Fail("keywords must be strings");
      for (const auto& [name, other] : evaluated.keywords) {
        if (name == key.text()) Fail("got multiple values for keyword argument ", StringRepr(name));
      }
      evaluated.keywords.emplace_back(key.text(), value);
    }
  }
  return evaluated;
}

Value Interpreter::CallExpression(const CallExpr& expr, Activation& activation, const Value* caller) {
  const Value callee = Evaluate(*expr.callee, activation);
  Arguments arguments = EvaluateArguments(expr.arguments, activation);
  if (caller != nullptr) arguments.keywords.emplace_back("caller", *caller);
  At(expr);
  return Call(callee, arguments);
}

Value Interpreter::FilterExpression(const FilterExpr& expr, Activation& activation) {
  const Value input = expr.input == nullptr ? *block_text_ : Evaluate(*expr.input, activation);
  Arguments arguments = EvaluateArguments(expr.arguments, activation);
  At(expr);
  if (expr.filter == nullptr) Fail("No filter named '", expr.name, "' found.");
  return expr.filter->body(runtime_, input, arguments);
}

Value Interpreter::TestExpression(const TestExpr& expr, Activation& activation) {
  const Value input = Evaluate(*expr.input, activation);
  Arguments arguments = EvaluateArguments(expr.arguments, activation);
  At(expr);
  if (expr.test == nullptr) Fail("No test named '", expr.name, "' found.");
  return Value::Bool(expr.test->body(runtime_, input, arguments));
}

}  // namespace tercet::chat
