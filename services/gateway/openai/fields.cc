#include "services/gateway/openai/fields.h"

#include <absl/strings/str_cat.h>

#include <cmath>

#include "services/gateway/http/api_error.h"

namespace tercet::gateway {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::string DescribeJson(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      return value.dump();
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "an array";
    default:
      return "an object";
  }
}

std::string Fields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", View(name));
}

const Json* Fields::Take(std::string_view name) {
  known_.emplace(name);
  if (!ok()) return nullptr;
  auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::Fault(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

void Fields::Fault(std::string_view name, std::string_view message, std::string_view code) {
  std::string path = PathOf(name);
  Fault(FieldError(path, absl::StrCat("'", path, "' ", View(message)), code));
}

void Fields::RefuseUnsupported(std::string_view name) {
  Fault(name, "is not supported by this server; leave it out", "unsupported_parameter");
}

std::optional<bool> Fields::Bool(std::string_view name) {
  const Json* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    Fault(name, absl::StrCat("must be true or false, not ", DescribeJson(*value)));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> Fields::Integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = Take(name);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number;
  if (value->is_number_unsigned()) {
    uint64_t wide = value->get<uint64_t>();
    if (wide <= static_cast<uint64_t>(INT64_MAX)) number = static_cast<int64_t>(wide);
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value->is_number_float()) {
    double real = value->get<double>();
    if (std::trunc(real) == real && std::abs(real) < 9007199254740992.0) number = static_cast<int64_t>(real);
  }
  if (!number.has_value() || *number < low || *number > high) {
    Fault(name, absl::StrCat("must be a whole number from ", low, " to ", high, ", not ", DescribeJson(*value)));
    return std::nullopt;
  }
  return number;
}

std::optional<double> Fields::Number(std::string_view name, double low, double high) {
  const Json* value = Take(name);
  if (value == nullptr) return std::nullopt;
  double number = value->is_number() ? value->get<double>() : low - 1;
  if (!(number >= low && number <= high)) {
    Fault(name, absl::StrCat("must be a number from ", low, " to ", high, ", not ", DescribeJson(*value)));
    return std::nullopt;
  }
  return number;
}

std::optional<std::string> Fields::String(std::string_view name, size_t max_bytes) {
  const Json* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    Fault(name, absl::StrCat("must be a string, not ", DescribeJson(*value)));
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > max_bytes) {
    Fault(name, absl::StrCat("must not be longer than ", max_bytes, " bytes; it has ", text.size()));
    return std::nullopt;
  }
  return text;
}

const Json* Fields::Any(std::string_view name) { return Take(name); }

const Json* Fields::Object(std::string_view name) {
  const Json* value = Take(name);
  if (value != nullptr && !value->is_object()) {
    Fault(name, absl::StrCat("must be an object, not ", DescribeJson(*value)));
    return nullptr;
  }
  return value;
}

absl::Status Fields::Finish() {
  if (!ok()) return status_;
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    std::string path = PathOf(name.substr(0, 200));
    return FieldError(path, absl::StrCat("'", path, "' is not a field of this request"), "unknown_parameter");
  }
  return absl::OkStatus();
}

}  // namespace tercet::gateway
