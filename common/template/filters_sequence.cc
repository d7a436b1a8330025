// Filters on lists and mappings as a whole.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/filters.h"
#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

Value LengthFilter(Runtime&, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "length");
  const int64_t length = LengthOf(input);
  if (length < 0) Fail("object of type '", TypeName(input), "' has no len()");
  return Value::Int(length);
}

Value FirstFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "first");
  Value item;
  if (Iterate(runtime, input)->Next(&item)) return item;
  return runtime.UndefinedHint("No first item, sequence was empty.");
}

Value LastFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "last");
  if (input.is(Kind::kGenerator) || input.is(Kind::kLoop)) Fail("'", TypeName(input), "' object is not reversible");
  if (const int64_t length = LengthOf(input); length > 0 && !input.is(Kind::kDict) && !input.is(Kind::kDictView)) {
    return GetItem(runtime, input, Value::Int(length - 1));
  }
  const Values items = Collect(runtime, input);
  return items.empty() ? runtime.UndefinedHint("No last item, sequence was empty.") : items.back();
}

Value ListFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "list");
  return runtime.List(Collect(runtime, input));
}

class BackwardIterator final : public Iterator {
 public:
  explicit BackwardIterator(Values items) : items_(std::move(items)) {}
  bool Next(Value* out) override {
    if (items_.empty()) return false;
    *out = std::move(items_.back());
    items_.pop_back();
    return true;
  }

 private:
  Values items_;
};

Value Reverse(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "reverse");
  if (input.is(Kind::kString)) return Slice(runtime, input, Value(), Value(), Value::Int(-1));
  // What Python cannot walk backwards becomes a list first.
  if (input.is(Kind::kGenerator) || input.is(Kind::kLoop)) {
    Values items = Collect(runtime, input);
    std::reverse(items.begin(), items.end());
    return runtime.List(std::move(items));
  }
  if (LengthOf(input) < 0) Fail("argument must be iterable");
  const char* type = input.is(Kind::kList)    ? "list_reverseiterator"
                     : input.is(Kind::kRange) ? "range_iterator"
                     : input.is(Kind::kDict)  ? "dict_reversekeyiterator"
                                              : "reversed";
  return runtime.Generator(std::make_unique<BackwardIterator>(Collect(runtime, input)), type, input);
}

Value JoinFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [separator, attribute] = Bind<2>(arguments, "join", {"d", "attribute"}, 0);
  const std::string between = separator.missing() ? "" : Str(separator);
  const AttributePath path(runtime, attribute);
  std::string out;
  const auto iterator = Iterate(runtime, input);
  Value item;
  for (bool first = true; iterator->Next(&item); first = false) {
    if (!first) out += between;
    AppendStr(path.Get(item), &out);
    if (static_cast<int64_t>(out.size()) > runtime.limits().max_memory_bytes) {
      Fail("a joined text takes more than ", runtime.limits().max_memory_bytes, " bytes of memory");
    }
  }
  return runtime.String(std::move(out));
}

// A key to compare by: strings without case unless case matters.
Value ComparisonKey(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::kString)) return value;
  return runtime.String(Lower(value.text()));
}

// Python's sorted(): stable, also when reversed. `keys[i]` belongs to `items[i]`.
Values SortByKeys(Runtime& runtime, Values items, const Values& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = reverse ? order.size() - 1 - i : i;
  // Comparing throws on values without an order, which std::stable_sort lets through.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    runtime.Step(1 + std::min(keys[a].weight(), keys[b].weight()) / 256);
    return Order(keys[a], keys[b]) == -1;
  });
  if (reverse) std::reverse(order.begin(), order.end());
  Values sorted;
  sorted.reserve(items.size());
  for (size_t i : order) sorted.push_back(std::move(items[i]));
  return sorted;
}

Value Sort(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [reverse, case_sensitive, attribute] = Bind<3>(arguments, "sort", {"reverse", "case_sensitive", "attribute"}, 0);
  std::vector<AttributePath> paths;
  if (attribute.is(Kind::kString)) {
    const std::string_view comma = ",";
    for (std::string_view part : Split(attribute.text(), &comma, -1)) {
      paths.emplace_back(runtime, runtime.String(std::string(part)));
    }
  } else {
    paths.emplace_back(runtime, attribute);
  }
  Values items = Collect(runtime, input);
  Values keys;
  for (const Value& item : items) {
    Values parts;
    for (const AttributePath& path : paths) {
      parts.push_back(ComparisonKey(runtime, path.Get(item), TruthOr(case_sensitive, false)));
    }
    keys.push_back(runtime.List(std::move(parts)));
  }
  return runtime.List(SortByKeys(runtime, std::move(items), keys, TruthOr(reverse, false)));
}

