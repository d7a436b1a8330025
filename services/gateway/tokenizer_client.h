// The tokenizer service, as seen by requests: text and chat to ids, and the vocabulary that turns ids back into text.
//
// Callbacks run on the strand that was given, never inside the call that asked. A tokenizer that cannot be reached is tried
// again for a moment (calls are idempotent), then the callback gets UNAVAILABLE. Thread-safe.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/statusor.h>
#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/call.h"
#include "services/gateway/http/strand.h"
#include "services/gateway/vocabulary.h"

namespace tercet::gateway {

struct EncodedText {
  std::vector<uint32_t> token_ids;
  // The vocabulary that made them, and into whose text they go back.
  std::shared_ptr<const Vocabulary> vocabulary;
};

class TokenizerClient {
 public:
  using OnEncoded = absl::AnyInvocable<void(absl::StatusOr<EncodedText>)>;
  using OnVocabulary = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const Vocabulary>>)>;

  static std::shared_ptr<TokenizerClient> Create(std::shared_ptr<grpc::Channel> channel);
  virtual ~TokenizerClient() = default;

  virtual std::shared_ptr<Call> Encode(const CallContext& context, std::shared_ptr<Strand> strand, std::string text,
                                       bool add_special, bool parse_special, OnEncoded done) = 0;
  virtual std::shared_ptr<Call> RenderChat(const CallContext& context, std::shared_ptr<Strand> strand,
                                           std::string messages_json, bool add_generation_prompt, OnEncoded done) = 0;

  // The vocabulary in use; fetched when there is none yet.
  virtual void GetVocabulary(std::shared_ptr<Strand> strand, OnVocabulary done) = 0;
  // The same without waiting; null when none has been fetched.
  virtual std::shared_ptr<const Vocabulary> CurrentVocabulary() const = 0;

  // Fetches the vocabulary now, and tries again until it has one.
  virtual void KeepVocabulary(std::shared_ptr<Strand> strand) = 0;

  // There is a vocabulary and the tokenizer can be reached.
  virtual bool Ready() = 0;
};

}  // namespace tercet::gateway
