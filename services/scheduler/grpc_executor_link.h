// The scheduler's connection to one executor: finds it, takes its lease, carries plans and results, and comes back after a
// loss.
//
// Owns a channel of its own and a thread that connects, then sleeps while the stream lives. Results are handed over on
// gRPC's threads. Thread-safe.
#pragma once

#include <absl/status/status.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "services/scheduler/executor_link.h"
#include "services/scheduler/lease.h"
#include "tercet/v1/executor.pb.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace tercet::scheduler {

class GrpcExecutorLink {
 public:
  // Called on gRPC's or the link's thread, never two at a time for one link. `up` and `results` may refuse: the link is then
  // dropped and tried again later. The ExecutorLink given to `up` lives until the next `down` has returned.
  struct Events {
    std::function<absl::Status(uint64_t lease_epoch, const v1::ExecutorDescription&, ExecutorLink*)> up;
    std::function<absl::Status(const v1::StepResults&)> results;
    std::function<void(const std::string& problem)> down;
  };

  // `owner` names this scheduler in the executor's logs.
  GrpcExecutorLink(const std::string& address, const std::string& owner, Events events);
  // Gives the lease back by ending the stream.
  ~GrpcExecutorLink();

 private:
  class Stream;

  void Run();
  // One connection from beginning to end; returns why it ended. `served` is set once the executor was ours.
  std::string ConnectAndServe(Lease& lease, bool* served);
  absl::Status Describe(v1::ExecutorDescription* description);
  bool WaitMs(double ms);  // false when stopping

  const std::string address_;
  const std::string owner_;
  const Events events_;
  std::shared_ptr<grpc::Channel> channel_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  grpc::ClientContext* describing_ = nullptr;  // the call under way, for the destructor to cancel
  std::shared_ptr<Stream> stream_;
  std::thread thread_;
};

}  // namespace tercet::scheduler
