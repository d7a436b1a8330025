// What happens when something goes away: a scheduler, a tokenizer, a client, the gateway itself.
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/services/gateway/fake_services.h"
#include "tests/services/gateway/raw_client.h"

namespace tercet::gateway {
namespace {

using nlohmann::json;

constexpr char kStream[] = R"({"prompt":"ab","stream":true,"max_tokens":1000})";

// Letters that depend on the position, and characters cut in two.
std::vector<uint32_t> LongText() {
  std::vector<uint32_t> ids;
  for (int i = 0; i < 60; ++i) {
    ids.push_back('a' + i % 26);
    if (i % 10 == 5) {
      ids.push_back(WordId("\xF0\x9F\x98"));
      ids.push_back(WordId("\x80 "));
    }
  }
  return ids;
}

std::string TextOf(const std::string& body) {
  std::string text;
  for (const std::string& event : EventsOf(body)) {
    if (event == "[DONE]") continue;
    json parsed = json::parse(event);
    for (const json& choice : parsed.value("choices", json::array())) text += choice.value("text", "");
  }
  return text;
}

grpc::Status Broken() { return {grpc::StatusCode::UNAVAILABLE, "Socket closed"}; }

TEST(Resume, AStreamThatBreaksGoesOnWithTheSameText) {
  TestGateway gateway;
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return LongText(); }});
  std::string whole = TextOf(Post(gateway.address(), "/v1/completions", kStream).body);
  for (auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED}) {
    for (int tokens_per_message : {1, 4}) {
      size_t before = gateway.scheduler.requests().size();
      gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return LongText(); },
                                   .tokens_per_message = tokens_per_message,
                                   // Every call brings at most eight tokens.
                                   .fault = [code](int, int sent) { return sent >= 8 ? grpc::Status(code, "gone") : grpc::Status::OK; }});
      HttpAnswer answer = Post(gateway.address(), "/v1/completions", kStream);
      EXPECT_EQ(TextOf(answer.body), whole);
      EXPECT_EQ(EventsOf(answer.body).back(), "[DONE]");
      auto requests = gateway.scheduler.requests();
      ASSERT_GT(requests.size(), before + 5);
      EXPECT_EQ(requests[before].resume_token_ids_size(), 0);
      EXPECT_EQ(requests[before + 1].resume_token_ids_size(), 8);
      EXPECT_EQ(requests[before + 1].request_id(), requests[before].request_id());
      EXPECT_EQ(requests[before + 1].sampling().seed(), requests[before].sampling().seed());
    }
  }
  EXPECT_GT(gateway.backends->metrics.resumes.Value(), 0);
}

TEST(Resume, LogprobsAndUsageAreThoseOfAnUndisturbedStream) {
  TestGateway gateway;
  const std::string body = R"({"prompt":"abcdef","echo":true,"logprobs":2,"max_tokens":20})";
  FakeScheduler::Script script{.ids = [](const v1::GenerateRequest&) { return LongText(); }, .cached_tokens = 3};
  gateway.scheduler.SetScript(script);
  json whole = json::parse(Post(gateway.address(), "/v1/completions", body).body);
  // The first call breaks before its tokens, the second in the middle; by then the prompt is known.
  script.fault = [first = gateway.scheduler.requests().size()](int call, int sent) {
    int nth = call - static_cast<int>(first);
    return (nth == 1 && sent == 0) || (nth == 2 && sent >= 5) ? Broken() : grpc::Status::OK;
  };
  script.cached_tokens = 3;
  gateway.scheduler.SetScript(script);
  json resumed = json::parse(Post(gateway.address(), "/v1/completions", body).body);
  EXPECT_EQ(resumed["choices"], whole["choices"]);
  EXPECT_EQ(resumed["usage"], whole["usage"]);
  EXPECT_FALSE(gateway.scheduler.requests().back().logprobs().prompt()) << "what is known is not computed again";
}

