// Reads the members of one JSON object strictly: each member is taken by name with its type and range, and what nobody took
// is an unknown field. The first fault wins and names the member by its path ("stream_options.include_usage").
//
// A member that is null counts as absent. After a fault every getter returns "absent", so that a parser reads straight
// through and asks once at the end. Borrows the object. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "services/gateway/json_text.h"

namespace tercet::gateway {

class Fields {
 public:
  // `path` is the object's own path, "" for the request body.
  explicit Fields(const Json& object, std::string path = "") : object_(object), path_(std::move(path)) {}

  std::optional<bool> Bool(std::string_view name);
  // A whole number within [low, high]; 16.0 counts as 16.
  std::optional<int64_t> Integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> Number(std::string_view name, double low, double high);
  std::optional<std::string> String(std::string_view name, size_t max_bytes);
  // Any value but null; nullptr when absent.
  const Json* Any(std::string_view name);
  const Json* Object(std::string_view name);

  // Records a fault of member `name`. `message` completes the sentence "'name' …".
  void Fault(std::string_view name, std::string_view message, std::string_view code = "");
  // Records `status` if it is the first fault.
  void Fault(const absl::Status& status);
  // The member is part of the API but this server cannot do it: refused unless null or accepted by `harmless`.
  template <typename Predicate>
  void Unsupported(std::string_view name, Predicate harmless) {
    const Json* value = Any(name);
    if (value != nullptr && !harmless(*value)) RefuseUnsupported(name);
  }

  bool ok() const { return status_.ok(); }
  // The path of a member: "messages[0].content".
  std::string PathOf(std::string_view name) const;
  // The first fault, or an unknown field, or OK.
  absl::Status Finish();

 private:
  // Marks the member as known; null and absent are nullptr.
  const Json* Take(std::string_view name);
  void RefuseUnsupported(std::string_view name);

  const Json& object_;
  std::string path_;
  absl::flat_hash_set<std::string> known_;
  absl::Status status_;
};

// How a value is named in an error: "the string \"abc\"", "-1", "an array".
std::string DescribeJson(const Json& value);

}  // namespace tercet::gateway
