// Methods of mappings, lists and numbers, and how a method is found.
#include "common/template/methods.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/operators.h"
#include "common/template/repr.h"

namespace tercet::chat {
namespace {

Value DictGet(Runtime&, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "get");
  auto [key, otherwise] = Bind<2>(arguments, "get", {"key", "default"}, 1);
  RequireHashable(key);
  const Value* found = self.as<DictObject>()->Find(key);
  if (found != nullptr) return *found;
  return otherwise.missing() ? Value::None() : otherwise;
}

template <DictPart kPart>
Value DictPartOf(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "dict method");
  return runtime.DictView(self, kPart);
}

Value Copy(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "copy");
  return self;  // nothing can change it
}

Value ListIndex(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "index");
  auto [item, start, stop] = Bind<3>(arguments, "index", {"value", "start", "stop"}, 1);
  const Values items = Collect(runtime, self);
  const auto length = static_cast<int64_t>(items.size());
  const auto bound = [&](const Value& value, int64_t otherwise) {
    int64_t place = IntOr(value, otherwise, "index");
    if (place < 0) place += length;
    return std::clamp<int64_t>(place, 0, length);
  };
  const int64_t end = bound(stop, length);
  for (int64_t i = bound(start, 0); i < end; ++i) {
    runtime.Step(1 + std::min(items[static_cast<size_t>(i)].weight(), item.weight()) / 256);
    if (Equal(items[static_cast<size_t>(i)], item)) return Value::Int(i);
  }
  Fail(Repr(item), " is not in ", TypeName(self));
}

Value ListCount(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "count");
  auto [item] = Bind<1>(arguments, "count", {"value"}, 1);
  int64_t count = 0;
  for (const Value& candidate : Collect(runtime, self)) {
    runtime.Step(1 + std::min(candidate.weight(), item.weight()) / 256);
    count += Equal(candidate, item);
  }
  return Value::Int(count);
}

Value BitLength(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "bit_length");
  if (!self.is_integral()) Fail("'float' object has no attribute 'bit_length'");
  auto magnitude = static_cast<uint64_t>(self.integer());
  if (self.integer() < 0) magnitude = uint64_t{0} - magnitude;
  return Value::Int(magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude));
}

Value IsWhole(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "is_integer");
  return Value::Bool(!self.is(Kind::kFloat) ||
                     (std::isfinite(self.number()) && self.number() == std::floor(self.number())));
}

Value Conjugate(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "conjugate");
  return self.is(Kind::kBool) ? Value::Int(self.integer()) : self;
}

Value CyclerNext(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "next");
  auto* cycler = self.as<CyclerObject>();
  Value item = cycler->items[cycler->position];
  cycler->position = (cycler->position + 1) % cycler->items.size();
  return item;
}

Value CyclerReset(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "reset");
  self.as<CyclerObject>()->position = 0;
  return Value::None();
}

// What the immutable sandbox hides.
bool Mutates(const Value& self, std::string_view name) {
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kOfLists[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  if (self.is(Kind::kDict)) return std::find(std::begin(kOfDicts), std::end(kOfDicts), name) != std::end(kOfDicts);
  if (self.is(Kind::kList)) return std::find(std::begin(kOfLists), std::end(kOfLists), name) != std::end(kOfLists);
  return false;
}

std::span<const Method> MethodsOf(const Value& self) {
  switch (self.kind()) {
    case Kind::kString:
      return StringMethods();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return ListMethods();
    case Kind::kDict:
      return DictMethods();
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return NumberMethods();
    case Kind::kCycler:
      return CyclerMethods();
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBigInt:
    case Kind::kDictView:
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kLoop:
    case Kind::kJoiner:
      return {};
  }
  return {};
}

}  // namespace

std::span<const Method> DictMethods() {
  static constexpr Method kMethods[] = {
      {"get", DictGet},
      {"items", DictPartOf<DictPart::kItems>},
      {"keys", DictPartOf<DictPart::kKeys>},
      {"values", DictPartOf<DictPart::kValues>},
      {"copy", Copy},
  };
  return kMethods;
}

std::span<const Method> ListMethods() {
  static constexpr Method kMethods[] = {{"index", ListIndex}, {"count", ListCount}, {"copy", Copy}};
  return kMethods;
}

std::span<const Method> NumberMethods() {
  static constexpr Method kMethods[] = {{"bit_length", BitLength}, {"is_integer", IsWhole}, {"conjugate", Conjugate}};
  return kMethods;
}

std::span<const Method> CyclerMethods() {
  static constexpr Method kMethods[] = {{"next", CyclerNext}, {"reset", CyclerReset}};
  return kMethods;
}

Value FindMethod(Runtime& runtime, const Value& self, std::string_view name) {
  if (Mutates(self, name)) return runtime.UndefinedUnsafe(self, name);
  for (const Method& method : MethodsOf(self)) {
    if (method.name != name) continue;
    if (name == "copy" && !self.is(Kind::kDict) && !self.is(Kind::kList)) return Value();
    auto* bound = runtime.Make<MethodObject>(0, Runtime::Held().Add(self));
    bound->self = self;
    bound->name = method.name;
    bound->body = method.body;
    return Value(Kind::kMethod, bound);
  }
  return Value();
}

}  // namespace tercet::chat
