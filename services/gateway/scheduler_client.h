// The scheduler service, as seen by requests. Callbacks run on the strand that was given. Thread-safe.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/status.h>
#include <absl/time/time.h>
#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/gateway/call.h"
#include "services/gateway/http/strand.h"
#include "tercet/v1/scheduler.pb.h"

namespace tercet::gateway {

class SchedulerClient {
 public:
  using OnEvents = absl::AnyInvocable<void(std::vector<v1::GenerateEvent>)>;
  // How the stream ended; the trailer retry-after-ms is attached to the status (api_error.h). OK says only that the
  // scheduler closed the stream properly.
  using OnEnd = absl::AnyInvocable<void(absl::Status)>;

  static std::shared_ptr<SchedulerClient> Create(std::shared_ptr<grpc::Channel> channel);
  virtual ~SchedulerClient() = default;

  // Starts a stream. `events` gets all that has arrived since it was last called, then `end` is called once.
  virtual std::shared_ptr<Call> Generate(v1::GenerateRequest request, absl::Time deadline, std::shared_ptr<Strand> strand,
                                         OnEvents events, OnEnd end) = 0;

  // There is a connection right now.
  virtual bool Connected() = 0;

  // Follows the scheduler's state from now on; from then on Latest() is the state that it last told, empty while it cannot
  // be reached.
  virtual void StartWatching() = 0;
  virtual std::optional<v1::SchedulerState> Latest() const = 0;
};

}  // namespace tercet::gateway
