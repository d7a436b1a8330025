// The gateway's endpoints: which path leads where, and what holds for all of them (methods, content type, draining).
//
//   POST /v1/chat/completions  /v1/completions  /tokenize  /detokenize
//   GET  /v1/models  /v1/models/{id}  /health  /ready  /version  /metrics (only if options.metrics_on_http)
//
// /health says that the process lives; /ready says that a request would be served: the tokenizer's vocabulary is known, the
// scheduler answers and does not drain, and at least one executor is admitted. While the gateway drains, requests are
// answered 503 with Retry-After and /ready is 503; /health, /version and /metrics go on.
//
// Thread-safe. Must outlive the HTTP server that calls it.
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <atomic>
#include <memory>

#include "services/gateway/backends.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/http/server.h"

namespace tercet::gateway {

class Service {
 public:
  struct Options {
    bool metrics_on_http = false;
    // How long clients are told to wait while the gateway drains.
    absl::Duration drain_retry_after = absl::Seconds(1);
  };

  Service(std::shared_ptr<Backends> backends, Options options);

  void Handle(std::shared_ptr<Exchange> exchange);
  void OnAccess(const AccessRecord& record);

  // From now on new requests are refused.
  void BeginDrain() { draining_.store(true); }
  // Ends every running request with an error.
  void AbortAll();
  // Requests that are generating.
  size_t running() const { return backends_->live.size(); }

  // OK, or UNAVAILABLE with the reason in a sentence.
  absl::Status Readiness() const;

 private:
  struct Route;
  static const Route* FindRoute(const std::string& path);

  std::shared_ptr<Backends> backends_;
  Options options_;
  std::atomic<bool> draining_{false};
};

}  // namespace tercet::gateway
