#include "services/cli/answer.h"

#include <fmt/format.h>

#include "services/cli/sse_reader.h"

namespace tercet::cli {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int64_t IntegerOr(const json& object, const char* key, int64_t otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

// The text of a chunk, chat or completion.
std::string TextOf(const json& choice) {
  const auto delta = choice.find("delta");
  const json& holder = delta != choice.end() ? *delta : choice;
  const auto text = holder.find(delta != choice.end() ? "content" : "text");
  return text != holder.end() && text->is_string() ? text->get<std::string>() : "";
}

void ReadUsage(const json& usage, AnswerStatistics* statistics) {
  statistics->prompt_tokens = IntegerOr(usage, "prompt_tokens", 0);
  statistics->generated_tokens = IntegerOr(usage, "completion_tokens", 0);
  if (usage.contains("prompt_tokens_details") && usage["prompt_tokens_details"].is_object()) {
    statistics->cached_tokens = IntegerOr(usage["prompt_tokens_details"], "cached_tokens", 0);
  }
}

}  // namespace

void SamplingFlags::AddTo(json* request) const {
  if (temperature) (*request)["temperature"] = *temperature;
  if (top_p) (*request)["top_p"] = *top_p;
  if (top_k) (*request)["top_k"] = *top_k;
  if (min_p) (*request)["min_p"] = *min_p;
  if (seed) (*request)["seed"] = *seed;
  if (max_tokens) (*request)["max_tokens"] = *max_tokens;
}

double AnswerStatistics::tokens_per_s() const {
  const double seconds = (total_ms - first_token_ms) / 1000;
  return generated_tokens > 1 && seconds > 0 ? static_cast<double>(generated_tokens - 1) / seconds : 0;
}

std::string AnswerStatistics::ToString() const {
  std::string cached = cached_tokens > 0 ? fmt::format(" ({} cached)", cached_tokens) : "";
  return fmt::format("time to first token {:.0f} ms, {} tokens at {:.1f} tokens/s, prompt {} tokens{}, ended by {}",
                     first_token_ms, generated_tokens, tokens_per_s(), prompt_tokens, cached, finish_reason);
}

absl::StatusOr<AnswerStatistics> StreamAnswer(HttpClient* client, const HttpEndpoint& endpoint, const std::string& path,
                                              json request, const std::function<void(std::string_view)>& on_text,
                                              Interrupt* interrupt) {
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  AnswerStatistics statistics;
  std::string error;
  bool done = false;
  const Clock::time_point begin = Clock::now();
  SseReader reader([&](std::string_view data) {
    if (data == "[DONE]") {
      done = true;
      return;
    }
    const json event = json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) return;
    if (event.contains("error")) {
      error = ErrorSentence(HttpReply{200, std::string(data)});
      return;
    }
    if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object())
      ReadUsage(*usage, &statistics);
    const auto choices = event.find("choices");
    if (choices == event.end() || !choices->is_array() || choices->empty() || !(*choices)[0].is_object()) return;
    const json& choice = (*choices)[0];
    if (const std::string text = TextOf(choice); !text.empty()) {
      if (statistics.first_token_ms == 0) statistics.first_token_ms = MillisecondsSince(begin);
      statistics.total_ms = MillisecondsSince(begin);
      on_text(text);
    }
    const auto reason = choice.find("finish_reason");
    if (reason != choice.end() && reason->is_string()) statistics.finish_reason = reason->get<std::string>();
  });
  absl::StatusOr<HttpReply> reply = client->Stream(
      endpoint, path, request.dump(-1, ' ', false, json::error_handler_t::replace),
      [&](std::string_view bytes) {
        reader.Push(bytes);
        return true;
      },
      interrupt);
  if (!reply.ok()) return reply.status();
  if (reply->status != 200) return absl::FailedPreconditionError(ErrorSentence(*reply));
  if (!error.empty()) return absl::AbortedError(error);
  if (!done) return absl::UnavailableError("the answer broke off: the server closed the stream before its end");
  if (statistics.first_token_ms == 0) statistics.first_token_ms = statistics.total_ms = MillisecondsSince(begin);
  return statistics;
}

absl::StatusOr<std::string> ServedModel(HttpClient* client, const HttpEndpoint& endpoint) {
  absl::StatusOr<HttpReply> reply = client->Get(endpoint, "/v1/models", std::chrono::seconds(10));
  if (!reply.ok()) return reply.status();
  if (reply->status != 200) return absl::FailedPreconditionError(ErrorSentence(*reply));
  const json body = json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  if (body.is_object() && body.contains("data") && body["data"].is_array() && !body["data"].empty()) {
    const json& id = body["data"][0].value("id", json());
    if (id.is_string()) return id.get<std::string>();
  }
  return absl::NotFoundError(fmt::format("{} offers no model", endpoint.base_url));
}

}  // namespace tercet::cli
