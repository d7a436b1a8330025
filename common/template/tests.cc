#include "common/template/tests.h"

#include <algorithm>

#include "common/template/arguments.h"
#include "common/template/filters.h"
#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

template <Kind kKind>
bool IsKind(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "test");
  return input.is(kKind);
}

bool IsDefined(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "defined");
  return !input.is(Kind::kUndefined);
}

template <bool kValue>
bool IsBool(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "test");
  return input.is(Kind::kBool) && input.boolean() == kValue;
}

bool IsInteger(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "integer");
  return input.is(Kind::kInt) || input.is(Kind::kBigInt);
}

bool IsNumber(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "number");
  return input.is_number() || input.is(Kind::kBigInt);
}

bool IsSequence(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "sequence");
  return input.is(Kind::kString) || input.is(Kind::kList) || input.is(Kind::kTuple) || input.is(Kind::kDict) ||
         input.is(Kind::kRange) || input.is(Kind::kUndefined);
}

bool IsIterable(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "iterable");
  return LengthOf(input) >= 0 || input.is(Kind::kGenerator);
}

bool IsCallable(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "callable");
  return input.is(Kind::kMacro) || input.is(Kind::kMethod) || input.is(Kind::kFunction) || input.is(Kind::kLoop) ||
         input.is(Kind::kJoiner) || input.is(Kind::kUndefined);
}

bool IsEscaped(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "escaped");
  return input.is(Kind::kString) && input.as<StringObject>()->markup;
}

// str.islower and str.isupper: some character has case, and none the other one.
template <bool (*kHas)(char32_t), bool (*kOther)(char32_t)>
bool HasCase(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "test");
  const std::string text = Str(input);
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = DecodeNext(text, &at);
    if (kOther(c) || IsTitle(c)) return false;
    any = any || kHas(c);
  }
  return any;
}

bool Divides(Runtime& runtime, const Value& input, const Value& divisor, int64_t rest) {
  return Equal(Binary(runtime, BinaryOp::kMod, input, divisor), Value::Int(rest));
}

bool IsOdd(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "odd");
  return Divides(runtime, input, Value::Int(2), 1);
}

bool IsEven(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "even");
  return Divides(runtime, input, Value::Int(2), 0);
}

bool IsDivisibleBy(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [divisor] = Bind<1>(arguments, "divisibleby", {"num"}, 1);
  return Divides(runtime, input, divisor, 0);
}

bool IsSameAs(Runtime&, const Value& input, Arguments& arguments) {
  auto [other] = Bind<1>(arguments, "sameas", {"other"}, 1);
  return Same(input, other);
}

bool IsIn(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [container] = Bind<1>(arguments, "in", {"seq"}, 1);
  return Contains(runtime, container, input);
}

template <CompareOp kOp>
bool Compares(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoKeywords(arguments, "test");
  auto [other] = Bind<1>(arguments, "test", {"other"}, 1);
  return Compare(runtime, kOp, input, other);
}

bool IsFilter(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "filter");
  RequireHashable(input);
  return input.is(Kind::kString) && FindFilter(input.text()) != nullptr;
}

bool IsTest(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "test");
  RequireHashable(input);
  return input.is(Kind::kString) && FindTest(input.text()) != nullptr;
}

constexpr Test kTests[] = {
    {"!=", Compares<CompareOp::kNe>},
    {"<", Compares<CompareOp::kLt>},
    {"<=", Compares<CompareOp::kLtEq>},
    {"==", Compares<CompareOp::kEq>},
    {">", Compares<CompareOp::kGt>},
    {">=", Compares<CompareOp::kGtEq>},
    {"boolean", IsKind<Kind::kBool>},
    {"callable", IsCallable},
    {"defined", IsDefined},
    {"divisibleby", IsDivisibleBy},
    {"eq", Compares<CompareOp::kEq>},
    {"equalto", Compares<CompareOp::kEq>},
    {"escaped", IsEscaped},
    {"even", IsEven},
    {"false", IsBool<false>},
    {"filter", IsFilter},
    {"float", IsKind<Kind::kFloat>},
    {"ge", Compares<CompareOp::kGtEq>},
    {"greaterthan", Compares<CompareOp::kGt>},
    {"gt", Compares<CompareOp::kGt>},
    {"in", IsIn},
    {"integer", IsInteger},
    {"iterable", IsIterable},
    {"le", Compares<CompareOp::kLtEq>},
    {"lessthan", Compares<CompareOp::kLt>},
    {"lower", HasCase<IsLower, IsUpper>},
    {"lt", Compares<CompareOp::kLt>},
    {"mapping", IsKind<Kind::kDict>},
    {"ne", Compares<CompareOp::kNe>},
    {"none", IsKind<Kind::kNone>},
    {"number", IsNumber},
    {"odd", IsOdd},
    {"sameas", IsSameAs},
    {"sequence", IsSequence},
    {"string", IsKind<Kind::kString>},
    {"test", IsTest},
    {"true", IsBool<true>},
    {"undefined", IsKind<Kind::kUndefined>},
    {"upper", HasCase<IsUpper, IsLower>},
};

}  // namespace

const Test* FindTest(std::string_view name) {
  const auto* found = std::lower_bound(std::begin(kTests), std::end(kTests), name,
                                       [](const Test& test, std::string_view key) { return test.name < key; });
  return found != std::end(kTests) && found->name == name ? found : nullptr;
}

}  // namespace tercet::chat
