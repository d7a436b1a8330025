#include "services/executor/forward/worker_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace tercet::executor {
namespace {

TEST(WorkerTeam, EveryWorkerRunsTheJobOnce) {
  for (int size : {1, 2, 3, 8}) {
    WorkerTeam team(size);
    EXPECT_GE(team.workers(), 1);
    EXPECT_LE(team.workers(), size);
    for (int round = 0; round < 100; ++round) {
      std::vector<int> calls(team.workers());
      team.Run([&](int worker, int workers) {
        EXPECT_EQ(workers, team.workers());
        ++calls[worker];
      });
      EXPECT_EQ(calls, std::vector<int>(team.workers(), 1));
    }
  }
}

TEST(WorkerTeam, TheCallerIsWorkerZero) {
  WorkerTeam team(3);
  std::thread::id zero;
  team.Run([&](int worker, int) {
    if (worker == 0) zero = std::this_thread::get_id();
  });
  EXPECT_EQ(zero, std::this_thread::get_id());
}

TEST(WorkerTeam, AfterABarrierEveryoneSeesWhatWasWrittenBefore) {
  for (int size : {2, 3, 5}) {
    WorkerTeam team(size);
    std::vector<int64_t> written(team.workers());
    bool right = true;
    team.Run([&](int worker, int workers) {
      for (int phase = 1; phase <= 200; ++phase) {
        written[worker] = phase;
        team.Barrier(worker);
        for (int other = 0; other < workers; ++other) {
          if (written[other] != phase) right = false;
        }
        team.Barrier(worker);
      }
    });
    EXPECT_TRUE(right) << size << " workers";
  }
}

TEST(WorkerTeam, WakesUpAfterItHasSlept) {
  WorkerTeam team(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    std::atomic<int> calls{0};
    team.Run([&](int, int) { ++calls; });
    EXPECT_EQ(calls, team.workers());
  }
}

TEST(WorkerTeam, CostsNothingWhileItSleeps) {
  WorkerTeam team(2);
  team.Run([](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20);
}

TEST(WorkerTeam, TeamsComeAndGoBesideEachOther) {
  for (int round = 0; round < 20; ++round) {
    WorkerTeam first(2), second(3);
    std::atomic<int> calls{0};
    first.Run([&](int, int) { ++calls; });
    second.Run([&](int, int) { ++calls; });
    EXPECT_EQ(calls, first.workers() + second.workers());
  }
}

TEST(WorkerTeam, MayBeDrivenFromAnyOneThreadAtATime) {
  WorkerTeam team(2);
  std::atomic<int> calls{0};
  for (int i = 0; i < 10; ++i) {
    std::thread([&] { team.Run([&](int, int) { ++calls; }); }).join();
  }
  EXPECT_EQ(calls, 10 * team.workers());
}

TEST(Share, SharesCoverEverythingOnceAndAreEven) {
  for (int workers : {1, 2, 3, 7}) {
    for (int64_t count : {0, 1, 5, 36, 3072}) {
      int64_t next = 0;
      for (int worker = 0; worker < workers; ++worker) {
        Share share = ShareOf(count, worker, workers);
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.end - share.begin, count / workers + 1);
        next = share.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace tercet::executor
