// How object.name, object[index] and object[a:b:c] are looked up.
#include <algorithm>
#include <limits>

#include "common/template/arguments.h"
#include "common/template/ast.h"
#include "common/template/callable.h"
#include "common/template/loop.h"
#include "common/template/operators.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

Value NumberAttribute(const Value& number, std::string_view name) {
  const bool integral = !number.is(Kind::kFloat);
  if (name == "real") return number.is(Kind::kBool) ? Value::Int(number.integer()) : number;
  if (name == "imag") return integral ? Value::Int(0) : Value::Float(0);
  if (integral && name == "numerator") return number.is(Kind::kBool) ? Value::Int(number.integer()) : number;
  if (integral && name == "denominator") return Value::Int(1);
  return Value();
}

Value MacroAttribute(Runtime& runtime, const MacroObject& macro, std::string_view name) {
  const MacroNode& node = *macro.node;
  if (name == "name") return macro.name.empty() ? Value::None() : runtime.String(macro.name);
  if (name == "catch_kwargs") return Value::Bool(node.uses_kwargs);
  if (name == "catch_varargs") return Value::Bool(node.uses_varargs);
  if (name == "caller") return Value::Bool(node.uses_caller);
  if (name == "explicit_caller") return Value::Bool(node.explicit_caller);
  if (name == "arguments") {
    Values names;
    for (const Parameter& parameter : node.parameters) names.push_back(parameter.name->name);
    return runtime.Tuple(std::move(names));
  }
  return Value();
}

// An attribute that Python's object of this kind has; missing when it has none of that name.
Value OwnAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
      if (Value value = NumberAttribute(object, name); !value.missing()) return value;
      break;
    case Kind::kTuple:
      if (object.as<SequenceObject>()->group) {
        if (name == "grouper") return object.as<SequenceObject>()->items[0];
        if (name == "list") return object.as<SequenceObject>()->items[1];
      }
      break;
    case Kind::kRange:
      if (name == "start") return Value::Int(object.as<RangeObject>()->start);
      if (name == "stop") return Value::Int(object.as<RangeObject>()->stop);
      if (name == "step") return Value::Int(object.as<RangeObject>()->step);
      break;
    case Kind::kNamespace:
      for (const auto& [attribute, value] : object.as<NamespaceObject>()->attributes) {
        if (attribute == name) return value;
      }
      return Value();
    case Kind::kLoop:
      return object.as<LoopObject>()->Attribute(runtime, name, object);
    case Kind::kMacro:
      return MacroAttribute(runtime, *object.as<MacroObject>(), name);
    case Kind::kCycler: {
      const auto& cycler = *object.as<CyclerObject>();
      if (name == "current") return cycler.items[cycler.position];
      if (name == "pos") return Value::Int(static_cast<int64_t>(cycler.position));
      if (name == "items") return runtime.Tuple(cycler.items);
      break;
    }
    case Kind::kJoiner:
      if (name == "sep") return object.as<JoinerObject>()->separator;
      if (name == "used") return Value::Bool(object.as<JoinerObject>()->used);
      break;
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kString:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kGenerator:
    case Kind::kMethod:
    case Kind::kFunction:
      break;
  }
  return FindMethod(runtime, object, name);
}

// The attributes that every Python object has and the sandbox hides.
bool IsHidden(std::string_view name) {
  static constexpr std::string_view kHidden[] = {"__class__",  "__init__",   "__doc__",          "__dict__",
                                                 "__eq__",     "__ne__",     "__hash__",         "__str__",
                                                 "__repr__",   "__reduce__", "__new__",          "__dir__",
                                                 "__format__", "__sizeof__", "__getattribute__", "__subclasshook__"};
  return std::find(std::begin(kHidden), std::end(kHidden), name) != std::end(kHidden);
}

Value At(Runtime& runtime, const Value& object, int64_t index) {
  const int64_t length = LengthOf(object);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return Value();
  if (object.is(Kind::kRange)) {
    const auto& range = *object.as<RangeObject>();
    return Value::Int(range.start + index * range.step);
  }
  if (!object.is(Kind::kString)) return object.as<SequenceObject>()->items[static_cast<size_t>(index)];
  const std::string& text = object.text();
  size_t begin = static_cast<size_t>(index);
  if (length != static_cast<int64_t>(text.size())) {
    runtime.StepOver(static_cast<int64_t>(text.size()));
    begin = ByteOffset(text, index);
  }
  size_t end = begin;
  DecodeNext(text, &end);
  return runtime.String(text.substr(begin, end - begin), object.as<StringObject>()->markup);
}