Value DictSort(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [case_sensitive, by, reverse] = Bind<3>(arguments, "dictsort", {"case_sensitive", "by", "reverse"}, 0);
  const std::string part = by.missing() ? "key" : Str(by);
  if (part != "key" && part != "value") Fail("You can only sort by either \"key\" or \"value\"");
  if (input.is(Kind::kUndefined)) FailUndefined(input);
  if (!input.is(Kind::kDict)) Fail("'", TypeName(input), "' object has no attribute 'items'");
  Values items, keys;
  for (const auto& [key, value] : input.as<DictObject>()->items) {
    items.push_back(runtime.Pair(key, value));
    keys.push_back(ComparisonKey(runtime, part == "key" ? key : value, TruthOr(case_sensitive, false)));
  }
  return runtime.List(SortByKeys(runtime, std::move(items), keys, TruthOr(reverse, false)));
}

class UniqueIterator final : public Iterator {
 public:
  UniqueIterator(Runtime& runtime, std::unique_ptr<Iterator> items, AttributePath path, bool case_sensitive)
      : runtime_(runtime),
        items_(std::move(items)),
        path_(std::move(path)),
        case_sensitive_(case_sensitive),
        seen_(runtime.NewDict()) {}
  bool Next(Value* out) override {
    while (items_->Next(out)) {
      runtime_.Step();
      Value key = ComparisonKey(runtime_, path_.Get(*out), case_sensitive_);
      RequireHashable(key);
      auto* seen = seen_.as<DictObject>();
      if (!key.is(Kind::kString)) runtime_.Step(static_cast<int64_t>(seen->items.size()) / 4);
      if (seen->Find(key) != nullptr) continue;
      seen->items.emplace_back(std::move(key), Value::None());
      return true;
    }
    return false;
  }

 private:
  Runtime& runtime_;
  std::unique_ptr<Iterator> items_;
  AttributePath path_;
  bool case_sensitive_;
  Value seen_;
};

Value Unique(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [case_value, attribute] = Bind<2>(arguments, "unique", {"case_sensitive", "attribute"}, 0);
  const bool case_sensitive = TruthOr(case_value, false);
  const AttributePath path(runtime, attribute);
  auto begin = [&runtime, input, path, case_sensitive] {
    return std::make_unique<UniqueIterator>(runtime, Iterate(runtime, input), path, case_sensitive);
  };
  return runtime.Generator(Deferred(begin), "generator", input);
}

