#include "services/cli/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tercet::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstBackoff{100};
constexpr milliseconds kLongestBackoff{5000};
constexpr std::chrono::seconds kPeace{60};
constexpr size_t kKeptLines = 40;
constexpr size_t kLongestLine = 64 << 10;

}  // namespace

std::string SentenceOf(const std::string& line) {
  // "2026-01-02T03:04:05.678Z error   tercet-executor[12] the sentence key=value"
  if (const size_t level = line.find("Z "); level != std::string::npos && line.size() > 4 && line[4] == '-') {
    const size_t end = line.find("] ", level);
    return end == std::string::npos ? line : line.substr(end + 2);
  }
  // "tercet-executor: the sentence"
  constexpr std::string_view kProgram = "tercet-";
  const size_t end = line.find(": ");
  if (line.compare(0, kProgram.size(), kProgram) == 0 && end != std::string::npos && line.find(' ') > end) {
    return line.substr(end + 2);
  }
  return line;
}

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Start(SupervisorOptions options) {
  std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(options)));
  supervisor->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::promise<absl::Status> started;
  std::future<absl::Status> result = started.get_future();
  // Children die with the thread that made them, so this thread makes them all and lives until they have ended.
  supervisor->thread_ = std::thread([&started, s = supervisor.get()] { s->Run(&started); });
  if (absl::Status status = result.get(); !status.ok()) return status;
  return supervisor;
}

Supervisor::~Supervisor() {
  Kill();
  if (thread_.joinable()) thread_.join();
  if (wake_fd_ >= 0) close(wake_fd_);
}

std::optional<std::string> Supervisor::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Supervisor::MarkReady() { ready_ = true; }

void Supervisor::SetArguments(const std::string& name, std::vector<std::string> argv) {
  std::lock_guard lock(mutex_);
  for (Process& process : processes_) {
    if (process.spec.name == name) process.spec.argv = std::move(argv);
  }
}

std::vector<ProcessState> Supervisor::processes() const {
  std::lock_guard lock(mutex_);
  std::vector<ProcessState> states;
  for (const Process& process : processes_) {
    states.push_back({process.spec.name, process.child ? process.child->pid() : -1, process.restarts});
  }
  return states;
}

absl::Status Supervisor::Stop() {
  stopping_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mutex_);
  if (stop_problems_.empty()) return absl::OkStatus();
  return absl::UnknownError(fmt::format("{}", fmt::join(stop_problems_, "; ")));
}

void Supervisor::Kill() {
  killing_ = true;
  stopping_ = true;
  Wake();
}

void Supervisor::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void Supervisor::Event(const std::string& sentence) const {
  if (options_.on_event) options_.on_event(sentence);
}

void Supervisor::Run(std::promise<absl::Status>* started) {
  absl::Status status = StartAll();
  const bool running = status.ok();
  started->set_value(std::move(status));
  if (!running) return;  // the children that did start are killed with processes_
  for (;;) {
    WaitForEvents();
    if (stopping_) {
      if (ContinueStop()) return;
    } else if (ready_) {
      RestartDue();
    }
  }
}

