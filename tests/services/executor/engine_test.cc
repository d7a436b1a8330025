#include "services/executor/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/services/executor/engine_harness.h"

namespace tercet::executor {
namespace {

std::vector<uint32_t> RandomIds(int count, uint32_t seed, uint32_t vocabulary = 90) {
  std::mt19937 random(seed);
  std::vector<uint32_t> ids(count);
  for (uint32_t& id : ids) id = std::uniform_int_distribution<uint32_t>(0, vocabulary - 1)(random);
  return ids;
}

// A request with everything on: sampled, filtered, scored.
OpenSequence Request(int prompt = 50, int new_tokens = 40, uint32_t seed = 42) {
  OpenSequence open;
  open.token_ids = RandomIds(prompt, seed);
  open.prompt_length = static_cast<uint32_t>(prompt);
  open.sampling = {.temperature = .8f, .top_k = 40, .top_p = .95f, .seed = seed};
  open.stop = {.max_new_tokens = static_cast<uint32_t>(new_tokens)};
  open.logprobs = {.enabled = true, .top = 3};
  return open;
}

OpenSequence Greedy(int prompt = 50, int new_tokens = 40, uint32_t seed = 42) {
  OpenSequence open = Request(prompt, new_tokens, seed);
  open.sampling = {};
  return open;
}

// The answer of a request that has a one-worker engine to itself.
Outcome Alone(const OpenSequence& request, HarnessOptions options = {}) {
  options.tiny.workers = 1;
  return Harness(options).Complete(request);
}

const Outcome& Expected() {
  static const Outcome expected = Alone(Request());
  return expected;
}

TEST(Engine, ARequestEndsAfterItsTokens) {
  const Outcome& outcome = Expected();
  EXPECT_EQ(outcome.ids.size(), 40u);
  EXPECT_EQ(outcome.logprobs.size(), 40u);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.cached_tokens, 0u);
  EXPECT_EQ(outcome.computed, 89u);
  for (const PositionLogprobs& position : outcome.logprobs) {
    EXPECT_LE(position.logprob, 0);
    EXPECT_EQ(position.top.size(), 3u);
  }
}

TEST(Engine, ChunksDoNotChangeTheAnswer) {
  for (uint32_t chunk : {1, 7, 16, 49, 50, 64}) {
    SCOPED_TRACE(chunk);
    Harness harness;
    ExpectSameAnswer(harness.Complete(Request(), chunk), Expected());
    harness.ExpectBaseline();
  }
}

TEST(Engine, ChunksOfALongPromptDoNotChangeTheAnswer) {
  HarnessOptions options;
  options.tiny.max_rows = 512;
  options.context_length = 600;
  OpenSequence request = Request(530, 20);
  request.logprobs.prompt = true;
  const Outcome expected = Alone(request, options);
  EXPECT_EQ(expected.prompt_logprobs.size(), 529u);
  for (uint32_t chunk : {16, 64, 512}) {
    SCOPED_TRACE(chunk);
    Harness harness(options);
    const Outcome outcome = harness.Complete(request, chunk);
    ExpectSameAnswer(outcome, expected);
    EXPECT_EQ(outcome.prompt_logprobs, expected.prompt_logprobs);
    // Without scores the chunks are as large as asked for.
    OpenSequence plain = request;
    plain.logprobs.prompt = false;
    plain.cache_salt = "cold";
    ExpectSameAnswer(harness.Complete(plain, chunk), expected);
    harness.ExpectBaseline();
  }
}

TEST(Engine, FreeStepsDoNotChangeTheAnswer) {
  for (uint32_t free_steps : {0, 1, 64, 4096}) {
    SCOPED_TRACE(free_steps);
    Harness harness;
    ExpectSameAnswer(harness.Complete(Request(), 16, free_steps), Expected());
  }
}

TEST(Engine, WorkersDoNotChangeTheAnswer) {
  for (int workers : {1, 2, 3}) {
    Harness harness({.tiny = {.workers = workers}});
    ExpectSameAnswer(harness.Complete(Request()), Expected());
  }
}

TEST(Engine, NeighboursDoNotChangeTheAnswer) {
  // Sixteen at a time, of different lengths, some greedy, some hot, some starting later.
  Harness harness({.tiny = {.pages = 256, .max_rows = 64}});
  std::vector<OpenSequence> requests;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(i == 5 ? Request() : i % 3 == 0 ? Greedy(20 + 9 * i, 10 + 5 * i, i) : Request(3 + 11 * i, 60 - i, i));
  }
  std::vector<Outcome> alone;
  for (const OpenSequence& request : requests) alone.push_back(Alone(request));

