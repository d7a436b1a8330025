// Short ways to answer an exchange.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "services/gateway/http/api_error.h"
#include "services/gateway/http/exchange.h"

namespace tercet::gateway {

// OpenAI's error object, with Retry-After where it belongs.
void ReplyError(Exchange& exchange, const ApiError& error);
void ReplyError(Exchange& exchange, const absl::Status& status);
// 200 with a JSON body.
void ReplyJson(Exchange& exchange, std::string body);

}  // namespace tercet::gateway
