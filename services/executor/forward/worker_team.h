// The threads that compute, walking in step: one job runs on all of them, with barriers inside.
//
// The team lives in a oneTBB task arena, whose threads it occupies for as long as it exists; oneTBB does not promise how many
// run at a time, so the constructor waits (2 s at most) and then closes the team at the members that have come. Members wait for
// the next job spinning for a while (a job follows the last within microseconds while a plan runs) and then sleep.
//
// The thread that calls Run is worker 0. One thread at a time may call Run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace tercet::executor {

class WorkerTeam {
 public:
  // `workers` ≥ 1.
  explicit WorkerTeam(int workers);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int workers() const { return workers_; }

  // Calls job(worker, workers) on every worker and returns when all have returned. No allocation.
  template <typename Job>
  void Run(Job&& job) {
    using Callable = std::remove_reference_t<Job>;
    RunJob([](void* context, int worker, int workers) { (*static_cast<Callable*>(context))(worker, workers); },
           const_cast<void*>(static_cast<const void*>(&job)));
  }

  // Inside a job: returns when every worker has called it. What they wrote before is visible to all afterwards.
  void Barrier(int worker);

 private:
  using JobFunction = void (*)(void* context, int worker, int workers);
  struct alignas(128) Line {
    std::atomic<uint64_t> value{0};
  };
  struct Arena;

  void RunJob(JobFunction function, void* context);
  void Serve(int worker);

  int workers_ = 1;
  JobFunction function_ = nullptr;
  void* context_ = nullptr;
  bool stopping_ = false;

  Line job_;      // number of the job; workers wait for it to grow
  Line parked_;   // workers that sleep
  Line release_;  // phase that the barrier has reached
  Line left_;     // members that have gone, at the end
  std::unique_ptr<Line[]> arrived_;  // per worker: phases it has arrived at
  std::unique_ptr<Line[]> done_;     // per worker: number of the last job it has done
  std::unique_ptr<Arena> arena_;
};

// [begin, end) of `count` items for one of `workers`: contiguous, equal to within one, the same for every call.
struct Share {
  int64_t begin, end;
};
inline Share ShareOf(int64_t count, int worker, int workers) {
  return {count * worker / workers, count * (worker + 1) / workers};
}

}  // namespace tercet::executor
