// Jinja2's built-in filters, with transformers' tojson in the place of Jinja2's. One row in one of the tables each.
#pragma once

#include <span>
#include <string_view>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

using FilterBody = Value (*)(Runtime& runtime, const Value& input, Arguments& arguments);

struct Filter {
  std::string_view name;
  FilterBody body;
};

// The tables, by what the filters work on.
std::span<const Filter> TextFilters();
std::span<const Filter> SequenceFilters();
std::span<const Filter> SelectionFilters();
std::span<const Filter> NumberFilters();

// Null when there is no such filter.
const Filter* FindFilter(std::string_view name);

// The text that a filter on text works on: its string, or what str() makes of anything else. *markup: it was marked
// safe.
std::string SoftText(const Value& value, bool* markup);

// Follows an attribute path as map(attribute="a.b.0") does. An undefined step becomes `otherwise` unless that is
// missing.
class AttributePath {
 public:
  // `attribute` is a string, a number, or missing/None: the item itself.
  AttributePath(Runtime& runtime, const Value& attribute, Value otherwise = Value());
  Value Get(const Value& item) const;

 private:
  Runtime& runtime_;
  Values parts_;
  Value otherwise_;
};

}  // namespace tercet::chat