// object[index], missing where Python raises a TypeError or LookupError.
Value Subscript(Runtime& runtime, const Value& object, const Value& index) {
  switch (object.kind()) {
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return index.is_integral() ? At(runtime, object, index.integer()) : Value();
    case Kind::kDict: {
      if (index.is(Kind::kList) || index.is(Kind::kDict)) return Value();
      const Value* found = object.as<DictObject>()->Find(index);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kUndefined:
      FailUndefined(object);
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
    case Kind::kDictView:
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return Value();
  }
  return Value();
}

int64_t SliceBound(const Value& bound, int64_t length, int64_t lowest, int64_t highest, int64_t otherwise) {
  if (bound.missing() || bound.is(Kind::kNone)) return otherwise;
  if (!bound.is_integral()) Fail("slice indices must be integers or None or have an __index__ method");
  int64_t index = bound.integer();
  if (index < 0) index = index < -length ? lowest : index + length;
  return std::clamp(index, lowest, highest);
}

}  // namespace

Value GetAttribute(Runtime& runtime, const Value& object, const Value& name) {
  const std::string& text = name.text();
  if (object.is(Kind::kUndefined)) {
    if (IsHidden(text)) return runtime.UndefinedUnsafe(object, text);
    FailUndefined(object);
  }
  // Messages and tools are mappings, whose only attributes are a few methods.
  Value value = OwnAttribute(runtime, object, text);
  if (!value.missing()) return value;
  if (IsHidden(text)) return runtime.UndefinedUnsafe(object, text);
  value = Subscript(runtime, object, name);
  return value.missing() ? runtime.UndefinedMember(object, name) : value;
}

Value GetItem(Runtime& runtime, const Value& object, const Value& index) {
  Value value = Subscript(runtime, object, index);
  if (!value.missing()) return value;
  if (index.is(Kind::kString)) {
    value = OwnAttribute(runtime, object, index.text());
    if (!value.missing()) return value;
    if (IsHidden(index.text())) return runtime.UndefinedUnsafe(object, index.text());
  }
  return runtime.UndefinedMember(object, index);
}

Value Slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is(Kind::kUndefined)) FailUndefined(object);
  if (!object.is(Kind::kString) && !object.is(Kind::kList) && !object.is(Kind::kTuple) && !object.is(Kind::kRange)) {
    if (object.is(Kind::kDict)) Fail("unhashable type: 'slice'");
    Fail("'", TypeName(object), "' object is not subscriptable");
  }
  int64_t stride = 1;
  if (!step.missing() && !step.is(Kind::kNone)) {
    if (!step.is_integral()) Fail("slice indices must be integers or None or have an __index__ method");
    stride = std::max(step.integer(), -std::numeric_limits<int64_t>::max());
    if (stride == 0) Fail("slice step cannot be zero");
  }
  const int64_t length = LengthOf(object);
  const bool forward = stride > 0;
  const int64_t lowest = forward ? 0 : -1, highest = forward ? length : length - 1;
  const int64_t first = SliceBound(start, length, lowest, highest, forward ? lowest : highest);
  const int64_t last = SliceBound(stop, length, lowest, highest, forward ? highest : lowest);
  const int64_t span = forward ? last - first : first - last;
  const int64_t count = span <= 0 ? 0 : (span - 1) / (forward ? stride : -stride) + 1;
  runtime.Step(1 + count / 16);

  if (object.is(Kind::kRange)) {
    const auto& range = *object.as<RangeObject>();
    int64_t begin = 0, end = 0, width = 0;
    if (__builtin_mul_overflow(first, range.step, &begin) || __builtin_add_overflow(begin, range.start, &begin) ||
        __builtin_mul_overflow(last, range.step, &end) || __builtin_add_overflow(end, range.start, &end) ||
        __builtin_mul_overflow(stride, range.step, &width)) {
      Fail("a slice of a range reaches beyond 64 bits, which is not supported");
    }
    return runtime.Range(begin, end, width);
  }
  if (object.is(Kind::kString)) {
    const std::string& text = object.text();
    const bool markup = object.as<StringObject>()->markup;
    const bool ascii = length == static_cast<int64_t>(text.size());
    if (!ascii) runtime.StepOver(static_cast<int64_t>(text.size()));
    if (stride == 1) {
      if (count == 0) return runtime.String("", markup);
      const size_t begin = ascii ? static_cast<size_t>(first) : ByteOffset(text, first);
      const size_t bytes = ascii ? static_cast<size_t>(count) : ByteOffset(std::string_view(text).substr(begin), count);
      return runtime.String(text.substr(begin, bytes), markup);
    }
    std::vector<size_t> begins;
    for (size_t at = 0; at < text.size(); DecodeNext(text, &at)) begins.push_back(at);
    begins.push_back(text.size());
    std::string out;
    for (int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<size_t>(first + i * stride);
      out.append(text, begins[place], begins[place + 1] - begins[place]);
    }
    return runtime.String(std::move(out), markup);
  }
  const Values& items = object.as<SequenceObject>()->items;
  Values out;
  out.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out.push_back(items[static_cast<size_t>(first + i * stride)]);
  return object.is(Kind::kList) ? runtime.List(std::move(out)) : runtime.Tuple(std::move(out));
}

}  // namespace tercet::chat
