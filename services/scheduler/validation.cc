#include "services/scheduler/validation.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <cmath>

namespace tercet::scheduler {
namespace {

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckIds(const google::protobuf::RepeatedField<uint32_t>& ids, const char* field, uint32_t vocabulary_size) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary_size) {
      return Invalid(field, "[", i, "] is ", ids[i], ", but the vocabulary has ids 0 to ", vocabulary_size - 1);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const v1::SamplingParameters& sampling) {
  // The comparisons are written so that NaN fails them.
  if (!(sampling.temperature() >= 0 && sampling.temperature() <= 100)) {
    return Invalid("sampling.temperature is ", sampling.temperature(), "; it must be 0 to 100");
  }
  if (sampling.top_k() > 0x7fffffffu) return Invalid("sampling.top_k is ", sampling.top_k(), "; it must be at most 2^31-1");
  if (sampling.has_top_p() && !(sampling.top_p() > 0 && sampling.top_p() <= 1)) {
    return Invalid("sampling.top_p is ", sampling.top_p(), "; it must be above 0 and at most 1");
  }
  if (!(sampling.min_p() >= 0 && sampling.min_p() <= 1)) {
    return Invalid("sampling.min_p is ", sampling.min_p(), "; it must be 0 to 1");
  }
  return absl::OkStatus();
}

// W3C trace context, version 00: 00-<32 hex digits>-<16>-<2>. Later versions may go on behind it.
absl::Status CheckTraceparent(const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  constexpr absl::string_view kShape = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  bool right = text.size() >= kShape.size() && text.size() <= 256 &&
               (text.size() == kShape.size() || text[kShape.size()] == '-');
  for (size_t i = 0; right && i < kShape.size(); ++i) {
    right = kShape[i] == 'x' ? absl::ascii_isxdigit(static_cast<unsigned char>(text[i])) : text[i] == '-';
  }
  if (!right) return Invalid("traceparent is not a W3C trace context (00-trace id-span id-flags)");
  return absl::OkStatus();
}

absl::Status CheckLengths(const v1::GenerateRequest& request, const ModelLimits& limits) {
  uint32_t most = request.stop().max_new_tokens();
  uint32_t resumed = static_cast<uint32_t>(request.resume_token_ids_size());
  if (most > limits.context_length) {
    return Invalid("stop.max_new_tokens is ", most, "; it must be 0 to ", limits.context_length, " (the context length)");
  }
  if (resumed > most) {
    return Invalid("resume_token_ids has ", resumed, " ids, more than stop.max_new_tokens (", most, ")");
  }
  uint64_t known = uint64_t{0} + request.prompt_token_ids_size() + resumed;
  if (known > limits.context_length) {
    return Invalid("the prompt has ", known, " tokens, but the context holds ", limits.context_length);
  }
  // A resumed sequence may have filled the context or the memory: it ends there, as it would have without the break.
  if (resumed > 0) return absl::OkStatus();
  if (most > 0 && known == limits.context_length) {
    return Invalid("the prompt has ", known, " tokens and fills the context of ", limits.context_length,
                   ", so that no token can be generated");
  }
  if (known > limits.largest_pool) {
    return Invalid("the prompt has ", known, " tokens, but the KV memory of an executor holds ", limits.largest_pool);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRequest(const v1::GenerateRequest& request, const ModelLimits& limits) {
  if (request.vocabulary_fingerprint().size() != limits.vocabulary_fingerprint.size()) {
    return Invalid("vocabulary_fingerprint has ", request.vocabulary_fingerprint().size(), " bytes; it must have ",
                   limits.vocabulary_fingerprint.size());
  }
  if (request.vocabulary_fingerprint() != limits.vocabulary_fingerprint) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ids were made with vocabulary ", absl::BytesToHexString(request.vocabulary_fingerprint()),
                     ", but the executors serve ", absl::BytesToHexString(limits.vocabulary_fingerprint),
                     "; tokenizer and executors must load the same model file"));
  }
  if (request.request_id().empty() || request.request_id().size() > 128) {
    return Invalid("request_id has ", request.request_id().size(), " bytes; it must have 1 to 128");
  }
  for (unsigned char c : request.request_id()) {
    if (c < 0x21 || c > 0x7e) return Invalid("request_id holds a byte that is not printable ASCII");
  }
  if (request.prompt_token_ids_size() == 0) return Invalid("prompt_token_ids is empty; a prompt has at least one token");
  if (absl::Status status = CheckIds(request.prompt_token_ids(), "prompt_token_ids", limits.vocabulary_size); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckIds(request.resume_token_ids(), "resume_token_ids", limits.vocabulary_size); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckSampling(request.sampling()); !status.ok()) return status;
  if (request.stop().stop_token_ids_size() > 64) {
    return Invalid("stop.stop_token_ids has ", request.stop().stop_token_ids_size(), " entries; at most 64 are taken");
  }
  if (absl::Status status = CheckIds(request.stop().stop_token_ids(), "stop.stop_token_ids", limits.vocabulary_size);
      !status.ok()) {
    return status;
  }
  if (request.logprobs().top() > 20) return Invalid("logprobs.top is ", request.logprobs().top(), "; at most 20 are given");
  if (request.priority() < -100 || request.priority() > 100) {
    return Invalid("priority is ", request.priority(), "; it must be -100 to 100");
  }
  if (request.cache_salt().size() > 256) return Invalid("cache_salt has ", request.cache_salt().size(), " bytes; at most 256");
  if (request.fairness_key().size() > 256) {
    return Invalid("fairness_key has ", request.fairness_key().size(), " bytes; at most 256");
  }
  if (absl::Status status = CheckTraceparent(request.traceparent()); !status.ok()) return status;
  return CheckLengths(request, limits);
}

}  // namespace tercet::scheduler
