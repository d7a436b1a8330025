// HTTP for the command line: short calls and one streamed answer at a time. Keeps its connection between calls.
// Not thread-safe: one client a thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/cli/interrupt.h"

namespace tercet::cli {

struct HttpEndpoint {
  std::string base_url;     // "http://127.0.0.1:8080", without a slash at the end
  std::string unix_socket;  // connect here instead, if not empty
};

struct HttpReply {
  long status = 0;
  std::string body;
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();

  // UNAVAILABLE: no answer. Any status of the server is a reply.
  absl::StatusOr<HttpReply> Get(const HttpEndpoint& endpoint, const std::string& path,
                                std::chrono::milliseconds timeout);

  // Posts JSON and hands on the body of a 200 reply as it arrives; `on_bytes` returns false to hang up. Any other
  // status is returned with its body. CANCELLED: `interrupt` fired (may be null), or on_bytes hung up; the connection
  // is closed, so that the server stops working.
  absl::StatusOr<HttpReply> Stream(const HttpEndpoint& endpoint, const std::string& path, const std::string& json,
                                   const std::function<bool(std::string_view)>& on_bytes, Interrupt* interrupt);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What an error reply says to people: OpenAI's error.message if the body has one.
std::string ErrorSentence(const HttpReply& reply);

}  // namespace tercet::cli
