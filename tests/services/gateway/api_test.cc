// The endpoints end to end, with a tokenizer and a scheduler of the test's own.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/services/gateway/fake_services.h"
#include "tests/services/gateway/raw_client.h"

namespace tercet::gateway {
namespace {

using nlohmann::json;

class ApiTest : public testing::Test {
 protected:
  json Complete(const std::string& members, int expected = 200) { return Call("/v1/completions", "{\"prompt\":\"ab\"", members, expected); }
  json Chat(const std::string& members, int expected = 200) {
    return Call("/v1/chat/completions", R"({"messages":[{"role":"user","content":"ab"}])", members, expected);
  }
  json Call(const std::string& path, const std::string& begin, const std::string& members, int expected) {
    HttpAnswer answer = Post(gateway_.address(), path, begin + (members.empty() ? "" : "," + members) + "}");
    EXPECT_EQ(answer.status, expected) << answer.body;
    last_ = answer;
    return json::parse(answer.body, nullptr, false);
  }
  // The events of a stream, parsed; the last one must be [DONE] and is left out.
  std::vector<json> Stream(const std::string& path, const std::string& body) {
    HttpAnswer answer = Post(gateway_.address(), path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> events = EventsOf(answer.body);
    EXPECT_FALSE(events.empty());
    if (events.empty()) return {};
    EXPECT_EQ(events.back(), "[DONE]");
    events.pop_back();
    std::vector<json> parsed;
    for (const std::string& event : events) parsed.push_back(json::parse(event));
    return parsed;
  }

  TestGateway gateway_;
  HttpAnswer last_;
};

std::vector<uint32_t> Ids(const std::vector<std::string>& words, bool end = true) {
  std::vector<uint32_t> ids;
  for (const std::string& word : words) ids.push_back(WordId(word));
  if (end) ids.push_back(kEnd);
  return ids;
}

TEST_F(ApiTest, ChatHasTheShapeOfOpenAi) {
  gateway_.scheduler.Say(Ids({" Paris", "안녕"}));
  json answer = Chat("");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["id"].get<std::string>().substr(0, 9), "chatcmpl-");
  EXPECT_GT(answer["created"].get<int64_t>(), 1700000000);
  EXPECT_EQ(answer["model"], "fake-model-1b");
  EXPECT_EQ(answer["system_fingerprint"].get<std::string>().substr(0, 7), "tercet-");
  EXPECT_EQ(answer["choices"], json::parse(R"([{"index":0,"message":{"role":"assistant","content":" Paris안녕","refusal":null},
                                               "logprobs":null,"finish_reason":"stop"}])"));
  // "user:ab" is seven bytes; the end counts as a generated token.
  EXPECT_EQ(answer["usage"], json::parse(R"({"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,
                                             "prompt_tokens_details":{"cached_tokens":0}})"));
  EXPECT_EQ(gateway_.tokenizer.last_messages(), R"([{"role":"user","content":"ab"}])");
}

TEST_F(ApiTest, CompletionHasTheShapeOfOpenAi) {
  gateway_.scheduler.Say(Ids({"DEF", "G"}));
  json answer = Complete("\"max_tokens\":1");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"], json::parse(R"([{"index":0,"text":"DEF","logprobs":null,"finish_reason":"length"}])"));
  EXPECT_EQ(answer["usage"]["completion_tokens"], 1);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3) << "BOS and two letters";
}

