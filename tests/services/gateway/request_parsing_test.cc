#include <gtest/gtest.h>

#include "services/gateway/http/api_error.h"
#include "services/gateway/json_text.h"
#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/completion_request.h"

namespace tercet::gateway {
namespace {

struct Bad {
  std::string body;
  std::string param;    // "" for none
  std::string message;  // a part of it
};

template <typename Parse>
void ExpectRefused(const std::vector<Bad>& cases, Parse parse) {
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.body);
    auto request = parse(bad.body);
    if (request.ok()) {
      ADD_FAILURE() << "was accepted";
      continue;
    }
    ApiError error = ToApiError(request.status());
    EXPECT_EQ(error.http_status, 400);
    EXPECT_EQ(error.type, "invalid_request_error");
    EXPECT_EQ(error.param.value_or(""), bad.param);
    EXPECT_NE(error.message.find(bad.message), std::string::npos) << error.message;
  }
}

std::string Chat(const std::string& members) { return R"({"messages":[{"role":"user","content":"hi"}])" + (members.empty() ? "" : "," + members) + "}"; }
std::string Completion(const std::string& members) { return R"({"prompt":"hi")" + (members.empty() ? "" : "," + members) + "}"; }

TEST(JsonText, RefusesWhatIsNotStrictJson) {
  std::string deep = std::string(70, '[') + std::string(70, ']');
  ExpectRefused(
      {
          {"", "", "not usable JSON"},
          {"{", "", "not usable JSON"},
          {"[]", "", "must be a JSON object, not array"},
          {"7", "", "must be a JSON object, not number"},
          {R"({"prompt":"a",})", "", "at byte 15"},
          {R"({"prompt":"a"} x)", "", "not usable JSON"},
          {R"({"prompt":"a","temperature":NaN})", "", "not usable JSON"},
          {R"({"prompt":"a","temperature":1e999})", "", "number overflow"},
          {R"({"prompt":"a","prompt":"b"})", "", "the key \"prompt\" appears twice"},
          {R"({"prompt":"a","metadata":{"x":"1","x":"2"}})", "", "the key \"x\" appears twice"},
          {"{\"prompt\":\"\xff\"}", "", "invalid string"},
          {"{\"prompt\":\"\xed\xa0\x80\"}", "", "invalid string"},
          {R"({"prompt":"\ud800"})", "", "surrogate"},
          {"{\"prompt\":\"a\nb\"}", "", "invalid string"},
          {R"({"prompt":)" + deep + "}", "", "nested deeper than 64"},
      },
      [](const std::string& body) { return ParseJsonObject(body); });
}

TEST(JsonText, EscapesEveryLineBreak) {
  std::string out;
  AppendJsonString(&out, "a\"\\\n\r\t\x01\x7f\u0085\u2028\u2029é😀");
  EXPECT_EQ(out, R"("a\"\\\n\r\t\u0001\u007f\u0085\u2028\u2029é😀")");
  EXPECT_EQ(Json::parse(out).get<std::string>(), "a\"\\\n\r\t\x01\x7f\u0085\u2028\u2029é😀");
}

TEST(JsonText, WritesFloatsThatReadBackAsTheSameBits) {
  for (float value : {-0.123456789f, -1e-7f, -0.0f, -33.25f, -3.4028235e3f}) {
    std::string out;
    AppendJsonFloat(&out, value);
    EXPECT_EQ(static_cast<float>(Json::parse(out).get<double>()), value) << out;
  }
  std::string infinite;
  AppendJsonFloat(&infinite, -INFINITY);
  EXPECT_EQ(infinite, "-9999");
}

