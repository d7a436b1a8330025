#include "services/gateway/generation/job.h"

#include <utility>

namespace tercet::gateway {

Job::Job(size_t sequences, absl::AnyInvocable<SequenceSpec(size_t)> make, std::shared_ptr<SchedulerClient> scheduler,
         std::shared_ptr<Strand> strand, std::shared_ptr<JobObserver> observer)
    : make_(std::move(make)),
      scheduler_(std::move(scheduler)),
      strand_(std::move(strand)),
      observer_(std::move(observer)),
      sequences_(sequences) {}

void Job::Start() { StartNext(); }

void Job::StartNext() {
  while (observer_ != nullptr && begun_ < sequences_.size() && begun_ - finished_ < kSequencesInFlight) {
    size_t number = begun_++;
    auto self = shared_from_this();
    SequenceCallbacks callbacks{
        .on_started =
            [self, number](uint32_t cached) {
              if (self->observer_ != nullptr) self->observer_->OnStarted(number, cached);
            },
        .on_prompt =
            [self, number](const std::vector<Logprobs>& logprobs) {
              if (self->observer_ != nullptr) self->observer_->OnPrompt(number, logprobs);
            },
        .on_delta =
            [self, number](Delta delta) {
              if (self->observer_ != nullptr) self->observer_->OnDelta(number, std::move(delta));
            },
        .on_finished = [self, number](Finish reason,
                                      uint32_t generated) { self->OnSequenceFinished(number, reason, generated); },
        .on_failed = [self](absl::Status status) { self->OnSequenceFailed(std::move(status)); },
        .on_broken =
            [self, number](const absl::Status& why) {
              if (self->observer_ != nullptr) self->observer_->OnBroken(number, why);
            }};
    sequences_[number] = std::make_shared<Sequence>(make_(number), scheduler_, strand_, std::move(callbacks));
    auto sequence = sequences_[number];
    sequence->Start();
  }
}

void Job::OnSequenceFinished(size_t sequence, Finish reason, uint32_t generated) {
  sequences_[sequence] = nullptr;
  ++finished_;
  if (observer_ == nullptr) return;
  observer_->OnFinished(sequence, reason, generated);
  if (finished_ == sequences_.size()) {
    if (auto observer = std::exchange(observer_, nullptr)) observer->OnAllFinished();
    return;
  }
  StartNext();
}

void Job::OnSequenceFailed(absl::Status status) {
  auto observer = std::exchange(observer_, nullptr);
  Cancel();
  if (observer != nullptr) observer->OnFailed(std::move(status));
}

void Job::Cancel() {
  observer_ = nullptr;
  for (auto& sequence : sequences_) {
    if (auto running = std::exchange(sequence, nullptr)) running->Cancel();
  }
}

}  // namespace tercet::gateway
