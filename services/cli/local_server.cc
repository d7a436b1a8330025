#include "services/cli/local_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "common/gguf/file.h"

namespace tercet::cli {
namespace {

struct ReadyFile {
  std::string listen;
  std::string metrics;
};

// What a process said about itself once it listened; nothing before that.
std::optional<ReadyFile> ReadReadyFile(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json said = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return std::nullopt;
  return ReadyFile{said.value("listen", ""), said.value("metrics", "")};
}

HttpEndpoint EndpointOf(const std::string& listen) {
  if (listen.rfind("unix:", 0) == 0) return {"http://localhost", listen.substr(5)};
  return {"http://" + listen, ""};
}

}  // namespace

absl::StatusOr<std::string> SiblingProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::NotFoundError(fmt::format("cannot find the programs of Tercet: {}", error.message()));
  const std::string path = self.parent_path() / name;
  if (access(path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(fmt::format("{} is missing; build or install it next to tercet", path));
  }
  return path;
}

std::string LocalServer::SocketOf(const std::string& name) const {
  return fmt::format("unix:{}/{}.sock", dir_.path(), name);
}
std::string LocalServer::ReadyFileOf(const std::string& name) const {
  return fmt::format("{}/{}.ready", dir_.path(), name);
}

ProcessSpec LocalServer::Spec(const std::string& name, const std::string& listen, int port_offset,
                              std::vector<std::string> flags) const {
  ProcessSpec spec{name, {}};
  spec.argv.push_back(SiblingProgram("tercet-" + name).value_or(""));
  std::string metrics;
  if (options_.metrics_port) {
    metrics = fmt::format("127.0.0.1:{}", *options_.metrics_port == 0 ? 0 : *options_.metrics_port + port_offset);
  }
  const std::vector<std::string> common = {
      "--listen=" + listen,
      // Two arguments: an empty value behind '=' would take the next argument for it.
      "--metrics-listen",
      metrics,
      "--ready-file=" + ReadyFileOf(name),
      fmt::format("--drain-ms={}", options_.drain_ms),
      "--log-level=" + options_.log_level,
      "--log-format=" + options_.log_format,
  };
  spec.argv.insert(spec.argv.end(), common.begin(), common.end());
  spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
  for (const auto& [process, flag] : options_.extra_flags) {
    if (process == name) spec.argv.push_back(flag);
  }
  return spec;
}

ProcessSpec LocalServer::GatewaySpec(const std::string& listen) const {
  std::vector<std::string> flags = {"--tokenizer=" + SocketOf("tokenizer"), "--scheduler=" + SocketOf("scheduler")};
  for (const std::string& name : options_.model_names) flags.push_back("--model-name=" + name);
  if (options_.model_names.empty()) {
    flags.push_back("--model-name=" + std::filesystem::path(options_.model).stem().string());
  }
  return Spec("gateway", listen, 0, std::move(flags));
}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(LocalServerOptions options) {
  // A bad file is reported at once, without starting anything.
  if (auto file = gguf::File::Open(options.model); !file.ok()) return file.status();
  for (const char* name : {"tercet-gateway", "tercet-scheduler", "tercet-executor", "tercet-tokenizer"}) {
    if (auto path = SiblingProgram(name); !path.ok()) return path.status();
  }
  absl::StatusOr<PrivateDir> dir = PrivateDir::Make();
  if (!dir.ok()) return dir.status();
  std::unique_ptr<LocalServer> server(new LocalServer(*std::move(dir), std::move(options)));
  const LocalServerOptions& o = server->options_;

  const std::string http = o.listen.empty() ? server->SocketOf("gateway") : o.listen;
  std::vector<std::string> executor_flags = {"--model=" + o.model};
  if (o.threads > 0) executor_flags.push_back(fmt::format("--threads={}", o.threads));
  SupervisorOptions supervision;
  supervision.processes = {
      server->GatewaySpec(http),
      server->Spec("scheduler", server->SocketOf("scheduler"), 2, {"--executors=" + server->SocketOf("executor")}),
      server->Spec("executor", server->SocketOf("executor"), 3, executor_flags),
      server->Spec("tokenizer", server->SocketOf("tokenizer"), 1, {"--model=" + o.model}),
  };
  supervision.on_line = o.on_line;
  supervision.on_event = o.on_event;
  supervision.on_restart = o.on_restart;
  supervision.stop_grace = std::chrono::milliseconds(o.drain_ms + 5000);
  auto supervisor = Supervisor::Start(std::move(supervision));
  if (!supervisor.ok()) return supervisor.status();
  server->supervisor_ = *std::move(supervisor);
  return server;
}

absl::Status LocalServer::WaitReady(Interrupt* interrupt) {
  HttpClient client;
  std::optional<ReadyFile> gateway;
  auto told = std::chrono::steady_clock::now();
  auto pause = std::chrono::milliseconds(5);
  for (;;) {
    if (auto failure = supervisor_->failure()) return absl::FailedPreconditionError(*failure);
    if (interrupt != nullptr && interrupt->Take() != 0) return absl::CancelledError("interrupted");
    if (!gateway) {
      gateway = ReadReadyFile(ReadyFileOf("gateway"));
      if (gateway) endpoint_ = EndpointOf(gateway->listen);
    }
    if (gateway) {
      auto reply = client.Get(endpoint_, "/ready", std::chrono::seconds(2));
      if (reply.ok() && reply->status == 200) break;
      // A large model takes its time: say what is being waited for.
      if (std::chrono::steady_clock::now() - told > std::chrono::seconds(5) && reply.ok() && options_.on_event) {
        options_.on_event("not ready yet: " + ErrorSentence(*reply));
        told = std::chrono::steady_clock::now();
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(40));
  }
  // A restarted gateway must come back where its clients look for it, also when it had been given any free port.
  const std::string http = options_.listen.empty() ? SocketOf("gateway") : gateway->listen;
  supervisor_->SetArguments("gateway", GatewaySpec(http).argv);
  supervisor_->MarkReady();
  return absl::OkStatus();
}

std::vector<LocalServer::ProcessInfo> LocalServer::processes() const {
  std::vector<ProcessInfo> infos;
  for (const ProcessState& state : supervisor_->processes()) {
    const ReadyFile said = ReadReadyFile(ReadyFileOf(state.name)).value_or(ReadyFile{});
    infos.push_back({state.name, state.pid, state.restarts, said.listen, said.metrics});
  }
  return infos;
}

}  // namespace tercet::cli
