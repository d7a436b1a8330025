// POST /v1/chat/completions.
#pragma once

#include <memory>

#include "services/gateway/backends.h"
#include "services/gateway/http/exchange.h"

namespace tercet::gateway {

void HandleChatCompletions(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange);

}  // namespace tercet::gateway
