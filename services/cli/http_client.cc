#include "services/cli/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tercet::cli {
namespace {

void InitializeCurlOnce() {
  static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)done;
}

struct Sink {
  CURL* easy = nullptr;
  HttpReply* reply = nullptr;
  const std::function<bool(std::string_view)>* on_bytes = nullptr;  // null: everything goes into the reply
  bool hung_up = false;
};

size_t Receive(char* data, size_t one, size_t count, void* user) {
  auto* sink = static_cast<Sink*>(user);
  const std::string_view bytes(data, one * count);
  curl_easy_getinfo(sink->easy, CURLINFO_RESPONSE_CODE, &sink->reply->status);
  if (sink->on_bytes != nullptr && sink->reply->status == 200) {
    if (!(*sink->on_bytes)(bytes)) {
      sink->hung_up = true;
      return 0;
    }
  } else {
    sink->reply->body.append(bytes);
  }
  return bytes.size();
}

}  // namespace

struct HttpClient::Impl {
  CURL* easy = nullptr;
  CURLM* multi = nullptr;

  void Prepare(const HttpEndpoint& endpoint, const std::string& path, Sink* sink) {
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, (endpoint.base_url + path).c_str());
    if (!endpoint.unix_socket.empty()) curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, endpoint.unix_socket.c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, Receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, sink);
  }
};

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {
  InitializeCurlOnce();
  impl_->easy = curl_easy_init();
  impl_->multi = curl_multi_init();
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(impl_->easy);
  curl_multi_cleanup(impl_->multi);
}

absl::StatusOr<HttpReply> HttpClient::Get(const HttpEndpoint& endpoint, const std::string& path,
                                          std::chrono::milliseconds timeout) {
  HttpReply reply;
  Sink sink{impl_->easy, &reply};
  impl_->Prepare(endpoint, path, &sink);
  curl_easy_setopt(impl_->easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  const CURLcode code = curl_easy_perform(impl_->easy);
  if (code != CURLE_OK) {
    return absl::UnavailableError(fmt::format("{}{}: {}", endpoint.base_url, path, curl_easy_strerror(code)));
  }
  curl_easy_getinfo(impl_->easy, CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

absl::StatusOr<HttpReply> HttpClient::Stream(const HttpEndpoint& endpoint, const std::string& path,
                                             const std::string& json,
                                             const std::function<bool(std::string_view)>& on_bytes,
                                             Interrupt* interrupt) {
  HttpReply reply;
  Sink sink{impl_->easy, &reply, &on_bytes};
  impl_->Prepare(endpoint, path, &sink);
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");  // no pause before a large body
  curl_easy_setopt(impl_->easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(impl_->easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(impl_->easy, CURLOPT_POSTFIELDS, json.c_str());

  curl_multi_add_handle(impl_->multi, impl_->easy);
  CURLcode code = CURLE_OK;
  bool interrupted = false;
  for (int running = 1; running > 0 && !interrupted;) {
    curl_multi_perform(impl_->multi, &running);
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(impl_->multi, &left)) {
      if (message->msg == CURLMSG_DONE) code = message->data.result;
    }
    if (running == 0) break;
    curl_waitfd signal = {interrupt != nullptr ? interrupt->fd() : -1, CURL_WAIT_POLLIN, 0};
    curl_multi_poll(impl_->multi, &signal, interrupt != nullptr ? 1 : 0, 1000, nullptr);
    interrupted = interrupt != nullptr && interrupt->Take() != 0;
  }
  // Removing a handle in the middle of a transfer closes its connection.
  curl_multi_remove_handle(impl_->multi, impl_->easy);
  curl_slist_free_all(headers);
  if (interrupted || sink.hung_up) return absl::CancelledError("interrupted");
  if (code != CURLE_OK) {
    return absl::UnavailableError(fmt::format("{}{}: {}", endpoint.base_url, path, curl_easy_strerror(code)));
  }
  curl_easy_getinfo(impl_->easy, CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

std::string ErrorSentence(const HttpReply& reply) {
  const nlohmann::json body = nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_object() && body.contains("error")) {
    const nlohmann::json& error = body["error"];
    if (error.is_string()) return error.get<std::string>();
    if (error.is_object() && error.contains("message") && error["message"].is_string()) {
      return error["message"].get<std::string>();
    }
  }
  return fmt::format("the server answered with HTTP status {}", reply.status);
}

}  // namespace tercet::cli
