// tercet.v1.Scheduler over gRPC: streams in, the Scheduler behind one mutex, streams out.
//
// Lock order: the service's mutex, then a stream's. A stream never calls the scheduler while it holds its own.
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

class SchedulerService final : public v1::Scheduler::CallbackService {
 public:
  // `on_ready(true|false)` is called when the first executor is attached and when the last one is lost.
  SchedulerService(const SchedulerOptions& options, SchedulerMetrics* metrics, std::function<void(bool)> on_ready);
  ~SchedulerService() override;

  // Starts to look for the executors at these addresses.
  void Connect(const std::vector<std::string>& addresses);

  // Refuses new requests from now on.
  void StartDraining();
  // Waits until no request is left; false if some are after `timeout_ms`.
  bool WaitUntilIdle(double timeout_ms);

  grpc::ServerWriteReactor<v1::GenerateEvent>* Generate(grpc::CallbackServerContext* context,
                                                        const v1::GenerateRequest* request) override;
  grpc::ServerWriteReactor<v1::SchedulerState>* Watch(grpc::CallbackServerContext* context,
                                                      const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const v1::DrainSchedulerRequest* request,
                                  v1::DrainSchedulerReply* reply) override;

 private:
  class GenerateStream;
  class WatchStream;
  class DrainCall;

  void RunTimers();
  void ReportReadiness();
  v1::SchedulerState Describe();
  size_t Unfinished();

  SteadyClock clock_;
  std::mutex mutex_;
  std::condition_variable work_;
  Scheduler scheduler_;
  std::function<void(bool)> on_ready_;
  bool ready_ = false;
  bool stopping_ = false;
  std::vector<std::unique_ptr<GrpcExecutorLink>> links_;
  std::thread timers_;
};

}  // namespace tercet::scheduler