TEST(Resume, SurvivesARestartOfTheScheduler) {
  TestGateway gateway;
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return LongText(); }, .pause = absl::Milliseconds(5)});
  RawClient client(gateway.address());
  client.Send(PostText("/v1/completions", kStream));
  ASSERT_TRUE(client.ReadUntil("\"text\":\"d\""));
  gateway.StopScheduler();
  absl::SleepFor(absl::Milliseconds(200));
  gateway.StartScheduler();
  HttpAnswer answer = client.ReadAnswer();
  std::string expected;
  for (uint32_t id : LongText()) expected += id < 256 ? std::string(1, static_cast<char>(id)) : kWords[id - kFirstWord];
  EXPECT_EQ(TextOf(answer.body), expected);
}

TEST(Resume, OnlyTheWordOfTheEndMayBeMissing) {
  TestGateway gateway;
  auto at_the_end = [](int, int sent) { return sent >= 3 ? Broken() : grpc::Status::OK; };
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return Bytes("abc"); }, .fault = at_the_end});
  json length = json::parse(Post(gateway.address(), "/v1/completions", R"({"prompt":"x","max_tokens":3})").body);
  EXPECT_EQ(length["choices"][0]["finish_reason"], "length");
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return std::vector<uint32_t>{'a', 'b', kEnd}; }, .fault = at_the_end});
  json stop = json::parse(Post(gateway.address(), "/v1/completions", R"({"prompt":"x","max_tokens":9})").body);
  EXPECT_EQ(stop["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(gateway.scheduler.requests().size(), 2u);
}

TEST(Resume, GivesUpWithOneErrorEventWhenNobodyComesBack) {
  TestGateway gateway({}, /*resume_window=*/absl::Milliseconds(300));
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return LongText(); }, .pause = absl::Milliseconds(5)});
  RawClient client(gateway.address());
  client.Send(PostText("/v1/completions", kStream));
  ASSERT_TRUE(client.ReadUntil("\"text\":\"c\""));
  gateway.StopScheduler();
  HttpAnswer answer = client.ReadAnswer();
  std::vector<std::string> events = EventsOf(answer.body);
  json error = json::parse(events.back());
  EXPECT_EQ(error["error"]["code"], "scheduler_unavailable");
  EXPECT_EQ(error["error"]["type"], "service_unavailable_error");
  EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
  EXPECT_TRUE(client.AtEnd());
}

