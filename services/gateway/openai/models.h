// GET /v1/models and GET /v1/models/{id}.
#pragma once

#include <memory>
#include <string>

#include "services/gateway/backends.h"
#include "services/gateway/http/exchange.h"

namespace tercet::gateway {

// 503 while no model is known.
void HandleModels(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange);
// `id` may be any name by which requests can ask for the model.
void HandleModel(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange, const std::string& id);

}  // namespace tercet::gateway