TEST_F(ApiTest, SendsTheSchedulerWhatWasAskedFor) {
  gateway_.scheduler.Say(Ids({"G"}));
  RawClient client(gateway_.address());
  std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  client.Send(PostText("/v1/completions",
                       R"({"prompt":[1,2,3],"temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"seed":42,"max_tokens":9,
                           "stop_token_ids":[5],"ignore_eos":true,"logprobs":3,"priority":7,"cache_salt":"pepper"})",
                       {{"X-Request-Id", "my-id"}, {"traceparent", trace}, {"x-request-timeout-ms", "5000"}}));
  EXPECT_EQ(client.ReadAnswer().headers["x-request-id"], "my-id");
  v1::GenerateRequest request = gateway_.scheduler.requests().at(0);
  EXPECT_EQ(request.request_id(), "my-id");
  EXPECT_EQ(request.traceparent(), trace);
  EXPECT_EQ(request.vocabulary_fingerprint(), gateway_.tokenizer.fingerprint());
  EXPECT_EQ(request.prompt_token_ids_size(), 3);
  EXPECT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_EQ(request.sampling().top_k(), 7u);
  EXPECT_EQ(request.sampling().min_p(), 0.1f);
  EXPECT_EQ(request.sampling().seed(), 42u);
  EXPECT_EQ(request.stop().max_new_tokens(), 9u);
  EXPECT_EQ(request.stop().stop_token_ids(0), 5u);
  EXPECT_TRUE(request.stop().ignore_eos());
  EXPECT_EQ(request.logprobs().top(), 3u);
  EXPECT_TRUE(request.logprobs().enabled());
  EXPECT_FALSE(request.logprobs().prompt());
  EXPECT_LE(request.deadline_ms(), 5000u);
  EXPECT_GE(request.deadline_ms(), 4000u);
  EXPECT_EQ(request.priority(), 7);
  EXPECT_EQ(request.cache_salt(), "pepper");
}

TEST_F(ApiTest, StreamOfChatOpensWithTheRoleAndEndsWithDone) {
  gateway_.scheduler.Say(Ids({" Paris", "\xF0\x9F\x98", "\x80 "}));
  std::vector<json> events =
      Stream("/v1/chat/completions", R"({"messages":[{"role":"user","content":"ab"}],"stream":true})");
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[0]["choices"], json::parse(R"([{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])"));
  std::string text;
  for (const json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_FALSE(event.contains("usage"));
    text += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, " Paris😀 ");
  EXPECT_EQ(events.back()["choices"], json::parse(R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}])"));
}

TEST_F(ApiTest, UsageComesOnlyWhenAskedForAndEqualsTheWholeAnswers) {
  gateway_.scheduler.Say(Ids({"DEF", "G", "HI"}));
  json whole = Complete("");
  for (const char* options : {"", R"(,"stream_options":{})", R"(,"stream_options":null)", R"(,"stream_options":{"include_usage":false})"}) {
    for (const json& event : Stream("/v1/completions", absl::StrCat(R"({"prompt":"ab","stream":true)", options, "}"))) {
      EXPECT_FALSE(event.contains("usage"));
    }
  }
  std::vector<json> events = Stream("/v1/completions", R"({"prompt":"ab","stream":true,"stream_options":{"include_usage":true}})");
  json last = events.back();
  events.pop_back();
  for (const json& event : events) {
    ASSERT_TRUE(event.contains("usage"));
    EXPECT_TRUE(event["usage"].is_null());
  }
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"], whole["usage"]);
}

// A generation that depends on the seed, as sampling does.
void SaySomethingSeeded(FakeScheduler& scheduler) {
  scheduler.SetScript({.ids = [](const v1::GenerateRequest& request) {
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 6; ++i) ids.push_back('a' + (request.sampling().seed() * 31 + i * 7 + request.prompt_token_ids_size()) % 26);
    return ids;
  }});
}

