// The numbers that the engine shows to Prometheus. Thread-safe (the counters are).
#pragma once

#include <cstdint>

#include "common/telemetry/metrics.h"
#include "services/executor/memory_ledger.h"
#include "services/executor/results.h"

namespace tercet::executor {

struct EngineMetrics {
  // `ledger` (may be null) is told what the prefix cache holds.
  EngineMetrics(telemetry::Metrics& metrics, MemoryLedger* ledger, uint64_t page_bytes);

  void ObserveStep(const StepStatistics& step);
  void SetPages(int32_t total, int32_t free, int32_t cached);

  MemoryLedger* const ledger;
  const uint64_t page_bytes;
  prometheus::Counter& steps;
  prometheus::Counter& decode_rows;
  prometheus::Counter& prefill_rows;
  prometheus::Counter& generated_tokens;
  prometheus::Counter& drafted_tokens;
  prometheus::Counter& accepted_tokens;
  prometheus::Counter& failed_sequences;
  // Ids of new requests that could have come from the prefix cache, and that did. Sequences that resume are left out:
  // finding their own pages again is no saving.
  prometheus::Counter& prefix_query_tokens;
  prometheus::Counter& prefix_hit_tokens;
  prometheus::Histogram& step_seconds;
  prometheus::Histogram& sample_seconds;
  prometheus::Gauge& sequences;
  prometheus::Gauge& pages_free;
  prometheus::Gauge& pages_cached;
  prometheus::Gauge& pages_used;
  prometheus::Gauge& lease_epoch;
};

}  // namespace tercet::executor
