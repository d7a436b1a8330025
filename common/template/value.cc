#include "common/template/value.h"

#include <cmath>
#include <limits>

#include "common/template/error.h"
#include "common/template/loop.h"
#include "common/template/runtime.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

// Below this many items a mapping is searched from the front.
constexpr size_t kIndexedDict = 12;

// -1, 0, 1, or 2 when one is NaN. Exact: an int64 is not rounded to a double.
int CompareNumbers(const Value& left, const Value& right) {
  if (!left.is(Kind::kFloat) && !right.is(Kind::kFloat)) {
    return left.integer() < right.integer() ? -1 : left.integer() > right.integer();
  }
  if (left.is(Kind::kFloat) && right.is(Kind::kFloat)) {
    if (std::isnan(left.number()) || std::isnan(right.number())) return 2;
    return left.number() < right.number() ? -1 : left.number() > right.number();
  }
  if (left.is(Kind::kFloat)) {
    const int reversed = CompareNumbers(right, left);
    return reversed == 2 ? 2 : -reversed;
  }
  const double number = right.number();
  if (std::isnan(number)) return 2;
  if (number >= 9223372036854775808.0) return -1;
  if (number < -9223372036854775808.0) return 1;
  const double whole = std::trunc(number);
  const auto integer = static_cast<int64_t>(whole);
  if (left.integer() != integer) return left.integer() < integer ? -1 : 1;
  return whole < number ? -1 : whole > number;
}

bool BigNegative(const Value& value) { return value.text()[0] == '-'; }

// kBigInt against any number or kBigInt.
int CompareBig(const Value& left, const Value& right) {
  if (left.is(Kind::kBigInt) && right.is(Kind::kBigInt)) {
    if (BigNegative(left) != BigNegative(right)) return BigNegative(left) ? -1 : 1;
    const std::string &a = left.text(), &b = right.text();
    int order = a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : (a < b ? -1 : a > b);
    return BigNegative(left) ? -order : order;
  }
  if (!left.is(Kind::kBigInt)) {
    const int reversed = CompareBig(right, left);
    return reversed == 2 ? 2 : -reversed;
  }
  if (!right.is(Kind::kFloat)) return BigNegative(left) ? -1 : 1;
  return CompareNumbers(Value::Float(std::strtod(left.text().c_str(), nullptr)), right);
}

bool AnyNumber(const Value& value) { return value.is_number() || value.is(Kind::kBigInt); }

int CompareAnyNumbers(const Value& left, const Value& right) {
  if (left.is(Kind::kBigInt) || right.is(Kind::kBigInt)) return CompareBig(left, right);
  return CompareNumbers(left, right);
}

bool EqualDicts(const DictObject& left, const DictObject& right) {
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    const Value* other = right.Find(key);
    if (other == nullptr || !Equal(value, *other)) return false;
  }
  return true;
}

bool EqualViews(const DictViewObject& left, const DictViewObject& right) {
  if (&left == &right) return true;
  if (left.part != right.part || left.part == DictPart::kValues) return false;
  const auto &a = *left.dict.as<DictObject>(), &b = *right.dict.as<DictObject>();
  if (left.part == DictPart::kItems) return EqualDicts(a, b);
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    if (b.Find(key) == nullptr) return false;
  }
  return true;
}

}  // namespace

const std::string& Value::text() const { return as<StringObject>()->text; }

const Value* DictObject::Find(std::string_view key) const {
  if (items.size() < kIndexedDict) {
    for (const auto& [name, value] : items) {
      if (name.is(Kind::kString) && name.text() == key) return &value;
    }
    return nullptr;
  }
  for (; indexed_ < items.size(); ++indexed_) {
    if (items[indexed_].first.is(Kind::kString)) index_.emplace(items[indexed_].first.text(), indexed_);
  }
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &items[found->second].second;
}

const Value* DictObject::Find(const Value& key) const {
  if (key.is(Kind::kString)) return Find(std::string_view(key.text()));
  for (const auto& [name, value] : items) {
    if (!name.is(Kind::kString) && Equal(name, key)) return &value;
  }
  return nullptr;
}

void DictObject::Set(Value key, Value value) {
  const Value* found = Find(key);
  if (found != nullptr) {
    *const_cast<Value*>(found) = std::move(value);
  } else {
    items.emplace_back(std::move(key), std::move(value));
  }
}

