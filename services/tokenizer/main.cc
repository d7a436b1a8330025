// tercet-tokenizer: text to ids and back, and chat templates.
#include <iostream>

#include "common/config/program.h"
#include "common/gguf/file.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/server.h"
#include "common/rpc/stop.h"
#include "common/telemetry/log.h"
#include "common/telemetry/metrics.h"
#include "services/tokenizer/service.h"

namespace {

int Fail(const absl::Status& status) {
  std::cerr << "tercet-tokenizer: " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tercet;
  rpc::PrepareForStop();

  std::string listen = "127.0.0.1:7001", metrics_listen = "127.0.0.1:8001", model;
  std::string log_level = "info", log_format = "text", ready_file;
  uint32_t drain_ms = 30000;
  config::Program program("tercet-tokenizer",
                          "Turns text into token ids and back, and renders chat templates, with the vocabulary of a GGUF "
                          "file. Stateless: run as many as you like of the same file.");
  program.Flag(listen, "--listen", "Where to serve gRPC: host:port (port 0 takes a free one) or unix:/path");
  program.Flag(metrics_listen, "--metrics-listen", "Where to serve /metrics: host:port, empty for nowhere");
  program.Flag(model, "--model", "Model file (GGUF); only its vocabulary is read");
  program.Flag(drain_ms, "--drain-ms", "After SIGTERM, how long open calls may go on")->check(CLI::Range(0, 86400000));
  program.Flag(log_level, "--log-level", "debug, info, warn, error or off");
  program.Flag(log_format, "--log-format", "text or json");
  program.Flag(ready_file, "--ready-file", "File to write the addresses to, as JSON, once they are open");
  if (std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (absl::Status status = telemetry::ConfigureLog("tercet-tokenizer", log_level, log_format); !status.ok()) {
    return Fail(status);
  }
  if (model.empty()) return Fail(absl::InvalidArgumentError("--model names no file"));

  absl::StatusOr<std::shared_ptr<const text::Vocabulary>> vocabulary;
  {
    absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::Open(model);
    if (!file.ok()) return Fail(file.status());
    vocabulary = text::Vocabulary::Load(**file);
  }
  if (!vocabulary.ok()) return Fail(vocabulary.status());
  absl::StatusOr<std::unique_ptr<const text::Tokenizer>> tokenizer = text::Tokenizer::Create(*vocabulary);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  absl::StatusOr<std::unique_ptr<tokenizer::PromptRenderer>> renderer = tokenizer::PromptRenderer::Create(**tokenizer);
  if (!renderer.ok()) return Fail(renderer.status());

  telemetry::Metrics metrics;
  tokenizer::TokenizerService service(**tokenizer, **renderer, metrics);
  absl::StatusOr<std::unique_ptr<rpc::Server>> server = rpc::Server::Start({.address = listen, .services = {&service}});
  if (!server.ok()) return Fail(server.status());
  absl::StatusOr<std::string> metrics_address = metrics.Serve(metrics_listen);
  if (!metrics_address.ok()) return Fail(metrics_address.status());
  (*server)->SetServing(true);
  if (absl::Status status = rpc::WriteReadyFile(ready_file, (*server)->address(), *metrics_address); !status.ok()) {
    return Fail(status);
  }
  telemetry::Info("listening", {{"address", (*server)->address()},
                                {"metrics", *metrics_address},
                                {"model", (*vocabulary)->model_name()},
                                {"tokens", (*vocabulary)->size()}});

  rpc::WaitForStop();
  (*server)->SetServing(false);
  telemetry::Info("draining", {{"ms", drain_ms}});
  (*server)->Shutdown(absl::Milliseconds(drain_ms));
  telemetry::Info("stopped");
  return 0;
}
