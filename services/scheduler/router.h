// Which executor takes a request.
//
// Among those that have room it is the one with the least predicted time, in milliseconds, until the request has its first
// tokens: prompts open there and not yet computed, its own prompt less what the prefix cache probably holds, and a few
// decode steps at the batch it would join. So affinity yields to load by itself. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "services/scheduler/executor.h"
#include "services/scheduler/prefix_map.h"

namespace tercet::scheduler {

class Router {
 public:
  // `prefill_chunk`: prompt tokens a step that the prediction assumes.
  explicit Router(uint32_t prefill_chunk) : prefill_chunk_(prefill_chunk) {}

  // Could this executor, with all its memory, compute the request's next token?
  static bool CouldHold(const Executor& executor, const Request& request);
  // Can it take the request now?
  static bool HasRoom(const Executor& executor, const Request& request);

  // The executor to open the request on; null when none has room now.
  Executor* Choose(const Executors& executors, const Request& request);

  // Forgets the prefixes of an executor whose cache is gone.
  void Forget(uint32_t executor) { prefixes_.Purge(executor); }

 private:
  uint32_t prefill_chunk_;
  PrefixMap prefixes_{1 << 18};
};

}  // namespace tercet::scheduler