  Plan plan;
  std::vector<PlanRow> rows;
  std::vector<uint64_t> handles;
  for (size_t i = 0; i < requests.size(); ++i) {
    OpenSequence open = requests[i];
    handles.push_back(open.handle = harness.NewHandle());
    rows.push_back({.handle = open.handle, .prefill_tokens = 16});
    harness.Run({.open = {open}, .rows = rows, .free_steps = 3});
  }
  for (int i = 0; i < 100; ++i) harness.Run({.rows = rows, .free_steps = 7});
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSameAnswer(harness.sink->outcome(handles[i]), alone[i]);
  }
  for (const StepStatistics& step : harness.sink->steps) EXPECT_LE(step.rows, 64u);
  harness.ExpectBaseline();
}

TEST(Engine, ACacheHitDoesNotChangeTheAnswer) {
  for (int prompt : {16, 17, 32, 33, 50}) {
    SCOPED_TRACE(prompt);
    Harness harness;
    const Outcome cold = harness.Complete(Request(prompt));
    const Outcome warm = harness.Complete(Request(prompt));
    EXPECT_EQ(cold.cached_tokens, 0u);
    EXPECT_EQ(warm.cached_tokens, static_cast<uint32_t>((prompt - 1) / 16 * 16));
    ExpectSameAnswer(warm, cold);
    harness.ExpectBaseline();
  }
}

TEST(Engine, PromptsThatDifferInOneTokenShareOnlyWhatIsEqual) {
  for (int difference : {0, 15, 16, 49}) {
    SCOPED_TRACE(difference);
    OpenSequence other = Request();
    other.token_ids[difference] = (other.token_ids[difference] + 1) % 90;
    const Outcome expected = Alone(other);
    Harness harness;
    harness.Complete(Request());
    const Outcome outcome = harness.Complete(other);
    EXPECT_EQ(outcome.cached_tokens, static_cast<uint32_t>(std::min(difference / 16 * 16, 48)));
    ExpectSameAnswer(outcome, expected);
  }
}

TEST(Engine, AStrictPrefixOfACachedPromptIsExact) {
  for (int length : {1, 16, 17, 32, 48}) {
    SCOPED_TRACE(length);
    OpenSequence shorter = Request();
    shorter.token_ids.resize(length);
    shorter.prompt_length = static_cast<uint32_t>(length);
    const Outcome expected = Alone(shorter);
    Harness harness;
    harness.Complete(Request());
    const Outcome outcome = harness.Complete(shorter);
    EXPECT_EQ(outcome.cached_tokens, static_cast<uint32_t>((length - 1) / 16 * 16));
    ExpectSameAnswer(outcome, expected);
  }
}

TEST(Engine, AnotherSaltSharesNothing) {
  Harness harness;
  harness.Complete(Request());
  OpenSequence salted = Request();
  salted.cache_salt = "tenant";
  const Outcome outcome = harness.Complete(salted);
  EXPECT_EQ(outcome.cached_tokens, 0u);
  ExpectSameAnswer(outcome, Expected());
}

