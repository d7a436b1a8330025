#include "common/template/loop.h"

#include <utility>

#include "common/template/arguments.h"
#include "common/template/callable.h"

namespace tercet::chat {
namespace {

class RestIterator final : public Iterator {
 public:
  explicit RestIterator(Values items) : items_(std::move(items)) {}
  bool Next(Value* out) override {
    if (position_ == items_.size()) return false;
    *out = std::move(items_[position_++]);
    return true;
  }

 private:
  Values items_;
  size_t position_ = 0;
};

Value CycleMethod(Runtime&, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "cycle");
  if (arguments.positional.empty()) Fail("no items for cycling given");
  const auto index = static_cast<size_t>(self.as<LoopObject>()->index0);
  return arguments.positional[index % arguments.positional.size()];
}

Value ChangedMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "changed");
  return Value::Bool(self.as<LoopObject>()->Changed(arguments.positional, runtime));
}

Value Bind(Runtime& runtime, const Value& self, std::string_view name, MethodBody body) {
  auto* method = runtime.Make<MethodObject>(0, Runtime::Held().Add(self));
  method->self = self;
  method->name = name;
  method->body = body;
  return Value(Kind::kMethod, method);
}

}  // namespace

bool LoopObject::Advance() {
  Value next;
  if (has_after_) {
    next = std::move(after_);
    has_after_ = false;
  } else if (!iterator->Next(&next)) {
    return false;
  }
  ++index0;
  before_ = std::move(current_);
  current_ = std::move(next);
  return true;
}

bool LoopObject::Peek() {
  if (!has_after_) has_after_ = iterator->Next(&after_);
  return has_after_;
}

int64_t LoopObject::Length() {
  if (length_ >= 0) return length_;
  length_ = LengthOf(iterable);
  if (length_ < 0) {
    Values rest;
    Value item;
    while (iterator->Next(&item)) rest.push_back(std::move(item));
    length_ = static_cast<int64_t>(rest.size()) + index0 + 1 + has_after_;
    iterator = std::make_unique<RestIterator>(std::move(rest));
  }
  return length_;
}

bool LoopObject::Changed(const Values& values, Runtime& runtime) {
  Value now = runtime.Tuple(values);
  runtime.StepOver(now);
  if (!last_changed_.missing() && Equal(last_changed_, now)) return false;
  last_changed_ = std::move(now);
  return true;
}

Value LoopObject::Attribute(Runtime& runtime, std::string_view name, const Value& self) {
  if (name == "index") return Value::Int(index0 + 1);
  if (name == "index0") return Value::Int(index0);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(!Peek());
  if (name == "length") return Value::Int(Length());
  if (name == "revindex") return Value::Int(Length() - index0);
  if (name == "revindex0") return Value::Int(Length() - index0 - 1);
  if (name == "depth") return Value::Int(depth0 + 1);
  if (name == "depth0") return Value::Int(depth0);
  if (name == "previtem") return index0 == 0 ? runtime.UndefinedHint("there is no previous item") : before_;
  if (name == "nextitem") return Peek() ? after_ : runtime.UndefinedHint("there is no next item");
  if (name == "cycle") return Bind(runtime, self, "cycle", CycleMethod);
  if (name == "changed") return Bind(runtime, self, "changed", ChangedMethod);
  return Value();
}

void LoopObject::Empty() {
  iterable = current_ = before_ = after_ = last_changed_ = Value();
  has_after_ = false;
  iterator.reset();
  length_ = 0;
}

}  // namespace tercet::chat
