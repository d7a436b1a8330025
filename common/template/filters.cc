#include "common/template/filters.h"

#include <algorithm>
#include <unordered_map>

#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/text.h"

namespace tercet::chat {

const Filter* FindFilter(std::string_view name) {
  static const auto* const kFilters = [] {
    auto* filters = new std::unordered_map<std::string_view, const Filter*>;
    for (auto table : {TextFilters(), SequenceFilters(), SelectionFilters(), NumberFilters()}) {
      for (const Filter& filter : table) filters->emplace(filter.name, &filter);
    }
    return filters;
  }();
  const auto found = kFilters->find(name);
  return found == kFilters->end() ? nullptr : found->second;
}

std::string SoftText(const Value& value, bool* markup) {
  *markup = value.is(Kind::kString) && value.as<StringObject>()->markup;
  return Str(value);
}

AttributePath::AttributePath(Runtime& runtime, const Value& attribute, Value otherwise)
    : runtime_(runtime), otherwise_(std::move(otherwise)) {
  if (attribute.missing() || attribute.is(Kind::kNone)) return;
  if (!attribute.is(Kind::kString)) {
    parts_.push_back(attribute);
    return;
  }
  const std::string_view dot = ".";
  for (std::string_view part : Split(attribute.text(), &dot, -1)) {
    const bool digits = !part.empty() && part.size() < 18 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      int64_t index = 0;
      for (char c : part) index = index * 10 + (c - '0');
      parts_.push_back(Value::Int(index));
    } else {
      parts_.push_back(runtime.String(std::string(part)));
    }
  }
}

Value AttributePath::Get(const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = GetItem(runtime_, value, part);
    if (!otherwise_.missing() && !otherwise_.is(Kind::kNone) && value.is(Kind::kUndefined)) value = otherwise_;
  }
  return value;
}

}  // namespace tercet::chat
