// The scheduler's Prometheus metrics. Thread-safe, as the metrics themselves are.
#pragma once

#include <string>

#include "common/telemetry/metrics.h"

namespace tercet::scheduler {

struct SchedulerMetrics {
  explicit SchedulerMetrics(telemetry::Metrics& metrics);

  // reason: "stop", "length", "context", "deadline", "cancelled", "error".
  prometheus::Counter& Finished(const std::string& reason);
  // reason: "invalid", "queue_full", "unavailable".
  prometheus::Counter& Rejected(const std::string& reason);

  telemetry::Metrics& registry;
  prometheus::Gauge& queued;
  prometheus::Gauge& running;
  prometheus::Gauge& executors;
  prometheus::Gauge& pages_free;
  prometheus::Gauge& pages_cached;
  prometheus::Gauge& pages_total;
  prometheus::Counter& admitted;
  prometheus::Counter& preempted;
  prometheus::Counter& resumed;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& cached_tokens;
  prometheus::Counter& generated_tokens;
  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& first_token_seconds;
  prometheus::Histogram& inter_token_seconds;
  prometheus::Histogram& request_seconds;
};

}  // namespace tercet::scheduler
