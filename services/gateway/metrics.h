// What the gateway counts. Thread-safe.
#pragma once

#include <string>

#include "common/telemetry/metrics.h"
#include "services/gateway/http/server.h"

namespace tercet::gateway {

class GatewayMetrics {
 public:
  GatewayMetrics();

  // One finished HTTP request. `route` is a pattern from the route table, never a path that a client chose.
  void CountRequest(const std::string& route, const AccessRecord& record);

  telemetry::Metrics& registry() { return registry_; }

 private:
  telemetry::Metrics registry_;  // first: the references below point into it

 public:
  prometheus::Gauge& running;  // generating requests
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& cached_tokens;
  prometheus::Counter& generated_tokens;
  prometheus::Counter& resumes;
  prometheus::Counter& disconnects;  // clients gone before the end of their answer
  prometheus::Counter& slow_clients;
  prometheus::Histogram& first_token;  // from the request's arrival to its first text, seconds
  prometheus::Histogram& inter_text;   // between two pieces of text of one answer, seconds
  prometheus::Histogram& duration;     // of generating requests, seconds
};

}  // namespace tercet::gateway
