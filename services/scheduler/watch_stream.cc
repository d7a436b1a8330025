#include "services/scheduler/watch_stream.h"

#include <absl/strings/str_cat.h>

#include <chrono>
#include <utility>

#include "services/scheduler/service.h"

namespace tercet::scheduler {

WatchStream::WatchStream(SchedulerService& service, uint32_t interval_ms)
    : service_(service), interval_ms_(interval_ms == 0 ? 1000 : interval_ms) {
  if (interval_ms_ >= 50 && interval_ms_ <= 60000) {
    Write();
  } else {
    std::lock_guard lock(mutex_);
    FinishLocked(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                              absl::StrCat("interval_ms is ", interval_ms, "; it must be 50 to 60000")));
  }
}

void WatchStream::Write() {
  v1::SchedulerState state = service_.Describe();
  std::lock_guard lock(mutex_);
  if (cancelled_) return FinishLocked(grpc::Status::CANCELLED);
  phase_ = Phase::kWriting;
  state_ = std::move(state);
  StartWrite(&state_);
}

void WatchStream::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  if (!ok || cancelled_) return FinishLocked(grpc::Status::CANCELLED);
  phase_ = Phase::kPausing;
  // The call cannot end, and this object cannot go, before this callback has come: only it goes on from a pause.
  pause_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(interval_ms_), [this](bool) { Write(); });
}

void WatchStream::OnCancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (phase_ == Phase::kPausing) pause_.Cancel();
}

void WatchStream::FinishLocked(const grpc::Status& status) {
  if (phase_ == Phase::kFinished) return;
  phase_ = Phase::kFinished;
  Finish(status);
}

void WatchStream::OnDone() {
  // Whoever called Finish may still hold the lock.
  mutex_.lock();
  mutex_.unlock();
  delete this;
}

}  // namespace tercet::scheduler
