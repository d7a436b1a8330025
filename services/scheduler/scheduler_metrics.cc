#include "services/scheduler/scheduler_metrics.h"

namespace tercet::scheduler {

SchedulerMetrics::SchedulerMetrics(telemetry::Metrics& m)
    : registry(m),
      queued(m.Gauge("tercet_scheduler_requests_waiting", "Requests that wait for an executor")),
      running(m.Gauge("tercet_scheduler_requests_running", "Requests open on an executor")),
      executors(m.Gauge("tercet_scheduler_executors", "Executors owned by this scheduler")),
      pages_free(m.Gauge("tercet_scheduler_kv_pages", "KV pages of all owned executors", {{"state", "free"}})),
      pages_cached(m.Gauge("tercet_scheduler_kv_pages", "KV pages of all owned executors", {{"state", "cached"}})),
      pages_total(m.Gauge("tercet_scheduler_kv_pages_total", "KV pages of all owned executors, in any state")),
      admitted(m.Counter("tercet_scheduler_requests_admitted_total", "Requests taken")),
      preempted(m.Counter("tercet_scheduler_preemptions_total", "Sequences that gave up their pages to an older one")),
      resumed(m.Counter("tercet_scheduler_resumed_total", "Sequences that went on after losing their executor")),
      prompt_tokens(m.Counter("tercet_scheduler_prompt_tokens_total", "Prompt tokens of requests that began")),
      cached_tokens(m.Counter("tercet_scheduler_cached_tokens_total",
                              "Of those, tokens found in a prefix cache when the request first began")),
      generated_tokens(m.Counter("tercet_scheduler_generated_tokens_total", "Tokens generated")),
      queue_seconds(m.Histogram("tercet_scheduler_queue_seconds", "Receipt to begin", telemetry::LatencyBuckets())),
      first_token_seconds(
          m.Histogram("tercet_scheduler_first_token_seconds", "Receipt to first token", telemetry::LatencyBuckets())),
      inter_token_seconds(m.Histogram("tercet_scheduler_inter_token_seconds",
                                      "Mean time between the tokens of a request", telemetry::LatencyBuckets())),
      request_seconds(m.Histogram("tercet_scheduler_request_seconds", "Receipt to end", telemetry::LatencyBuckets())) {}

prometheus::Counter& SchedulerMetrics::Finished(const std::string& reason) {
  return registry.Counter("tercet_scheduler_requests_finished_total", "Requests that ended", {{"reason", reason}});
}

prometheus::Counter& SchedulerMetrics::Rejected(const std::string& reason) {
  return registry.Counter("tercet_scheduler_requests_rejected_total", "Requests refused at once", {{"reason", reason}});
}

}  // namespace tercet::scheduler
