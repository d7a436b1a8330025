#include "common/template/operators.h"

#include <algorithm>
#include <cmath>

#include "common/template/format.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

const char* Symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSub:
      return "-";
    case BinaryOp::kMul:
      return "*";
    case BinaryOp::kDiv:
      return "/";
    case BinaryOp::kFloorDiv:
      return "//";
    case BinaryOp::kMod:
      return "%";
    case BinaryOp::kPow:
      return "** or pow()";
  }
  return "?";
}

[[noreturn]] void Unsupported(BinaryOp op, const Value& left, const Value& right) {
  Fail("unsupported operand type(s) for ", Symbol(op), ": '", TypeName(left), "' and '", TypeName(right), "'");
}

[[noreturn]] void TooLarge() { Fail("an integer grows beyond 64 bits, which is not supported"); }

int64_t FloorDivide(int64_t left, int64_t right) {
  if (right == 0) Fail("integer division or modulo by zero");
  if (right == -1) {
    if (left == INT64_MIN) TooLarge();
    return -left;
  }
  const int64_t quotient = left / right;
  return quotient - ((left % right != 0) && ((left < 0) != (right < 0)));
}

int64_t Modulo(int64_t left, int64_t right) {
  if (right == 0) Fail("integer modulo by zero");
  if (right == -1) return 0;
  const int64_t rest = left % right;
  return rest != 0 && ((rest < 0) != (right < 0)) ? rest + right : rest;
}

Value IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) Fail("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (int64_t square = base; exponent > 0;) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, square, &result)) TooLarge();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(square, square, &square)) TooLarge();
  }
  return Value::Int(result);
}

Value IntegerBinary(BinaryOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(left, right, &result)) TooLarge();
      return Value::Int(result);
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(left, right, &result)) TooLarge();
      return Value::Int(result);
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(left, right, &result)) TooLarge();
      return Value::Int(result);
    case BinaryOp::kDiv:
      if (right == 0) Fail("division by zero");
      return Value::Float(static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
    case BinaryOp::kFloorDiv:
      return Value::Int(FloorDivide(left, right));
    case BinaryOp::kMod:
      return Value::Int(Modulo(left, right));
    case BinaryOp::kPow:
      return IntegerPower(left, right);
  }
  return Value();
}

// Python's float modulo: the sign of the divisor.
double FloatModulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

double FloatFloorDivide(double left, double right) {
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value FloatBinary(BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(left + right);
    case BinaryOp::kSub:
      return Value::Float(left - right);
    case BinaryOp::kMul:
      return Value::Float(left * right);
    case BinaryOp::kDiv:
      if (right == 0) Fail("float division by zero");
      return Value::Float(left / right);
    case BinaryOp::kFloorDiv:
      if (right == 0) Fail("float floor division by zero");
      return Value::Float(FloatFloorDivide(left, right));
    case BinaryOp::kMod:
      if (right == 0) Fail("float modulo");
      return Value::Float(FloatModulo(left, right));
    case BinaryOp::kPow: {
      if (left == 0 && right < 0) Fail("0.0 cannot be raised to a negative power");
      if (left < 0 && std::isfinite(right) && right != std::floor(right)) {
        Fail("a negative number to a broken power is a complex number, which is not supported");
      }
      const double power = std::pow(left, right);
      if (std::isinf(power) && std::isfinite(left) && std::isfinite(right))
        Fail("(34, 'Numerical result out of range')");
      return Value::Float(power);
    }
  }
  return Value();
}

bool IsMarkup(const Value& value) { return value.is(Kind::kString) && value.as<StringObject>()->markup; }

Value AddStrings(Runtime& runtime, const Value& left, const Value& right) {
  const bool markup = IsMarkup(left) || IsMarkup(right);
  const auto part = [&](const Value& value) {
    return markup && !IsMarkup(value) ? EscapeHtml(value.text()) : value.text();
  };
  std::string text;
  text.reserve(left.text().size() + right.text().size());
  text += part(left);
  text += part(right);
  return runtime.String(std::move(text), markup);
}

Value Repeat(Runtime& runtime, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const int64_t unit = value.is(Kind::kString)
                           ? static_cast<int64_t>(value.text().size())
                           : static_cast<int64_t>(value.as<SequenceObject>()->items.size() * sizeof(Value));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(unit, times, &bytes) || bytes > runtime.limits().max_memory_bytes) {
    Fail("a repetition takes more than ", runtime.limits().max_memory_bytes, " bytes of memory");
  }
  if (unit == 0) times = 0;
  runtime.StepOver(bytes);
  if (value.is(Kind::kString)) {
    std::string text;
    text.reserve(static_cast<size_t>(bytes));
    for (int64_t i = 0; i < times; ++i) text += value.text();
    return runtime.String(std::move(text), IsMarkup(value));
  }
  Values items;
  items.reserve(static_cast<size_t>(bytes) / sizeof(Value));
  for (int64_t i = 0; i < times; ++i) {
    const Values& unit_items = value.as<SequenceObject>()->items;
    items.insert(items.end(), unit_items.begin(), unit_items.end());
  }
  return value.is(Kind::kList) ? runtime.List(std::move(items)) : runtime.Tuple(std::move(items));
}

bool Repeats(const Value& value) { return value.is(Kind::kString) || value.is(Kind::kList) || value.is(Kind::kTuple); }

bool ContainsItem(Runtime& runtime, const Values& items, const Value& item) {
  for (const Value& candidate : items) {
    runtime.Step(1 + std::min(candidate.weight(), item.weight()) / 256);
    if (Equal(candidate, item)) return true;
  }
  return false;
}

}  // namespace

