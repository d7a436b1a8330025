#include "services/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/services/scheduler/fake_executor.h"

namespace tercet::scheduler {
namespace {

class FakeClock : public Clock {
 public:
  double NowMs() const override { return now_ms; }
  double now_ms = 1000;
};

// Checks on the way that tokens are gapless and that nothing follows the end.
struct Client : RequestSink {
  void OnEvent(v1::GenerateEvent event) override {
    EXPECT_EQ(ends, 0);
    EXPECT_FALSE(finished.has_value());
    if (event.has_started()) ++starts;
    if (event.has_tokens()) {
      EXPECT_EQ(event.tokens().first_index(), first_index + tokens.size());
      tokens.insert(tokens.end(), event.tokens().token_ids().begin(), event.tokens().token_ids().end());
    }
    if (event.has_finished()) {
      EXPECT_EQ(starts, 1);
      finished = event.finished();
    }
  }
  void OnEnd(const absl::Status& s, double retry) override {
    ++ends;
    status = s;
    retry_after_ms = retry;
  }
  double retry_after_ms = 0;
  size_t first_index = 0;
  std::vector<uint32_t> tokens;
  int starts = 0;
  int ends = 0;
  absl::Status status;
  std::optional<v1::Finished> finished;
};

std::vector<uint32_t> Prompt(size_t length, uint32_t start = 1) {
  std::vector<uint32_t> ids(length);
  for (size_t i = 0; i < length; ++i) ids[i] = (start + static_cast<uint32_t>(i) * 7) % 1000;
  return ids;
}

v1::GenerateRequest Spec(const std::vector<uint32_t>& prompt, uint32_t max_new) {
  v1::GenerateRequest spec;
  spec.set_request_id("test");
  spec.set_vocabulary_fingerprint("fedcba9876543210");
  spec.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
  spec.mutable_stop()->set_max_new_tokens(max_new);
  return spec;
}

class SchedulerTest : public ::testing::Test {
 protected:
  void Start(int executors = 1, uint32_t pages = 64) {
    scheduler = std::make_unique<Scheduler>(options, clock, metrics);
    for (int i = 0; i < executors; ++i) {
      fakes.push_back(std::make_unique<FakeExecutor>(pages));
      ASSERT_EQ(scheduler->AddExecutor("fake-" + std::to_string(i)), static_cast<uint32_t>(i));
      Up(i);
    }
  }

  void Up(int i) { ASSERT_TRUE(scheduler->ExecutorUp(i, fakes[i]->epoch, fakes[i]->description, fakes[i].get()).ok()); }

  RequestId Submit(Client& client, const v1::GenerateRequest& spec) {
    double retry = 0;
    absl::StatusOr<RequestId> id = scheduler->Submit(spec, &client, &retry);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(0);
  }

  absl::Status Refusal(const v1::GenerateRequest& spec) {
    double retry = 0;
    return scheduler->Submit(spec, &refused, &retry).status();
  }

  // One step of every executor; false when all were idle.
  bool StepAll() {
    bool worked = false;
    for (size_t i = 0; i < fakes.size(); ++i) {
      v1::StepResults results;
      if (!fakes[i]->Step(&results)) continue;
      worked = true;
      EXPECT_TRUE(scheduler->ExecutorResults(static_cast<uint32_t>(i), results).ok());
    }
    clock.now_ms += 1;
    scheduler->Tick();
    return worked;
  }

  void RunToEnd() {
    for (int i = 0; i < 100000 && scheduler->unfinished_requests() > 0; ++i) StepAll();
    EXPECT_EQ(scheduler->unfinished_requests(), 0u);
    while (StepAll()) {
    }
    for (const auto& fake : fakes) EXPECT_EQ(fake->used_pages(), 0u) << "pages are back at their baseline";
  }

