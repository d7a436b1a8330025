#include "services/executor/engine_metrics.h"

namespace tercet::executor {

EngineMetrics::EngineMetrics(telemetry::Metrics& m, MemoryLedger* ledger, uint64_t page_bytes)
    : ledger(ledger),
      page_bytes(page_bytes),
      steps(m.Counter("tercet_executor_steps_total", "Forward passes.")),
      decode_rows(m.Counter("tercet_executor_rows_total", "Tokens computed.", {{"kind", "decode"}})),
      prefill_rows(m.Counter("tercet_executor_rows_total", "Tokens computed.", {{"kind", "prefill"}})),
      generated_tokens(m.Counter("tercet_executor_generated_tokens_total", "Tokens chosen and reported.")),
      drafted_tokens(m.Counter("tercet_executor_drafted_tokens_total", "Draft tokens verified.")),
      accepted_tokens(m.Counter("tercet_executor_accepted_tokens_total", "Draft tokens that stood.")),
      failed_sequences(m.Counter("tercet_executor_failed_sequences_total", "Sequences ended by an error.")),
      prefix_query_tokens(m.Counter("tercet_executor_prefix_cache_queries_total",
                                    "Prompt tokens of new requests looked up in the prefix cache.")),
      prefix_hit_tokens(m.Counter("tercet_executor_prefix_cache_hits_total",
                                  "Prompt tokens of new requests found in the prefix cache.")),
      step_seconds(m.Histogram("tercet_executor_step_seconds", "Time of a forward pass.", telemetry::StepBuckets())),
      sample_seconds(m.Histogram("tercet_executor_sample_seconds", "Time to choose the tokens of a step.",
                                 telemetry::StepBuckets())),
      sequences(m.Gauge("tercet_executor_sequences", "Open sequences.")),
      pages_free(m.Gauge("tercet_executor_pages", "KV pages by state.", {{"state", "free"}})),
      pages_cached(m.Gauge("tercet_executor_pages", "KV pages by state.", {{"state", "cached"}})),
      pages_used(m.Gauge("tercet_executor_pages", "KV pages by state.", {{"state", "used"}})),
      lease_epoch(m.Gauge("tercet_executor_lease_epoch", "Epoch of the present owner; 0: none.")) {}

void EngineMetrics::ObserveStep(const StepStatistics& step) {
  steps.Increment();
  prefill_rows.Increment(step.prefill_rows);
  decode_rows.Increment(step.rows - step.prefill_rows);
  step_seconds.Observe(step.forward_us * 1e-6);
  sample_seconds.Observe(step.sample_us * 1e-6);
}

void EngineMetrics::SetPages(int32_t total, int32_t free, int32_t cached) {
  pages_free.Set(free);
  pages_cached.Set(cached);
  pages_used.Set(total - free - cached);
  if (ledger != nullptr) ledger->SetPrefixBytes(page_bytes * static_cast<uint64_t>(cached));
}

}  // namespace tercet::executor
