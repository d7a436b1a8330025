// Filters on numbers, and those that make numbers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/filters.h"
#include "common/template/number_text.h"
#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"
#include "fmt/format.h"

namespace tercet::chat {
namespace {

Value Abs(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "abs");
  if (input.is(Kind::kFloat)) return Value::Float(std::abs(input.number()));
  if (!input.is_integral()) Fail("bad operand type for abs(): '", TypeName(input), "'");
  return input.integer() < 0 ? Negative(runtime, input) : Value::Int(input.integer());
}

// int(float): towards zero.
std::optional<int64_t> Truncated(double number) {
  if (!(std::abs(number) < 9223372036854775808.0)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Value IntFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [otherwise, base_value] = Bind<2>(arguments, "int", {"default", "base"}, 0);
  const int64_t base = IntOr(base_value, 10, "int: base");
  if (input.is(Kind::kUndefined)) FailUndefined(input);
  const Value fallback = otherwise.missing() ? Value::Int(0) : otherwise;
  if (input.is_integral()) return Value::Int(input.integer());
  if (input.is(Kind::kBigInt)) return input;
  if (input.is(Kind::kString)) {
    const Value parsed = ParseInteger(runtime, input.text(), base);
    if (!parsed.missing()) return parsed;
    const std::optional<double> number = ParseFloat(input.text());
    const auto whole = number.has_value() ? Truncated(*number) : std::nullopt;
    return whole.has_value() ? Value::Int(*whole) : fallback;
  }
  if (!input.is(Kind::kFloat)) return fallback;
  const auto whole = Truncated(input.number());
  if (whole.has_value()) return Value::Int(*whole);
  if (std::isinf(input.number())) Fail("cannot convert float infinity to integer");
  if (std::isnan(input.number())) return fallback;
  Fail("an integer grows beyond 64 bits, which is not supported");
}

Value FloatFilter(Runtime&, const Value& input, Arguments& arguments) {
  auto [otherwise] = Bind<1>(arguments, "float", {"default"}, 0);
  if (input.is(Kind::kUndefined)) FailUndefined(input);
  if (input.is_number()) return Value::Float(input.number());
  if (input.is(Kind::kString) || input.is(Kind::kBigInt)) {
    const std::optional<double> number = ParseFloat(input.text());
    if (number.has_value()) return Value::Float(*number);
  }
  return otherwise.missing() ? Value::Float(0.0) : otherwise;
}

// round(number, digits) as CPython does: by the decimal digits of the exact value.
double RoundDigits(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 308) return number;
  if (digits < -308) return std::copysign(0.0, number);
  if (digits >= 0) {
    char buffer[800];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), number);
    return std::strtod(buffer, nullptr);
  }
  const double power = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / power) * power;
}

int64_t RoundInteger(int64_t number, int64_t digits) {
  if (digits >= 0) return number;
  if (digits < -18) return 0;
  int64_t power = 1;
  for (int64_t i = 0; i < -digits; ++i) power *= 10;
  const int64_t rest = ((number % power) + power) % power;
  int64_t lower = number - rest;
  const bool up = rest * 2 > power || (rest * 2 == power && (lower / power) % 2 != 0);
  return up ? lower + power : lower;
}

Value Round(Runtime&, const Value& input, Arguments& arguments) {
  auto [precision_value, method_value] = Bind<2>(arguments, "round", {"precision", "method"}, 0);
  const std::string method = method_value.missing() ? "common" : Str(method_value);
  if (method != "common" && method != "ceil" && method != "floor") Fail("method must be common, ceil or floor");
  const int64_t precision = IntOr(precision_value, 0, "round: precision");
  if (input.is(Kind::kUndefined) && method != "common") FailUndefined(input);
  if (!input.is_number()) Fail("type ", TypeName(input), " doesn't define __round__ method");
  if (method == "common") {
    if (input.is(Kind::kFloat)) return Value::Float(RoundDigits(input.number(), precision));
    return Value::Int(RoundInteger(input.integer(), precision));
  }
  const double power = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.number() * power;
  const double rounded = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::Float(rounded / power);
}

Value Sum(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [attribute, start] = Bind<2>(arguments, "sum", {"attribute", "start"}, 0);
  const AttributePath path(runtime, attribute);
  Value total = start.missing() ? Value::Int(0) : start;
  if (total.is(Kind::kString)) Fail("sum() can't sum strings [use ''.join(seq) instead]");
  const auto iterator = Iterate(runtime, input);
  Value item;
  while (iterator->Next(&item)) total = Binary(runtime, BinaryOp::kAdd, total, path.Get(item));
  return total;
}

template <bool kMax>
Value Extreme(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [case_sensitive, attribute] = Bind<2>(arguments, kMax ? "max" : "min", {"case_sensitive", "attribute"}, 0);
  const AttributePath path(runtime, attribute);
  const auto key_of = [&](const Value& item) {
    const Value key = path.Get(item);
    return key.is(Kind::kString) && !TruthOr(case_sensitive, false) ? runtime.String(Lower(key.text())) : key;
  };
  const auto iterator = Iterate(runtime, input);
  Value best, item;
  if (!iterator->Next(&best)) return runtime.UndefinedHint("No aggregated item, sequence was empty.");
  Value best_key = key_of(best);
  while (iterator->Next(&item)) {
    Value key = key_of(item);
    runtime.StepOver(key);
    if (Order(key, best_key, kMax ? ">" : "<") == (kMax ? 1 : -1)) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

Value FileSize(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [binary_value] = Bind<1>(arguments, "filesizeformat", {"binary"}, 0);
  const bool binary = TruthOr(binary_value, false);
  if (input.is(Kind::kUndefined)) FailUndefined(input);
  const std::optional<double> parsed = input.is_number()         ? std::optional<double>(input.number())
                                       : input.is(Kind::kString) ? ParseFloat(input.text())
                                                                 : std::nullopt;
  if (!parsed.has_value()) Fail("could not convert to float: ", Repr(input));
  const double bytes = *parsed, base = binary ? 1024 : 1000;
  if (bytes == 1) return runtime.String("1 Byte");
  if (bytes < base) return runtime.String(StrCat(static_cast<int64_t>(bytes), " Bytes"));
  double unit = base;
  for (const char prefix : std::string_view("KMGTPEZY")) {
    unit *= base;
    if (bytes >= unit && prefix != 'Y') continue;
    const std::string name =
        binary ? StrCat(std::string(1, prefix), "iB") : StrCat(std::string(1, prefix == 'K' ? 'k' : prefix), "B");
    return runtime.String(fmt::format("{:.1f} {}", base * bytes / unit, name));
  }
  return runtime.String("");
}

}  // namespace

std::span<const Filter> NumberFilters() {
  static constexpr Filter kFilters[] = {
      {"abs", Abs},           {"filesizeformat", FileSize}, {"float", FloatFilter}, {"int", IntFilter},
      {"max", Extreme<true>}, {"min", Extreme<false>},      {"round", Round},       {"sum", Sum},
  };
  return kFilters;
}

}  // namespace tercet::chat
