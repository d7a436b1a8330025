#include "services/gateway/http/api_error.h"

#include <absl/strings/cord.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "services/gateway/json_text.h"

namespace tercet::gateway {
namespace {

constexpr char kParam[] = "tercet.gateway/param";
constexpr char kCode[] = "tercet.gateway/code";
constexpr char kHttpStatus[] = "tercet.gateway/http-status";
constexpr char kRetryAfter[] = "tercet.gateway/retry-after-ms";

absl::Status With(absl::Status status, const char* key, std::string_view value) {
  status.SetPayload(key, absl::Cord(absl::string_view(value.data(), value.size())));
  return status;
}

std::optional<std::string> Detail(const absl::Status& status, const char* key) {
  if (auto cord = status.GetPayload(key)) return std::string(*cord);
  return std::nullopt;
}

int DefaultHttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string TypeOf(int http_status) {
  if (http_status == 429) return "rate_limit_error";
  if (http_status == 503) return "service_unavailable_error";
  if (http_status == 504) return "timeout_error";
  return http_status < 500 ? "invalid_request_error" : "server_error";
}

void AppendMember(std::string* out, std::string_view name, const std::optional<std::string>& value) {
  absl::StrAppend(out, ",\"", absl::string_view(name.data(), name.size()), "\":");
  if (value.has_value()) {
    AppendJsonString(out, *value);
  } else {
    out->append("null");
  }
}

}  // namespace

absl::Status FieldError(std::string_view param, std::string_view message, std::string_view code) {
  absl::Status status =
      WithParam(absl::InvalidArgumentError(absl::string_view(message.data(), message.size())), param);
  return code.empty() ? status : WithCode(status, code);
}

absl::Status WithParam(absl::Status status, std::string_view param) { return With(std::move(status), kParam, param); }
absl::Status WithCode(absl::Status status, std::string_view code) { return With(std::move(status), kCode, code); }

absl::Status WithHttpStatus(absl::Status status, int http_status) {
  return With(std::move(status), kHttpStatus, absl::StrCat(http_status));
}

absl::Status WithRetryAfter(absl::Status status, int64_t milliseconds) {
  return With(std::move(status), kRetryAfter, absl::StrCat(milliseconds));
}

std::optional<int64_t> RetryAfter(const absl::Status& status) {
  int64_t milliseconds = 0;
  std::optional<std::string> text = Detail(status, kRetryAfter);
  if (!text.has_value() || !absl::SimpleAtoi(*text, &milliseconds)) return std::nullopt;
  return milliseconds;
}

ApiError ToApiError(const absl::Status& status) {
  ApiError error;
  error.http_status = DefaultHttpStatus(status.code());
  if (auto text = Detail(status, kHttpStatus)) {
    int chosen = 0;
    if (absl::SimpleAtoi(*text, &chosen)) error.http_status = chosen;
  }
  error.type = TypeOf(error.http_status);
  error.message = std::string(status.message());
  error.param = Detail(status, kParam);
  error.code = Detail(status, kCode);
  if (error.http_status == 429 || error.http_status == 503) {
    error.retry_after_ms = RetryAfter(status).value_or(1000);
    if (!error.code.has_value()) {
      error.code = error.http_status == 429 ? "rate_limit_exceeded" : "service_unavailable";
    }
  }
  return error;
}

std::string ErrorBody(const ApiError& error) {
  std::string body = "{\"error\":{\"message\":";
  AppendJsonString(&body, error.message);
  AppendMember(&body, "type", error.type);
  AppendMember(&body, "param", error.param);
  AppendMember(&body, "code", error.code);
  body.append("}}");
  return body;
}

int64_t RetryAfterSeconds(int64_t milliseconds) { return std::max<int64_t>(1, (milliseconds + 999) / 1000); }

}  // namespace tercet::gateway
