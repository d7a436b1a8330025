#include "services/gateway/openai/tokenize.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <utility>

#include "common/text/utf8.h"
#include "services/gateway/http/api_error.h"
#include "services/gateway/http/reply.h"
#include "services/gateway/openai/fields.h"
#include "services/gateway/openai/request_headers.h"

namespace tercet::gateway {
namespace {

constexpr size_t kMaxTextBytes = 32 << 20;

struct TokenizeRequest {
  std::optional<std::string> model;
  std::string text;
  bool add_special = false;
  bool parse_special = false;
  bool with_pieces = false;
  bool token_strs = false;
};

absl::StatusOr<TokenizeRequest> ParseTokenize(std::string_view body) {
  absl::StatusOr<Json> json = ParseJsonObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  TokenizeRequest request;
  request.model = fields.String("model", 1024);
  std::optional<std::string> content = fields.String("content", kMaxTextBytes);
  std::optional<std::string> prompt = fields.String("prompt", kMaxTextBytes);
  if (content.has_value() == prompt.has_value()) {
    fields.Fault("content", "is required (or 'prompt', but not both)");
  } else {
    request.text = *std::move(content.has_value() ? content : prompt);
  }
  std::optional<bool> add = fields.Bool("add_special");
  std::optional<bool> add_tokens = fields.Bool("add_special_tokens");
  if (add.has_value() && add_tokens.has_value()) {
    fields.Fault("add_special_tokens", "and 'add_special' are the same thing; give one of them");
  }
  request.add_special = add.value_or(add_tokens.value_or(prompt.has_value()));
  request.parse_special = fields.Bool("parse_special").value_or(false);
  request.with_pieces = fields.Bool("with_pieces").value_or(false);
  request.token_strs = fields.Bool("return_token_strs").value_or(false);
  if (absl::Status status = fields.Finish(); !status.ok()) return status;
  return request;
}

struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<uint32_t> tokens;
  bool include_special = false;
};

absl::StatusOr<DetokenizeRequest> ParseDetokenize(std::string_view body, const Vocabulary& vocabulary) {
  absl::StatusOr<Json> json = ParseJsonObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  DetokenizeRequest request;
  request.model = fields.String("model", 1024);
  request.include_special = fields.Bool("include_special").value_or(false);
  const Json* tokens = fields.Any("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    fields.Fault("tokens", "is required: an array of token ids");
  } else {
    for (size_t i = 0; i < tokens->size() && fields.ok(); ++i) {
      const Json& id = (*tokens)[i];
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary.size()) {
        fields.Fault(absl::StrCat("tokens[", i, "]"), absl::StrCat("must be a token id from 0 to ", vocabulary.size() - 1,
                                                                   ", not ", DescribeJson(id)));
        break;
      }
      request.tokens.push_back(id.get<uint32_t>());
    }
  }
  if (absl::Status status = fields.Finish(); !status.ok()) return status;
  return request;
}

void AppendPiece(std::string* out, std::string_view piece) {
  std::string text = text::ReplaceInvalid(piece);
  if (text == piece) return AppendJsonString(out, piece);
  out->push_back('[');
  for (size_t i = 0; i < piece.size(); ++i) {
    absl::StrAppend(out, i > 0 ? "," : "", static_cast<unsigned>(static_cast<unsigned char>(piece[i])));
  }
  out->push_back(']');
}

std::string TokenizeAnswer(const TokenizeRequest& request, const EncodedText& encoded) {
  const Vocabulary& vocabulary = *encoded.vocabulary;
  auto piece = [&](uint32_t id) { return vocabulary.Contains(id) ? vocabulary.Piece(id) : std::string_view(); };
  std::string body = "{\"tokens\":[";
  for (size_t i = 0; i < encoded.token_ids.size(); ++i) {
    uint32_t id = encoded.token_ids[i];
    if (i > 0) body.push_back(',');
    if (!request.with_pieces) {
      absl::StrAppend(&body, id);
      continue;
    }
    absl::StrAppend(&body, "{\"id\":", id, ",\"piece\":");
    AppendPiece(&body, piece(id));
    body.push_back('}');
  }
  absl::StrAppend(&body, "],\"count\":", encoded.token_ids.size(), ",\"max_model_len\":", vocabulary.header().context_length);
  if (request.token_strs) {
    body.append(",\"token_strs\":[");
    for (size_t i = 0; i < encoded.token_ids.size(); ++i) {
      if (i > 0) body.push_back(',');
      AppendJsonString(&body, text::ReplaceInvalid(piece(encoded.token_ids[i])));
    }
    body.push_back(']');
  }
  body.push_back('}');
  return body;
}

absl::Status CheckModel(const std::optional<std::string>& model, const Backends& backends, const Vocabulary& vocabulary) {
  if (!model.has_value() || backends.models.Knows(*model, vocabulary, backends.scheduler->Latest())) return absl::OkStatus();
  return ModelCatalog::UnknownModel(*model);
}

}  // namespace

void HandleTokenize(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange) {
  absl::StatusOr<TokenizeRequest> parsed = ParseTokenize(exchange->request().body);
  if (!parsed.ok()) return ReplyError(*exchange, parsed.status());
  absl::StatusOr<absl::Duration> timeout = RequestTimeout(exchange->request(), backends->request_timeout);
  if (!timeout.ok()) return ReplyError(*exchange, timeout.status());
  auto request = std::make_shared<TokenizeRequest>(*std::move(parsed));
  std::string text = std::move(request->text);
  auto strand = exchange->strand();
  auto call = backends->tokenizer->Encode(
      ContextOf(exchange->request(), absl::Now() + *timeout), strand, std::move(text), request->add_special,
      request->parse_special, [backends, exchange, request](absl::StatusOr<EncodedText> encoded) {
        absl::Status status = encoded.ok() ? CheckModel(request->model, *backends, *encoded->vocabulary) : encoded.status();
        if (!status.ok()) return ReplyError(*exchange, status);
        ReplyJson(*exchange, TokenizeAnswer(*request, *encoded));
      });
  exchange->OnGone([call](Gone) { call->Cancel(); });
}

void HandleDetokenize(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange) {
  backends->tokenizer->GetVocabulary(
      exchange->strand(), [backends, exchange](absl::StatusOr<std::shared_ptr<const Vocabulary>> vocabulary) {
        if (!vocabulary.ok()) return ReplyError(*exchange, vocabulary.status());
        absl::StatusOr<DetokenizeRequest> request = ParseDetokenize(exchange->request().body, **vocabulary);
        if (!request.ok()) return ReplyError(*exchange, request.status());
        absl::Status status = CheckModel(request->model, *backends, **vocabulary);
        if (!status.ok()) return ReplyError(*exchange, status);
        std::string bytes;
        for (uint32_t id : request->tokens) {
          bool shown = request->include_special || !(*vocabulary)->IsControl(id);
          std::string_view piece = shown ? (*vocabulary)->Piece(id) : std::string_view();
          bool first = bytes.empty() && !piece.empty();
          if (first && (*vocabulary)->header().strip_leading_space && piece.front() == ' ') piece.remove_prefix(1);
          bytes.append(piece);
        }
        std::string text;
        AppendJsonString(&text, text::ReplaceInvalid(bytes));
        ReplyJson(*exchange, absl::StrCat("{\"content\":", text, ",\"prompt\":", text, "}"));
      });
}

}  // namespace tercet::gateway
