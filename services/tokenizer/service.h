// tercet.v1.Tokenizer over gRPC. Stateless apart from metrics; thread-safe.
#pragma once

#include <memory>

#include "common/telemetry/metrics.h"
#include "services/tokenizer/prompt.h"
#include "tercet/v1/tokenizer.grpc.pb.h"

namespace tercet::tokenizer {

// Largest text of a request, in bytes.
inline constexpr size_t kMaxTextBytes = 32 << 20;

class TokenizerService final : public v1::Tokenizer::CallbackService {
 public:
  // The parts must outlive the service; `metrics` too.
  TokenizerService(const text::Tokenizer& tokenizer, const PromptRenderer& renderer, telemetry::Metrics& metrics);

  grpc::ServerUnaryReactor* Encode(grpc::CallbackServerContext* context, const v1::EncodeRequest* request,
                                   v1::EncodeReply* reply) override;
  grpc::ServerUnaryReactor* RenderChat(grpc::CallbackServerContext* context, const v1::RenderChatRequest* request,
                                       v1::RenderChatReply* reply) override;
  grpc::ServerUnaryReactor* Decode(grpc::CallbackServerContext* context, const v1::DecodeRequest* request,
                                   v1::DecodeReply* reply) override;
  grpc::ServerWriteReactor<v1::DescribeVocabularyReply>* DescribeVocabulary(
      grpc::CallbackServerContext* context, const v1::DescribeVocabularyRequest* request) override;

 private:
  absl::Status EncodeText(const v1::EncodeRequest& request, v1::EncodeReply* reply);
  absl::Status RenderMessages(const v1::RenderChatRequest& request, v1::RenderChatReply* reply);
  absl::Status DecodeIds(const v1::DecodeRequest& request, v1::DecodeReply* reply);
  // Runs `work`, counts and times it, and ends the call with its status.
  template <typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const char* method, Work work);

  const text::Tokenizer& tokenizer_;
  const PromptRenderer& renderer_;
  telemetry::Metrics& metrics_;
  prometheus::Counter& tokens_;
};

}  // namespace tercet::tokenizer
