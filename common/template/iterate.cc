// Walking over values.
#include <memory>
#include <utility>

#include "common/template/loop.h"
#include "common/template/runtime.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

class SequenceIterator final : public Iterator {
 public:
  SequenceIterator(Runtime& runtime, Value sequence) : runtime_(runtime), sequence_(std::move(sequence)) {}
  bool Next(Value* out) override {
    const Values& items = sequence_.as<SequenceObject>()->items;
    if (position_ >= items.size()) return false;
    runtime_.Step();
    *out = items[position_++];
    return true;
  }

 private:
  Runtime& runtime_;
  Value sequence_;
  size_t position_ = 0;
};

class TextIterator final : public Iterator {
 public:
  TextIterator(Runtime& runtime, Value text) : runtime_(runtime), text_(std::move(text)) {}
  bool Next(Value* out) override {
    const std::string& text = text_.text();
    if (position_ >= text.size()) return false;
    runtime_.Step();
    const size_t begin = position_;
    DecodeNext(text, &position_);
    *out = runtime_.String(text.substr(begin, position_ - begin));
    return true;
  }

 private:
  Runtime& runtime_;
  Value text_;
  size_t position_ = 0;
};

class DictIterator final : public Iterator {
 public:
  DictIterator(Runtime& runtime, Value dict, DictPart part) : runtime_(runtime), dict_(std::move(dict)), part_(part) {}
  bool Next(Value* out) override {
    const auto& items = dict_.as<DictObject>()->items;
    if (position_ >= items.size()) return false;
    runtime_.Step();
    const auto& [key, value] = items[position_++];
    switch (part_) {
      case DictPart::kKeys:
        *out = key;
        break;
      case DictPart::kValues:
        *out = value;
        break;
      case DictPart::kItems:
        *out = runtime_.Pair(key, value);
        break;
    }
    return true;
  }

 private:
  Runtime& runtime_;
  Value dict_;
  DictPart part_;
  size_t position_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  RangeIterator(Runtime& runtime, Value range) : runtime_(runtime), range_(std::move(range)) {}
  bool Next(Value* out) override {
    const auto& range = *range_.as<RangeObject>();
    if (position_ >= range.length) return false;
    runtime_.Step();
    *out = Value::Int(range.start + position_++ * range.step);
    return true;
  }

 private:
  Runtime& runtime_;
  Value range_;
  int64_t position_ = 0;
};

class EmptyIterator final : public Iterator {
 public:
  bool Next(Value*) override { return false; }
};

// Another reader of a generator: what it takes is gone for all.
class SharedIterator final : public Iterator {
 public:
  explicit SharedIterator(Value generator) : generator_(std::move(generator)) {}
  bool Next(Value* out) override { return generator_.as<GeneratorObject>()->iterator->Next(out); }

 private:
  Value generator_;
};

// `loop` itself, iterated: pairs of the next item and the loop.
class LoopIterator final : public Iterator {
 public:
  LoopIterator(Runtime& runtime, Value loop) : runtime_(runtime), loop_(std::move(loop)) {}
  bool Next(Value* out) override {
    runtime_.Step();
    if (!loop_.as<LoopObject>()->Advance()) return false;
    *out = runtime_.Pair(loop_.as<LoopObject>()->current(), loop_);
    return true;
  }

 private:
  Runtime& runtime_;
  Value loop_;
};

class DeferredIterator final : public Iterator {
 public:
  explicit DeferredIterator(std::function<std::unique_ptr<Iterator>()> begin) : begin_(std::move(begin)) {}
  bool Next(Value* out) override {
    if (begin_ != nullptr) items_ = std::exchange(begin_, nullptr)();
    return items_ != nullptr && items_->Next(out);
  }

 private:
  std::function<std::unique_ptr<Iterator>()> begin_;
  std::unique_ptr<Iterator> items_;
};

}  // namespace

std::unique_ptr<Iterator> Deferred(std::function<std::unique_ptr<Iterator>()> begin) {
  return std::make_unique<DeferredIterator>(std::move(begin));
}

std::unique_ptr<Iterator> Iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::make_unique<EmptyIterator>();
    case Kind::kString:
      return std::make_unique<TextIterator>(runtime, value);
    case Kind::kList:
    case Kind::kTuple:
      return std::make_unique<SequenceIterator>(runtime, value);
    case Kind::kDict:
      return std::make_unique<DictIterator>(runtime, value, DictPart::kKeys);
    case Kind::kDictView:
      return std::make_unique<DictIterator>(runtime, value.as<DictViewObject>()->dict,
                                            value.as<DictViewObject>()->part);
    case Kind::kRange:
      return std::make_unique<RangeIterator>(runtime, value);
    case Kind::kGenerator:
      return std::make_unique<SharedIterator>(value);
    case Kind::kLoop:
      return std::make_unique<LoopIterator>(runtime, value);
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
      break;
  }
  Fail("'", TypeName(value), "' object is not iterable");
}

Values Collect(Runtime& runtime, const Value& value) {
  Values items;
  const auto iterator = Iterate(runtime, value);
  Value item;
  while (iterator->Next(&item)) items.push_back(std::move(item));
  return items;
}

}  // namespace tercet::chat
