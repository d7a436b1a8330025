// The four services of one model file on this machine: tokenizer, executor, scheduler and gateway, started from the
// programs next to this one, talking over Unix sockets in a private directory.
//
// Owns: the processes and the directory. Stop drains in the order in which requests flow; destruction kills.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/cli/http_client.h"
#include "services/cli/interrupt.h"
#include "services/cli/private_dir.h"
#include "services/cli/supervisor.h"

namespace tercet::cli {

struct LocalServerOptions {
  std::string model;
  // Where the gateway listens for HTTP: "host:port" (port 0 takes a free one); empty: a socket in the private
  // directory.
  std::string listen;
  // Names by which the model is served, its id first; empty: the file's name without ".gguf".
  std::vector<std::string> model_names;
  // Worker threads of the executor; 0: as many as the machine grants.
  int threads = 0;
  // Metrics of gateway, tokenizer, scheduler and executor on this port of 127.0.0.1 and the next three; 0: on free
  // ports; unset: none.
  std::optional<int> metrics_port;
  // How long running requests may take to finish at Stop.
  int drain_ms = 10000;
  std::string log_level = "info";
  std::string log_format = "text";
  // Further flags for one process: {"executor", "--kv-tokens=4096"}.
  std::vector<std::pair<std::string, std::string>> extra_flags;
  std::function<void(const std::string& name, const std::string& line)> on_line;
  std::function<void(const std::string& sentence)> on_event;
  std::function<void()> on_restart;
};

class LocalServer {
 public:
  // Checks the model file, then starts the processes. Does not wait for them.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(LocalServerOptions options);

  // Waits until the gateway says that it is ready. An error carries the sentence of the process that failed;
  // CANCELLED: `interrupt` fired.
  absl::Status WaitReady(Interrupt* interrupt);

  // Where the gateway answers; valid once ready.
  const HttpEndpoint& endpoint() const { return endpoint_; }
  // For people: "http://127.0.0.1:8080".
  std::string address() const { return endpoint_.base_url; }

  struct ProcessInfo {
    std::string name;
    pid_t pid = -1;
    int restarts = 0;
    std::string listen;
    std::string metrics;
  };
  std::vector<ProcessInfo> processes() const;

  absl::Status Stop() { return supervisor_->Stop(); }
  void Kill() { supervisor_->Kill(); }

 private:
  explicit LocalServer(PrivateDir dir, LocalServerOptions options)
      : dir_(std::move(dir)), options_(std::move(options)) {}

  ProcessSpec GatewaySpec(const std::string& listen) const;
  ProcessSpec Spec(const std::string& name, const std::string& listen, int port_offset,
                   std::vector<std::string> flags) const;
  std::string SocketOf(const std::string& name) const;
  std::string ReadyFileOf(const std::string& name) const;

  PrivateDir dir_;
  LocalServerOptions options_;
  HttpEndpoint endpoint_;
  std::unique_ptr<Supervisor> supervisor_;
};

// The path of a program installed next to this one.
absl::StatusOr<std::string> SiblingProgram(const std::string& name);

}  // namespace tercet::cli