TEST(Engine, AConstantHashChangesOnlySpeed) {
  HarnessOptions options;
  options.prefix_hash = [](const PrefixHash&, PrefixTree::PageTokens) { return PrefixHash{.low = 1, .high = 2}; };
  Harness harness(options);
  ExpectSameAnswer(harness.Complete(Request()), Expected());
  for (uint32_t seed = 1; seed < 6; ++seed) {
    ExpectSameAnswer(harness.Complete(Request(50, 40, seed)), Alone(Request(50, 40, seed)));
  }
  ExpectSameAnswer(harness.Complete(Request()), Expected());
  harness.ExpectBaseline();
}

TEST(Engine, DraftsDoNotChangeTheAnswer) {
  for (bool greedy : {false, true}) {
    const OpenSequence request = greedy ? Greedy() : Request();
    const Outcome expected = Alone(request);
    for (size_t k = 1; k <= 8; ++k) {
      for (int wrong_at : {-1, 0, 1, 3}) {
        SCOPED_TRACE(testing::Message() << "greedy " << greedy << ", k " << k << ", wrong at " << wrong_at);
        Harness harness;
        const Outcome outcome = harness.Complete(request, 64, 0, [&](const std::vector<uint32_t>& generated) {
          std::vector<uint32_t> draft;
          for (size_t i = generated.size(); i < expected.ids.size() && draft.size() < k; ++i) draft.push_back(expected.ids[i]);
          if (wrong_at >= 0 && static_cast<size_t>(wrong_at) < draft.size()) draft[wrong_at] ^= 1;
          return draft;
        });
        ExpectSameAnswer(outcome, expected);
        EXPECT_LE(outcome.accepted, outcome.drafted);
        if (wrong_at == -1) {
          EXPECT_EQ(outcome.accepted, outcome.drafted);
        } else if (wrong_at == 0) {
          EXPECT_EQ(outcome.accepted, 0u);
        }
        harness.ExpectBaseline();
      }
    }
  }
}

TEST(Engine, DraftsBeyondTheLastTokenAreNotOffered) {
  Harness harness;
  const Outcome outcome = harness.Complete(Request(), 64, 0, [](const auto&) { return std::vector<uint32_t>(8, 3); });
  ExpectSameAnswer(outcome, Expected());
}

TEST(Engine, AStopIdInsideAnAcceptedDraftEndsThere) {
  OpenSequence request = Request();
  const uint32_t stop = Expected().ids[20];
  const size_t first = std::find(Expected().ids.begin(), Expected().ids.end(), stop) - Expected().ids.begin();
  request.stop.stop_token_ids = {stop};
  Harness harness;
  const Outcome outcome = harness.Complete(request, 64, 0, [&](const std::vector<uint32_t>& generated) {
    std::vector<uint32_t> draft(Expected().ids.begin() + generated.size(), Expected().ids.end());
    draft.resize(std::min<size_t>(draft.size(), 8));
    return draft;
  });
  EXPECT_EQ(outcome.ids, std::vector<uint32_t>(Expected().ids.begin(), Expected().ids.begin() + first + 1));
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
  harness.ExpectBaseline();
}

TEST(Engine, EndOfGenerationEndsUnlessIgnored) {
  HarnessOptions options;
  options.end_of_generation_ids = {Expected().ids[0]};
  const Outcome ended = Harness(options).Complete(Request());
  EXPECT_THAT(ended.ids, testing::ElementsAre(Expected().ids[0]));
  EXPECT_EQ(ended.finish, FinishReason::kStop);
  OpenSequence ignoring = Request();
  ignoring.stop.ignore_eos = true;
  ExpectSameAnswer(Harness(options).Complete(ignoring), Expected());
}

