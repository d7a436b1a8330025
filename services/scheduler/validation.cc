#include "services/scheduler/validation.h"

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

}  // namespace

absl::Status ValidateRequest(const v1::GenerateRequest& request, const ModelLimits& limits) {
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
  uint64_t known = uint64_t{0} + request.prompt_token_ids_size() + request.resume_token_ids_size();
  if (known > limits.context_length) {
    return Invalid("the prompt has ", known, " tokens, but the context holds ", limits.context_length);
  }
  if (request.stop().max_new_tokens() > 0 && known + 1 > limits.context_length) {
    return Invalid("the prompt has ", known, " tokens and fills the context of ", limits.context_length,
                   ", so that no token can be generated");
  }
  if (known + (request.stop().max_new_tokens() > 0 ? 1 : 0) > limits.largest_pool) {
    return Invalid("the prompt has ", known, " tokens, but the KV memory of an executor holds ", limits.largest_pool);
  }
  if (static_cast<uint32_t>(request.resume_token_ids_size()) > request.stop().max_new_tokens()) {
    return Invalid("resume_token_ids has ", request.resume_token_ids_size(), " ids, more than stop.max_new_tokens (",
                   request.stop().max_new_tokens(), ")");
  }
  return absl::OkStatus();
}

}  // namespace tercet::scheduler
