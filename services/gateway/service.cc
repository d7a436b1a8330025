#include "services/gateway/service.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <exception>
#include <string>
#include <string_view>

#include "common/telemetry/log.h"
#include "services/gateway/http/reply.h"
#include "services/gateway/openai/chat_completions.h"
#include "services/gateway/openai/completions.h"
#include "services/gateway/openai/models.h"
#include "services/gateway/openai/tokenize.h"

namespace tercet::gateway {

struct Service::Route {
  std::string_view path;  // "/v1/models/" with a slash at its end: everything below it
  bool post;              // else GET and HEAD
  bool while_draining;
  void (*handle)(Service&, std::shared_ptr<Exchange>);
};

namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

// JSON, with whatever parameters; a charset that is not UTF-8 cannot be read.
bool IsJson(std::string_view content_type) {
  std::string text = absl::AsciiStrToLower(absl::string_view(content_type.data(), content_type.size()));
  size_t semicolon = text.find(';');
  std::string type = std::string(absl::StripAsciiWhitespace(absl::string_view(text).substr(0, semicolon)));
  bool json = type == "application/json" || (absl::StartsWith(type, "application/") && absl::EndsWith(type, "+json"));
  size_t charset = text.find("charset=");
  if (!json || charset == std::string::npos) return json;
  std::string rest = text.substr(charset + 8);
  return absl::StartsWith(rest, "utf-8") || absl::StartsWith(rest, "\"utf-8\"") || absl::StartsWith(rest, "utf8");
}

void ReplyText(Exchange& exchange, int status, std::string text) {
  exchange.Reply(Response{.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)});
}

}  // namespace

Service::Service(std::shared_ptr<Backends> backends, Options options)
    : backends_(std::move(backends)), options_(options) {}

const Service::Route* Service::FindRoute(const std::string& path) {
  using Shared = std::shared_ptr<Exchange>;
  static constexpr Route kRoutes[] = {
      {"/v1/chat/completions", true, false, [](Service& s, Shared e) { HandleChatCompletions(s.backends_, std::move(e)); }},
      {"/v1/completions", true, false, [](Service& s, Shared e) { HandleCompletions(s.backends_, std::move(e)); }},
      {"/tokenize", true, false, [](Service& s, Shared e) { HandleTokenize(s.backends_, std::move(e)); }},
      {"/detokenize", true, false, [](Service& s, Shared e) { HandleDetokenize(s.backends_, std::move(e)); }},
      {"/v1/models", false, false, [](Service& s, Shared e) { HandleModels(s.backends_, std::move(e)); }},
      {kModelPrefix, false, false,
       [](Service& s, Shared e) {
         std::string id = e->request().path.substr(kModelPrefix.size());
         HandleModel(s.backends_, std::move(e), id);
       }},
      {"/health", false, true, [](Service&, Shared e) { ReplyJson(*e, "{\"status\":\"ok\"}"); }},
      {"/ready", false, true,
       [](Service& s, Shared e) {
         absl::Status ready = s.Readiness();
         if (!ready.ok()) return ReplyError(*e, ready);
         ReplyJson(*e, "{\"status\":\"ready\"}");
       }},
      {"/version", false, true, [](Service&, Shared e) { ReplyJson(*e, "{\"version\":\"" TERCET_VERSION "\"}"); }},
      {"/metrics", false, true, [](Service& s, Shared e) { ReplyText(*e, 200, s.backends_->metrics.registry().Text()); }},
  };
  for (const Route& route : kRoutes) {
    bool below = route.path == kModelPrefix && path.size() > kModelPrefix.size() &&
                 std::string_view(path).substr(0, kModelPrefix.size()) == kModelPrefix;
    if (below || path == route.path) return &route;
  }
  return nullptr;
}

void Service::Handle(std::shared_ptr<Exchange> exchange) {
  const Request& request = exchange->request();
  const Route* route = FindRoute(request.path);
  if (route != nullptr && route->path == "/metrics" && !options_.metrics_on_http) route = nullptr;
  if (route == nullptr) {
    return ReplyError(*exchange, WithCode(absl::NotFoundError("there is nothing at this path"), "not_found"));
  }
  bool method_fits = route->post ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!method_fits) {
    ApiError error = ToApiError(WithHttpStatus(
        absl::InvalidArgumentError(absl::StrCat("this path takes ", route->post ? "POST" : "GET", " requests only")), 405));
    Response response{.status = 405, .body = ErrorBody(error)};
    response.headers.emplace_back("Allow", route->post ? "POST" : "GET, HEAD");
    return exchange->Reply(std::move(response));
  }
  if (draining_.load() && !route->while_draining) {
    ApiError error = ToApiError(WithRetryAfter(absl::UnavailableError("this gateway is shutting down; try again"),
                                               absl::ToInt64Milliseconds(options_.drain_retry_after)));
    Response response{.status = 503, .body = ErrorBody(error), .close = true};
    response.headers.emplace_back("Retry-After", absl::StrCat(RetryAfterSeconds(*error.retry_after_ms)));
    return exchange->Reply(std::move(response));
  }
  std::string_view content_type = request.Header("content-type");
  if (route->post && !content_type.empty() && !IsJson(content_type)) {
    return ReplyError(*exchange, WithHttpStatus(absl::InvalidArgumentError(
                                                    "the request body must be JSON in UTF-8 (Content-Type: application/json)"),
                                                415));
  }
  try {
    route->handle(*this, exchange);
  } catch (const std::exception& e) {
    // A library's exception is a bug of ours; it ends this request and nothing else.
    log::Error("a request handler threw", {{"request_id", request.id}, {"reason", e.what()}});
    ReplyError(*exchange, absl::InternalError("the gateway failed on this request; its log says more"));
  }
}

absl::Status Service::Readiness() const {
  if (draining_.load()) return absl::UnavailableError("the gateway is shutting down");
  if (!backends_->tokenizer->Ready()) return absl::UnavailableError("the tokenizer service cannot be reached");
  std::optional<v1::SchedulerState> state = backends_->scheduler->Latest();
  if (!state.has_value()) return absl::UnavailableError("the scheduler service cannot be reached");
  if (state->draining()) return absl::UnavailableError("the scheduler is shutting down");
  for (const v1::ExecutorState& executor : state->executors()) {
    if (executor.admitted()) return absl::OkStatus();
  }
  return absl::UnavailableError("no executor is admitted yet");
}

void Service::AbortAll() {
  backends_->live.AbortAll(
      WithCode(absl::UnavailableError("the gateway is shutting down and cannot finish this answer"), "shutting_down"));
}

void Service::OnAccess(const AccessRecord& record) {
  const Route* route = FindRoute(record.path);
  backends_->metrics.CountRequest(route == nullptr ? "other" : std::string(route->path), record);
  std::string notes;
  for (const auto& [key, value] : record.notes) absl::StrAppend(&notes, notes.empty() ? "" : " ", key, "=", value);
  // Probes come all the time, and a /ready that says "not yet" is no event either.
  const bool expected = record.status == 200 || (record.status == 503 && record.path == "/ready");
  auto write = route != nullptr && route->while_draining && expected ? log::Debug : log::Info;
  write("request", {{"request_id", record.request_id},
                    {"method", record.method},
                    {"path", record.path},
                    {"status", record.status},
                    {"complete", record.complete},
                    {"ms", absl::ToDoubleMilliseconds(record.duration)},
                    {"request_bytes", record.request_bytes},
                    {"response_bytes", record.response_bytes},
                    {"peer", record.peer},
                    {"notes", notes}});
}

}  // namespace tercet::gateway
