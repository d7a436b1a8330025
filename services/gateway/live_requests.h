// The requests that are being answered, so that they can be ended when the gateway must stop before they are done.
// Thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <memory>
#include <mutex>

namespace tercet::gateway {

// A request that can be ended from outside. Thread-safe.
class LiveRequest {
 public:
  virtual ~LiveRequest() = default;
  // Ends the answer with `status`: as an HTTP error if nothing was sent yet, as an event of the stream otherwise.
  virtual void Abort(const absl::Status& status) = 0;
};

class LiveRequests {
 public:
  void Add(const std::shared_ptr<LiveRequest>& request) {
    std::lock_guard lock(mutex_);
    requests_[request.get()] = request;
  }
  void Remove(LiveRequest* request) {
    std::lock_guard lock(mutex_);
    requests_.erase(request);
  }
  void AbortAll(const absl::Status& status) {
    absl::flat_hash_map<LiveRequest*, std::weak_ptr<LiveRequest>> requests;
    {
      std::lock_guard lock(mutex_);
      requests = requests_;
    }
    for (auto& [key, weak] : requests) {
      if (auto request = weak.lock()) request->Abort(status);
    }
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return requests_.size();
  }

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<LiveRequest*, std::weak_ptr<LiveRequest>> requests_;
};

}  // namespace tercet::gateway
