// Starts processes, passes on what they write, restarts those that crash, and stops them in order.
//
// Life: Start → (processes come up) → MarkReady → … → Stop. A process that ends before MarkReady is a failure of the
// start: nothing is restarted and failure() tells why. After it, a process that ends is started again: at once the
// first time, then after 100 ms, 200 ms, … at most 5 s; a minute of peace resets that.
//
// One thread of its own does all of this; the processes are its children and end when it does. All methods are
// thread-safe. The destructor kills what is left.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/cli/child.h"

namespace tercet::cli {

struct ProcessSpec {
  std::string name;               // "executor"
  std::vector<std::string> argv;  // [0] is the program's path
};

struct ProcessState {
  std::string name;
  pid_t pid = -1;  // -1: not running at the moment
  int restarts = 0;
};

struct SupervisorOptions {
  // In the order in which they are stopped.
  std::vector<ProcessSpec> processes;
  // Gets each line a process writes. Called by the supervisor's thread.
  std::function<void(const std::string& name, const std::string& line)> on_line;
  // Told in a sentence what happened to a process ("executor ended by signal 9 (Killed); starting it again").
  std::function<void(const std::string& sentence)> on_event;
  // Called after a process was started again.
  std::function<void()> on_restart;
  // How long a process may take to end after SIGTERM before it is killed.
  std::chrono::milliseconds stop_grace{10000};
};

class Supervisor {
 public:
  static absl::StatusOr<std::unique_ptr<Supervisor>> Start(SupervisorOptions options);
  ~Supervisor();

  // Why the start failed: the sentence the process ended with. Nothing while all is well.
  std::optional<std::string> failure() const;
  // From now on a process that ends is started again.
  void MarkReady();
  // The arguments for the next start of a process.
  void SetArguments(const std::string& name, std::vector<std::string> argv);
  std::vector<ProcessState> processes() const;

  // SIGTERM to one after another, each once the one before has ended. Returns when all have; an error names those that
  // had to be killed or did not exit with 0.
  absl::Status Stop();
  // SIGKILL to all, now; a Stop that waits returns. For the user who cannot wait.
  void Kill();

 private:
  using Clock = std::chrono::steady_clock;

  struct Process {
    ProcessSpec spec;
    std::optional<Child> child;
    std::string partial_line;
    std::deque<std::string> last_lines;
    int restarts = 0;
    Clock::duration backoff{0};
    Clock::time_point started;
    Clock::time_point next_start;
    Clock::time_point kill_at;
    bool signalled = false;
  };

  explicit Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

  void Run(std::promise<absl::Status>* started);
  absl::Status StartAll();
  absl::Status StartProcess(Process* process);
  void WaitForEvents();
  void ReadOutput(Process* process);
  void AddLine(Process* process, std::string line);
  void HandleExit(Process* process, const ExitState& exit);
  void RestartDue();
  // Takes the next step of stopping; true when all have ended.
  bool ContinueStop();
  void Event(const std::string& sentence) const;
  void Wake() const;

  SupervisorOptions options_;
  int wake_fd_ = -1;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> killing_{false};
  std::atomic<bool> ready_{false};

  mutable std::mutex mutex_;  // guards all below
  std::vector<Process> processes_;
  std::optional<std::string> failure_;
  std::vector<std::string> stop_problems_;
};

// The sentence of a log line, without time, level and process; the line itself if it is no log line.
std::string SentenceOf(const std::string& line);

}  // namespace tercet::cli
