// What the scheduler needs of an executor's connection; a fake one in tests, gRPC in grpc_executor_link.h.
#pragma once

#include "tercet/v1/executor.pb.h"

namespace tercet::scheduler {

class ExecutorLink {
 public:
  virtual ~ExecutorLink() = default;
  // Sends a plan; never blocks. A plan sent on a broken link is dropped: the link reports the loss by itself.
  virtual void Send(v1::Plan plan) = 0;
};

}  // namespace tercet::scheduler