const char* TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
      return "missing";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.as<StringObject>()->markup ? "markupsafe.Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      switch (value.as<DictViewObject>()->part) {
        case DictPart::kKeys:
          return "dict_keys";
        case DictPart::kValues:
          return "dict_values";
        case DictPart::kItems:
          return "dict_items";
      }
      return "dict_items";
    case Kind::kRange:
      return "range";
    case Kind::kGenerator:
      return value.as<GeneratorObject>()->type;
    case Kind::kNamespace:
      return "jinja2.utils.Namespace";
    case Kind::kMacro:
      return "jinja2.runtime.Macro";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "jinja2.runtime.LoopContext";
    case Kind::kCycler:
      return "jinja2.utils.Cycler";
    case Kind::kJoiner:
      return "jinja2.utils.Joiner";
  }
  return "object";
}

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.as<SequenceObject>()->items.empty();
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kLoop:
      return LengthOf(value) != 0;
    case Kind::kBigInt:
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kCycler:
    case Kind::kJoiner:
      return true;
  }
  return true;
}

bool Equal(const Value& left, const Value& right) {
  if (AnyNumber(left) && AnyNumber(right)) return CompareAnyNumbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kMissing:
      return true;
    case Kind::kString:
      return left.text() == right.text();
    case Kind::kList:
    case Kind::kTuple: {
      const auto &a = left.as<SequenceObject>()->items, &b = right.as<SequenceObject>()->items;
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < a.size(); ++i) {
        if (!Equal(a[i], b[i])) return false;
      }
      return true;
    }
    case Kind::kDict:
      return EqualDicts(*left.as<DictObject>(), *right.as<DictObject>());
    case Kind::kDictView:
      return EqualViews(*left.as<DictViewObject>(), *right.as<DictViewObject>());
    case Kind::kRange: {
      const auto &a = *left.as<RangeObject>(), &b = *right.as<RangeObject>();
      return a.length == b.length && (a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step)));
    }
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return left.object() == right.object();
  }
  return false;
}

bool Same(const Value& left, const Value& right) {
  if (left.kind() != right.kind()) return false;
  if (left.holds_object()) {
    return left.object() == right.object() || (left.is(Kind::kString) && left.text() == right.text());
  }
  return Equal(left, right);
}

int Order(const Value& left, const Value& right, const char* symbol) {
  if (left.is(Kind::kUndefined)) FailUndefined(left);
  if (right.is(Kind::kUndefined)) FailUndefined(right);
  if (AnyNumber(left) && AnyNumber(right)) return CompareAnyNumbers(left, right);
  if (left.is(Kind::kString) && right.is(Kind::kString)) {
    const int order = left.text().compare(right.text());
    return order < 0 ? -1 : order > 0;
  }
  if (left.kind() == right.kind() && (left.is(Kind::kList) || left.is(Kind::kTuple))) {
    const auto &a = left.as<SequenceObject>()->items, &b = right.as<SequenceObject>()->items;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (!Equal(a[i], b[i])) return Order(a[i], b[i], symbol);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size();
  }
  Fail("'", symbol, "' not supported between instances of '", TypeName(left), "' and '", TypeName(right), "'");
}

void RequireHashable(const Value& value) {
  if (value.is(Kind::kList) || value.is(Kind::kDict) || value.is(Kind::kDictView)) {
    Fail("unhashable type: '", TypeName(value), "'");
  }
  if (value.is(Kind::kTuple)) {
    for (const Value& item : value.as<SequenceObject>()->items) RequireHashable(item);
  }
}

int64_t LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString: {
      auto* text = value.as<StringObject>();
      if (text->length < 0) text->length = CountCodePoints(text->text);
      return text->length;
    }
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.as<SequenceObject>()->items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as<DictObject>()->items.size());
    case Kind::kDictView:
      return LengthOf(value.as<DictViewObject>()->dict);
    case Kind::kRange:
      return value.as<RangeObject>()->length;
    case Kind::kLoop:
      return value.as<LoopObject>()->Length();
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kCycler:
    case Kind::kJoiner:
      return -1;
  }
  return -1;
}

}  // namespace tercet::chat
