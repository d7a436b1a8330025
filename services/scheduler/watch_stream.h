// One Watch stream: the scheduler's state at once, then every interval. Deletes itself. Thread-safe.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include <mutex>

#include "tercet/v1/scheduler.pb.h"

namespace tercet::scheduler {

class SchedulerService;

class WatchStream final : public grpc::ServerWriteReactor<v1::SchedulerState> {
 public:
  // `interval_ms`: 50 … 60000, 0 for 1000; anything else is refused.
  WatchStream(SchedulerService& service, uint32_t interval_ms);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Phase { kWriting, kPausing, kFinished };

  ~WatchStream() override = default;
  void Write();
  void FinishLocked(const grpc::Status& status);

  SchedulerService& service_;
  const uint32_t interval_ms_;
  std::mutex mutex_;
  Phase phase_ = Phase::kWriting;
  bool cancelled_ = false;
  grpc::Alarm pause_;
  v1::SchedulerState state_;
};

}  // namespace tercet::scheduler
