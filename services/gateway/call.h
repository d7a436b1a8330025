// A call to another service that is still running. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include <absl/time/time.h>

namespace tercet::gateway {

class Call {
 public:
  virtual ~Call() = default;
  // The service is told, its answer is no longer wanted. The call's callbacks may still come once.
  virtual void Cancel() = 0;
};

// What travels with every call of one HTTP request.
struct CallContext {
  std::string request_id;
  std::string traceparent;
  absl::Time deadline = absl::InfiniteFuture();
};

}  // namespace tercet::gateway
