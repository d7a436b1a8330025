// What an executor computes next: decode rows first, then prompts, within its rows and pages.
#pragma once

#include <cstdint>

#include "services/scheduler/executor.h"

namespace tercet::scheduler {

struct BatchLimits {
  // Most prompt tokens a step, of all sequences together: while others decode, and while nothing does.
  uint32_t prefill_chunk_busy = 128;
  uint32_t prefill_chunk_idle = 512;
  // Steps granted beyond the first, so that the executor never waits for a round trip.
  uint32_t free_steps = 64;
};

// Fills `executor.draft` with rows and free steps for its open sequences (opens and closes are in it already), raising page
// limits as far as the budget allows. Returns the sequence that cannot be given the pages for its next token, and null when
// the plan is complete: otherwise one has to give way, and the plan is to be filled again.
Request* FillPlan(Executor& executor, const BatchLimits& limits);

}  // namespace tercet::scheduler