Value Binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return IntegerBinary(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return FloatBinary(op, left.number(), right.number());
  // '…' % undefined formats it; any other operation on an undefined value fails.
  if (op == BinaryOp::kMod && left.is(Kind::kString)) return PercentFormat(runtime, left, right);
  if (left.is(Kind::kUndefined)) FailUndefined(left);
  if (right.is(Kind::kUndefined)) FailUndefined(right);
  if (left.is(Kind::kBigInt) || right.is(Kind::kBigInt)) {
    if ((left.is_number() || left.is(Kind::kBigInt)) && (right.is_number() || right.is(Kind::kBigInt))) TooLarge();
  }
  if (op == BinaryOp::kAdd) {
    if (left.is(Kind::kString) && right.is(Kind::kString)) return AddStrings(runtime, left, right);
    if (left.kind() == right.kind() && (left.is(Kind::kList) || left.is(Kind::kTuple))) {
      Values items = left.as<SequenceObject>()->items;
      const Values& more = right.as<SequenceObject>()->items;
      items.insert(items.end(), more.begin(), more.end());
      return left.is(Kind::kList) ? runtime.List(std::move(items)) : runtime.Tuple(std::move(items));
    }
    if (left.is(Kind::kString) || left.is(Kind::kList) || left.is(Kind::kTuple)) {
      Fail("can only concatenate ", TypeName(left), " (not \"", TypeName(right), "\") to ", TypeName(left));
    }
  }
  if (op == BinaryOp::kMul) {
    if (Repeats(left) && right.is_integral()) return Repeat(runtime, left, right.integer());
    if (Repeats(right) && left.is_integral()) return Repeat(runtime, right, left.integer());
  }
  Unsupported(op, left, right);
}

Value Negative(Runtime& runtime, const Value& operand) {
  if (operand.is_integral()) {
    if (operand.integer() == INT64_MIN) return runtime.BigInt("9223372036854775808");
    return Value::Int(-operand.integer());
  }
  if (operand.is(Kind::kFloat)) return Value::Float(-operand.number());
  if (operand.is(Kind::kUndefined)) FailUndefined(operand);
  if (operand.is(Kind::kBigInt)) {
    const std::string& digits = operand.text();
    if (digits == "9223372036854775808") return Value::Int(INT64_MIN);
    return runtime.BigInt(digits[0] == '-' ? digits.substr(1) : StrCat("-", digits));
  }
  Fail("bad operand type for unary -: '", TypeName(operand), "'");
}

Value Positive(const Value& operand) {
  if (operand.is_integral()) return Value::Int(operand.integer());
  if (operand.is(Kind::kFloat) || operand.is(Kind::kBigInt)) return operand;
  if (operand.is(Kind::kUndefined)) FailUndefined(operand);
  Fail("bad operand type for unary +: '", TypeName(operand), "'");
}

bool Compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  const auto cost = [&] { runtime.Step(std::min(left.weight(), right.weight()) / 256); };
  switch (op) {
    case CompareOp::kEq:
      cost();
      return Equal(left, right);
    case CompareOp::kNe:
      cost();
      return !Equal(left, right);
    case CompareOp::kLt:
      cost();
      return Order(left, right, "<") == -1;
    case CompareOp::kLtEq: {
      cost();
      const int order = Order(left, right, "<=");
      return order == -1 || order == 0;
    }
    case CompareOp::kGt:
      cost();
      return Order(left, right, ">") == 1;
    case CompareOp::kGtEq: {
      cost();
      const int order = Order(left, right, ">=");
      return order == 1 || order == 0;
    }
    case CompareOp::kIn:
      return Contains(runtime, right, left);
    case CompareOp::kNotIn:
      return !Contains(runtime, right, left);
  }
  return false;
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is(Kind::kString)) {
        Fail("'in <string>' requires string as left operand, not ", TypeName(item));
      }
      runtime.StepOver(static_cast<int64_t>(container.text().size()));
      return Find(container.text(), item.text()) != std::string::npos;
    case Kind::kList:
    case Kind::kTuple:
      return ContainsItem(runtime, container.as<SequenceObject>()->items, item);
    case Kind::kDict:
      RequireHashable(item);
      return container.as<DictObject>()->Find(item) != nullptr;
    case Kind::kDictView: {
      const auto& view = *container.as<DictViewObject>();
      if (view.part == DictPart::kKeys) return Contains(runtime, view.dict, item);
      break;
    }
    case Kind::kRange: {
      const auto& range = *container.as<RangeObject>();
      if (!item.is_number()) return false;
      if (item.number() != std::floor(item.number()) || std::abs(item.number()) > 9e15) return false;
      const auto number = static_cast<int64_t>(item.number());
      if (range.length == 0) return false;
      const int64_t distance = number - range.start;
      return distance % range.step == 0 && distance / range.step >= 0 && distance / range.step < range.length;
    }
    case Kind::kUndefined:
      return false;
    case Kind::kGenerator:
    case Kind::kLoop:
      break;
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kCycler:
    case Kind::kJoiner:
      Fail("argument of type '", TypeName(container), "' is not iterable");
  }
  const auto iterator = Iterate(runtime, container);
  Value candidate;
  while (iterator->Next(&candidate)) {
    runtime.Step(1 + std::min(candidate.weight(), item.weight()) / 256);
    if (Equal(candidate, item)) return true;
  }
  return false;
}

Value Concatenate(Runtime& runtime, const Values& parts) {
  std::string text;
  size_t size = 0;
  for (const Value& part : parts) size += part.is(Kind::kString) ? part.text().size() : 8;
  text.reserve(size);
  for (const Value& part : parts) AppendStr(part, &text);
  return runtime.String(std::move(text));
}

}  // namespace tercet::chat
