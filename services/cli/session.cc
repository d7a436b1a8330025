#include "services/cli/session.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "services/cli/terminal.h"

namespace tercet::cli {

void SessionFlags::AddTo(CLI::App* app) {
  app->add_option("--url", url, "Use the server at this address (http://host:port) instead of starting one");
  app->add_option("--threads", threads, "Worker threads; 0: as many as the machine grants")
      ->check(CLI::Range(0, 1024))
      ->envname("TERCET_THREADS");
  app->add_flag("--verbose", verbose, "Show what the services log");
}

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const SessionFlags& flags, const std::string& model,
                                                       Interrupt* interrupt) {
  std::unique_ptr<Session> session(new Session);
  if (!flags.url.empty()) {
    session->endpoint_.base_url = flags.url;
    while (!session->endpoint_.base_url.empty() && session->endpoint_.base_url.back() == '/') {
      session->endpoint_.base_url.pop_back();
    }
  } else {
    LocalServerOptions options;
    options.model = model;
    options.threads = flags.threads;
    options.drain_ms = 2000;
    if (flags.verbose) {
      options.on_line = [](const std::string&, const std::string& line) { Note("{}\n", line); };
    }
    options.on_event = [](const std::string& sentence) { Note("tercet: {}\n", sentence); };
    auto server = LocalServer::Start(std::move(options));
    if (!server.ok()) return server.status();
    session->server_ = *std::move(server);
    if (absl::Status ready = session->server_->WaitReady(interrupt); !ready.ok()) return ready;
    session->endpoint_ = session->server_->endpoint();
  }
  auto name = ServedModel(&session->client_, session->endpoint_);
  if (!name.ok()) return name.status();
  session->model_ = *std::move(name);
  return session;
}

absl::Status Session::Close() { return server_ ? server_->Stop() : absl::OkStatus(); }

void AddSamplingFlags(CLI::App* app, SamplingFlags* flags) {
  app->add_option("--temperature", flags->temperature, "0 is greedy: always the most probable token");
  app->add_option("--top-p", flags->top_p, "Keep the most probable tokens that together reach this probability");
  app->add_option("--top-k", flags->top_k, "Keep the k most probable tokens; 0: all");
  app->add_option("--min-p", flags->min_p, "Keep tokens with at least this share of the best one's probability");
  app->add_option("--seed", flags->seed, "The same seed gives the same answer");
  app->add_option("--max-tokens", flags->max_tokens, "Most tokens to generate");
}

}  // namespace tercet::cli