TEST_F(ApiTest, ChoicesDifferAndChoiceZeroIsTheAnswerOfNOne) {
  SaySomethingSeeded(gateway_.scheduler);
  json one = Complete(R"("seed":7)");
  json two = Complete(R"("seed":7,"n":2)");
  ASSERT_EQ(two["choices"].size(), 2u);
  EXPECT_EQ(two["choices"][0], one["choices"][0]);
  EXPECT_EQ(two["choices"][1]["index"], 1);
  EXPECT_NE(two["choices"][1]["text"], one["choices"][0]["text"]);
  EXPECT_EQ(two["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]) << "the prompt counts once";
  EXPECT_EQ(two["usage"]["completion_tokens"], 12);
  EXPECT_EQ(Complete(R"("seed":7,"n":2)")["choices"], two["choices"]);

  std::map<int, std::string> texts;
  std::map<int, int> ends;
  for (const json& event : Stream("/v1/completions", R"({"prompt":"ab","seed":7,"n":2,"stream":true})")) {
    int index = event["choices"][0]["index"];
    texts[index] += event["choices"][0]["text"];
    ends[index] += event["choices"][0]["finish_reason"].is_null() ? 0 : 1;
  }
  EXPECT_EQ(texts, (std::map<int, std::string>{{0, two["choices"][0]["text"]}, {1, two["choices"][1]["text"]}}));
  EXPECT_EQ(ends, (std::map<int, int>{{0, 1}, {1, 1}}));
}

TEST_F(ApiTest, SeveralPromptsBecomeChoicesInOrder) {
  gateway_.scheduler.SetScript({.ids = [](const v1::GenerateRequest& request) {
    return std::vector<uint32_t>{request.prompt_token_ids(request.prompt_token_ids_size() - 1), 'x'};
  }});
  json answer = Call("/v1/completions", R"({"prompt":["a","b","c"],"n":2)", "", 200);
  ASSERT_EQ(answer["choices"].size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], std::string(1, static_cast<char>('a' + i / 2)) + "x");
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6);
  // More than are kept in flight at once.
  std::string many = "{\"prompt\":[";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&many, i == 0 ? "" : ",", "[", 65 + i % 26, "]");
  answer = Call("/v1/completions", many + "]", "", 200);
  ASSERT_EQ(answer["choices"].size(), 100u);
  EXPECT_EQ(answer["choices"][99]["text"], std::string(1, static_cast<char>(65 + 99 % 26)) + "x");
}

TEST_F(ApiTest, StopStringsEndTheAnswerWhereverTokensEnd) {
  struct Case {
    std::string stop, text, reason;
    size_t reported;
  };
  for (int per_message : {1, 2, 5}) {
    gateway_.scheduler.Say(Ids({"DEF", "G", "HI", "JKL", " Paris"}), per_message);
    for (const Case& c : {Case{"DEFGHIJ", "", "stop", 0}, Case{"Pari", "DEFGHIJKL ", "stop", 5}, Case{"HIJ", "DEFG", "stop", 2},
                          Case{"ParisX", "DEFGHIJKL Paris", "stop", 6}}) {
      std::string stop = absl::StrCat("\"logprobs\":0,\"stop\":[\"", c.stop, "\"]");
      json whole = Complete(stop);
      EXPECT_EQ(whole["choices"][0]["text"], c.text);
      EXPECT_EQ(whole["choices"][0]["finish_reason"], c.reason);
      EXPECT_EQ(whole["choices"][0]["logprobs"]["tokens"].size(), c.reported) << c.stop;
      std::string text;
      size_t reported = 0;
      for (const json& event : Stream("/v1/completions", "{\"prompt\":\"ab\",\"stream\":true," + stop + "}")) {
        text += event["choices"][0]["text"];
        if (!event["choices"][0]["logprobs"].is_null()) reported += event["choices"][0]["logprobs"]["tokens"].size();
      }
      EXPECT_EQ(text, c.text);
      EXPECT_EQ(reported, c.reported);
    }
  }
}

TEST_F(ApiTest, AStopStringCancelsTheSequence) {
  gateway_.scheduler.SetScript({.ids = [](const v1::GenerateRequest&) { return std::vector<uint32_t>(1000, 'a'); },
                                .pause = absl::Milliseconds(1)});
  EXPECT_EQ(Complete(R"("stop":"aaaa","max_tokens":1000)")["choices"][0]["text"], "");
  EXPECT_TRUE(Eventually([&] { return gateway_.scheduler.cancelled() == 1 && gateway_.scheduler.running() == 0; }));
}

