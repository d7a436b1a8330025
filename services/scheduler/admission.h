// Whether the queue takes one more request, and when to come back if not.
//
// Not thread-safe.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "services/scheduler/request_queue.h"

namespace tercet::scheduler {

class Admission {
 public:
  // Bounds of the queue: requests, and tokens to prefill. A request alone in the queue may have more tokens than that.
  Admission(size_t max_requests, uint64_t max_tokens) : max_requests_(max_requests), max_tokens_(max_tokens) {}

  // RESOURCE_EXHAUSTED names what is full.
  absl::Status Check(const Request& request, const RequestQueue& queue) const;

  // A running request ended, by whatever reason, and `waiting` others wait for its place.
  void OnEnd(double now_ms, size_t waiting);

  // Milliseconds after which a request at the end of the queue would begin, by the rate at which requests ended lately:
  // 100 … 60000. A second while nothing was measured.
  double PredictedWaitMs(size_t waiting) const;

 private:
  size_t max_requests_;
  uint64_t max_tokens_;
  double last_end_ms_ = 0;  // 0: nobody waited then
  double interval_ms_ = 0;  // mean time between ends under load; 0: unknown
};

}  // namespace tercet::scheduler