TEST(Engine, AResumedSequenceGoesOnWithTheSameTokens) {
  for (size_t done : {1, 2, 13, 14, 15, 39}) {
    SCOPED_TRACE(done);
    OpenSequence resumed = Request();
    resumed.token_ids.insert(resumed.token_ids.end(), Expected().ids.begin(), Expected().ids.begin() + done);
    Harness harness;
    const Outcome outcome = harness.Complete(resumed, 16, 5);
    EXPECT_EQ(outcome.ids, std::vector<uint32_t>(Expected().ids.begin() + done, Expected().ids.end()));
    EXPECT_EQ(outcome.logprobs,
              std::vector<PositionLogprobs>(Expected().logprobs.begin() + done, Expected().logprobs.end()));
    EXPECT_EQ(outcome.finish, FinishReason::kLength);
  }
}

TEST(Engine, AResumedSequenceThatHasAllItsTokensEndsAtOnce) {
  OpenSequence resumed = Request();
  resumed.token_ids.insert(resumed.token_ids.end(), Expected().ids.begin(), Expected().ids.end());
  Harness harness;
  const Outcome outcome = harness.Complete(resumed);
  EXPECT_TRUE(outcome.ids.empty());
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  harness.ExpectBaseline();
}

TEST(Engine, ScoringAPromptGivesEveryPositionOnce) {
  OpenSequence scoring = Request();
  scoring.stop.max_new_tokens = 0;
  scoring.logprobs = {.top = 2, .prompt = true};
  const Outcome expected = Alone(scoring);
  EXPECT_EQ(expected.prompt_logprobs.size(), 49u);
  EXPECT_EQ(expected.finish, FinishReason::kLength);
  EXPECT_TRUE(expected.ids.empty());
  Harness harness;
  harness.Complete(Request());
  for (uint32_t chunk : {1, 16, 64}) {
    const Outcome again = harness.Complete(scoring, chunk);
    EXPECT_EQ(again.prompt_logprobs, expected.prompt_logprobs);
    EXPECT_EQ(again.cached_tokens, 0u);
    EXPECT_EQ(again.computed, 50u);
  }
  harness.ExpectBaseline();
}

TEST(Engine, ScoringEqualsWhatGenerationReported) {
  OpenSequence scoring = Request();
  scoring.token_ids.insert(scoring.token_ids.end(), Expected().ids.begin(), Expected().ids.end());
  scoring.prompt_length = static_cast<uint32_t>(scoring.token_ids.size());
  scoring.stop.max_new_tokens = 0;
  scoring.logprobs = {.top = 3, .prompt = true};
  const Outcome scored = Harness().Complete(scoring, 33);
  ASSERT_EQ(scored.prompt_logprobs.size(), 89u);
  EXPECT_EQ(std::vector<PositionLogprobs>(scored.prompt_logprobs.begin() + 49, scored.prompt_logprobs.end()),
            Expected().logprobs);
}

TEST(Engine, PromptScoresAndGenerationComeTogether) {
  OpenSequence both = Request();
  both.logprobs.prompt = true;
  const Outcome outcome = Harness().Complete(both, 16);
  ExpectSameAnswer(outcome, Expected());
  EXPECT_EQ(outcome.prompt_logprobs.size(), 49u);
}

TEST(Engine, AFullContextEndsTheSequence) {
  HarnessOptions options;
  options.context_length = 60;
  const Outcome outcome = Harness(options).Complete(Request());
  EXPECT_EQ(outcome.ids, std::vector<uint32_t>(Expected().ids.begin(), Expected().ids.begin() + 10));
  EXPECT_EQ(outcome.finish, FinishReason::kContext);
  options.context_length = 50;
  const Outcome full = Harness(options).Complete(Request());
  EXPECT_TRUE(full.ids.empty());
  EXPECT_EQ(full.finish, FinishReason::kContext);
}