TEST(ChatRequest, NamesTheFieldThatIsWrong) {
  ExpectRefused(
      {
          {"{}", "messages", "is required"},
          {R"({"messages":[]})", "messages", "at least one message"},
          {R"({"messages":"hi"})", "messages", "must be an array"},
          {R"({"messages":[7]})", "messages[0]", "must be an object, not 7"},
          {R"({"messages":[{"role":"user"}]})", "messages[0].content", "is required"},
          {R"({"messages":[{"content":"x"}]})", "messages[0].role", "must be one of"},
          {R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role", "must be one of"},
          {R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":5}]})", "messages[1].content", "not 5"},
          {R"({"messages":[{"role":"user","content":[]}]})", "messages[0].content", "an empty array"},
          {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
           "messages[0].content[0].type", "reads text only"},
          {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text", "is required"},
          {R"({"messages":[{"role":"user","content":"x","mood":"good"}]})", "messages[0].mood", "is not a field"},
          {R"({"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f"}}]}]})",
           "messages[0].tool_calls[0].function.arguments", "is required"},
          {Chat(R"("frobnicate":1)"), "frobnicate", "is not a field"},
          {Chat(R"("temperature":"hot")"), "temperature", "must be a number from 0 to 100, not a string"},
          {Chat(R"("temperature":-0.1)"), "temperature", "not -0.1"},
          {Chat(R"("temperature":101)"), "temperature", "not 101"},
          {Chat(R"("temperature":true)"), "temperature", "not true"},
          {Chat(R"("top_p":0)"), "top_p", "greater than 0"},
          {Chat(R"("top_p":1.5)"), "top_p", "from 0 to 1"},
          {Chat(R"("min_p":-1)"), "min_p", "from 0 to 1"},
          {Chat(R"("top_k":1.5)"), "top_k", "whole number"},
          {Chat(R"("top_k":-2)"), "top_k", "whole number"},
          {Chat(R"("seed":"x")"), "seed", "whole number"},
          {Chat(R"("seed":1.5)"), "seed", "whole number"},
          {Chat(R"("seed":99999999999999999999)"), "seed", "whole number"},
          {Chat(R"("n":0)"), "n", "from 1 to 16"},
          {Chat(R"("n":17)"), "n", "from 1 to 16"},
          {Chat(R"("max_tokens":-1)"), "max_tokens", "from 0"},
          {Chat(R"("max_tokens":1,"max_completion_tokens":2)"), "max_completion_tokens", "contradicts"},
          {Chat(R"("stop":"")"), "stop", "at least one character"},
          {Chat(R"("stop":["a",1])"), "stop[1]", "not 1"},
          {Chat(R"("stop":7)"), "stop", "not 7"},
          {Chat(R"("stop_token_ids":[-1])"), "stop_token_ids[0]", "must be a token id"},
          {Chat(R"("stop_token_ids":[4294967296])"), "stop_token_ids[0]", "must be a token id"},
          {Chat(R"("stream":"yes")"), "stream", "true or false"},
          {Chat(R"("stream_options":{"include_usage":true})"), "stream_options", "stream: true"},
          {Chat(R"("stream":true,"stream_options":{"include_usage":1})"), "stream_options.include_usage", "true or false"},
          {Chat(R"("stream":true,"stream_options":{"x":1})"), "stream_options.x", "is not a field"},
          {Chat(R"("top_logprobs":3)"), "top_logprobs", "needs 'logprobs'"},
          {Chat(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", "from 0 to 20"},
          {Chat(R"("logprobs":3)"), "logprobs", "true or false"},
          {Chat(R"("frequency_penalty":0.5)"), "frequency_penalty", "not supported"},
          {Chat(R"("presence_penalty":0.5)"), "presence_penalty", "not supported"},
          {Chat(R"("logit_bias":{"5":1})"), "logit_bias", "not supported"},
          {Chat(R"("tools":[{"type":"function"}])"), "tools", "not supported"},
          {Chat(R"("tool_choice":"required")"), "tool_choice", "not supported"},
          {Chat(R"("response_format":{"type":"json_object"})"), "response_format", "not supported"},
          {Chat(R"("min_tokens":5)"), "min_tokens", "not supported"},
          {Chat(R"("reasoning_effort":"low")"), "reasoning_effort", "not supported"},
          {Chat(R"("store":true)"), "store", "not supported"},
          {Chat(R"("service_tier":"priority")"), "service_tier", "not supported"},
          {Chat(R"("metadata":{"a":1})"), "metadata", "strings as values"},
          {Chat(R"("model":7)"), "model", "must be a string"},
          {Chat(R"("stream":true,"prompt_logprobs":1)"), "prompt_logprobs", "not available"},
          {Chat(R"("echo":true)"), "echo", "is not a field"},
      },
      ParseChatRequest);
}

TEST(ChatRequest, AcceptsDefaultsWrittenOut) {
  auto request = ParseChatRequest(Chat(
      R"("frequency_penalty":0,"presence_penalty":0.0,"logit_bias":null,"tools":null,"tool_choice":"none","user":"u",)"
      R"("response_format":{"type":"text"},"logprobs":null,"stop":null,"n":null,"store":false,"service_tier":"auto",)"
      R"("metadata":{"a":"b"},"stream":false,"stream_options":null,"seed":null,"max_tokens":null,"parallel_tool_calls":true)"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->parameters.n, 1);
  EXPECT_EQ(request->parameters.sampling.temperature(), 1.0f);
  EXPECT_FALSE(request->parameters.max_new_tokens.has_value());
  EXPECT_FALSE(request->parameters.logprobs.has_value());
}

TEST(ChatRequest, ReadsEveryParameter) {
  auto request = ParseChatRequest(Chat(
      R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"seed":-1,"n":3,"stop":["a","b"],)"
      R"("stop_token_ids":[1,2],"include_stop_str_in_output":true,"ignore_eos":true,"max_completion_tokens":16.0,)"
      R"("logprobs":true,"top_logprobs":5,"stream":true,"stream_options":{"include_usage":true},"priority":-5,"cache_salt":"s")"));
  ASSERT_TRUE(request.ok()) << request.status();
  const GenerationParameters& p = request->parameters;
  EXPECT_EQ(p.model, "m");
  EXPECT_EQ(p.sampling.temperature(), 0.5f);
  EXPECT_EQ(p.sampling.top_p(), 0.9f);
  EXPECT_EQ(p.sampling.top_k(), 40u);
  EXPECT_EQ(p.sampling.min_p(), 0.05f);
  EXPECT_EQ(p.seed, UINT64_MAX);
  EXPECT_EQ(p.n, 3);
  EXPECT_EQ(p.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.stop_token_ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(p.include_stop && p.ignore_eos && p.stream && p.include_usage);
  EXPECT_EQ(p.max_new_tokens, 16u);
  EXPECT_EQ(p.logprobs, 5);
  EXPECT_EQ(p.priority, -5);
  EXPECT_EQ(p.cache_salt, "s");
}

TEST(ChatRequest, HandsTheTemplateOnlyWhatItKnowsInTheOrderGiven) {
  auto request = ParseChatRequest(
      R"({"messages":[{"role":"developer","content":[{"type":"text","text":"be kind"}]},)"
      R"({"content":null,"role":"assistant","refusal":null,"annotations":[],"audio":null,"function_call":null,)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"ok"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->messages_json,
            R"([{"role":"system","content":[{"type":"text","text":"be kind"}]},)"
            R"({"content":null,"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
            R"({"role":"tool","tool_call_id":"1","content":"ok"}])");
}

TEST(CompletionRequest, NamesTheFieldThatIsWrong) {
  ExpectRefused(
      {
          {"{}", "prompt", "is required"},
          {R"({"prompt":[]})", "prompt", "must not be empty"},
          {R"({"prompt":[[]]})", "prompt[0]", "must not be empty"},
          {R"({"prompt":7})", "prompt", "not 7"},
          {R"({"prompt":["a",7]})", "prompt[1]", "not 7"},
          {R"({"prompt":[1,"a"]})", "prompt[1]", "must be a token id"},
          {R"({"prompt":[1,-5]})", "prompt[1]", "not -5"},
          {R"({"prompt":[1.5]})", "prompt[0]", "not 1.5"},
          {R"({"prompt":[[1],[2,true]]})", "prompt[1][1]", "not true"},
          {R"({"prompt":[[1],"a"]})", "prompt[1]", "an array of token ids"},
          {Completion(R"("logprobs":true)"), "logprobs", "whole number"},
          {Completion(R"("logprobs":21)"), "logprobs", "from 0 to 20"},
          {Completion(R"("suffix":"x")"), "suffix", "not supported"},
          {Completion(R"("best_of":2)"), "best_of", "not supported"},
          {Completion(R"("echo":1)"), "echo", "true or false"},
          {Completion(R"("max_completion_tokens":1)"), "max_completion_tokens", "is not a field"},
          {Completion(R"("messages":[])"), "messages", "is not a field"},
      },
      ParseCompletionRequest);
}

TEST(CompletionRequest, TakesTextsAndIds) {
  EXPECT_EQ(std::get<std::string>(ParseCompletionRequest(Completion(""))->prompts[0]), "hi");
  EXPECT_EQ(std::get<std::vector<uint32_t>>(ParseCompletionRequest(R"({"prompt":[1,2]})")->prompts[0]),
            (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(ParseCompletionRequest(R"({"prompt":["a","b"]})")->prompts.size(), 2u);
  EXPECT_EQ(ParseCompletionRequest(R"({"prompt":[[1],[2,3]]})")->prompts.size(), 2u);
  EXPECT_EQ(ParseCompletionRequest(Completion(""))->parameters.max_new_tokens, 16u);
  EXPECT_EQ(ParseCompletionRequest(Completion(R"("max_tokens":0,"echo":true,"logprobs":0)"))->parameters.max_new_tokens, 0u);
}

TEST(CompletionRequest, LimitsPromptsTimesChoices) {
  std::string prompts = "[";
  for (int i = 0; i < 600; ++i) prompts += i == 0 ? "\"a\"" : ",\"a\"";
  prompts += "]";
  EXPECT_TRUE(ParseCompletionRequest("{\"prompt\":" + prompts + "}").ok());
  ExpectRefused({{"{\"prompt\":" + prompts + ",\"n\":2}", "n", "more than 1024 sequences"}}, ParseCompletionRequest);
}

TEST(Seeds, ChoiceZeroIsTheSeedItself) {
  EXPECT_EQ(SeedOfChoice(7, 0), 7u);
  EXPECT_NE(SeedOfChoice(7, 1), SeedOfChoice(7, 2));
  EXPECT_EQ(SeedOfChoice(7, 1), SeedOfChoice(7, 1));
}

}  // namespace
}  // namespace tercet::gateway