  telemetry::Metrics registry;
  SchedulerMetrics metrics{registry};
  SchedulerOptions options;
  FakeClock clock;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<std::unique_ptr<FakeExecutor>> fakes;
  Client refused;
};

TEST_F(SchedulerTest, AnswersARequestAndEndsItOnce) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(20), 10));
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(20), 10));
  EXPECT_EQ(client.starts, 1);
  EXPECT_EQ(client.ends, 1);
  EXPECT_TRUE(client.status.ok());
  EXPECT_EQ(client.finished->reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(client.finished->usage().prompt_tokens(), 20u);
  EXPECT_EQ(client.finished->usage().generated_tokens(), 10u);
}

TEST_F(SchedulerTest, AnswersDoNotDependOnNeighbours) {
  Start();
  std::vector<Client> clients(16);
  for (size_t i = 0; i < clients.size(); ++i) {
    Submit(clients[i], Spec(Prompt(10 + 3 * i, static_cast<uint32_t>(i)), 5 + static_cast<uint32_t>(i)));
    StepAll();
  }
  RunToEnd();
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].tokens, RightAnswer(Prompt(10 + 3 * i, static_cast<uint32_t>(i)), 5 + i));
  }
}

TEST_F(SchedulerTest, APromptLongerThanAStepIsPrefilledInChunks) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(300), 4));
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(300), 4));
}

TEST_F(SchedulerTest, ScoringAPromptGeneratesNothing) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(33), 0));
  RunToEnd();
  EXPECT_TRUE(client.tokens.empty());
  EXPECT_EQ(client.finished->usage().generated_tokens(), 0u);
}

TEST_F(SchedulerTest, ResumedRequestGoesOnBehindItsTokens) {
  Start();
  std::vector<uint32_t> answer = RightAnswer(Prompt(20), 12);
  v1::GenerateRequest spec = Spec(Prompt(20), 12);
  spec.mutable_resume_token_ids()->Add(answer.begin(), answer.begin() + 5);
  Client client;
  client.first_index = 5;
  Submit(client, spec);
  RunToEnd();
  EXPECT_EQ(client.tokens, std::vector<uint32_t>(answer.begin() + 5, answer.end()));
  EXPECT_EQ(client.finished->usage().generated_tokens(), 12u);
}

TEST_F(SchedulerTest, ShortOfPagesTheYoungestGivesWayAndAllAnswersAreRight) {
  Start(1, /*pages=*/12);
  std::vector<Client> clients(8);
  for (size_t i = 0; i < clients.size(); ++i) Submit(clients[i], Spec(Prompt(30, static_cast<uint32_t>(i)), 60));
  RunToEnd();
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].tokens, RightAnswer(Prompt(30, static_cast<uint32_t>(i)), 60));
    EXPECT_EQ(clients[i].starts, 1);
  }
  EXPECT_LE(fakes[0]->largest_use, 12u) << "the pool is never over-committed";
}

TEST_F(SchedulerTest, ASequenceThatFillsTheWholePoolEndsWithContext) {
  Start(1, /*pages=*/4);
  Client client;
  Submit(client, Spec(Prompt(40), 200));
  RunToEnd();
  EXPECT_EQ(client.finished->reason(), v1::FINISH_REASON_CONTEXT);
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(40), client.tokens.size()));
  EXPECT_GE(client.tokens.size(), 20u);
}

TEST_F(SchedulerTest, APromptLargerThanThePoolIsRefusedAtOnceAndBlocksNobody) {
  Start(1, /*pages=*/4);
  absl::Status status = Refusal(Spec(Prompt(100), 10));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("100 tokens, but the KV memory of an executor holds 64"));
  Client client;
  Submit(client, Spec(Prompt(10), 10));
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(10), 10));
}

TEST_F(SchedulerTest, CancelFreesPagesInQueuePrefillAndDecode) {
  Start(1, /*pages=*/24);
  for (int steps : {0, 1, 2, 8, 20}) {
    Client client, waiting;
    RequestId id = Submit(client, Spec(Prompt(200), 100));
    RequestId second = Submit(waiting, Spec(Prompt(300), 10));
    for (int i = 0; i < steps; ++i) StepAll();
    scheduler->Cancel(id);
    scheduler->Cancel(second);
    EXPECT_EQ(scheduler->unfinished_requests(), 0u);
    while (StepAll()) {
    }
    EXPECT_EQ(fakes[0]->used_pages(), 0u);
    EXPECT_EQ(client.ends, 0) << "a cancelled request is not called again";
  }
  Client after;
  Submit(after, Spec(Prompt(20), 3));
  RunToEnd();
  EXPECT_EQ(after.tokens, RightAnswer(Prompt(20), 3));
}