TEST(Engine, CancellingReturnsEveryPage) {
  Harness harness({.tiny = {.pages = 64}});
  for (int i = 0; i < 100; ++i) {
    OpenSequence open = Request(100, 100, i);
    const uint64_t handle = open.handle = harness.NewHandle();
    harness.Send({.open = {open}, .rows = {{.handle = handle, .prefill_tokens = 16}}, .free_steps = 4096});
    if (i % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
    if (i % 3 == 2) {
      ASSERT_TRUE(harness.sink->WaitFor([&] { return !harness.sink->outcomes[handle].ids.empty(); }));
    }
    harness.Close(handle);
    harness.ExpectBaseline();
  }
}

TEST(Engine, AVanishedOwnerLeavesItsCacheAndNothingElse) {
  Harness harness;
  OpenSequence open = Request(100, 100);
  open.handle = 1;
  harness.Send({.open = {open}, .rows = {{.handle = 1, .prefill_tokens = 64}}, .free_steps = 4096});
  ASSERT_TRUE(harness.sink->WaitFor([&] { return !harness.sink->outcomes[1].ids.empty(); }));
  harness.engine.Detach(1);
  harness.Attach(2);
  harness.ExpectBaseline();
  const Outcome outcome = harness.Complete(Request(100, 40));
  EXPECT_EQ(outcome.cached_tokens, 96u);
  ExpectSameAnswer(outcome, Alone(Request(100, 40)));
}

TEST(Engine, AHigherEpochTakesOverAndTheOlderOwnersPlansAreDropped) {
  Harness harness;
  OpenSequence open = Request();
  open.handle = 1;
  harness.Run({.open = {open}});
  const std::shared_ptr<RecordingSink> older = harness.sink;
  harness.Attach(5);
  const int messages = older->messages;
  harness.engine.Submit(1, {.id = 9, .rows = {{.handle = 1, .prefill_tokens = 64}}, .free_steps = 10});
  harness.ExpectBaseline();
  // The handle is free for the new owner.
  harness.Run({.open = {open}, .rows = {{.handle = 1, .prefill_tokens = 64}}, .free_steps = 100});
  ExpectSameAnswer(harness.sink->outcome(1), Expected());
  EXPECT_EQ(older->messages, messages);
}

TEST(Engine, AUsedUpPoolPausesAndAClosedNeighbourLetsItGoOn) {
  // 10 pages are 160 tokens: two sequences of 90 do not fit.
  Harness harness({.tiny = {.pages = 10}});
  OpenSequence first = Request(80, 60, 1), second = Request(80, 60, 2);
  first.handle = 1;
  second.handle = 2;
  const Outcome expected = Alone(Request(80, 60, 2));
  harness.Run({.open = {first, second},
               .rows = {{.handle = 1, .prefill_tokens = 32}, {.handle = 2, .prefill_tokens = 32}},
               .free_steps = 200});
  EXPECT_TRUE(harness.sink->outcome(1).out_of_pages);
  EXPECT_TRUE(harness.sink->outcome(2).out_of_pages);
  EXPECT_FALSE(harness.sink->outcome(2).ended());
  EXPECT_EQ(harness.sink->free_pages, 0u);
  harness.Run({.close = {1}, .rows = {{.handle = 2, .prefill_tokens = 32}}, .free_steps = 200});
  ExpectSameAnswer(harness.sink->outcome(2), expected);
  harness.ExpectBaseline();
}

TEST(Engine, APageLimitPausesAndAHigherOneLetsItGoOn) {
  Harness harness;
  OpenSequence open = Request();
  open.handle = 1;
  harness.Run({.open = {open}, .rows = {{.handle = 1, .prefill_tokens = 64, .page_limit = 2}}, .free_steps = 50});
  EXPECT_TRUE(harness.sink->outcome(1).out_of_pages);
  EXPECT_EQ(harness.sink->outcome(1).computed, 32u);
  EXPECT_EQ(harness.sink->outcome(1).pages, 2u);
  harness.Run({.rows = {{.handle = 1, .prefill_tokens = 64, .page_limit = 4}}, .free_steps = 50});
  EXPECT_TRUE(harness.sink->outcome(1).out_of_pages);
  EXPECT_EQ(harness.sink->outcome(1).computed, 64u);
  harness.Run({.rows = {{.handle = 1}}, .free_steps = 50});
  ExpectSameAnswer(harness.sink->outcome(1), Expected());
}

TEST(Engine, EvictionMakesRoomForNewPrompts) {
  Harness harness({.tiny = {.pages = 8}});
  for (int round = 0; round < 2; ++round) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      ExpectSameAnswer(harness.Complete(Request(70, 30, seed)), Alone(Request(70, 30, seed)));
      harness.ExpectBaseline();
    }
  }
}

