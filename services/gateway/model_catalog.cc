#include "services/gateway/model_catalog.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <algorithm>

#include "services/gateway/http/api_error.h"

namespace tercet::gateway {

ModelCatalog::ModelCatalog(std::vector<std::string> served_names)
    : served_names_(std::move(served_names)), created_(absl::ToUnixSeconds(absl::Now())) {}

std::string ModelSlug(std::string_view name) {
  std::string slug;
  for (char c : name) {
    bool kept = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    char next = kept ? absl::ascii_tolower(static_cast<unsigned char>(c)) : '-';
    if (next == '-' && (slug.empty() || slug.back() == '-')) continue;
    slug.push_back(next);
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "model" : slug;
}

std::string ModelCatalog::Id(const Vocabulary& vocabulary) const {
  return served_names_.empty() ? ModelSlug(vocabulary.header().model_name) : served_names_.front();
}

bool ModelCatalog::Knows(std::string_view name, const Vocabulary& vocabulary,
                         const std::optional<v1::SchedulerState>& state) const {
  const std::string& own = vocabulary.header().model_name;
  if (name == own || name == ModelSlug(own)) return true;
  if (std::find(served_names_.begin(), served_names_.end(), name) != served_names_.end()) return true;
  if (!state.has_value()) return false;
  return std::any_of(state->executors().begin(), state->executors().end(), [&](const v1::ExecutorState& executor) {
    return !executor.model_name().empty() && (name == executor.model_name() || name == ModelSlug(executor.model_name()));
  });
}

absl::Status ModelCatalog::UnknownModel(std::string_view name) {
  std::string shown;
  for (char c : name.substr(0, 100)) shown.push_back(c >= 0x20 && c < 0x7F ? c : '?');
  return WithCode(WithParam(absl::NotFoundError(absl::StrCat("the model '", shown, "' is not served here; GET /v1/models lists what is")),
                            "model"),
                  "model_not_found");
}

}  // namespace tercet::gateway
