#include "services/tokenizer/service.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>

#include "common/rpc/status.h"

namespace tercet::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

// Pieces in one message of DescribeVocabulary.
constexpr uint32_t kPiecesPerMessage = 4096;

absl::StatusOr<Json> ParseJson(const std::string& text, const char* field, Json::value_t wanted, const char* wanted_name) {
  if (text.empty()) return Json();
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(field, " is not valid JSON"));
  if (value.type() != wanted) return absl::InvalidArgumentError(absl::StrCat(field, " is not a JSON ", wanted_name));
  return value;
}

class VocabularyStream : public grpc::ServerWriteReactor<v1::DescribeVocabularyReply> {
 public:
  VocabularyStream(const text::Vocabulary& vocabulary, bool has_template) : vocabulary_(vocabulary) {
    v1::VocabularyHeader* header = reply_.mutable_header();
    header->set_fingerprint(vocabulary.fingerprint());
    header->set_size(vocabulary.size());
    if (vocabulary.bos().has_value()) header->set_bos_id(*vocabulary.bos());
    if (vocabulary.eos().has_value()) header->set_eos_id(*vocabulary.eos());
    header->mutable_end_of_generation_ids()->Add(vocabulary.end_of_generation().begin(),
                                                 vocabulary.end_of_generation().end());
    header->set_has_chat_template(has_template);
    header->set_model_name(vocabulary.model_name());
    header->set_context_length(vocabulary.context_length());
    header->set_strip_leading_space(vocabulary.add_space_prefix());
    StartWrite(&reply_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (next_ == vocabulary_.size()) return Finish(grpc::Status::OK);
    reply_.Clear();
    v1::VocabularyPieces* message = reply_.mutable_pieces();
    message->set_first_id(next_);
    for (uint32_t end = std::min(next_ + kPiecesPerMessage, vocabulary_.size()); next_ < end; ++next_) {
      v1::VocabularyPiece* piece = message->add_pieces();
      piece->set_bytes(vocabulary_.piece(next_));
      piece->set_control(vocabulary_.is_control(next_));
    }
    StartWrite(&reply_);
  }

  void OnDone() override { delete this; }

 private:
  const text::Vocabulary& vocabulary_;
  v1::DescribeVocabularyReply reply_;
  uint32_t next_ = 0;
};

}  // namespace

TokenizerService::TokenizerService(const text::Tokenizer& tokenizer, const PromptRenderer& renderer,
                                   telemetry::Metrics& metrics)
    : tokenizer_(tokenizer),
      renderer_(renderer),
      metrics_(metrics),
      tokens_(metrics.Counter("tercet_tokenizer_tokens_total", "Tokens encoded")) {}

template <typename Work>
grpc::ServerUnaryReactor* TokenizerService::Answer(grpc::CallbackServerContext* context, const char* method, Work work) {
  auto begin = std::chrono::steady_clock::now();
  absl::Status status = work();
  metrics_
      .Histogram("tercet_tokenizer_request_seconds", "Time of a call in the tokenizer", telemetry::StepBuckets(),
                 {{"method", method}})
      .Observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  metrics_
      .Counter("tercet_tokenizer_requests_total", "Calls answered",
               {{"method", method}, {"result", status.ok() ? "ok" : "error"}})
      .Increment();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

absl::Status TokenizerService::EncodeText(const v1::EncodeRequest& request, v1::EncodeReply* reply) {
  if (request.text().size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", request.text().size(), " bytes; at most ", kMaxTextBytes, " are encoded"));
  }
  absl::StatusOr<std::vector<uint32_t>> ids = tokenizer_.Encode(
      request.text(), {.add_special = request.add_special(), .parse_special = request.parse_special()});
  if (!ids.ok()) return ids.status();
  reply->mutable_token_ids()->Add(ids->begin(), ids->end());
  reply->set_vocabulary_fingerprint(tokenizer_.vocabulary().fingerprint());
  tokens_.Increment(static_cast<double>(ids->size()));
  return absl::OkStatus();
}

absl::Status TokenizerService::RenderMessages(const v1::RenderChatRequest& request, v1::RenderChatReply* reply) {
  size_t bytes = request.messages_json().size() + request.tools_json().size() + request.template_variables_json().size();
  if (bytes > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the messages have ", bytes, " bytes; at most ", kMaxTextBytes,
                                                   " are rendered"));
  }
  absl::StatusOr<Json> messages = ParseJson(request.messages_json(), "messages", Json::value_t::array, "array");
  if (!messages.ok()) return messages.status();
  if (messages->is_null()) return absl::InvalidArgumentError("messages is empty");
  absl::StatusOr<Json> tools = ParseJson(request.tools_json(), "tools", Json::value_t::array, "array");
  if (!tools.ok()) return tools.status();
  absl::StatusOr<Json> variables =
      ParseJson(request.template_variables_json(), "template variables", Json::value_t::object, "object");
  if (!variables.ok()) return variables.status();
  absl::StatusOr<Prompt> prompt = renderer_.Render(*std::move(messages), *std::move(tools),
                                                   request.add_generation_prompt(), *variables);
  if (!prompt.ok()) return prompt.status();
  reply->set_text(prompt->text);
  reply->mutable_token_ids()->Add(prompt->ids.begin(), prompt->ids.end());
  reply->set_vocabulary_fingerprint(tokenizer_.vocabulary().fingerprint());
  tokens_.Increment(static_cast<double>(prompt->ids.size()));
  return absl::OkStatus();
}

absl::Status TokenizerService::DecodeIds(const v1::DecodeRequest& request, v1::DecodeReply* reply) {
  absl::StatusOr<std::string> text =
      tokenizer_.Decode({request.token_ids().begin(), request.token_ids().end()}, request.include_special());
  if (!text.ok()) return text.status();
  reply->set_text(*std::move(text));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::Encode(grpc::CallbackServerContext* context, const v1::EncodeRequest* request,
                                                   v1::EncodeReply* reply) {
  return Answer(context, "encode", [&] { return EncodeText(*request, reply); });
}

grpc::ServerUnaryReactor* TokenizerService::RenderChat(grpc::CallbackServerContext* context,
                                                       const v1::RenderChatRequest* request, v1::RenderChatReply* reply) {
  return Answer(context, "render_chat", [&] { return RenderMessages(*request, reply); });
}

grpc::ServerUnaryReactor* TokenizerService::Decode(grpc::CallbackServerContext* context, const v1::DecodeRequest* request,
                                                   v1::DecodeReply* reply) {
  return Answer(context, "decode", [&] { return DecodeIds(*request, reply); });
}

grpc::ServerWriteReactor<v1::DescribeVocabularyReply>* TokenizerService::DescribeVocabulary(
    grpc::CallbackServerContext*, const v1::DescribeVocabularyRequest*) {
  return new VocabularyStream(tokenizer_.vocabulary(), renderer_.has_template());
}

}  // namespace tercet::tokenizer
