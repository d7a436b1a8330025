#include "services/gateway/openai/answer.h"

#include <absl/random/random.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <utility>

#include "common/telemetry/log.h"
#include "services/gateway/http/api_error.h"
#include "services/gateway/http/reply.h"
#include "services/gateway/http/request_id.h"
#include "services/gateway/json_text.h"
#include "services/gateway/openai/request_headers.h"

namespace tercet::gateway {
namespace {

uint64_t RandomSeed() {
  thread_local absl::BitGen generator;
  return absl::Uniform<uint64_t>(generator);
}

std::string Hex(std::string_view bytes, size_t digits) {
  std::string hex;
  for (size_t i = 0; i < std::min(digits / 2, bytes.size()); ++i) {
    absl::StrAppend(&hex, absl::Hex(static_cast<unsigned char>(bytes[i]), absl::kZeroPad2));
  }
  return hex;
}

}  // namespace

void Answer::Begin(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange, AnswerSpec spec) {
  auto answer = std::make_shared<Answer>(std::move(backends), std::move(exchange), std::move(spec));
  answer->backends_->live.Add(answer);
  answer->backends_->metrics.running.Increment();
  answer->exchange_->OnGone([weak = std::weak_ptr(answer)](Gone reason) {
    if (auto self = weak.lock()) self->OnGone(reason);
  });
  absl::StatusOr<absl::Duration> timeout =
      RequestTimeout(answer->exchange_->request(), answer->backends_->request_timeout);
  if (!timeout.ok()) return answer->OnFailed(timeout.status());
  answer->context_ = ContextOf(answer->exchange_->request(), answer->arrived_ + *timeout);
  answer->CheckModel();
}

Answer::Answer(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange, AnswerSpec spec)
    : backends_(std::move(backends)), exchange_(std::move(exchange)), spec_(std::move(spec)), arrived_(absl::Now()) {
  const GenerationParameters& parameters = spec_.parameters;
  options_.logprobs = parameters.logprobs.has_value();
  options_.top = parameters.logprobs.value_or(0);
  options_.prompt_logprobs = parameters.prompt_logprobs.has_value();
  options_.prompt_top = parameters.prompt_logprobs.value_or(0);
  seed_ = parameters.seed.value_or(RandomSeed());
}

Answer::~Answer() {
  backends_->live.Remove(this);
  backends_->metrics.running.Decrement();
}

// ---------------------------------------------------------------- from the request to sequences

void Answer::CheckModel() {
  backends_->tokenizer->GetVocabulary(
      exchange_->strand(), [self = shared_from_this()](absl::StatusOr<std::shared_ptr<const Vocabulary>> vocabulary) {
        if (self->ended_) return;
        if (!vocabulary.ok()) return self->OnFailed(vocabulary.status());
        const auto& model = self->spec_.parameters.model;
        const Backends& backends = *self->backends_;
        if (model.has_value() && !backends.models.Knows(*model, **vocabulary, backends.scheduler->Latest())) {
          return self->OnFailed(ModelCatalog::UnknownModel(*model));
        }
        self->Encode();
      });
}

void Answer::Encode() {
  encoding_ = spec_.encode(context_, exchange_->strand(), [self = shared_from_this()](absl::StatusOr<EncodedPrompts> prompts) {
    self->encoding_ = nullptr;
    if (!self->ended_) self->OnPrompts(std::move(prompts));
  });
}

absl::Status Answer::CheckPrompts(const EncodedPrompts& prompts) const {
  const Vocabulary& vocabulary = *prompts.vocabulary;
  uint32_t context = vocabulary.header().context_length;
  for (size_t i = 0; i < prompts.prompts.size(); ++i) {
    const std::vector<uint32_t>& ids = *prompts.prompts[i];
    std::string path = spec_.prompt_path(i);
    if (ids.empty()) {
      return FieldError(path, absl::StrCat("'", path, "' has no tokens, and this model has no token to begin a text with"));
    }
    auto bad = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return !vocabulary.Contains(id); });
    if (bad != ids.end()) {
      path = absl::StrCat(path, "[", bad - ids.begin(), "]");
      return FieldError(path, absl::StrCat("'", path, "' is ", *bad, ", but this model's token ids go from 0 to ",
                                           vocabulary.size() - 1));
    }
    if (context > 0 && ids.size() > context) {
      return FieldError(path,
                        absl::StrCat("This model's maximum context length is ", context, " tokens, but '", path, "' has ",
                                     ids.size(), " tokens. Please shorten it."),
                        "context_length_exceeded");
    }
  }
  for (size_t i = 0; i < spec_.parameters.stop_token_ids.size(); ++i) {
    if (vocabulary.Contains(spec_.parameters.stop_token_ids[i])) continue;
    std::string path = absl::StrCat("stop_token_ids[", i, "]");
    return FieldError(path, absl::StrCat("'", path, "' is not a token id of this model"));
  }
  return absl::OkStatus();
}