TEST_F(ApiTest, ChatLogprobsHaveTextBytesAndAlternatives) {
  gateway_.scheduler.Say(Ids({"G", "안녕"}, /*end=*/false));
  json content = Chat(R"("logprobs":true,"top_logprobs":2)")["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[1]["token"], "안녕");
  EXPECT_EQ(content[1]["bytes"], json::array({0xEC, 0x95, 0x88, 0xEB, 0x85, 0x95}));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "G");
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "HI");
  EXPECT_EQ(static_cast<float>(content[0]["logprob"].get<double>()), FakeScheduler::LogprobOf(7, WordId("G"))) << "bit for bit";
  EXPECT_TRUE(Chat("")["choices"][0]["logprobs"].is_null());
}

TEST_F(ApiTest, EchoWithLogprobsScoresThePrompt) {
  gateway_.scheduler.Say(Ids({"G", "HI"}));
  for (int generated : {0, 1}) {
    json answer = Call("/v1/completions", R"({"prompt":"Your answer: Yes")",
                       absl::StrCat(R"("echo":true,"logprobs":5,"max_tokens":)", generated), 200);
    json choice = answer["choices"][0];
    json logprobs = choice["logprobs"];
    std::string text = choice["text"];
    EXPECT_EQ(text, generated == 0 ? "Your answer: Yes" : "Your answer: YesG");
    EXPECT_EQ(choice["finish_reason"], "length");
    EXPECT_EQ(answer["usage"]["completion_tokens"], generated);
    size_t expected = 17 + generated;  // BOS, 16 letters
    EXPECT_EQ(answer["usage"]["prompt_tokens"], 17);
    ASSERT_EQ(logprobs["tokens"].size(), expected);
    ASSERT_EQ(logprobs["token_logprobs"].size(), expected);
    ASSERT_EQ(logprobs["top_logprobs"].size(), expected);
    ASSERT_EQ(logprobs["text_offset"].size(), expected);
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
    EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
    for (size_t i = 0; i < expected; ++i) {
      std::string token = logprobs["tokens"][i];
      EXPECT_EQ(text.compare(logprobs["text_offset"][i].get<size_t>(), token.size(), token), 0) << i;
      if (i == 0) continue;
      EXPECT_TRUE(logprobs["top_logprobs"][i].contains(token)) << i;
      EXPECT_EQ(logprobs["top_logprobs"][i][token], logprobs["token_logprobs"][i]);
    }
    EXPECT_EQ(static_cast<float>(logprobs["token_logprobs"][3].get<double>()), FakeScheduler::LogprobOf(3, 'u'));
  }
}

TEST_F(ApiTest, EchoStreamsThePromptFirst) {
  gateway_.scheduler.Say(Ids({"G", "HI"}));
  std::string text;
  size_t tokens = 0;
  for (const json& event : Stream("/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":1,"stream":true})")) {
    text += event["choices"][0]["text"];
    if (!event["choices"][0]["logprobs"].is_null()) tokens += event["choices"][0]["logprobs"]["tokens"].size();
  }
  EXPECT_EQ(text, "abGHI");
  EXPECT_EQ(tokens, 6u);
  EXPECT_EQ(Complete(R"("echo":true,"max_tokens":0)")["choices"][0]["text"], "ab");
}

