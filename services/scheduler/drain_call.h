// One Drain call: answers when no stream is left, or at its timeout. Deletes itself. Thread-safe.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>

#include "tercet/v1/scheduler.pb.h"

namespace tercet::scheduler {

class SchedulerService;

class DrainCall final : public grpc::ServerUnaryReactor {
 public:
  DrainCall(SchedulerService& service, uint32_t timeout_ms, v1::DrainSchedulerReply* reply);

  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  ~DrainCall() override = default;
  void Look();

  SchedulerService& service_;
  v1::DrainSchedulerReply* const reply_;
  const size_t at_start_;
  const std::chrono::steady_clock::time_point until_;
  std::atomic<bool> cancelled_{false};
  grpc::Alarm again_;
};

}  // namespace tercet::scheduler
