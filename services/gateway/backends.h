// What every endpoint works with. The members are shared by all requests and thread-safe.
#pragma once

#include <absl/time/time.h>

#include <memory>
#include <utility>

#include "services/gateway/live_requests.h"
#include "services/gateway/metrics.h"
#include "services/gateway/model_catalog.h"
#include "services/gateway/scheduler_client.h"
#include "services/gateway/tokenizer_client.h"

namespace tercet::gateway {

struct Backends {
  Backends(std::shared_ptr<TokenizerClient> tokenizer, std::shared_ptr<SchedulerClient> scheduler, ModelCatalog models)
      : tokenizer(std::move(tokenizer)), scheduler(std::move(scheduler)), models(std::move(models)) {}

  std::shared_ptr<TokenizerClient> tokenizer;
  std::shared_ptr<SchedulerClient> scheduler;
  ModelCatalog models;
  GatewayMetrics metrics;
  LiveRequests live;
  // Longest life of a request; a client may ask for less with x-request-timeout-ms.
  absl::Duration request_timeout = absl::Hours(1);
  // How long a broken stream is tried to be resumed.
  absl::Duration resume_window = absl::Seconds(30);
};

}  // namespace tercet::gateway
