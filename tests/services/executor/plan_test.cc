#include "services/executor/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tercet/v1/executor.pb.h"

namespace tercet::executor {
namespace {

constexpr PlanLimits kLimits = {.vocabulary_size = 100, .context_length = 64, .max_rows = 16, .max_sequences = 2};

v1::Plan GoodPlan() {
  v1::Plan plan;
  plan.set_plan_id(1);
  v1::OpenSequence* open = plan.add_open();
  open->set_handle(7);
  for (uint32_t id : {1, 2, 99}) open->add_token_ids(id);
  open->set_prompt_length(2);
  open->mutable_sampling()->set_temperature(.5);
  open->mutable_sampling()->set_seed(~uint64_t{0});
  open->mutable_stop()->set_max_new_tokens(10);
  open->mutable_stop()->add_stop_token_ids(5);
  v1::PlanRow* row = plan.add_rows();
  row->set_handle(7);
  row->set_prefill_tokens(16);
  return plan;
}

std::string Refusal(const std::function<void(v1::Plan&)>& change) {
  v1::Plan plan = GoodPlan();
  change(plan);
  const absl::Status status = ParsePlan(plan, kLimits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ParsePlan, CarriesEveryField) {
  absl::StatusOr<Plan> plan = ParsePlan(GoodPlan(), kLimits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->id, 1u);
  EXPECT_THAT(plan->open[0].token_ids, testing::ElementsAre(1, 2, 99));
  EXPECT_EQ(plan->open[0].prompt_length, 2u);
  EXPECT_EQ(plan->open[0].sampling.seed, ~uint64_t{0});
  EXPECT_EQ(plan->open[0].sampling.top_p, 1.0f);
  EXPECT_THAT(plan->open[0].stop.stop_token_ids, testing::ElementsAre(5));
  EXPECT_EQ(plan->rows[0].prefill_tokens, 16u);
}

TEST(ParsePlan, NamesTheFieldThatIsOutOfRange) {
  using testing::HasSubstr;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {-0.1f, 101.0f, nan, infinity}) {
    EXPECT_THAT(Refusal([&](v1::Plan& p) { p.mutable_open(0)->mutable_sampling()->set_temperature(bad); }),
                HasSubstr("sampling.temperature"));
  }
  for (float bad : {0.0f, -1.0f, 1.1f, nan}) {
    EXPECT_THAT(Refusal([&](v1::Plan& p) { p.mutable_open(0)->mutable_sampling()->set_top_p(bad); }),
                HasSubstr("sampling.top_p"));
  }
  for (float bad : {-2.0f, 1.1f, nan}) {
    EXPECT_THAT(Refusal([&](v1::Plan& p) { p.mutable_open(0)->mutable_sampling()->set_min_p(bad); }),
                HasSubstr("sampling.min_p"));
  }
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->mutable_sampling()->set_top_k(0x80000000u); }),
              HasSubstr("sampling.top_k"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.set_plan_id(0); }), HasSubstr("plan_id"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.set_free_steps(4097); }), HasSubstr("free_steps"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->set_handle(0); }), HasSubstr("handle"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->set_token_ids(1, 100); }), HasSubstr("token_ids[1] is 100"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->clear_token_ids(); }), HasSubstr("between 1 and 64"));
  EXPECT_THAT(Refusal([](v1::Plan& p) {
                for (int i = 0; i < 64; ++i) p.mutable_open(0)->add_token_ids(1);
              }),
              HasSubstr("67 ids"));
  for (uint32_t bad : {0u, 4u}) {
    EXPECT_THAT(Refusal([&](v1::Plan& p) { p.mutable_open(0)->set_prompt_length(bad); }), HasSubstr("prompt_length"));
  }
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->mutable_stop()->set_max_new_tokens(65); }),
              HasSubstr("max_new_tokens"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->mutable_stop()->add_stop_token_ids(100); }),
              HasSubstr("stop_token_ids[1]"));
  EXPECT_THAT(Refusal([](v1::Plan& p) {
                for (int i = 0; i < 64; ++i) p.mutable_open(0)->mutable_stop()->add_stop_token_ids(1);
              }),
              HasSubstr("stop_token_ids has 65"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->mutable_logprobs()->set_top(21); }), HasSubstr("logprobs.top"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_open(0)->set_cache_salt(std::string(257, 'x')); }),
              HasSubstr("cache_salt"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_rows(0)->set_handle(0); }), HasSubstr("rows[0]"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_rows(0)->set_prefill_tokens(17); }), HasSubstr("prefill_tokens"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { p.mutable_rows(0)->add_draft_token_ids(100); }), HasSubstr("draft_token_ids[0]"));
}

TEST(ParsePlan, RefusesDuplicatesAndMoreThanTheExecutorHolds) {
  using testing::HasSubstr;
  EXPECT_THAT(Refusal([](v1::Plan& p) { *p.add_open() = p.open(0); }), HasSubstr("opened twice"));
  EXPECT_THAT(Refusal([](v1::Plan& p) { *p.add_rows() = p.rows(0); }), HasSubstr("two rows"));
  EXPECT_THAT(Refusal([](v1::Plan& p) {
                for (int i = 0; i < 2; ++i) *p.add_open() = p.open(0);
              }),
              HasSubstr("opens 3 sequences"));
  EXPECT_THAT(Refusal([](v1::Plan& p) {
                for (int i = 0; i < 16; ++i) p.mutable_rows(0)->add_draft_token_ids(1);
              }),
              HasSubstr("17 rows"));
}

}  // namespace
}  // namespace tercet::executor