absl::Status Supervisor::StartAll() {
  std::lock_guard lock(mutex_);
  for (ProcessSpec& spec : options_.processes) {
    Process& process = processes_.emplace_back();
    process.spec = std::move(spec);
  }
  for (Process& process : processes_) {
    if (absl::Status status = StartProcess(&process); !status.ok()) {
      processes_.clear();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Supervisor::StartProcess(Process* process) {
  absl::StatusOr<Child> child = Child::Start(process->spec.argv);
  if (!child.ok()) return child.status();
  process->child = *std::move(child);
  process->partial_line.clear();
  process->started = Clock::now();
  process->signalled = false;
  return absl::OkStatus();
}

void Supervisor::WaitForEvents() {
  std::vector<struct pollfd> fds = {{wake_fd_, POLLIN, 0}};
  // Due times (restarts, kills) are at least 100 ms apart from anything that matters: looking ten times a second is
  // enough.
  milliseconds timeout = stopping_ ? milliseconds{20} : milliseconds{1000};
  {
    std::lock_guard lock(mutex_);
    for (const Process& process : processes_) {
      if (!process.child) {
        timeout = std::min(timeout, milliseconds{20});
        continue;
      }
      fds.push_back({process.child->pid_fd(), POLLIN, 0});
      fds.push_back({process.child->output_fd(), POLLIN, 0});
    }
  }
  poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(wake_fd_, &count, sizeof(count));

  std::lock_guard lock(mutex_);
  for (Process& process : processes_) {
    if (!process.child) continue;
    // Looked at before the output is read: what a process wrote before it ended is all there then.
    const std::optional<ExitState> exit = process.child->Poll();
    ReadOutput(&process);
    if (exit) HandleExit(&process, *exit);
  }
}

void Supervisor::ReadOutput(Process* process) {
  char buffer[16384];
  // Bounded, so that a process which writes without end cannot keep the others waiting.
  for (int round = 0; round < 64; ++round) {
    const ssize_t size = read(process->child->output_fd(), buffer, sizeof(buffer));
    if (size <= 0) return;
    for (const char* at = buffer; at < buffer + size;) {
      const char* end = std::find(at, static_cast<const char*>(buffer) + size, '\n');
      process->partial_line.append(at, end);
      if (end == buffer + size && process->partial_line.size() < kLongestLine) break;
      AddLine(process, std::exchange(process->partial_line, {}));
      at = end == buffer + size ? end : end + 1;
    }
  }
}

void Supervisor::AddLine(Process* process, std::string line) {
  if (options_.on_line) options_.on_line(process->spec.name, line);
  process->last_lines.push_back(std::move(line));
  if (process->last_lines.size() > kKeptLines) process->last_lines.pop_front();
}

void Supervisor::HandleExit(Process* process, const ExitState& exit) {
  if (!process->partial_line.empty()) AddLine(process, std::exchange(process->partial_line, {}));
  const std::string& name = process->spec.name;
  const bool by_request = process->signalled;
  process->child.reset();
  if (stopping_) {
    if (by_request && exit.code == 0 && exit.signal == 0) return;
    if (!killing_) stop_problems_.push_back(fmt::format("{} ended with {}", name, exit.ToString()));
    return;
  }
  if (!ready_) {
    // The last words of the first process that ends are the reason; what others say after it is a consequence.
    if (failure_) return;
    const auto& lines = process->last_lines;
    auto reason = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
      return line.find("Z error ") != std::string::npos || line.rfind("tercet-", 0) == 0;
    });
    if (reason == lines.rend()) reason = lines.rbegin();
    failure_ =
        reason == lines.rend() ? fmt::format("the {} ended with {}", name, exit.ToString()) : SentenceOf(*reason);
    return;
  }
  const Clock::time_point now = Clock::now();
  process->backoff = now - process->started > kPeace ? Clock::duration{0}
                     : process->backoff == Clock::duration{0} && process->restarts == 0
                         ? Clock::duration{0}
                         : std::clamp<Clock::duration>(process->backoff * 2, kFirstBackoff, kLongestBackoff);
  process->next_start = now + process->backoff;
  ++process->restarts;
  Event(fmt::format("the {} ended with {}; starting it again in {} ms", name, exit.ToString(),
                    std::chrono::duration_cast<milliseconds>(process->backoff).count()));
}

void Supervisor::RestartDue() {
  bool restarted = false;
  {
    std::lock_guard lock(mutex_);
    for (Process& process : processes_) {
      if (process.child || Clock::now() < process.next_start) continue;
      if (absl::Status status = StartProcess(&process); !status.ok()) {
        Event(std::string(status.message()));
        process.next_start = Clock::now() + kLongestBackoff;
        continue;
      }
      restarted = true;
    }
  }
  if (restarted && options_.on_restart) options_.on_restart();
}

bool Supervisor::ContinueStop() {
  std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  bool ended = true;
  for (Process& process : processes_) {
    if (!process.child) continue;
    ended = false;
    if (killing_) {
      process.child->Signal(SIGKILL);
      continue;
    }
    if (!process.signalled) {
      process.signalled = true;
      process.kill_at = now + options_.stop_grace;
      process.child->Signal(SIGTERM);
    } else if (now > process.kill_at) {
      process.child->Signal(SIGKILL);
    }
    break;  // the next one only when this one has ended
  }
  return ended;
}

}  // namespace tercet::cli