TEST(Resume, AWrongEventEndsTheStreamInsteadOfChangingItsText) {
  TestGateway gateway;
  gateway.scheduler.Say({'a', 9999999});
  HttpAnswer answer = Post(gateway.address(), "/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(answer.status, 500);
}

TEST(Unavailable, ANewRequestLearnsWithinASecondThatTheSchedulerIsAway) {
  TestGateway gateway;
  gateway.scheduler.stop = true;
  gateway.StopScheduler();
  ASSERT_TRUE(Eventually([&] { return !gateway.backends->scheduler->Connected(); }));
  absl::Time begin = absl::Now();
  HttpAnswer answer = Post(gateway.address(), "/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers["retry-after"], "1");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
}

TEST(Unavailable, ANewRequestLearnsWithinASecondThatTheTokenizerIsAway) {
  TestGateway gateway;
  gateway.StopTokenizer();
  absl::Time begin = absl::Now();
  HttpAnswer answer = Post(gateway.address(), "/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
}

TEST(Disconnect, CancelsTheSequenceInEveryPhase) {
  TestGateway gateway;
  const FakeScheduler::Script queued{.wait_before_start = true};
  const FakeScheduler::Script prefilling{.wait_before_tokens = true};
  const FakeScheduler::Script decoding{.ids = [](const v1::GenerateRequest&) { return std::vector<uint32_t>(4000, 'a'); },
                                       .pause = absl::Milliseconds(2)};
  int cancelled = 0;
  for (const auto& script : {queued, prefilling, decoding}) {
    gateway.scheduler.SetScript(script);
    for (const char* stream : {"false", "true"}) {
      RawClient client(gateway.address());
      client.Send(PostText("/v1/completions", absl::StrCat(R"({"prompt":"x","max_tokens":4000,"n":2,"stream":)", stream, "}")));
      ASSERT_TRUE(Eventually([&] { return gateway.scheduler.running() == 2; }));
      client.Close();
      cancelled += 2;
      ASSERT_TRUE(Eventually([&] { return gateway.scheduler.running() == 0; }));
      EXPECT_EQ(gateway.scheduler.cancelled(), cancelled);
      EXPECT_TRUE(Eventually([&] { return gateway.http->active_requests() == 0; }));
    }
  }
  EXPECT_EQ(gateway.backends->metrics.disconnects.Value(), 6);
  EXPECT_TRUE(Eventually([&] { return gateway.backends->live.size() == 0; })) << "nothing is left behind";
}

TEST(SlowReader, IsCancelledAndNobodyElseNotices) {
  TestGateway gateway(Limits{.unsent_event_bytes = 64 << 10});
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest& request) {
                                 return std::vector<uint32_t>(request.prompt_token_ids_size() == 1 ? 4000 : 5, 'a');
                               }});
  RawClient slow(gateway.address());
  // Twenty alternatives a token make four thousand tokens larger than what the kernel keeps.
  slow.Send(PostText("/v1/completions", R"({"prompt":[1],"max_tokens":4000,"logprobs":20,"n":16,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return gateway.backends->metrics.slow_clients.Value() == 1; }));
  EXPECT_TRUE(Eventually([&] { return gateway.scheduler.running() == 0; }));
  EXPECT_EQ(TextOf(Post(gateway.address(), "/v1/completions", kStream).body), "aaaaa");
}

TEST(Drain, RefusesNewRequestsAndFinishesRunningOnes) {
  TestGateway gateway;
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return LongText(); }, .pause = absl::Milliseconds(5)});
  RawClient client(gateway.address()), waiting(gateway.address());
  waiting.Send(PostText("/v1/completions", R"({"prompt":"x","max_tokens":20})"));
  client.Send(PostText("/v1/completions", kStream));
  ASSERT_TRUE(client.ReadUntil("\"text\":\"c\""));
  gateway.service->BeginDrain();
  EXPECT_EQ(Get(gateway.address(), "/ready").status, 503);
  EXPECT_EQ(Get(gateway.address(), "/health").status, 200);
  HttpAnswer refused = Post(gateway.address(), "/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers["retry-after"], "1");
  EXPECT_EQ(refused.headers["connection"], "close");
  EXPECT_EQ(EventsOf(client.ReadAnswer().body).back(), "[DONE]");
  EXPECT_EQ(waiting.ReadAnswer().status, 200);
  EXPECT_TRUE(Eventually([&] { return gateway.http->active_requests() == 0; }));
}

TEST(Drain, EndsWhatIsLeftWithAnError) {
  TestGateway gateway;
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return std::vector<uint32_t>(4000, 'a'); },
                               .pause = absl::Milliseconds(5)});
  RawClient streaming(gateway.address()), waiting(gateway.address());
  streaming.Send(PostText("/v1/completions", kStream));
  waiting.Send(PostText("/v1/completions", R"({"prompt":"x","max_tokens":1000})"));
  ASSERT_TRUE(streaming.ReadUntil("\"text\":\"a"));
  ASSERT_TRUE(Eventually([&] { return gateway.scheduler.running() == 2; }));
  gateway.service->BeginDrain();
  gateway.service->AbortAll();
  std::vector<std::string> events = EventsOf(streaming.ReadAnswer().body);
  EXPECT_EQ(json::parse(events.back())["error"]["code"], "shutting_down");
  EXPECT_EQ(waiting.ReadAnswer().status, 503);
  EXPECT_TRUE(Eventually([&] { return gateway.scheduler.running() == 0; })) << "the sequences are cancelled";
}

TEST(Load, ManyStreamsAtOnceEachGetTheirOwnText) {
  TestGateway gateway;
  gateway.scheduler.SetScript({.ids = [](const v1::GenerateRequest& request) {
                                 std::vector<uint32_t> ids;
                                 for (int i = 0; i < 50; ++i) ids.push_back('a' + (request.prompt_token_ids(0) + i) % 26);
                                 return ids;
                               },
                               .tokens_per_message = 3});
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 24; ++i) {
    clients.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) {
        std::string expected;
        for (int k = 0; k < 50; ++k) expected.push_back(static_cast<char>('a' + (i + k) % 26));
        std::string body = absl::StrCat("{\"prompt\":[", i, "],\"stream\":true,\"max_tokens\":50}");
        if (TextOf(Post(gateway.address(), "/v1/completions", body).body) == expected) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 24 * 5);
}

}  // namespace
}  // namespace tercet::gateway
