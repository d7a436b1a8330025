// One sequence on its way through the scheduler.
//
// Owned by the Scheduler from Submit until its sink has been told the end. The ids generated so far are kept here, so that
// the sequence can go on after a preemption or on another executor: by the contract of determinism it then continues with
// exactly the tokens it would have had.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "tercet/v1/executor.pb.h"
#include "tercet/v1/scheduler.pb.h"

namespace tercet::scheduler {

// Receives what happens to a request: events, then one end. Called by the Scheduler; must not call back into it.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void OnEvent(v1::GenerateEvent event) = 0;
  // Last call. With an error, `retry_after_ms` > 0 says when to try again.
  virtual void OnEnd(const absl::Status& status, double retry_after_ms) = 0;
};

using RequestId = uint64_t;

enum class RequestState {
  kQueued,   // waits for an executor: never opened, preempted, or its executor was lost
  kRunning,  // open on an executor
};

struct Request {
  RequestId id = 0;
  v1::GenerateRequest spec;
  RequestSink* sink = nullptr;
  RequestState state = RequestState::kQueued;

  double received_ms = 0;
  double deadline_ms = 0;  // on the clock
  uint64_t arrival = 0;    // order among equals

  // All generated ids, those of spec.resume_token_ids first.
  std::vector<uint32_t> generated;
  // Index of the next prompt log-probability to report; the prompt's first token has none.
  uint32_t next_prompt_logprob = 1;

  // While running:
  uint32_t executor = 0;  // index
  uint64_t handle = 0;
  uint32_t computed_tokens = 0;
  uint32_t page_limit = 0;
  // Executors lost in a row while they ran it, without a token in between.
  uint32_t losses = 0;

  bool started = false;  // Started was sent
  uint32_t cached_tokens = 0;
  double started_ms = 0;
  double first_token_ms = 0;
  double last_token_ms = 0;

  uint32_t prompt_length() const { return static_cast<uint32_t>(spec.prompt_token_ids_size()); }
  // Ids that must be computed, and have room in KV memory, before the next token can be chosen: prompt and all generated ones.
  uint32_t known_tokens() const { return prompt_length() + static_cast<uint32_t>(generated.size()); }
  bool prefilling() const { return computed_tokens + 1 < known_tokens() || computed_tokens == 0; }
};

}  // namespace tercet::scheduler