void Answer::OnPrompts(absl::StatusOr<EncodedPrompts> prompts) {
  if (!prompts.ok()) return OnFailed(prompts.status());
  if (absl::Status status = CheckPrompts(*prompts); !status.ok()) return OnFailed(std::move(status));
  prompts_ = *std::move(prompts);

  const Vocabulary& vocabulary = *prompts_.vocabulary;
  std::string model, fingerprint;
  AppendJsonString(&model, backends_->models.Id(vocabulary));
  AppendJsonString(&fingerprint, absl::StrCat("tercet-", TERCET_VERSION, "-", Hex(vocabulary.header().fingerprint, 12)));
  std::string_view object = spec_.parameters.stream ? spec_.format->chunk_object() : spec_.format->whole_object();
  event_head_ = absl::StrCat(spec_.parameters.stream ? "data: " : "", "{\"id\":\"", RandomId(spec_.format->id_prefix()),
                             "\",\"object\":\"", absl::string_view(object.data(), object.size()), "\",\"created\":",
                             absl::ToUnixSeconds(arrived_), ",\"model\":", model, ",\"system_fingerprint\":", fingerprint,
                             ",\"choices\":[");
  event_tail_ = spec_.parameters.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";

  size_t sequences = prompts_.prompts.size() * spec_.parameters.n;
  progress_.resize(sequences);
  job_ = std::make_shared<Job>(
      sequences, [self = shared_from_this()](size_t number) { return self->MakeSequence(number); }, backends_->scheduler,
      exchange_->strand(), shared_from_this());
  job_->Start();
}

SequenceSpec Answer::MakeSequence(size_t number) const {
  const GenerationParameters& parameters = spec_.parameters;
  const Vocabulary& vocabulary = *prompts_.vocabulary;
  const std::vector<uint32_t>& prompt = *prompts_.prompts[PromptOf(number)];
  int choice = static_cast<int>(number % parameters.n);

  SequenceSpec spec;
  spec.vocabulary = prompts_.vocabulary;
  spec.deadline = context_.deadline;
  spec.resume_window = backends_->resume_window;
  spec.echo = spec_.echo;
  spec.text = {.stops = parameters.stops,
               .include_stop = parameters.include_stop,
               .records = options_.logprobs,
               .stop_token_ids = parameters.stop_token_ids,
               .ignore_eos = parameters.ignore_eos};

  v1::GenerateRequest& request = spec.request;
  std::string suffix = progress_.size() > 1 ? absl::StrCat(".", number) : "";
  request.set_request_id(context_.request_id.substr(0, 128 - suffix.size()) + suffix);
  request.set_traceparent(context_.traceparent);
  request.set_vocabulary_fingerprint(vocabulary.header().fingerprint);
  *request.mutable_prompt_token_ids() = {prompt.begin(), prompt.end()};
  *request.mutable_sampling() = parameters.sampling;
  request.mutable_sampling()->set_seed(SeedOfChoice(seed_, choice));
  // More than the context holds cannot be generated; the scheduler ends there.
  uint32_t context = vocabulary.header().context_length > 0 ? vocabulary.header().context_length : INT32_MAX;
  request.mutable_stop()->set_max_new_tokens(std::min(parameters.max_new_tokens.value_or(context), context));
  *request.mutable_stop()->mutable_stop_token_ids() = {parameters.stop_token_ids.begin(), parameters.stop_token_ids.end()};
  request.mutable_stop()->set_ignore_eos(parameters.ignore_eos);
  bool prompt_logprobs = options_.prompt_logprobs || (spec_.echo && options_.logprobs);
  request.mutable_logprobs()->set_enabled(options_.logprobs);
  request.mutable_logprobs()->set_prompt(prompt_logprobs);
  request.mutable_logprobs()->set_top(static_cast<uint32_t>(std::max(options_.top, options_.prompt_top)));
  request.set_priority(parameters.priority);
  request.set_cache_salt(parameters.cache_salt);
  return spec;
}

