// map, select, reject and their kin: other filters and tests, applied item by item when the item is asked for.
#include <memory>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/filters.h"
#include "common/template/repr.h"
#include "common/template/tests.h"

namespace tercet::chat {
namespace {

// Generators begin their work, and find their errors, when the first item is asked for.
class LazyIterator : public Iterator {
 public:
  LazyIterator(Runtime& runtime, Value input, Arguments arguments)
      : runtime_(runtime), input_(std::move(input)), arguments_(std::move(arguments)) {}

  bool Next(Value* out) final {
    if (!started_) {
      started_ = true;
      if (Truth(input_)) {
        Prepare();
        items_ = Iterate(runtime_, input_);
      }
    }
    return items_ != nullptr && NextItem(out);
  }

 protected:
  virtual void Prepare() = 0;
  virtual bool NextItem(Value* out) = 0;

  Runtime& runtime_;
  Value input_;
  Arguments arguments_;
  std::unique_ptr<Iterator> items_;

 private:
  bool started_ = false;
};

Value Lazy(Runtime& runtime, std::unique_ptr<Iterator> iterator, const Value& input, const Arguments& arguments) {
  // The arguments count for the bound on depth as well.
  Values held = arguments.positional;
  for (const auto& [name, value] : arguments.keywords) held.push_back(value);
  held.push_back(input);
  return runtime.Generator(std::move(iterator), "generator", runtime.List(std::move(held)));
}

class MapIterator final : public LazyIterator {
 public:
  using LazyIterator::LazyIterator;

 private:
  void Prepare() override {
    if (arguments_.positional.empty()) {
      auto [attribute, otherwise] = BindMap();
      path_ = std::make_unique<AttributePath>(runtime_, attribute, otherwise);
      return;
    }
    const std::string name = Str(arguments_.positional[0]);
    filter_ = FindFilter(name);
    if (filter_ == nullptr) Fail("No filter named '", name, "'.");
    arguments_.positional.erase(arguments_.positional.begin());
  }

  std::pair<Value, Value> BindMap() {
    std::pair<Value, Value> bound;
    for (const auto& [name, value] : arguments_.keywords) {
      if (name == "attribute") bound.first = value;
    }
    if (bound.first.missing()) Fail("map requires a filter argument");
    for (const auto& [name, value] : arguments_.keywords) {
      if (name == "default") {
        bound.second = value;
      } else if (name != "attribute") {
        Fail("Unexpected keyword argument '", name, "'");
      }
    }
    return bound;
  }

  bool NextItem(Value* out) override {
    Value item;
    if (!items_->Next(&item)) return false;
    runtime_.Step();
    if (path_ != nullptr) {
      *out = path_->Get(item);
    } else {
      Arguments arguments = arguments_;
      *out = filter_->body(runtime_, item, arguments);
    }
    return true;
  }

  std::unique_ptr<AttributePath> path_;
  const Filter* filter_ = nullptr;
};

class SelectIterator final : public LazyIterator {
 public:
  SelectIterator(Runtime& runtime, Value input, Arguments arguments, bool keep, bool by_attribute)
      : LazyIterator(runtime, std::move(input), std::move(arguments)), keep_(keep), by_attribute_(by_attribute) {}

 private:
  void Prepare() override {
    auto& positional = arguments_.positional;
    if (by_attribute_) {
      if (positional.empty()) Fail("Missing parameter for attribute name");
      path_ = std::make_unique<AttributePath>(runtime_, positional[0]);
      positional.erase(positional.begin());
    }
    if (positional.empty()) return;
    const std::string name = Str(positional[0]);
    test_ = FindTest(name);
    if (test_ == nullptr) Fail("No test named '", name, "'.");
    positional.erase(positional.begin());
  }

  bool NextItem(Value* out) override {
    while (items_->Next(out)) {
      runtime_.Step();
      const Value tested = path_ == nullptr ? *out : path_->Get(*out);
      bool passes = false;
      if (test_ == nullptr) {
        passes = Truth(tested);
      } else {
        Arguments arguments = arguments_;
        passes = test_->body(runtime_, tested, arguments);
      }
      if (passes == keep_) return true;
    }
    return false;
  }

  bool keep_;
  bool by_attribute_;
  std::unique_ptr<AttributePath> path_;
  const Test* test_ = nullptr;
};

Value Map(Runtime& runtime, const Value& input, Arguments& arguments) {
  return Lazy(runtime, std::make_unique<MapIterator>(runtime, input, arguments), input, arguments);
}

template <bool kKeep, bool kByAttribute>
Value Select(Runtime& runtime, const Value& input, Arguments& arguments) {
  return Lazy(runtime, std::make_unique<SelectIterator>(runtime, input, arguments, kKeep, kByAttribute), input,
              arguments);
}

}  // namespace

std::span<const Filter> SelectionFilters() {
  static constexpr Filter kFilters[] = {
      {"map", Map},
      {"reject", Select<false, false>},
      {"rejectattr", Select<false, true>},
      {"select", Select<true, false>},
      {"selectattr", Select<true, true>},
  };
  return kFilters;
}

}  // namespace tercet::chat
