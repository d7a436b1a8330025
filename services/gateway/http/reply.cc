#include "services/gateway/http/reply.h"

#include <absl/strings/str_cat.h>

namespace tercet::gateway {

void ReplyError(Exchange& exchange, const ApiError& error) {
  Response response{.status = error.http_status, .body = ErrorBody(error)};
  if (error.retry_after_ms.has_value()) {
    response.headers.emplace_back("Retry-After", absl::StrCat(RetryAfterSeconds(*error.retry_after_ms)));
  }
  exchange.Note("error", error.message);
  exchange.Reply(std::move(response));
}

void ReplyError(Exchange& exchange, const absl::Status& status) { ReplyError(exchange, ToApiError(status)); }

void ReplyJson(Exchange& exchange, std::string body) { exchange.Reply(Response{.body = std::move(body)}); }

}  // namespace tercet::gateway
