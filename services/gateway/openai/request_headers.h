// Headers of a request that steer the calls it causes. Pure.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include "services/gateway/call.h"
#include "services/gateway/http/exchange.h"

namespace tercet::gateway {

// x-request-timeout-ms, at most `longest`; `longest` when absent. INVALID_ARGUMENT when it is no number from 1 on.
absl::StatusOr<absl::Duration> RequestTimeout(const Request& request, absl::Duration longest);

// Request id, traceparent (dropped when it is not one) and `deadline`.
CallContext ContextOf(const Request& request, absl::Time deadline);

}  // namespace tercet::gateway
