// tercet chat: a conversation, line by line.
#include <fmt/format.h>

#include <clocale>
#include <memory>
#include <utility>

#include "services/cli/command.h"
#include "services/cli/line_reader.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"

namespace tercet::cli {
namespace {

struct ChatFlags {
  std::string model;
  std::string system;
  bool statistics = false;
  SamplingFlags sampling;
  SessionFlags session;
};

constexpr char kHelp[] =
    "/clear   forget the conversation\n"
    "/stats   times and token counts of the last answer\n"
    "/exit    leave (or Ctrl-D)\n"
    "Ctrl-C stops an answer.\n";

class Conversation {
 public:
  Conversation(Session* session, const ChatFlags& flags, Interrupt* interrupt)
      : session_(session), flags_(flags), interrupt_(interrupt) {
    Clear();
  }

  void Clear() {
    messages_ = nlohmann::json::array();
    if (!flags_.system.empty()) messages_.push_back({{"role", "system"}, {"content", flags_.system}});
  }

  // Asks and streams the answer. What was said until Ctrl-C stays part of the conversation; after an error the question
  // is taken back.
  void Ask(const std::string& question) {
    messages_.push_back({{"role", "user"}, {"content", question}});
    nlohmann::json request = {{"model", session_->model()}, {"messages", messages_}};
    flags_.sampling.AddTo(&request);
    std::string answer;
    auto statistics = StreamAnswer(
        &session_->client(), session_->endpoint(), "/v1/chat/completions", std::move(request),
        [&](std::string_view text) {
          answer += text;
          WriteText(text);
        },
        interrupt_);
    if (answer.empty() || answer.back() != '\n') WriteText("\n");
    if (!statistics.ok() && !absl::IsCancelled(statistics.status())) {
      Fail(statistics.status());
      messages_.erase(messages_.size() - 1);
      return;
    }
    messages_.push_back({{"role", "assistant"}, {"content", answer}});
    last_ = statistics.ok() ? statistics->ToString() : "the last answer was stopped";
    if (flags_.statistics) Note("{}\n", last_);
  }

  const std::string& last_statistics() const { return last_; }

 private:
  Session* session_;
  const ChatFlags& flags_;
  Interrupt* interrupt_;
  nlohmann::json messages_;
  std::string last_ = "nothing was asked yet";
};

int Chat(const ChatFlags& flags) {
  if (flags.session.url.empty() && flags.model.empty()) {
    return Fail(absl::InvalidArgumentError("a model file is needed (or --url of a running server)"));
  }
  std::setlocale(LC_CTYPE, "C.UTF-8");
  Interrupt interrupt;
  auto session = Session::Open(flags.session, flags.model, &interrupt);
  if (!session.ok()) return Fail(session.status());
  Conversation conversation(session->get(), flags, &interrupt);
  LineReader reader("> ", &interrupt);
  if (StderrIsTerminal()) Note("{}: /help lists the commands, Ctrl-D leaves\n", (*session)->model());
  while (std::optional<std::string> line = reader.Read()) {
    if (line->empty()) continue;
    if (line->front() != '/') {
      conversation.Ask(*line);
    } else if (*line == "/exit") {
      break;
    } else if (*line == "/clear") {
      conversation.Clear();
    } else if (*line == "/stats") {
      Note("{}\n", conversation.last_statistics());
    } else if (*line == "/help") {
      Note("{}", kHelp);
    } else {
      Note("{} is no command; /help lists them\n", *line);
    }
  }
  const absl::Status closed = (*session)->Close();
  return closed.ok() ? kSuccess : Fail(closed);
}

}  // namespace

Action DefineChat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  app.add_option("model", flags->model, "GGUF model file (left out with --url)");
  app.add_option("--system", flags->system, "System message");
  app.add_flag("--stats", flags->statistics, "Show times and token counts after each answer");
  AddSamplingFlags(&app, &flags->sampling);
  flags->session.AddTo(&app);
  return [flags] { return Chat(*flags); };
}

}  // namespace tercet::cli
