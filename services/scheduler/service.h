// tercet.v1.Scheduler over gRPC: streams in, the Scheduler behind one mutex, streams out.
//
// Lock order: the service's mutex, then a stream's. A stream never calls the service while it holds its own.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "services/scheduler/grpc_executor_link.h"
#include "services/scheduler/scheduler.h"
#include "tercet/v1/scheduler.grpc.pb.h"

namespace tercet::scheduler {

struct ServiceOptions {
  SchedulerOptions scheduler;
  // What Drain waits for at most when the caller does not say, in milliseconds.
  uint32_t drain_ms = 30000;
};

class SchedulerService final : public v1::Scheduler::CallbackService {
 public:
  // `on_ready` is told when the service begins to take requests (an executor is attached) and when it ceases to (the last one
  // is lost, or it drains), never from the destructor. It must not call back.
  SchedulerService(const ServiceOptions& options, SchedulerMetrics& metrics, std::function<void(bool)> on_ready);
  // The server must have been shut down.
  ~SchedulerService() override;

  // Starts to look for the executors at these addresses.
  void Connect(const std::vector<std::string>& addresses);

  // Refuses new requests from now on.
  void StartDraining();
  // Waits until no request is left and all streams have ended; false if some have not after `timeout_ms`.
  bool WaitUntilIdle(double timeout_ms);

  grpc::ServerWriteReactor<v1::GenerateEvent>* Generate(grpc::CallbackServerContext* context,
                                                        const v1::GenerateRequest* request) override;
  grpc::ServerWriteReactor<v1::SchedulerState>* Watch(grpc::CallbackServerContext* context,
                                                      const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const v1::DrainSchedulerRequest* request,
                                  v1::DrainSchedulerReply* reply) override;

  // For the streams.
  absl::StatusOr<RequestId> Submit(const v1::GenerateRequest& spec, RequestSink* sink, double* retry_after_ms);
  void Cancel(RequestId id);
  void OnStreamDone();
  v1::SchedulerState Describe();
  size_t OpenStreams();

 private:
  void RunTimers();
  void WakeTimersLocked();
  void ReportReadinessLocked();

  const uint32_t drain_ms_;
  SteadyClock clock_;
  std::mutex mutex_;
  std::condition_variable timer_;  // something is due earlier than the timer thread believes
  std::condition_variable idle_;   // the last stream has ended
  Scheduler scheduler_;
  std::function<void(bool)> on_ready_;
  bool ready_ = false;
  bool stopping_ = false;
  size_t streams_ = 0;
  double wake_ms_ = 0;  // when the timer thread wakes up by itself
  std::vector<std::unique_ptr<GrpcExecutorLink>> links_;
  std::thread timers_;
};

}  // namespace tercet::scheduler