// ---------------------------------------------------------------- from sequences to the client

template <typename AppendChoice>
void Answer::AppendEvent(AppendChoice choice) {
  size_t before = events_.size();
  events_.append(event_head_);
  if (choice(&events_)) {
    events_.append(event_tail_);
  } else {
    events_.resize(before);
  }
}

void Answer::OpenStream() {
  if (std::exchange(streaming_, true)) return;
  exchange_->BeginEvents();
}

void Answer::SendEvents() {
  exchange_->Send(events_);
  events_.clear();
}

void Answer::OnStarted(size_t sequence, uint32_t cached_tokens) {
  progress_[sequence].cached_tokens = cached_tokens;
  if (!spec_.parameters.stream) return;
  OpenStream();
  AppendEvent([&](std::string* out) { return spec_.format->AppendOpening(out, static_cast<int>(sequence)); });
  SendEvents();
}

void Answer::OnPrompt(size_t sequence, const std::vector<Logprobs>& logprobs) {
  if (options_.prompt_logprobs) progress_[sequence].whole.prompt_logprobs = logprobs;
}

void Answer::OnDelta(size_t sequence, Delta delta) {
  Progress& progress = progress_[sequence];
  absl::Time now = absl::Now();
  if (std::exchange(first_text_, false)) backends_->metrics.first_token.Observe(absl::ToDoubleSeconds(now - arrived_));
  if (progress.last_text != absl::InfinitePast()) {
    backends_->metrics.inter_text.Observe(absl::ToDoubleSeconds(now - progress.last_text));
  }
  progress.last_text = now;
  if (spec_.parameters.stream) {
    AppendEvent([&](std::string* out) {
      spec_.format->AppendDelta(out, static_cast<int>(sequence), delta, *prompts_.vocabulary, options_);
      return true;
    });
    return SendEvents();
  }
  progress.whole.text.append(delta.text);
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(progress.whole.tokens));
}

void Answer::OnFinished(size_t sequence, Finish reason, uint32_t generated_tokens) {
  progress_[sequence].generated_tokens = generated_tokens;
  progress_[sequence].whole.finish = reason;
  if (!spec_.parameters.stream) return;
  AppendEvent([&](std::string* out) {
    spec_.format->AppendEnd(out, static_cast<int>(sequence), reason, options_);
    return true;
  });
  // The only choice's end leaves together with the end of the stream.
  if (progress_.size() > 1) SendEvents();
}

void Answer::OnBroken(size_t sequence, const absl::Status& why) {
  backends_->metrics.resumes.Increment();
  log::Warn("a stream broke and is asked for again", {{"request_id", context_.request_id},
                                                      {"sequence", sequence},
                                                      {"reason", std::string(why.message())}});
}