TEST(Engine, EqualPromptsAtTheSameTimeShareTheirPages) {
  Harness harness;
  std::vector<PlanRow> rows;
  Plan plan;
  for (uint64_t handle = 1; handle <= 4; ++handle) {
    OpenSequence open = Request(64, 5);
    open.handle = handle;
    plan.open.push_back(open);
    plan.rows.push_back({.handle = handle, .prefill_tokens = 16});
  }
  plan.free_steps = 3;
  harness.Run(plan);
  // 4 pages of prompt in common, computed in parallel.
  EXPECT_EQ(harness.sink->free_pages, 128u - 4);
}

TEST(Engine, ABrokenProtocolIsAFaultAndClosesEverything) {
  const auto fault = [](const std::function<void(Harness&)>& act) {
    Harness harness({.max_sequences = 2});
    OpenSequence open = Request();
    open.handle = 1;
    harness.Run({.open = {open}});
    act(harness);
    EXPECT_TRUE(harness.sink->WaitFor([&] { return !harness.sink->fault.ok(); }));
    EXPECT_EQ(harness.sink->fault.code(), absl::StatusCode::kInvalidArgument);
    const std::string message(harness.sink->fault.message());
    harness.engine.Detach(1);
    harness.Attach(2);
    harness.ExpectBaseline();
    return message;
  };
  OpenSequence one = Request(), two = Request(), three = Request();
  one.handle = 1;
  two.handle = 2;
  three.handle = 3;
  using testing::HasSubstr;
  EXPECT_THAT(fault([&](Harness& h) { h.engine.Submit(1, {.id = 1}); }), HasSubstr("must increase"));
  EXPECT_THAT(fault([&](Harness& h) { h.Run({.open = {one}}); }), HasSubstr("in use"));
  EXPECT_THAT(fault([&](Harness& h) { h.Run({.open = {two, three}}); }), HasSubstr("max_sequences"));
  EXPECT_THAT(fault([&](Harness& h) { h.Run({.rows = {{.handle = 1}}}); }), HasSubstr("prefill_tokens is 0"));
}

TEST(Engine, DamagedWeightsEndTheRequestWithASentence) {
  HarnessOptions options;
  options.tiny.model.own_head = true;
  // The scale of the head's first block: infinity, as f16.
  options.tiny.edit = [](TinyFile& file) { file.Tensor("output.weight").data[1] = std::byte{0x7c}; };
  Harness harness(options);
  const Outcome outcome = harness.Complete(Request());
  EXPECT_EQ(outcome.error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(outcome.error.message()), testing::HasSubstr("position 50"));
  EXPECT_TRUE(outcome.ids.empty());
  harness.ExpectBaseline();
}

TEST(Engine, SlidingWindowsChangeNothingOfThis) {
  HarnessOptions options;
  options.tiny.model.architecture = "gemma3";
  options.tiny.model.window = 32;
  const Outcome expected = Alone(Request(100), options);
  Harness harness(options);
  ExpectSameAnswer(harness.Complete(Request(100), 7, 3), expected);
  const Outcome warm = harness.Complete(Request(100), 16, 0, [&](const std::vector<uint32_t>& generated) {
    return std::vector<uint32_t>{expected.ids[std::min(generated.size(), expected.ids.size() - 1)], 5, 6};
  });
  ExpectSameAnswer(warm, expected);
  EXPECT_EQ(warm.cached_tokens, 96u);
  harness.ExpectBaseline();
}

