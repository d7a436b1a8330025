// All sequences of one request: prompts × choices. Keeps a bounded number of them in flight, so that a request with a
// thousand prompts does not fill the scheduler's queue by itself, and fails as one. Everything happens on one strand.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/status.h>

#include <memory>
#include <vector>

#include "services/gateway/generation/sequence.h"

namespace tercet::gateway {

// Told what happens, by number of sequence. After OnAllFinished or OnFailed nothing follows.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void OnStarted(size_t sequence, uint32_t cached_tokens) = 0;
  virtual void OnPrompt(size_t sequence, const std::vector<Logprobs>& logprobs) = 0;
  virtual void OnDelta(size_t sequence, Delta delta) = 0;
  virtual void OnFinished(size_t sequence, Finish reason, uint32_t generated_tokens) = 0;
  virtual void OnBroken(size_t sequence, const absl::Status& why) = 0;
  virtual void OnAllFinished() = 0;
  virtual void OnFailed(absl::Status status) = 0;
};

inline constexpr size_t kSequencesInFlight = 32;

class Job : public std::enable_shared_from_this<Job> {
 public:
  // `make` gives the specification of a sequence when its turn comes.
  Job(size_t sequences, absl::AnyInvocable<SequenceSpec(size_t)> make, std::shared_ptr<SchedulerClient> scheduler,
      std::shared_ptr<Strand> strand, std::shared_ptr<JobObserver> observer);

  void Start();
  // Nothing is wanted any more. The observer hears nothing after this.
  void Cancel();

 private:
  void StartNext();
  void OnSequenceFinished(size_t sequence, Finish reason, uint32_t generated);
  void OnSequenceFailed(absl::Status status);

  absl::AnyInvocable<SequenceSpec(size_t)> make_;
  std::shared_ptr<SchedulerClient> scheduler_;
  std::shared_ptr<Strand> strand_;
  std::shared_ptr<JobObserver> observer_;  // null: over
  std::vector<std::shared_ptr<Sequence>> sequences_;  // null: not begun or finished
  size_t begun_ = 0;
  size_t finished_ = 0;
};

}  // namespace tercet::gateway