TEST_F(SchedulerTest, RequestsOfALostExecutorGoOnElsewhereWithTheSameTokens) {
  Start(2);
  std::vector<Client> clients(6);
  for (size_t i = 0; i < clients.size(); ++i) Submit(clients[i], Spec(Prompt(25, static_cast<uint32_t>(i)), 40));
  for (int i = 0; i < 12; ++i) StepAll();
  scheduler->ExecutorDown(0, "killed");
  fakes[0] = std::make_unique<FakeExecutor>();
  RunToEnd();
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].tokens, RightAnswer(Prompt(25, static_cast<uint32_t>(i)), 40));
    EXPECT_EQ(clients[i].ends, 1);
  }
}

TEST_F(SchedulerTest, RequestsThatBeganWaitForTheirOnlyExecutorToComeBack) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(25), 40));
  for (int i = 0; i < 5; ++i) StepAll();
  scheduler->ExecutorDown(0, "killed");
  fakes[0] = std::make_unique<FakeExecutor>();
  fakes[0]->epoch = 2;
  clock.now_ms += options.no_executor_ms + 1000;
  scheduler->Tick();
  EXPECT_EQ(client.ends, 0);
  Up(0);
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(25), 40));
}

TEST_F(SchedulerTest, LateResultsOfAnOldLeaseAreDropped) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(25), 10));
  for (int i = 0; i < 3; ++i) StepAll();
  v1::StepResults zombie;
  ASSERT_TRUE(fakes[0]->Step(&zombie));
  scheduler->ExecutorDown(0, "partition");
  fakes[0] = std::make_unique<FakeExecutor>();
  fakes[0]->epoch = 2;
  Up(0);
  EXPECT_TRUE(scheduler->ExecutorResults(0, zombie).ok());
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(25), 10));
}

TEST_F(SchedulerTest, WithoutAnExecutorNewRequestsFailAfterAWhile) {
  Start();
  scheduler->ExecutorDown(0, "killed");
  Client client;
  Submit(client, Spec(Prompt(5), 5));
  scheduler->Tick();
  EXPECT_EQ(client.ends, 0);
  clock.now_ms += options.no_executor_ms + 1;
  EXPECT_LE(scheduler->NextTimerMs(), clock.now_ms);
  scheduler->Tick();
  EXPECT_EQ(client.ends, 1);
  EXPECT_EQ(client.status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(SchedulerTest, AtItsDeadlineARequestEndsWithWhatItHas) {
  Start();
  v1::GenerateRequest spec = Spec(Prompt(20), 400);
  spec.set_deadline_ms(30);
  Client client;
  Submit(client, spec);
  RunToEnd();
  EXPECT_EQ(client.finished->reason(), v1::FINISH_REASON_DEADLINE);
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(20), client.tokens.size()));
  EXPECT_GT(client.tokens.size(), 5u);
  EXPECT_LT(client.tokens.size(), 40u);
}

TEST_F(SchedulerTest, AFullQueueRefusesWithATimeToRetry) {
  options.max_queued_requests = 3;
  Start(1, /*pages=*/4);
  std::vector<Client> clients(4);
  for (Client& client : clients) Submit(client, Spec(Prompt(50), 5));  // one runs, three wait
  double retry = 0;
  absl::Status status = scheduler->Submit(Spec(Prompt(50), 5), &refused, &retry).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(retry, 0);
  RunToEnd();
}

TEST_F(SchedulerTest, HigherPriorityRunsFirst) {
  Start(1, /*pages=*/4);
  Client running, low, high;
  Submit(running, Spec(Prompt(40), 10));
  Submit(low, Spec(Prompt(40), 10));
  v1::GenerateRequest spec = Spec(Prompt(40), 10);
  spec.set_priority(5);
  Submit(high, spec);
  while (high.ends == 0) StepAll();
  EXPECT_EQ(low.starts, 0);
  RunToEnd();
}

