// What a GenerateRequest must satisfy before the scheduler takes it.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "tercet/v1/scheduler.pb.h"

namespace tercet::scheduler {

// What the fleet serves; the same for all its executors.
struct ModelLimits {
  std::string model_name;
  std::string model_hash;
  std::string vocabulary_fingerprint;
  uint32_t vocabulary_size = 0;
  uint32_t context_length = 0;  // tokens
  uint64_t largest_pool = 0;    // tokens of KV memory of the largest executor
};

// INVALID_ARGUMENT names the field, its value and the range; FAILED_PRECONDITION: ids of another vocabulary.
absl::Status ValidateRequest(const v1::GenerateRequest& request, const ModelLimits& limits);

}  // namespace tercet::scheduler
