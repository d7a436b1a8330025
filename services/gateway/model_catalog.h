// By which names the served model may be asked for. Immutable after construction; thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/scheduler_client.h"
#include "services/gateway/vocabulary.h"

namespace tercet::gateway {

class ModelCatalog {
 public:
  // `served_names`: what the operator calls the model, the first one being its id. When empty, the id is made from the name
  // in the model file ("SmolLM2 135M Instruct" → "smollm2-135m-instruct").
  explicit ModelCatalog(std::vector<std::string> served_names);

  // The name that answers carry.
  std::string Id(const Vocabulary& vocabulary) const;
  // The operator's names, the model file's name, the id made from it, and the names that executors report.
  bool Knows(std::string_view name, const Vocabulary& vocabulary, const std::optional<v1::SchedulerState>& state) const;

  // NOT_FOUND in OpenAI's words.
  static absl::Status UnknownModel(std::string_view name);

  // Seconds since 1970 at which this gateway began to serve.
  int64_t created() const { return created_; }

 private:
  std::vector<std::string> served_names_;
  int64_t created_;
};

// Lower case, everything but letters, digits, '.', '_' and '-' as '-'.
std::string ModelSlug(std::string_view name);

}  // namespace tercet::gateway