Answer::Tokens Answer::CountTokens() const {
  Tokens tokens;
  for (size_t i = 0; i < progress_.size(); ++i) {
    tokens.generated += progress_[i].generated_tokens;
    // The choices of one prompt share it.
    if (i % spec_.parameters.n != 0) continue;
    tokens.prompt += prompts_.prompts[PromptOf(i)]->size();
    tokens.cached += progress_[i].cached_tokens;
  }
  return tokens;
}

void Answer::AppendUsage(std::string* out) const {
  Tokens tokens = CountTokens();
  absl::StrAppend(out, "{\"prompt_tokens\":", tokens.prompt, ",\"completion_tokens\":", tokens.generated,
                  ",\"total_tokens\":", tokens.prompt + tokens.generated,
                  ",\"prompt_tokens_details\":{\"cached_tokens\":", tokens.cached, "}}");
}

void Answer::Report() {
  Tokens tokens = CountTokens();
  GatewayMetrics& metrics = backends_->metrics;
  metrics.prompt_tokens.Increment(static_cast<double>(tokens.prompt));
  metrics.cached_tokens.Increment(static_cast<double>(tokens.cached));
  metrics.generated_tokens.Increment(static_cast<double>(tokens.generated));
  metrics.duration.Observe(absl::ToDoubleSeconds(absl::Now() - arrived_));
  exchange_->Note("prompt_tokens", absl::StrCat(tokens.prompt));
  exchange_->Note("cached_tokens", absl::StrCat(tokens.cached));
  exchange_->Note("generated_tokens", absl::StrCat(tokens.generated));
}

void Answer::OnAllFinished() {
  Report();
  if (!spec_.parameters.stream) {
    SendWhole();
    return End();
  }
  if (spec_.parameters.include_usage) {
    events_.append(event_head_);
    events_.append("],\"usage\":");
    AppendUsage(&events_);
    events_.append("}\n\n");
  }
  events_.append("data: [DONE]\n\n");
  SendEvents();
  exchange_->EndEvents(/*close=*/false);
  End();
}

void Answer::SendWhole() {
  std::string body = event_head_;
  for (size_t i = 0; i < progress_.size(); ++i) {
    if (i > 0) body.push_back(',');
    spec_.format->AppendChoice(&body, static_cast<int>(i), progress_[i].whole, *prompts_.prompts[PromptOf(i)],
                               *prompts_.vocabulary, options_);
  }
  body.append("],\"usage\":");
  AppendUsage(&body);
  spec_.format->AppendMembers(&body, progress_[0].whole, *prompts_.prompts[0], *prompts_.vocabulary, options_);
  body.push_back('}');
  exchange_->Reply(Response{.body = std::move(body)});
}

void Answer::OnFailed(absl::Status status) {
  if (ended_) return;
  ApiError error = ToApiError(status);
  if (error.http_status >= 500) {
    log::Warn("a request failed", {{"request_id", context_.request_id}, {"reason", error.message}});
  }
  if (!streaming_) {
    ReplyError(*exchange_, error);
  } else {
    events_.append("data: ").append(ErrorBody(error)).append("\n\n");
    exchange_->Note("error", error.message);
    SendEvents();
    exchange_->EndEvents(/*close=*/true);
  }
  End();
}

void Answer::OnGone(Gone reason) {
  if (ended_) return;
  (reason == Gone::kTooSlow ? backends_->metrics.slow_clients : backends_->metrics.disconnects).Increment();
  End();
}

void Answer::Abort(const absl::Status& status) {
  exchange_->strand()->Post([self = shared_from_this(), status] { self->OnFailed(status); });
}

void Answer::End() {
  if (std::exchange(ended_, true)) return;
  if (auto encoding = std::exchange(encoding_, nullptr)) encoding->Cancel();
  if (auto job = std::exchange(job_, nullptr)) job->Cancel();
}

}  // namespace tercet::gateway
