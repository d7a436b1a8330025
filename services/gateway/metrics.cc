#include "services/gateway/metrics.h"

#include <absl/strings/str_cat.h>

namespace tercet::gateway {

using telemetry::LatencyBuckets;
using telemetry::StepBuckets;

GatewayMetrics::GatewayMetrics()
    : running(registry_.Gauge("tercet_gateway_running_requests", "Requests that are generating now")),
      prompt_tokens(registry_.Counter("tercet_gateway_prompt_tokens_total", "Prompt tokens of finished requests")),
      cached_tokens(registry_.Counter("tercet_gateway_cached_prompt_tokens_total",
                                      "Prompt tokens of finished requests that came from the prefix cache")),
      generated_tokens(registry_.Counter("tercet_gateway_generated_tokens_total", "Generated tokens of finished requests")),
      resumes(registry_.Counter("tercet_gateway_resumes_total", "Streams that broke and were asked for again")),
      disconnects(registry_.Counter("tercet_gateway_disconnects_total", "Clients gone before their answer was complete")),
      slow_clients(registry_.Counter("tercet_gateway_slow_clients_total", "Requests cancelled because the client did not read")),
      first_token(registry_.Histogram("tercet_gateway_time_to_first_token_seconds",
                                      "From arrival of a request to its first text", LatencyBuckets())),
      inter_text(registry_.Histogram("tercet_gateway_inter_text_seconds", "Between two pieces of text of one answer", StepBuckets())),
      duration(registry_.Histogram("tercet_gateway_generation_seconds", "From arrival of a request to its end", LatencyBuckets())) {}

void GatewayMetrics::CountRequest(const std::string& route, const AccessRecord& record) {
  registry_
      .Counter("tercet_gateway_http_requests_total", "HTTP requests by route and status",
               {{"route", route}, {"status", record.status == 0 ? "none" : absl::StrCat(record.status)}})
      .Increment();
}

}  // namespace tercet::gateway
