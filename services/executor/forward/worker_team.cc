#include "services/executor/forward/worker_team.h"

#include <immintrin.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace tercet::executor {
namespace {

using Clock = std::chrono::steady_clock;

// A pause is about 20 ns: after some 20 µs of waiting for another worker it has probably lost its core, so give up ours.
constexpr int kSpinsBeforeYield = 1024;
// How long a worker waits awake for the next job; the gap between two steps is far shorter.
constexpr auto kAwake = std::chrono::microseconds(200);
constexpr auto kGathering = std::chrono::seconds(2);

template <typename Condition>
void SpinUntil(Condition reached) {
  for (int spins = 0; !reached(); ++spins) {
    if (spins < kSpinsBeforeYield) {
      _mm_pause();
    } else {
      sched_yield();
    }
  }
}

// oneTBB gives a process as many threads as the lowest of its limits says, by default the number of cores; so one limit is held
// here, for all teams together. With fewer threads than its teams want, a team would have to wait for another one's end.
class Threads {
 public:
  explicit Threads(int workers) : workers_(workers) { Change(workers); }
  ~Threads() { Change(-workers_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  static void Change(int workers) {
    static std::mutex mutex;
    static size_t total = 1;
    static std::optional<tbb::global_control> limit;
    std::lock_guard lock(mutex);
    total += workers;
    limit.reset();
    limit.emplace(tbb::global_control::max_allowed_parallelism, std::max<size_t>(total, tbb::info::default_concurrency()));
  }

  const int workers_;
};

// Who has come. Outlives the team, for tasks that start when it is gone.
struct Roster {
  // Members, the owner included; negative once the team is closed.
  std::atomic<int> members{1};
};

}  // namespace

struct WorkerTeam::Arena {
  explicit Arena(int workers) : threads(workers), tasks(workers, /*reserved_for_masters=*/1) {}

  Threads threads;
  tbb::task_arena tasks;
};

WorkerTeam::WorkerTeam(int workers)
    : arrived_(std::make_unique<Line[]>(workers)), done_(std::make_unique<Line[]>(workers)) {
  if (workers == 1) return;
  arena_ = std::make_unique<Arena>(workers);
  auto roster = std::make_shared<Roster>();
  for (int i = 1; i < workers; ++i) {
    arena_->tasks.enqueue([this, roster] {
      int member = roster->members.load();
      do {
        if (member < 0) return;  // too late; the team may be gone
      } while (!roster->members.compare_exchange_weak(member, member + 1));
      Serve(member);
      left_.value.fetch_add(1);
    });
  }
  auto until = Clock::now() + kGathering;
  int members;
  while ((members = roster->members.load()) < workers && Clock::now() < until) std::this_thread::yield();
  while (!roster->members.compare_exchange_weak(members, -members)) {
  }
  workers_ = members;
}

WorkerTeam::~WorkerTeam() {
  stopping_ = true;
  job_.value.fetch_add(1);
  job_.value.notify_all();
  SpinUntil([&] { return left_.value.load() == static_cast<uint64_t>(workers_ - 1); });
}

void WorkerTeam::RunJob(JobFunction function, void* context) {
  if (workers_ == 1) {
    function(context, 0, 1);
    return;
  }
  function_ = function;
  context_ = context;
  uint64_t job = job_.value.load(std::memory_order_relaxed) + 1;
  // Sequentially consistent, as is the worker's step from `parked_` to sleep: one of the two sees the other.
  job_.value.store(job);
  if (parked_.value.load() > 0) job_.value.notify_all();
  function(context, 0, workers_);
  for (int worker = 1; worker < workers_; ++worker) {
    SpinUntil([&] { return done_[worker].value.load(std::memory_order_acquire) == job; });
  }
}

void WorkerTeam::Serve(int worker) {
  uint64_t seen = 0;
  while (true) {
    auto until = Clock::now() + kAwake;
    int spins = 0;
    while (job_.value.load(std::memory_order_acquire) == seen) {
      _mm_pause();
      if (++spins % 64 != 0) continue;
      if (spins > kSpinsBeforeYield) sched_yield();
      if (Clock::now() < until) continue;
      parked_.value.fetch_add(1);
      job_.value.wait(seen);
      parked_.value.fetch_sub(1);
    }
    seen = job_.value.load(std::memory_order_acquire);
    if (stopping_) return;
    function_(context_, worker, workers_);
    done_[worker].value.store(seen, std::memory_order_release);
  }
}

void WorkerTeam::Barrier(int worker) {
  if (workers_ == 1) return;
  uint64_t phase = arrived_[worker].value.load(std::memory_order_relaxed) + 1;
  arrived_[worker].value.store(phase, std::memory_order_release);
  if (worker == 0) {
    for (int other = 1; other < workers_; ++other) {
      SpinUntil([&] { return arrived_[other].value.load(std::memory_order_acquire) >= phase; });
    }
    release_.value.store(phase, std::memory_order_release);
  } else {
    SpinUntil([&] { return release_.value.load(std::memory_order_acquire) >= phase; });
  }
}

}  // namespace tercet::executor
