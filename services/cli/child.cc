#include "services/cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "services/cli/interrupt.h"

namespace tercet::cli {
namespace {

// After fork, in the child: only async-signal-safe calls. Does not return.
[[noreturn]] void Exec(pid_t parent, int null_fd, int output_fd, char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // the parent ended before the line above
  setpgid(0, 0);
  UnblockSignalsInChild();
  dup2(null_fd, STDIN_FILENO);
  dup2(output_fd, STDOUT_FILENO);
  dup2(output_fd, STDERR_FILENO);
  execv(argv[0], argv);
  constexpr char kProblem[] = "the program cannot be executed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kProblem, sizeof(kProblem) - 1);
  _exit(127);
}

}  // namespace

std::string ExitState::ToString() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", code);
}

absl::StatusOr<Child> Child::Start(const std::vector<std::string>& argv) {
  if (access(argv[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(fmt::format("{}: {}; it is installed next to tercet", argv[0], std::strerror(errno)));
  }
  int pipe_fds[2] = {-1, -1};
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) != 0) {
    const int error = errno;
    if (null_fd >= 0) close(null_fd);
    return absl::ResourceExhaustedError(fmt::format("cannot start {}: {}", argv[0], std::strerror(error)));
  }
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(parent, null_fd, pipe_fds[1], pointers.data());
  const int error = errno;
  close(null_fd);
  close(pipe_fds[1]);
  Child child;
  child.output_fd_ = pipe_fds[0];
  if (pid < 0) return absl::ResourceExhaustedError(fmt::format("cannot start {}: {}", argv[0], std::strerror(error)));
  setpgid(pid, pid);  // here as well, so that it holds whoever runs first
  child.pid_ = pid;
  child.pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  fcntl(child.output_fd_, F_SETFL, O_NONBLOCK);
  if (child.pid_fd_ < 0) {
    return absl::InternalError(fmt::format("cannot watch {}: {}", argv[0], std::strerror(errno)));
  }
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_fd_(std::exchange(other.pid_fd_, -1)),
      output_fd_(std::exchange(other.output_fd_, -1)),
      exit_(other.exit_) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    Release();
    pid_ = std::exchange(other.pid_, -1);
    pid_fd_ = std::exchange(other.pid_fd_, -1);
    output_fd_ = std::exchange(other.output_fd_, -1);
    exit_ = other.exit_;
  }
  return *this;
}

Child::~Child() { Release(); }

void Child::Release() {
  if (pid_ > 0 && !exit_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (pid_fd_ >= 0) close(pid_fd_);
  if (output_fd_ >= 0) close(output_fd_);
  pid_ = pid_fd_ = output_fd_ = -1;
}

void Child::Signal(int number) const {
  if (pid_ > 0 && !exit_) kill(pid_, number);
}

std::optional<ExitState> Child::Poll() {
  if (exit_ || pid_ <= 0) return exit_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_ = WIFSIGNALED(status) ? ExitState{0, WTERMSIG(status)} : ExitState{WEXITSTATUS(status), 0};
  }
  return exit_;
}

}  // namespace tercet::cli
