#include "services/executor/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tercet/v1/executor.pb.h"

namespace tercet::executor {
namespace {

using testing::ElementsAre;

StepResults Step(uint64_t handle, uint32_t first_index, std::vector<uint32_t> ids) {
  StepResults results{.epoch = 1, .plan_id = 2};
  results.rows.push_back({.handle = handle, .first_index = first_index, .token_ids = std::move(ids), .drafted_tokens = 2,
                          .accepted_tokens = 1});
  results.steps.push_back({.rows = 1});
  return results;
}

TEST(Merge, JoinsRowsOfASequenceInOrder) {
  StepResults results = Step(5, 10, {1, 2});
  results.rows[0].cached_tokens = 16;
  StepResults later = Step(5, 12, {3});
  later.rows[0].finish = FinishReason::kStop;
  later.free_pages = 9;
  later.idle = true;
  Merge(results, std::move(later));
  ASSERT_EQ(results.rows.size(), 1u);
  EXPECT_EQ(results.rows[0].first_index, 10u);
  EXPECT_THAT(results.rows[0].token_ids, ElementsAre(1, 2, 3));
  EXPECT_EQ(results.rows[0].cached_tokens, 16u);
  EXPECT_EQ(results.rows[0].finish, FinishReason::kStop);
  EXPECT_EQ(results.rows[0].drafted_tokens, 4u);
  EXPECT_EQ(results.rows[0].accepted_tokens, 2u);
  EXPECT_EQ(results.steps.size(), 2u);
  EXPECT_EQ(results.free_pages, 9u);
  EXPECT_TRUE(results.idle);
}

TEST(Merge, KeepsOtherSequencesAndReusedHandlesApart) {
  StepResults results = Step(5, 0, {1});
  results.rows[0].finish = FinishReason::kLength;
  Merge(results, Step(6, 0, {7}));
  Merge(results, Step(5, 0, {9}));
  Merge(results, Step(5, 1, {10}));
  ASSERT_EQ(results.rows.size(), 3u);
  EXPECT_THAT(results.rows[0].token_ids, ElementsAre(1));
  EXPECT_EQ(results.rows[1].handle, 6u);
  EXPECT_THAT(results.rows[2].token_ids, ElementsAre(9, 10));
}

TEST(Merge, TakesIndexesFromTheFirstRowThatHasTokens) {
  StepResults results = Step(5, 0, {});
  results.rows[0].prompt_first_index = 0;
  StepResults later = Step(5, 3, {8});
  later.rows[0].prompt_first_index = 17;
  later.rows[0].prompt_logprobs.push_back({.logprob = -1});
  Merge(results, std::move(later));
  EXPECT_EQ(results.rows[0].first_index, 3u);
  EXPECT_EQ(results.rows[0].prompt_first_index, 17u);
}

TEST(ToMessage, CarriesEveryField) {
  StepResults results = Step(5, 3, {7});
  RowResult& row = results.rows[0];
  row.cached_tokens = 0;
  row.computed_tokens = 20;
  row.logprobs.push_back({.logprob = -.5f, .top = {{.id = 9, .logprob = -.25f}}});
  row.prompt_first_index = 1;
  row.prompt_logprobs.push_back({.logprob = -2});
  row.error = absl::InternalError("a sentence");
  row.out_of_pages = true;
  row.pages = 2;
  results.free_pages = 11;
  results.cached_pages = 12;
  v1::StepResults message;
  ToMessage(results, &message);
  EXPECT_EQ(message.lease_epoch(), 1u);
  EXPECT_EQ(message.plan_id(), 2u);
  const v1::RowResult& out = message.rows(0);
  EXPECT_EQ(out.handle(), 5u);
  EXPECT_TRUE(out.has_cached_tokens());
  EXPECT_EQ(out.computed_tokens(), 20u);
  EXPECT_EQ(out.first_index(), 3u);
  EXPECT_THAT(out.token_ids(), ElementsAre(7));
  EXPECT_EQ(out.logprobs(0).logprob(), -.5f);
  EXPECT_EQ(out.logprobs(0).top(0).token_id(), 9u);
  EXPECT_EQ(out.prompt_logprobs(0).logprob(), -2);
  EXPECT_EQ(out.finish_reason(), v1::FINISH_REASON_UNSPECIFIED);
  EXPECT_EQ(out.error_code(), 13);
  EXPECT_EQ(out.error_message(), "a sentence");
  EXPECT_TRUE(out.out_of_pages());
  EXPECT_EQ(out.pages(), 2u);
  EXPECT_EQ(message.free_pages(), 11u);
  EXPECT_EQ(message.cached_pages(), 12u);
}

TEST(ApproximateBytes, IsAtLeastTheSizeOfTheMessage) {
  StepResults results = Step(~uint64_t{0}, ~0u, std::vector<uint32_t>(100, ~0u));
  for (int i = 0; i < 100; ++i) {
    results.rows[0].logprobs.push_back({.logprob = -1, .top = std::vector<TokenLogprob>(20, {.id = ~0u, .logprob = -1})});
  }
  v1::StepResults message;
  ToMessage(results, &message);
  EXPECT_GE(ApproximateBytes(results), message.ByteSizeLong());
}

}  // namespace
}  // namespace tercet::executor