TEST_F(SchedulerTest, WhileDrainingNewRequestsAreRefusedAndRunningOnesFinish) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(20), 10));
  scheduler->StartDraining();
  EXPECT_EQ(Refusal(Spec(Prompt(20), 10)).code(), absl::StatusCode::kUnavailable);
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(20), 10));
}

TEST_F(SchedulerTest, AnExecutorWithAnotherModelIsNotAdmitted) {
  Start();
  fakes.push_back(std::make_unique<FakeExecutor>());
  fakes[1]->description.set_model_hash("another-model---");
  scheduler->AddExecutor("other");
  absl::Status status = scheduler->ExecutorUp(1, 1, fakes[1]->description, fakes[1].get());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("another model"));
}

TEST_F(SchedulerTest, ADrainingExecutorFinishesWhatItHasAndNewRequestsGoElsewhere) {
  Start(2);
  Client running;
  Submit(running, Spec(Prompt(20), 30));
  for (int i = 0; i < 3; ++i) StepAll();
  for (auto& fake : fakes) fake->draining = true;  // whichever it is
  fakes.push_back(std::make_unique<FakeExecutor>());
  scheduler->AddExecutor("fresh");
  std::vector<Client> clients(4);
  for (size_t i = 0; i < clients.size(); ++i) Submit(clients[i], Spec(Prompt(20, static_cast<uint32_t>(i)), 10));
  for (int i = 0; i < 5; ++i) StepAll();
  EXPECT_FALSE(scheduler->HasExecutor());
  Up(2);
  RunToEnd();
  EXPECT_EQ(running.tokens, RightAnswer(Prompt(20), 30));
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].tokens, RightAnswer(Prompt(20, static_cast<uint32_t>(i)), 10));
  }
}

TEST_F(SchedulerTest, ARequestThatBreaksEveryExecutorIsGivenUpAndItsNeighboursAreNot) {
  Start();
  Client poison, innocent;
  Submit(innocent, Spec(Prompt(20), 100));
  Submit(poison, Spec(Prompt(200), 10));
  int breaks = 0;
  while (poison.ends == 0 && ++breaks < 50) {
    StepAll();  // the innocent's first token; the poison is still in prefill
    scheduler->ExecutorDown(0, "crashed");
    fakes[0] = std::make_unique<FakeExecutor>();
    fakes[0]->epoch = static_cast<uint64_t>(breaks) + 1;
    Up(0);
  }
  EXPECT_EQ(poison.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(poison.status.message(), ::testing::HasSubstr("crashed"));
  RunToEnd();
  EXPECT_EQ(innocent.tokens, RightAnswer(Prompt(20), 100));
}

TEST_F(SchedulerTest, WhenTheModelChangesWaitingRequestsEndInsteadOfRunningOnIt) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(20), 100));
  for (int i = 0; i < 3; ++i) StepAll();
  scheduler->ExecutorDown(0, "replaced");
  fakes[0] = std::make_unique<FakeExecutor>();
  fakes[0]->epoch = 2;
  fakes[0]->description.set_model_hash("another-model---");
  Up(0);
  EXPECT_EQ(client.ends, 1);
  EXPECT_EQ(client.status.code(), absl::StatusCode::kFailedPrecondition);
  RunToEnd();
}

