// Requests that wait for an executor: highest priority first, then in order of arrival.
//
// A request that comes back (preempted, or its executor was lost) keeps its arrival, so it is ahead of those that came
// later. Bounds are Admission's matter. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "services/scheduler/request.h"

namespace tercet::scheduler {

class RequestQueue {
 public:
  void Push(Request* request) {
    queue_.emplace(KeyOf(*request), request);
    tokens_ += request->known_tokens();
  }

  void Remove(Request* request) {
    if (queue_.erase(KeyOf(*request)) > 0) tokens_ -= request->known_tokens();
  }

  bool empty() const { return queue_.empty(); }
  size_t size() const { return queue_.size(); }
  // Tokens to prefill, of all that wait.
  uint64_t tokens() const { return tokens_; }

  // In the order in which they are to run. Removing one leaves the iterators to others valid.
  auto begin() const { return queue_.begin(); }
  auto end() const { return queue_.end(); }

 private:
  using Key = std::pair<int32_t, uint64_t>;  // -priority, arrival
  static Key KeyOf(const Request& request) { return {-request.spec.priority(), request.arrival}; }

  uint64_t tokens_ = 0;
  std::map<Key, Request*> queue_;
};

}  // namespace tercet::scheduler
