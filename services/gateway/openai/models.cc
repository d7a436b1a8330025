#include "services/gateway/openai/models.h"

#include <absl/strings/str_cat.h>

#include "services/gateway/http/reply.h"
#include "services/gateway/json_text.h"

namespace tercet::gateway {
namespace {

void AppendModel(std::string* out, const Backends& backends, const Vocabulary& vocabulary) {
  out->append("{\"id\":");
  AppendJsonString(out, backends.models.Id(vocabulary));
  absl::StrAppend(out, ",\"object\":\"model\",\"created\":", backends.models.created(),
                  ",\"owned_by\":\"tercet\",\"max_model_len\":", vocabulary.header().context_length, "}");
}

absl::Status NoModel() { return absl::UnavailableError("no model is loaded yet; try again later"); }

}  // namespace

void HandleModels(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange) {
  auto vocabulary = backends->tokenizer->CurrentVocabulary();
  if (vocabulary == nullptr) return ReplyError(*exchange, NoModel());
  std::string body = "{\"object\":\"list\",\"data\":[";
  AppendModel(&body, *backends, *vocabulary);
  body.append("]}");
  ReplyJson(*exchange, std::move(body));
}

void HandleModel(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange, const std::string& id) {
  auto vocabulary = backends->tokenizer->CurrentVocabulary();
  if (vocabulary == nullptr) return ReplyError(*exchange, NoModel());
  if (!backends->models.Knows(id, *vocabulary, backends->scheduler->Latest())) {
    return ReplyError(*exchange, ModelCatalog::UnknownModel(id));
  }
  std::string body;
  AppendModel(&body, *backends, *vocabulary);
  ReplyJson(*exchange, std::move(body));
}

}  // namespace tercet::gateway