TEST_F(SchedulerTest, AnExecutorWithAnotherContextLengthIsNotAdmitted) {
  Start();
  fakes.push_back(std::make_unique<FakeExecutor>(64, /*context=*/256));
  scheduler->AddExecutor("other");
  EXPECT_EQ(scheduler->ExecutorUp(1, 1, fakes[1]->description, fakes[1].get()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(scheduler->Describe().executors(1).problem(), ::testing::HasSubstr("256"));
}

TEST_F(SchedulerTest, ADeadlineThatPassesInTheQueueIsUnavailableWithATimeToRetry) {
  Start(1, /*pages=*/8);
  Client running, waiting;
  Submit(running, Spec(Prompt(60), 60));
  v1::GenerateRequest spec = Spec(Prompt(60), 60);
  spec.set_deadline_ms(10);
  Submit(waiting, spec);
  for (int i = 0; i < 20; ++i) StepAll();
  EXPECT_EQ(waiting.ends, 1);
  EXPECT_EQ(waiting.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_GT(waiting.retry_after_ms, 0);
  RunToEnd();
  EXPECT_EQ(running.tokens, RightAnswer(Prompt(60), 60));
}

TEST_F(SchedulerTest, AResumedRequestThatFilledThePoolEndsAsTheUnbrokenOneDid) {
  Start(1, /*pages=*/4);
  Client whole;
  Submit(whole, Spec(Prompt(40), 200));
  RunToEnd();
  ASSERT_EQ(whole.finished->reason(), v1::FINISH_REASON_CONTEXT);
  v1::GenerateRequest spec = Spec(Prompt(40), 200);
  spec.mutable_resume_token_ids()->Add(whole.tokens.begin(), whole.tokens.end());
  Client resumed;
  resumed.first_index = whole.tokens.size();
  Submit(resumed, spec);
  RunToEnd();
  EXPECT_TRUE(resumed.tokens.empty());
  EXPECT_EQ(resumed.finished->reason(), v1::FINISH_REASON_CONTEXT);
}

TEST_F(SchedulerTest, TwoThatFillThePoolTogetherBothEndAsAlone) {
  Start(1, /*pages=*/16);
  Client alone;
  Submit(alone, Spec(Prompt(200), 200));
  RunToEnd();
  Client first, second;
  Submit(first, Spec(Prompt(200), 200));
  Submit(second, Spec(Prompt(200), 200));
  RunToEnd();
  for (const Client* client : {&first, &second}) {
    EXPECT_EQ(client->tokens, alone.tokens);
    EXPECT_EQ(client->finished->reason(), v1::FINISH_REASON_CONTEXT);
  }
}

TEST_F(SchedulerTest, WhoNeedsAnExecutorThatIsAwayHoldsNobodyUp) {
  Start(1, /*pages=*/8);
  fakes.push_back(std::make_unique<FakeExecutor>(/*pages=*/30));
  scheduler->AddExecutor("large");
  Up(1);
  scheduler->ExecutorDown(1, "restarts");
  Client large, small;
  Submit(large, Spec(Prompt(300), 10));
  Submit(small, Spec(Prompt(20), 10));
  while (StepAll()) {
  }
  EXPECT_EQ(small.tokens, RightAnswer(Prompt(20), 10));
  EXPECT_EQ(large.ends, 0);
  fakes[1] = std::make_unique<FakeExecutor>(/*pages=*/30);
  fakes[1]->epoch = 2;
  Up(1);
  RunToEnd();
  EXPECT_EQ(large.tokens, RightAnswer(Prompt(300), 10));
}

TEST_F(SchedulerTest, ASequenceThatOutgrowsASmallExecutorGoesOnAtALargerOne) {
  Start(1, /*pages=*/8);
  Client client;
  Submit(client, Spec(Prompt(100), 100));
  StepAll();
  fakes.push_back(std::make_unique<FakeExecutor>(/*pages=*/30));
  scheduler->AddExecutor("large");
  Up(1);
  RunToEnd();
  EXPECT_EQ(client.tokens, RightAnswer(Prompt(100), 100));
  EXPECT_EQ(client.finished->reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(SchedulerTest, NeverOpensMoreSequencesThanAStepHasRows) {
  Start();
  scheduler->ExecutorDown(0, "restarts");
  fakes[0]->description.set_max_rows(3);
  fakes[0]->epoch = 2;
  Up(0);
  std::vector<Client> clients(10);
  for (size_t i = 0; i < clients.size(); ++i) Submit(clients[i], Spec(Prompt(20, static_cast<uint32_t>(i)), 8));
  RunToEnd();
  EXPECT_LE(fakes[0]->largest_rows, 3u);
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].tokens, RightAnswer(Prompt(20, static_cast<uint32_t>(i)), 8));
  }
}

// While nothing changes the executor runs on its grant: plans are rare, and it is renewed before it is used up.
TEST_F(SchedulerTest, TheExecutorNeverWaitsAndHearsLittle) {
  Start();
  Client client;
  Submit(client, Spec(Prompt(20), 400));
  int steps = 0, idle = 0;
  size_t plans = 0;
  while (scheduler->unfinished_requests() > 0) {
    plans += fakes[0]->plans.size();
    v1::StepResults results;
    ASSERT_TRUE(fakes[0]->Step(&results));
    ++steps;
    if (results.idle() && results.rows(0).finish_reason() == v1::FINISH_REASON_UNSPECIFIED) ++idle;
    ASSERT_TRUE(scheduler->ExecutorResults(0, results).ok());
  }
  EXPECT_EQ(idle, 0);
  EXPECT_LE(plans, static_cast<size_t>(steps) / 25);
}

// An executor that breaks the protocol is let go; its sequences go on elsewhere.
TEST_F(SchedulerTest, ResultsThatBreakTheProtocolAreAnErrorOfTheExecutor) {
  auto verdict = [&](auto change) {
    fakes.clear();
    Start();
    Client client;
    Submit(client, Spec(Prompt(20), 10));
    v1::StepResults results;
    results.set_lease_epoch(1);
    results.set_plan_id(1);
    v1::RowResult* row = results.add_rows();
    row->set_handle(1);
    row->set_pages(2);
    row->set_computed_tokens(20);
    row->add_token_ids(5);
    change(*row);
    return scheduler->ExecutorResults(0, results).code();
  };
  EXPECT_EQ(verdict([](auto&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(verdict([](auto& r) { r.set_first_index(3); }), absl::StatusCode::kInternal);
  EXPECT_EQ(verdict([](auto& r) { r.mutable_token_ids()->Resize(11, 5); }), absl::StatusCode::kInternal);
  EXPECT_EQ(verdict([](auto& r) { r.set_computed_tokens(22); }), absl::StatusCode::kInternal);
  EXPECT_EQ(verdict([](auto& r) { r.add_logprobs(); }), absl::StatusCode::kInternal);
  EXPECT_EQ(verdict([](auto& r) { r.add_prompt_logprobs(); }), absl::StatusCode::kInternal);
  EXPECT_EQ(verdict([](auto& r) {
              r.set_prompt_first_index(0xffffffffu);
              r.add_prompt_logprobs();
            }),
            absl::StatusCode::kInternal);
  EXPECT_EQ(verdict([](auto& r) {
              r.set_out_of_pages(true);
              r.set_pages(1);
            }),
            absl::StatusCode::kInternal);
}

TEST_F(SchedulerTest, AHostileNumberIsRefusedByTheNameOfItsField) {
  Start();
  auto refusal = [&](auto change) {
    v1::GenerateRequest spec = Spec(Prompt(5), 5);
    change(spec);
    return Refusal(spec);
  };
  auto expect = [&](absl::Status status, const char* text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), ::testing::HasSubstr(text));
  };
  expect(refusal([](auto& s) { s.mutable_prompt_token_ids()->Add(1000); }), "prompt_token_ids[5] is 1000");
  expect(refusal([](auto& s) { s.clear_prompt_token_ids(); }), "prompt_token_ids is empty");
  expect(refusal([](auto& s) { s.mutable_sampling()->set_temperature(std::nanf("")); }), "sampling.temperature");
  expect(refusal([](auto& s) { s.mutable_sampling()->set_temperature(-1); }), "sampling.temperature");
  expect(refusal([](auto& s) { s.mutable_sampling()->set_top_p(0); }), "sampling.top_p");
  expect(refusal([](auto& s) { s.mutable_sampling()->set_top_p(1.1f); }), "sampling.top_p");
  expect(refusal([](auto& s) { s.mutable_sampling()->set_min_p(-0.1f); }), "sampling.min_p");
  expect(refusal([](auto& s) { s.mutable_sampling()->set_top_k(0xffffffffu); }), "sampling.top_k");
  expect(refusal([](auto& s) { s.mutable_stop()->mutable_stop_token_ids()->Resize(65, 1); }), "stop.stop_token_ids");
  expect(refusal([](auto& s) { s.mutable_logprobs()->set_top(21); }), "logprobs.top");
  expect(refusal([](auto& s) { s.set_priority(101); }), "priority");
  expect(refusal([](auto& s) { s.set_request_id(""); }), "request_id");
  expect(refusal([](auto& s) { s.set_request_id("a\nb"); }), "request_id");
  expect(refusal([](auto& s) { s.mutable_resume_token_ids()->Resize(6, 1); }), "resume_token_ids");
  expect(refusal([](auto& s) { s.mutable_prompt_token_ids()->Resize(513, 1); }), "513 tokens, but the context holds 512");
  expect(refusal([](auto& s) { s.mutable_stop()->set_max_new_tokens(513); }), "stop.max_new_tokens is 513");
  expect(refusal([](auto& s) { s.mutable_stop()->set_max_new_tokens(0xffffffffu); }), "stop.max_new_tokens");
  expect(refusal([](auto& s) { s.mutable_stop()->add_stop_token_ids(5000); }), "stop.stop_token_ids[0] is 5000");
  expect(refusal([](auto& s) { s.mutable_prompt_token_ids()->Resize(512, 1); }), "fills the context of 512");
  expect(refusal([](auto& s) { s.set_request_id(std::string(129, 'x')); }), "request_id has 129 bytes");
  expect(refusal([](auto& s) { s.set_cache_salt(std::string(257, 'x')); }), "cache_salt has 257 bytes");
  expect(refusal([](auto& s) { s.set_fairness_key(std::string(257, 'x')); }), "fairness_key has 257 bytes");
  expect(refusal([](auto& s) { s.set_traceparent("x"); }), "traceparent");
  expect(refusal([](auto& s) { s.set_vocabulary_fingerprint("short"); }), "vocabulary_fingerprint has 5 bytes");
  EXPECT_EQ(refusal([](auto& s) { s.set_vocabulary_fingerprint("another 16 bytes"); }).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(refusal([](auto& s) {
                s.set_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
              }).ok());
}

// Kills, cancels and tight pools at random: the promises hold in every order of events.
TEST_F(SchedulerTest, PromisesHoldUnderRandomFaults) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed + 1);
    auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    fakes.clear();
    options.batch.free_steps = below(2) == 0 ? 0 : 1 + below(70);
    uint32_t pages = 8 + below(24);
    Start(1 + static_cast<int>(below(3)), pages);
    struct Case {
      Client client;
      std::vector<uint32_t> prompt;
      RequestId id;
      uint32_t tokens;
      bool cancelled = false;
    };
    std::vector<std::unique_ptr<Case>> cases;
    for (int round = 0; round < 150; ++round) {
      if (below(5) == 0 && cases.size() < 30) {
        auto c = std::make_unique<Case>();
        c->prompt = Prompt(1 + below(100), below(1000));
        c->tokens = below(20);
        c->id = Submit(c->client, Spec(c->prompt, c->tokens));
        cases.push_back(std::move(c));
      }
      if (below(12) == 0 && !cases.empty()) {
        Case& c = *cases[below(static_cast<uint32_t>(cases.size()))];
        if (c.client.ends == 0 && !c.cancelled) {
          scheduler->Cancel(c.id);
          c.cancelled = true;
        }
      }
      if (below(25) == 0) {
        uint32_t i = below(static_cast<uint32_t>(fakes.size()));
        uint64_t epoch = fakes[i]->epoch;
        scheduler->ExecutorDown(i, "killed");
        fakes[i] = std::make_unique<FakeExecutor>(pages);
        fakes[i]->epoch = epoch + 1;
        Up(static_cast<int>(i));
      }
      StepAll();
    }
    RunToEnd();
    for (const auto& c : cases) {
      EXPECT_EQ(c->client.ends, c->cancelled ? 0 : 1);
      if (c->cancelled) continue;
      EXPECT_EQ(c->client.tokens, RightAnswer(c->prompt, c->tokens));
    }
    for (const auto& fake : fakes) EXPECT_LE(fake->largest_use, pages);
  }
}

}  // namespace
}  // namespace tercet::scheduler
