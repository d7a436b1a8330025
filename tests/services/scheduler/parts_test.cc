#include <gtest/gtest.h>

#include "services/scheduler/admission.h"
#include "services/scheduler/cost_model.h"
#include "services/scheduler/lease.h"
#include "services/scheduler/page_budget.h"
#include "services/scheduler/prefix_map.h"
#include "services/scheduler/router.h"

namespace tercet::scheduler {
namespace {

// ---- Lease

TEST(Lease, EpochsGrowWithEveryClaim) {
  Lease lease;
  EXPECT_EQ(lease.Claim(0), 1u);
  EXPECT_EQ(lease.Claim(0), 2u);
}

TEST(Lease, NeverTakesAnExecutorFromSomebodyElse) {
  Lease lease;
  EXPECT_EQ(lease.Claim(7), std::nullopt);
  EXPECT_EQ(lease.Claim(0), 8u) << "an orphan is claimed above every epoch seen";
}

TEST(Lease, TakesBackWhatItsOwnBrokenStreamStillHolds) {
  Lease lease;
  EXPECT_EQ(lease.Claim(0), 1u);
  EXPECT_EQ(lease.Claim(1), 2u);
  EXPECT_EQ(lease.Claim(3), std::nullopt);
}

TEST(Lease, AnEpochAtTheEndOfItsRangeIsNotClaimed) {
  Lease lease;
  EXPECT_EQ(lease.Claim(~uint64_t{0}), std::nullopt);
  EXPECT_EQ(lease.Claim(0), std::nullopt);
}

// ---- PageBudget

TEST(PageBudget, RoundsTokensUpToPages) {
  PageBudget budget;
  budget.Reset(10, 16);
  EXPECT_EQ(budget.PagesFor(0), 0u);
  EXPECT_EQ(budget.PagesFor(1), 1u);
  EXPECT_EQ(budget.PagesFor(16), 1u);
  EXPECT_EQ(budget.PagesFor(17), 2u);
}

TEST(PageBudget, GivesWhatIsWantedWhatIsLeftOrNothing) {
  PageBudget budget;
  budget.Reset(10, 16);
  EXPECT_EQ(budget.Raise(0, 2, 6), 6u);
  EXPECT_EQ(budget.left(), 4u);
  EXPECT_EQ(budget.Raise(0, 3, 8), 4u) << "less than wanted, enough to go on";
  EXPECT_EQ(budget.left(), 0u);
  EXPECT_EQ(budget.Raise(6, 7, 9), 6u) << "not even the needed one: unchanged";
  budget.Release(4);
  EXPECT_EQ(budget.Raise(6, 11, 12), 6u);
  EXPECT_EQ(budget.Raise(6, 7, 9), 9u);
  EXPECT_EQ(budget.left(), 1u);
}

// ---- CostModel

TEST(CostModel, KnowsNothingAtFirst) {
  CostModel cost;
  EXPECT_EQ(cost.StepMs(1), 0);
  EXPECT_EQ(cost.PrefillMs(1000, 512), 0);
}

TEST(CostModel, InterpolatesBetweenWhatItSawAndExtrapolatesBeyond) {
  CostModel cost;
  cost.Observe(1, 1);
  cost.Observe(128, 20);
  EXPECT_EQ(cost.StepMs(1), 1);
  EXPECT_EQ(cost.StepMs(128), 20);
  EXPECT_GT(cost.StepMs(64), 1);
  EXPECT_LT(cost.StepMs(64), 20);
  EXPECT_EQ(cost.StepMs(256), 40);
  EXPECT_EQ(cost.PrefillMs(256, 128), 40);
}

TEST(CostModel, FollowsAChange) {
  CostModel cost;
  for (int i = 0; i < 10; ++i) cost.Observe(1, 1);
  for (int i = 0; i < 200; ++i) cost.Observe(1, 3);
  EXPECT_NEAR(cost.StepMs(1), 3, 0.01);
}

TEST(CostModel, IgnoresWhatCannotBe) {
  CostModel cost;
  cost.Observe(0, 5);
  cost.Observe(1, -1);
  cost.Observe(1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(cost.StepMs(1), 0);
  cost.Observe(0xffffffffu, 5);
  EXPECT_GT(cost.StepMs(1), 0);
}

// ---- PrefixMap

std::vector<uint64_t> ChainOf(const std::string& salt, std::vector<uint32_t> ids) {
  return PrefixMap::Chain(salt, ids.data(), ids.size(), 4);
}

TEST(PrefixMap, MatchesTheCommonFullPages) {
  PrefixMap map(100);
  map.Insert(ChainOf("", {1, 2, 3, 4, 5, 6, 7, 8, 9}), 1);
  EXPECT_EQ(map.Match(ChainOf("", {1, 2, 3, 4, 5, 6, 7, 8, 9}), 1), 2u);
  EXPECT_EQ(map.Match(ChainOf("", {1, 2, 3, 4, 0, 6, 7, 8}), 1), 1u);
  EXPECT_EQ(map.Match(ChainOf("", {0, 2, 3, 4, 5, 6, 7, 8}), 1), 0u) << "a page counts with all before it";
  EXPECT_EQ(map.Match(ChainOf("", {1, 2, 3}), 1), 0u);
  EXPECT_EQ(map.Match(ChainOf("", {1, 2, 3, 4}), 2), 0u) << "another executor";
  EXPECT_EQ(map.Match(ChainOf("salt", {1, 2, 3, 4}), 1), 0u) << "another salt";
}

TEST(PrefixMap, IsCappedAndTheOldestLeaveFirst) {
  PrefixMap map(2);
  map.Insert(ChainOf("", {1, 1, 1, 1}), 0);
  map.Insert(ChainOf("", {2, 2, 2, 2}), 0);
  map.Insert(ChainOf("", {1, 1, 1, 1}), 0);  // used again
  map.Insert(ChainOf("", {3, 3, 3, 3}), 0);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.Match(ChainOf("", {1, 1, 1, 1}), 0), 1u);
  EXPECT_EQ(map.Match(ChainOf("", {2, 2, 2, 2}), 0), 0u);
}

TEST(PrefixMap, ForgetsAnExecutor) {
  PrefixMap map(100);
  map.Insert(ChainOf("", {1, 1, 1, 1}), 0);
  map.Insert(ChainOf("", {2, 2, 2, 2}), 1);
  map.Purge(0);
  EXPECT_EQ(map.size(), 1u);
  EXPECT_EQ(map.Match(ChainOf("", {2, 2, 2, 2}), 1), 1u);
}

// ---- Admission

Request Waiting(uint64_t arrival, int tokens) {
  Request request;
  request.arrival = arrival;
  request.spec.mutable_prompt_token_ids()->Resize(tokens, 1);
  return request;
}

TEST(Admission, BoundsRequestsAndTokens) {
  Admission admission(2, 100);
  RequestQueue queue;
  Request a = Waiting(1, 60), b = Waiting(2, 60), c = Waiting(3, 10);
  EXPECT_TRUE(admission.Check(a, queue).ok());
  queue.Push(&a);
  EXPECT_EQ(admission.Check(b, queue).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(admission.Check(c, queue).ok());
  queue.Push(&c);
  EXPECT_EQ(admission.Check(c, queue).code(), absl::StatusCode::kResourceExhausted);
  queue.Remove(&a);
  queue.Remove(&c);
  EXPECT_EQ(queue.tokens(), 0u);
}

TEST(Admission, ARequestLargerThanTheBoundIsTakenWhenNobodyWaits) {
  Admission admission(2, 100);
  EXPECT_TRUE(admission.Check(Waiting(1, 500), RequestQueue()).ok());
}

TEST(Admission, PredictsTheWaitFromTheRateUnderLoad) {
  Admission admission(100, 1000);
  EXPECT_EQ(admission.PredictedWaitMs(5), 1000);
  for (int i = 1; i <= 20; ++i) admission.OnEnd(i * 200.0, /*waiting=*/3);
  EXPECT_EQ(admission.PredictedWaitMs(4), 1000);
  EXPECT_EQ(admission.PredictedWaitMs(9), 2000);
  EXPECT_EQ(admission.PredictedWaitMs(1000000), 60000);
  admission.OnEnd(100000, /*waiting=*/0);
  admission.OnEnd(200000, /*waiting=*/3);
  EXPECT_EQ(admission.PredictedWaitMs(4), 1000) << "idle times tell nothing about the rate";
}

// ---- Router

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    for (uint32_t i = 0; i < 2; ++i) {
      auto executor = std::make_unique<Executor>();
      executor->index = i;
      executor->membership = Membership::kAdmitted;
      executor->description.set_page_tokens(16);
      executor->description.set_total_pages(64);
      executor->description.set_max_rows(64);
      executor->description.set_max_sequences(8);
      executor->budget.Reset(64, 16);
      executor->cost.Observe(1, 2);
      executor->cost.Observe(512, 100);
      executors.push_back(std::move(executor));
    }
  }

