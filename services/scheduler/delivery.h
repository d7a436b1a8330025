// What a client is told: executors' row results become the events of a Generate stream, in order and without gap.
//
// Free functions over one Request; they count what they deliver. Not thread-safe.
#pragma once

#include <absl/status/status.h>

#include "services/scheduler/request.h"
#include "services/scheduler/scheduler_metrics.h"

namespace tercet::scheduler {

// Delivers what a row result holds: Started before all else, log-probabilities of the prompt, tokens. `executor` is the
// address it runs at, `now_ms` the clock. INTERNAL: the row does not follow upon what is known.
absl::Status DeliverRow(Request& request, const v1::RowResult& row, const std::string& executor, double now_ms,
                        SchedulerMetrics& metrics);

// Delivers Finished (and Started before it, if the request ends before any result came) and the end.
void DeliverFinished(Request& request, v1::FinishReason reason, double now_ms, SchedulerMetrics& metrics);

// Delivers an end by an error. `retry_after_ms` > 0 says when to try again.
void DeliverError(Request& request, const absl::Status& status, double retry_after_ms, SchedulerMetrics& metrics);

}  // namespace tercet::scheduler
