#include "services/gateway/openai/request_headers.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>

#include <algorithm>

#include "services/gateway/http/api_error.h"

namespace tercet::gateway {
namespace {

// W3C trace context, version 00: 2-32-16-2 lower-case hexadecimal digits.
bool IsTraceparent(std::string_view text) {
  if (text.size() != 55) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    bool dash = i == 2 || i == 35 || i == 52;
    bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<absl::Duration> RequestTimeout(const Request& request, absl::Duration longest) {
  std::string_view text = request.Header("x-request-timeout-ms");
  if (text.empty()) return longest;
  int64_t milliseconds = 0;
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &milliseconds) || milliseconds < 1) {
    return FieldError("x-request-timeout-ms", "the header x-request-timeout-ms must be a number of milliseconds from 1 on");
  }
  return std::min(longest, absl::Milliseconds(milliseconds));
}

CallContext ContextOf(const Request& request, absl::Time deadline) {
  CallContext context{.request_id = request.id, .traceparent = "", .deadline = deadline};
  std::string_view traceparent = request.Header("traceparent");
  if (IsTraceparent(traceparent)) context.traceparent = std::string(traceparent);
  return context;
}

}  // namespace tercet::gateway
