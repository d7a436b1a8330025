// What a client is told when a request fails: an HTTP status and OpenAI's error object
//   {"error": {"message": …, "type": …, "param": …, "code": …}}
//
// Inside the gateway a failure is an absl::Status, as everywhere. Its code decides the HTTP status, and the details that
// only an HTTP client needs (which field, which machine-readable code, when to try again) travel as payloads of the status.
// All functions are pure.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tercet::gateway {

struct ApiError {
  int http_status = 500;
  std::string type;
  std::string message;
  std::optional<std::string> param;
  std::optional<std::string> code;
  // Set for 429 and 503: when to try again.
  std::optional<int64_t> retry_after_ms;
};

// INVALID_ARGUMENT that names a field of the request ("messages[2].content"). `code` may be empty.
absl::Status FieldError(std::string_view param, std::string_view message, std::string_view code = "");

// `status` with a detail attached; an OK status is returned as it is.
absl::Status WithParam(absl::Status status, std::string_view param);
absl::Status WithCode(absl::Status status, std::string_view code);
absl::Status WithHttpStatus(absl::Status status, int http_status);
absl::Status WithRetryAfter(absl::Status status, int64_t milliseconds);

std::optional<int64_t> RetryAfter(const absl::Status& status);

// Which HTTP answer an error becomes. 429 and 503 always say when to try again (1 s unless the status knows better).
ApiError ToApiError(const absl::Status& status);

// The JSON body, in one line.
std::string ErrorBody(const ApiError& error);

// "Retry-After" counts whole seconds: rounded up, at least 1.
int64_t RetryAfterSeconds(int64_t milliseconds);

}  // namespace tercet::gateway