TEST(Engine, CacheHitsAreCountedForNewRequestsOnly) {
  telemetry::Metrics registry;
  EngineMetrics metrics(registry, nullptr, 1);
  HarnessOptions options;
  options.metrics = &metrics;
  Harness harness(options);
  harness.Complete(Request());
  EXPECT_EQ(metrics.prefix_query_tokens.Value(), 50);
  EXPECT_EQ(metrics.prefix_hit_tokens.Value(), 0);
  harness.Complete(Request());
  EXPECT_EQ(metrics.prefix_query_tokens.Value(), 100);
  EXPECT_EQ(metrics.prefix_hit_tokens.Value(), 48);
  // A sequence that resumes finds its own pages again, and a scored prompt looks for none.
  OpenSequence resumed = Request();
  resumed.token_ids.push_back(Expected().ids[0]);
  harness.Complete(resumed);
  OpenSequence scored = Request();
  scored.logprobs.prompt = true;
  harness.Complete(scored);
  EXPECT_EQ(metrics.prefix_query_tokens.Value(), 100);
  EXPECT_EQ(metrics.prefix_hit_tokens.Value(), 48);
  EXPECT_EQ(metrics.generated_tokens.Value(), 40 + 40 + 39 + 40);
  harness.ExpectBaseline();
  EXPECT_EQ(metrics.pages_free.Value() + metrics.pages_cached.Value(), 128);
  EXPECT_EQ(metrics.pages_used.Value(), 0);
}

TEST(Engine, UnknownHandlesAreIgnored) {
  Harness harness;
  harness.Run({.close = {77}, .rows = {{.handle = 78, .prefill_tokens = 1}}, .free_steps = 9});
  EXPECT_TRUE(harness.sink->fault.ok());
}

TEST(Engine, DrainingFinishesWhatIsOpenAndRefusesWhatIsNew) {
  Harness harness;
  OpenSequence open = Request();
  open.handle = 1;
  harness.Run({.open = {open}, .rows = {{.handle = 1, .prefill_tokens = 64}}});
  std::atomic<bool> empty{false};
  harness.engine.Drain([&] { empty = true; });
  OpenSequence late = Request();
  late.handle = 2;
  harness.Run({.open = {late}, .rows = {{.handle = 1}}});
  EXPECT_EQ(harness.sink->outcome(2).error.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(empty);
  harness.Run({.rows = {{.handle = 1}}, .free_steps = 100});
  ExpectSameAnswer(harness.sink->outcome(1), Expected());
  harness.Run({});
  EXPECT_TRUE(empty);
}

TEST(Engine, AFirstTokenGoesAtOnceAndLaterOnesAreGathered) {
  HarnessOptions options;
  options.flush = std::chrono::minutes(1);
  Harness harness(options);
  OpenSequence open = Request(10, 200);
  open.handle = 1;
  harness.Run({.open = {open}, .rows = {{.handle = 1, .prefill_tokens = 64}}, .free_steps = 100});
  // The first token; the rest when the plan was used up.
  EXPECT_EQ(harness.sink->messages, 2);
  EXPECT_EQ(harness.sink->outcome(1).ids.size(), 101u);
  EXPECT_EQ(harness.sink->steps.size(), 101u);
}

TEST(Engine, ManyPlansInARowAreAllApplied) {
  Harness harness({.max_sequences = 32});
  for (uint64_t handle = 1; handle <= 30; ++handle) {
    OpenSequence open = Request(20, 20, handle);
    open.handle = handle;
    harness.Send({.open = {open}});
  }
  std::vector<PlanRow> rows;
  for (uint64_t handle = 1; handle <= 30; ++handle) rows.push_back({.handle = handle, .prefill_tokens = 20});
  harness.Run({.rows = rows, .free_steps = 60});
  for (uint64_t handle = 1; handle <= 30; ++handle) EXPECT_EQ(harness.sink->outcome(handle).ids.size(), 20u);
  harness.ExpectBaseline();
}

}  // namespace
}  // namespace tercet::executor