TEST_F(ApiTest, PromptLogprobsHaveTheShapeOfVllm) {
  gateway_.scheduler.Say(Ids({"G"}));
  json prompt = Complete(R"("prompt_logprobs":1)")["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(prompt.size(), 3u);
  EXPECT_TRUE(prompt[0].is_null());
  EXPECT_EQ(prompt[1]["97"]["decoded_token"], "a");
  EXPECT_EQ(prompt[1]["97"]["rank"], 1);
  EXPECT_EQ(Chat(R"("prompt_logprobs":0)")["prompt_logprobs"].size(), 7u);
}

TEST_F(ApiTest, AnEmptyPromptNeedsATokenToBeginWith) {
  gateway_.scheduler.Say(Ids({"G"}));
  EXPECT_EQ(Call("/v1/completions", R"({"prompt":"")", "", 200)["usage"]["prompt_tokens"], 1);
  gateway_.tokenizer.adds_bos = false;
  json refused = Call("/v1/completions", R"({"prompt":["a",""])", "", 400);
  EXPECT_EQ(refused["error"]["param"], "prompt[1]");
}

TEST_F(ApiTest, RefusesIdsOutsideTheVocabularyAndPromptsOverTheContext) {
  EXPECT_EQ(Call("/v1/completions", R"({"prompt":[1,999999])", "", 400)["error"]["param"], "prompt[1]");
  EXPECT_EQ(Complete(R"("stop_token_ids":[1,999999])", 400)["error"]["param"], "stop_token_ids[1]");
  json error = Call("/v1/completions", absl::StrCat("{\"prompt\":\"", std::string(5000, 'a'), "\""), "", 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_NE(error["message"].get<std::string>().find("4096"), std::string::npos);
  EXPECT_NE(error["message"].get<std::string>().find("5001"), std::string::npos);
}

TEST_F(ApiTest, ErrorsHaveOpenAisShape) {
  json error = Chat(R"("frequency_penalty":1)", 400)["error"];
  EXPECT_EQ(error.size(), 4u);
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "frequency_penalty");
  EXPECT_EQ(error["code"], "unsupported_parameter");
  EXPECT_EQ(Chat(R"("model":"gpt-9")", 404)["error"]["code"], "model_not_found");
  for (const char* name : {"fake-model-1b", "Fake Model 1B", "fake-1b.gguf"}) {
    gateway_.scheduler.Say(Ids({"G"}));
    Chat(absl::StrCat("\"model\":\"", name, "\""), 200);
  }
  gateway_.tokenizer.has_template = false;
  EXPECT_EQ(Chat("", 400)["error"]["message"], "the model has no chat template");
}

TEST_F(ApiTest, RoutesMethodsAndContentTypes) {
  EXPECT_EQ(Get(gateway_.address(), "/nothing").status, 404);
  EXPECT_EQ(Get(gateway_.address(), "/v1/models/").status, 404);
  HttpAnswer wrong = Get(gateway_.address(), "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "POST");
  EXPECT_EQ(Post(gateway_.address(), "/v1/models", "{}").headers["allow"], "GET, HEAD");
  EXPECT_EQ(Post(gateway_.address(), "/tokenize", "{}", {{"Content-Type", "text/plain"}}).status, 415);
  EXPECT_EQ(Post(gateway_.address(), "/tokenize", "{}", {{"Content-Type", "application/json; charset=latin1"}}).status, 415);
  EXPECT_EQ(Post(gateway_.address(), "/tokenize", R"({"content":"a"})", {{"Content-Type", "application/json; charset=UTF-8"}}).status, 200);
  EXPECT_EQ(Post(gateway_.address(), "/tokenize", R"({"content":"a"})", {{"x-request-timeout-ms", "soon"}}).status, 400);
}

TEST_F(ApiTest, ListsItsModel) {
  json list = json::parse(Get(gateway_.address(), "/v1/models").body);
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "fake-model-1b");
  EXPECT_EQ(list["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(json::parse(Get(gateway_.address(), "/v1/models/Fake%20Model%201B").body)["id"], "fake-model-1b");
  EXPECT_EQ(Get(gateway_.address(), "/v1/models/other").status, 404);
  EXPECT_EQ(Get(gateway_.address(), "/v1/models/%ff").status, 404);
}

TEST_F(ApiTest, TokenizesAndDetokenizesUnderBothNames) {
  auto post = [&](const std::string& path, const std::string& body) { return json::parse(Post(gateway_.address(), path, body).body); };
  EXPECT_EQ(post("/tokenize", R"({"content":"ab"})")["tokens"], json::array({97, 98}));
  EXPECT_EQ(post("/tokenize", R"({"content":"a","add_special":true})")["tokens"], json::array({kBos, 97}));
  json vllm = post("/tokenize", R"({"prompt":"a","model":"fake-model-1b","return_token_strs":true})");
  EXPECT_EQ(vllm["tokens"], json::array({kBos, 97}));
  EXPECT_EQ(vllm["count"], 2);
  EXPECT_EQ(vllm["max_model_len"], 4096);
  EXPECT_EQ(vllm["token_strs"], json::array({"<|bos|>", "a"}));
  EXPECT_EQ(post("/tokenize", R"({"content":"é","with_pieces":true})")["tokens"],
            json::parse(R"([{"id":195,"piece":[195]},{"id":169,"piece":[169]}])"));
  EXPECT_EQ(post("/tokenize", R"({"content":"a","prompt":"a"})")["error"]["param"], "content");
  EXPECT_EQ(post("/tokenize", R"({"content":"a","model":"x"})")["error"]["code"], "model_not_found");

  json text = post("/detokenize", R"({"tokens":[256,195,169,97]})");
  EXPECT_EQ(text["content"], "éa");
  EXPECT_EQ(text["prompt"], "éa");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[256,97],"include_special":true})")["content"], "<|bos|>a");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[97,999999]})")["error"]["param"], "tokens[1]");
  EXPECT_EQ(post("/detokenize", R"({"tokens":"a"})")["error"]["param"], "tokens");
}

