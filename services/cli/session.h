// A server to talk to: the one at --url, or one of our own for as long as the command runs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/cli/answer.h"
#include "services/cli/http_client.h"
#include "services/cli/interrupt.h"
#include "services/cli/local_server.h"

namespace tercet::cli {

// The flags which `run`, `chat` and `bench` share.
struct SessionFlags {
  std::string url;
  int threads = 0;
  bool verbose = false;

  void AddTo(CLI::App* app);
};

class Session {
 public:
  // Starts the services for `model` and waits for them, unless flags name a URL.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const SessionFlags& flags, const std::string& model,
                                                       Interrupt* interrupt);

  HttpClient& client() { return client_; }
  const HttpEndpoint& endpoint() const { return endpoint_; }
  // The name of the model, for requests.
  const std::string& model() const { return model_; }

  // Ends our own server in order, if there is one.
  absl::Status Close();

 private:
  Session() = default;

  HttpClient client_;
  HttpEndpoint endpoint_;
  std::string model_;
  std::unique_ptr<LocalServer> server_;
};

// Declares the sampling flags.
void AddSamplingFlags(CLI::App* app, SamplingFlags* flags);

}  // namespace tercet::cli
