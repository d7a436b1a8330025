#include "services/scheduler/generate_stream.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/rpc/status.h"
#include "services/scheduler/service.h"

namespace tercet::scheduler {

GenerateStream::GenerateStream(SchedulerService& service, grpc::CallbackServerContext* context,
                               const v1::GenerateRequest& spec)
    : service_(service), context_(context) {
  double retry_after_ms = 0;
  absl::StatusOr<RequestId> id = service_.Submit(spec, this, &retry_after_ms);
  if (id.ok()) {
    id_ = *id;
  } else {
    OnEnd(id.status(), retry_after_ms);
  }
}

void GenerateStream::OnEvent(v1::GenerateEvent event) {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kStreaming) return;
  size_t fresh = static_cast<size_t>(event.tokens().token_ids_size());
  // The front may be under way; only what waits behind it can still grow.
  if (fresh > 0 && queue_.size() > (writing_ ? 1u : 0u) && queue_.back().has_tokens()) {
    v1::Tokens* last = queue_.back().mutable_tokens();
    last->mutable_token_ids()->MergeFrom(event.tokens().token_ids());
    last->mutable_logprobs()->MergeFrom(event.tokens().logprobs());
  } else {
    queue_.push_back(std::move(event));
  }
  pending_tokens_ += fresh;
  if (pending_tokens_ > kMaxPendingTokens) {
    DropWaitingLocked();
    EndLocked(absl::ResourceExhaustedError("slow consumer: the client does not read its tokens"), 0);
    context_->TryCancel();  // frees the sequence by OnCancel
    return;
  }
  WriteLocked();
}

void GenerateStream::OnEnd(const absl::Status& status, double retry_after_ms) {
  std::lock_guard lock(mutex_);
  EndLocked(status, retry_after_ms);
}

void GenerateStream::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  writing_ = false;
  pending_tokens_ -= static_cast<size_t>(queue_.front().tokens().token_ids_size());
  queue_.pop_front();
  if (!ok) DropWaitingLocked();
  WriteLocked();
}

void GenerateStream::OnCancel() {
  if (id_ != 0) service_.Cancel(id_);
  std::lock_guard lock(mutex_);
  DropWaitingLocked();
  EndLocked(absl::CancelledError("the client cancelled"), 0);
}

void GenerateStream::OnDone() {
  // Whoever called Finish may still hold the lock.
  mutex_.lock();
  mutex_.unlock();
  service_.OnStreamDone();
  delete this;
}

void GenerateStream::EndLocked(const absl::Status& status, double retry_after_ms) {
  if (phase_ != Phase::kStreaming) return;
  phase_ = Phase::kEnding;
  status_ = rpc::ToGrpc(status);
  if (retry_after_ms > 0) {
    context_->AddTrailingMetadata("retry-after-ms", absl::StrCat(static_cast<int64_t>(std::ceil(retry_after_ms))));
  }
  WriteLocked();
}

void GenerateStream::WriteLocked() {
  if (writing_ || phase_ == Phase::kFinished) return;
  if (!queue_.empty()) {
    writing_ = true;
    StartWrite(&queue_.front());
  } else if (phase_ == Phase::kEnding) {
    phase_ = Phase::kFinished;
    Finish(status_);
  }
}

void GenerateStream::DropWaitingLocked() {
  queue_.resize(std::min<size_t>(queue_.size(), writing_ ? 1 : 0));
  pending_tokens_ = queue_.empty() ? 0 : static_cast<size_t>(queue_.front().tokens().token_ids_size());
}

}  // namespace tercet::scheduler