TEST_F(ApiTest, ReadinessFollowsTheServicesBehind) {
  auto ready = [&] { return Get(gateway_.address(), "/ready").status; };
  EXPECT_EQ(ready(), 200);
  gateway_.scheduler.admitted = false;
  EXPECT_TRUE(Eventually([&] { return ready() == 503; }));
  gateway_.scheduler.admitted = true;
  EXPECT_TRUE(Eventually([&] { return ready() == 200; }));
  gateway_.scheduler.draining = true;
  EXPECT_TRUE(Eventually([&] { return ready() == 503; }));
  gateway_.scheduler.draining = false;
  gateway_.scheduler.stop = true;
  gateway_.StopScheduler();
  EXPECT_TRUE(Eventually([&] { return ready() == 503; }));
  EXPECT_EQ(Get(gateway_.address(), "/health").status, 200);
  gateway_.scheduler.stop = false;
  gateway_.StartScheduler();
  EXPECT_TRUE(Eventually([&] { return ready() == 200; }));
  gateway_.StopTokenizer();
  EXPECT_TRUE(Eventually([&] { return ready() == 503; }));
}

TEST_F(ApiTest, FetchesTheVocabularyAnewWhenTheTokenizerHasAnother) {
  gateway_.scheduler.Say(Ids({"G"}));
  Complete("");
  EXPECT_EQ(gateway_.tokenizer.vocabulary_calls, 1);
  gateway_.tokenizer.ChangeFingerprint();
  Complete("");
  EXPECT_EQ(gateway_.tokenizer.vocabulary_calls, 2);
  EXPECT_EQ(gateway_.scheduler.requests().back().vocabulary_fingerprint(), gateway_.tokenizer.fingerprint());
}

TEST_F(ApiTest, OverloadIs429And503WithRetryAfter) {
  for (auto [code, status] : {std::pair{grpc::StatusCode::RESOURCE_EXHAUSTED, 429}, {grpc::StatusCode::UNAVAILABLE, 503}}) {
    gateway_.scheduler.SetScript({.fault = [code = code](int, int) { return grpc::Status(code, "the queue is full"); }, .retry_after_ms = 2500});
    for (const char* stream : {"", "\"stream\":true"}) {
      json error = Complete(stream, status)["error"];
      EXPECT_EQ(last_.headers["retry-after"], "3");
      EXPECT_EQ(error["message"], "the queue is full");
    }
  }
  gateway_.scheduler.SetScript({.fault = [](int, int) { return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no such thing"); }});
  EXPECT_EQ(Complete("", 400)["error"]["message"], "no such thing");
  gateway_.scheduler.SetScript({.fault = [](int, int) { return grpc::Status(grpc::StatusCode::INTERNAL, "bug"); }});
  EXPECT_EQ(Complete("", 500)["error"]["type"], "server_error");
}

}  // namespace
}  // namespace tercet::gateway