  // Opens a sequence that has `prefill` prompt tokens to compute.
  void Load(uint32_t index, int prefill) {
    auto request = std::make_unique<Request>(Waiting(0, prefill));
    executors[index]->sequences.emplace(open.size() + 1, request.get());
    open.push_back(std::move(request));
  }

  Executors executors;
  std::vector<std::unique_ptr<Request>> open;
  Router router{512};
};

TEST_F(RouterTest, PrefersTheLessLoaded) {
  Load(0, 300);
  EXPECT_EQ(router.Choose(executors, Waiting(1, 100))->index, 1u);
}

TEST_F(RouterTest, GoesWhereThePrefixIsUntilThatCostsMore) {
  Request request = Waiting(1, 200);
  request.spec.mutable_stop()->set_max_new_tokens(10);
  uint32_t home = router.Choose(executors, request)->index;
  EXPECT_EQ(router.Choose(executors, request)->index, home);
  Load(home, 50);
  EXPECT_EQ(router.Choose(executors, request)->index, home) << "a cached prompt is worth a short wait";
  Load(home, 2000);
  EXPECT_NE(router.Choose(executors, request)->index, home) << "but not a long one";
}

TEST_F(RouterTest, ForgetsThePrefixesOfALostExecutor) {
  Request request = Waiting(1, 200);
  uint32_t home = router.Choose(executors, request)->index;
  router.Forget(home);
  Load(home, 16);
  EXPECT_NE(router.Choose(executors, request)->index, home);
}

TEST_F(RouterTest, LeavesOutWhoHasNoRoomOrTakesNothing) {
  Request request = Waiting(1, 100);
  executors[0]->membership = Membership::kLeaving;
  EXPECT_EQ(router.Choose(executors, request)->index, 1u);
  executors[1]->budget.Raise(0, 60, 60);
  Load(1, 1);
  EXPECT_EQ(router.Choose(executors, request), nullptr) << "7 pages are needed, 4 are left";
  EXPECT_TRUE(Router::CouldHold(*executors[1], request));
  EXPECT_FALSE(Router::CouldHold(*executors[0], request));
  EXPECT_FALSE(Router::CouldHold(*executors[1], Waiting(2, 64 * 16 + 1)));
}

TEST_F(RouterTest, KeepsAPageForEachOpenSequence) {
  executors[1]->membership = Membership::kAway;
  executors[0]->budget.Raise(0, 56, 56);
  Load(0, 1);
  EXPECT_EQ(router.Choose(executors, Waiting(1, 8 * 16)), nullptr);
  EXPECT_NE(router.Choose(executors, Waiting(1, 7 * 16)), nullptr);
}

}  // namespace
}  // namespace tercet::scheduler
