// One child process: started with its output in a pipe, ended with its parent, reaped exactly once.
//
// Owns: the process (killed and reaped on destruction), its pidfd and the reading end of its output. Movable.
// Not thread-safe. The thread that starts a child must outlive it: when that thread ends, the child gets SIGTERM, so
// that no child is ever orphaned.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tercet::cli {

// How a process ended: by exit(code), or by a signal.
struct ExitState {
  int code = 0;
  int signal = 0;

  std::string ToString() const;  // "exit code 1", "signal 9 (Killed)"
};

class Child {
 public:
  // argv[0] is the path of the program. Its standard input is empty, its output and errors go to output_fd(). It has a
  // process group of its own, so that Ctrl-C on the terminal reaches it only through its parent.
  static absl::StatusOr<Child> Start(const std::vector<std::string>& argv);

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  // Readable when the process has ended.
  int pid_fd() const { return pid_fd_; }
  // Non-blocking; its end of file says that the process and all that it started have closed it.
  int output_fd() const { return output_fd_; }

  void Signal(int number) const;
  // Reaps it if it has ended; the answer stays available.
  std::optional<ExitState> Poll();

 private:
  Child() = default;
  void Release();

  pid_t pid_ = -1;
  int pid_fd_ = -1;
  int output_fd_ = -1;
  std::optional<ExitState> exit_;
};

}  // namespace tercet::cli
