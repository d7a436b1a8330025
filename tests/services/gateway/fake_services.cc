#include "tests/services/gateway/fake_services.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/rpc/channel.h"
#include "services/gateway/http/api_error.h"

namespace tercet::gateway {

const std::vector<std::string> kWords = {"DEF", "G", "HI", "JKL", " Paris", "\nUser", ":", "\xF0\x9F\x98", "\x80 ", "안녕", " world"};

uint32_t WordId(const std::string& word) {
  auto found = std::find(kWords.begin(), kWords.end(), word);
  EXPECT_NE(found, kWords.end()) << word;
  return kFirstWord + static_cast<uint32_t>(found - kWords.begin());
}

std::vector<uint32_t> Bytes(const std::string& text) {
  std::vector<uint32_t> ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

namespace {

uint32_t VocabularySize() { return kFirstWord + static_cast<uint32_t>(kWords.size()); }

std::string PieceOf(uint32_t id) {
  if (id < 256) return std::string(1, static_cast<char>(id));
  if (id == kBos) return "<|bos|>";
  if (id == kEnd) return "<|end|>";
  return kWords[id - kFirstWord];
}

bool IsControl(uint32_t id) { return id == kBos || id == kEnd; }

}  // namespace

std::shared_ptr<const Vocabulary> TestVocabulary(bool strip_leading_space, uint32_t context_length) {
  Vocabulary::Builder builder({.fingerprint = std::string(16, 'f'),
                               .size = VocabularySize(),
                               .has_chat_template = true,
                               .model_name = "Fake Model 1B",
                               .context_length = context_length,
                               .strip_leading_space = strip_leading_space,
                               .end_of_generation_ids = {kEnd}});
  for (uint32_t id = 0; id < VocabularySize(); ++id) EXPECT_TRUE(builder.Add(id, PieceOf(id), IsControl(id)).ok());
  return *builder.Build();
}

std::string FakeTokenizer::fingerprint() const { return absl::StrCat("fingerprint-", absl::Dec(generation.load(), absl::kZeroPad4)); }

grpc::Status FakeTokenizer::Encode(grpc::ServerContext*, const v1::EncodeRequest* request, v1::EncodeReply* reply) {
  if (request->add_special() && adds_bos) reply->add_token_ids(kBos);
  for (uint32_t id : Bytes(request->text())) reply->add_token_ids(id);
  reply->set_vocabulary_fingerprint(fingerprint());
  return grpc::Status::OK;
}

grpc::Status FakeTokenizer::RenderChat(grpc::ServerContext*, const v1::RenderChatRequest* request,
                                       v1::RenderChatReply* reply) {
  if (!has_template) return {grpc::StatusCode::FAILED_PRECONDITION, "the model has no chat template"};
  {
    std::lock_guard lock(mutex_);
    last_messages_ = request->messages_json();
  }
  auto messages = nlohmann::json::parse(request->messages_json());
  for (const auto& message : messages) {
    if (message["content"].is_string()) {
      reply->mutable_text()->append(absl::StrCat(message["role"].get<std::string>(), ":", message["content"].get<std::string>()));
    }
  }
  for (uint32_t id : Bytes(reply->text())) reply->add_token_ids(id);
  reply->set_vocabulary_fingerprint(fingerprint());
  return grpc::Status::OK;
}

std::string FakeTokenizer::last_messages() const {
  std::lock_guard lock(mutex_);
  return last_messages_;
}

grpc::Status FakeTokenizer::DescribeVocabulary(grpc::ServerContext*, const v1::DescribeVocabularyRequest*,
                                               grpc::ServerWriter<v1::DescribeVocabularyReply>* writer) {
  ++vocabulary_calls;
  v1::DescribeVocabularyReply reply;
  v1::VocabularyHeader* header = reply.mutable_header();
  header->set_fingerprint(fingerprint());
  header->set_size(VocabularySize());
  header->set_bos_id(kBos);
  header->set_eos_id(kEnd);
  header->add_end_of_generation_ids(kEnd);
  header->set_has_chat_template(true);
  header->set_model_name("Fake Model 1B");
  header->set_context_length(4096);
  writer->Write(reply);
  for (uint32_t first = 0; first < VocabularySize(); first += 100) {
    reply.mutable_pieces()->Clear();
    reply.mutable_pieces()->set_first_id(first);
    for (uint32_t id = first; id < std::min(first + 100, VocabularySize()); ++id) {
      v1::VocabularyPiece* piece = reply.mutable_pieces()->add_pieces();
      piece->set_bytes(PieceOf(id));
      piece->set_control(IsControl(id));
    }
    writer->Write(reply);
  }
  return grpc::Status::OK;
}

void FakeScheduler::SetScript(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeScheduler::Say(std::vector<uint32_t> ids, int tokens_per_message) {
  SetScript({.ids = [ids = std::move(ids)](const v1::GenerateRequest&) { return ids; }, .tokens_per_message = tokens_per_message});
}

std::vector<v1::GenerateRequest> FakeScheduler::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

float FakeScheduler::LogprobOf(uint32_t position, uint32_t id) {
  return -0.123456789f * static_cast<float>(1 + (position * 7 + id) % 11);
}

grpc::Status FakeScheduler::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                     grpc::ServerWriter<v1::GenerateEvent>* writer) {
  Script script;
  int call;
  {
    std::lock_guard lock(mutex_);
    requests_.push_back(*request);
    call = static_cast<int>(requests_.size());
    script = script_;
  }
  ++running_;
  grpc::Status status = Run(context, *request, writer, script, call);
  if (!status.ok() && script.retry_after_ms >= 0) {
    context->AddTrailingMetadata("retry-after-ms", absl::StrCat(script.retry_after_ms));
  }
  if (context->IsCancelled()) ++cancelled_;
  --running_;
  return status;
}

bool FakeScheduler::WaitForCancel(grpc::ServerContext* context) {
  while (!context->IsCancelled() && !stop) absl::SleepFor(absl::Milliseconds(1));
  return true;
}

grpc::Status FakeScheduler::Run(grpc::ServerContext* context, const v1::GenerateRequest& request,
                                grpc::ServerWriter<v1::GenerateEvent>* writer, const Script& script, int call) {
  auto fault = [&](int sent) { return script.fault ? script.fault(call, sent) : grpc::Status::OK; };
  auto logprobs = [&](uint32_t position, uint32_t id, v1::PositionLogprobs* out) {
    out->set_logprob(LogprobOf(position, id));
    for (uint32_t k = 0; k < request.logprobs().top(); ++k) {
      v1::TokenLogprob* top = out->add_top();
      uint32_t other = (id + k) % VocabularySize();
      top->set_token_id(other);
      top->set_logprob(LogprobOf(position, id) - 0.5f * static_cast<float>(k));
    }
  };

  if (script.wait_before_start) WaitForCancel(context);
  if (grpc::Status status = fault(-1); !status.ok()) return status;
  v1::GenerateEvent event;
  event.mutable_started()->set_executor("fake");
  event.mutable_started()->set_cached_tokens(script.cached_tokens);
  writer->Write(event);
  if (script.wait_before_tokens) WaitForCancel(context);
  if (context->IsCancelled()) return grpc::Status::CANCELLED;

  if (request.logprobs().prompt() && request.prompt_token_ids_size() > 1) {
    // In two parts, to see that they are put together.
    int half = std::max(1, request.prompt_token_ids_size() / 2);
    for (int begin = 1; begin < request.prompt_token_ids_size();) {
      int end = begin == 1 ? std::max(half, 2) : request.prompt_token_ids_size();
      event.mutable_prompt_logprobs()->Clear();
      event.mutable_prompt_logprobs()->set_first_index(begin);
      for (int i = begin; i < std::min(end, request.prompt_token_ids_size()); ++i) {
        logprobs(i, request.prompt_token_ids(i), event.mutable_prompt_logprobs()->add_logprobs());
      }
      writer->Write(event);
      begin = end;
    }
  }

  std::vector<uint32_t> ids = script.ids ? script.ids(request) : std::vector<uint32_t>();
  bool stopped = false;
  size_t length = std::min<size_t>(ids.size(), request.stop().max_new_tokens());
  for (size_t i = 0; i < length && !stopped; ++i) {
    bool stop_id = std::count(request.stop().stop_token_ids().begin(), request.stop().stop_token_ids().end(), ids[i]) > 0;
    if (stop_id || (ids[i] == kEnd && !request.stop().ignore_eos())) {
      stopped = true;
      length = i + 1;
    }
  }
  int sent = 0;
  for (size_t first = request.resume_token_ids_size(); first < length; first += script.tokens_per_message) {
    if (script.pause > absl::ZeroDuration()) absl::SleepFor(script.pause);
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    if (grpc::Status status = fault(sent); !status.ok()) return status;
    event.mutable_tokens()->Clear();
    event.mutable_tokens()->set_first_index(static_cast<uint32_t>(first));
    for (size_t i = first; i < std::min(length, first + script.tokens_per_message); ++i, ++sent) {
      event.mutable_tokens()->add_token_ids(ids[i]);
      if (request.logprobs().enabled()) {
        logprobs(request.prompt_token_ids_size() + i, ids[i], event.mutable_tokens()->add_logprobs());
      }
    }
    if (!writer->Write(event)) return grpc::Status::CANCELLED;
  }
  if (grpc::Status status = fault(sent); !status.ok()) return status;
  event.mutable_finished()->set_reason(stopped ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  writer->Write(event);
  return grpc::Status::OK;
}

grpc::Status FakeScheduler::Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                                  grpc::ServerWriter<v1::SchedulerState>* writer) {
  while (!context->IsCancelled() && !stop) {
    v1::SchedulerState state;
    state.set_draining(draining);
    v1::ExecutorState* executor = state.add_executors();
    executor->set_admitted(admitted);
    executor->set_model_name("fake-1b.gguf");
    if (!writer->Write(state)) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return grpc::Status::OK;
}

TestGateway::TestGateway(Limits limits, absl::Duration resume_window) {
  auto started = rpc::Server::Start({.address = "127.0.0.1:0", .services = {&tokenizer}});
  EXPECT_TRUE(started.ok()) << started.status();
  tokenizer_server_ = *std::move(started);
  scheduler_address_ = "127.0.0.1:0";
  StartScheduler();
  backends = std::make_shared<Backends>(TokenizerClient::Create(rpc::MakeChannel(tokenizer_server_->address())),
                                        SchedulerClient::Create(rpc::MakeChannel(scheduler_address_)), ModelCatalog({}));
  backends->resume_window = resume_window;
  service = std::make_unique<Service>(backends, Service::Options{});
  ServerOptions options{.listen = "127.0.0.1:0", .threads = 2, .limits = limits};
  options.handler = [this](std::shared_ptr<Exchange> exchange) { service->Handle(std::move(exchange)); };
  options.on_access = [this](const AccessRecord& record) { service->OnAccess(record); };
  auto server = HttpServer::Start(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  http = *std::move(server);
  backends->scheduler->StartWatching();
  backends->tokenizer->KeepVocabulary(http->NewStrand());
  EXPECT_TRUE(Eventually([&] { return service->Readiness().ok(); })) << service->Readiness();
}

TestGateway::~TestGateway() {
  scheduler.stop = true;
  http->Stop(absl::ZeroDuration());
  StopScheduler();
  StopTokenizer();
}

void TestGateway::StopScheduler() { scheduler_server_.reset(); }

void TestGateway::StartScheduler() {
  auto started = rpc::Server::Start({.address = scheduler_address_, .services = {&scheduler}});
  ASSERT_TRUE(started.ok()) << started.status();
  scheduler_server_ = *std::move(started);
  scheduler_address_ = scheduler_server_->address();
}

void TestGateway::StopTokenizer() { tokenizer_server_.reset(); }

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return false;
}

}  // namespace tercet::gateway