Value GroupBy(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [attribute, otherwise, case_sensitive_value] =
      Bind<3>(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = TruthOr(case_sensitive_value, false);
  const AttributePath path(runtime, attribute, otherwise);
  Values items = Collect(runtime, input);
  Values keys;
  for (const Value& item : items) keys.push_back(ComparisonKey(runtime, path.Get(item), case_sensitive));
  items = SortByKeys(runtime, std::move(items), keys, false);
  Values groups;
  for (size_t begin = 0; begin < items.size();) {
    const Value first = path.Get(items[begin]);
    const Value key = ComparisonKey(runtime, first, case_sensitive);
    size_t end = begin + 1;
    while (end < items.size() && Equal(ComparisonKey(runtime, path.Get(items[end]), case_sensitive), key)) ++end;
    Value list =
        runtime.List(Values(items.begin() + static_cast<int64_t>(begin), items.begin() + static_cast<int64_t>(end)));
    Value group = runtime.Pair(first, std::move(list));
    group.as<SequenceObject>()->group = true;
    groups.push_back(std::move(group));
    begin = end;
  }
  return runtime.List(std::move(groups));
}

class ListIterator final : public Iterator {
 public:
  explicit ListIterator(Values items) : items_(std::move(items)) {}
  bool Next(Value* out) override {
    if (position_ == items_.size()) return false;
    *out = items_[position_++];
    return true;
  }

 private:
  Values items_;
  size_t position_ = 0;
};

std::unique_ptr<Iterator> Batches(Runtime& runtime, const Value& input, int64_t size, const Value& fill) {
  Values batches, batch;
  for (Value& item : Collect(runtime, input)) {
    if (static_cast<int64_t>(batch.size()) == size) batches.push_back(runtime.List(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (!fill.missing() && !fill.is(Kind::kNone)) {
      if (size > kMaxRange) Fail("batch: linecount is above ", kMaxRange);
      while (static_cast<int64_t>(batch.size()) < size) batch.push_back(fill);
    }
    batches.push_back(runtime.List(std::move(batch)));
  }
  return std::make_unique<ListIterator>(std::move(batches));
}

Value Batch(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [count, fill_value] = Bind<2>(arguments, "batch", {"linecount", "fill_with"}, 1);
  const int64_t size = RequireInt(count, "batch: linecount");
  const Value fill = fill_value;
  auto begin = [&runtime, input, size, fill] { return Batches(runtime, input, size, fill); };
  return runtime.Generator(Deferred(begin), "generator", runtime.Pair(input, fill));
}

std::unique_ptr<Iterator> Columns(Runtime& runtime, const Value& input, int64_t slices, const Value& fill) {
  const Values items = Collect(runtime, input);
  if (slices == 0) Fail("integer division or modulo by zero");
  const auto length = static_cast<int64_t>(items.size());
  Values columns;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < length % slices;
    const int64_t end = begin + length / slices + extra;
    Values column(items.begin() + begin, items.begin() + end);
    if (!extra && !fill.missing() && !fill.is(Kind::kNone)) column.push_back(fill);
    columns.push_back(runtime.List(std::move(column)));
    begin = end;
  }
  return std::make_unique<ListIterator>(std::move(columns));
}

Value SliceFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [count, fill_value] = Bind<2>(arguments, "slice", {"slices", "fill_with"}, 1);
  const int64_t slices = RequireInt(count, "slice: slices");
  if (slices > kMaxRange) Fail("slice: slices is above ", kMaxRange);
  const Value fill = fill_value;
  auto begin = [&runtime, input, slices, fill] { return Columns(runtime, input, slices, fill); };
  return runtime.Generator(Deferred(begin), "generator", runtime.Pair(input, fill));
}

Value ItemsFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "items");
  auto begin = [&runtime, input] {
    if (input.is(Kind::kUndefined)) return Iterate(runtime, input);
    if (!input.is(Kind::kDict)) Fail("Can only get item pairs from a mapping.");
    return Iterate(runtime, runtime.DictView(input, DictPart::kItems));
  };
  return runtime.Generator(Deferred(begin), "generator", input);
}

Value DefaultFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [otherwise, boolean] = Bind<2>(arguments, "default", {"default_value", "boolean"}, 0);
  if (input.is(Kind::kUndefined) || (TruthOr(boolean, false) && !Truth(input))) {
    return otherwise.missing() ? runtime.String("") : otherwise;
  }
  return input;
}

Value AttrFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [name] = Bind<1>(arguments, "attr", {"name"}, 1);
  RequireString(name, "attr: name");
  // Attributes only, no items: what a mapping holds does not count.
  if (input.is(Kind::kDict)) {
    const Value empty = runtime.NewDict();
    const Value found = GetAttribute(runtime, empty, name);
    if (found.is(Kind::kUndefined)) return runtime.UndefinedMember(input, name);
  }
  return GetAttribute(runtime, input, name);
}

}  // namespace

std::span<const Filter> SequenceFilters() {
  static constexpr Filter kFilters[] = {
      {"attr", AttrFilter},       {"batch", Batch},       {"count", LengthFilter}, {"d", DefaultFilter},
      {"default", DefaultFilter}, {"dictsort", DictSort}, {"first", FirstFilter},  {"groupby", GroupBy},
      {"items", ItemsFilter},     {"join", JoinFilter},   {"last", LastFilter},    {"length", LengthFilter},
      {"list", ListFilter},       {"reverse", Reverse},   {"slice", SliceFilter},  {"sort", Sort},
      {"unique", Unique},
  };
  return kFilters;
}

}  // namespace tercet::chat
