#include "services/cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace tercet::cli {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void BlockSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void UnblockSignalsInChild() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

Interrupt::Interrupt() {
  const sigset_t set = StopSignals();
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Interrupt::~Interrupt() {
  if (fd_ >= 0) close(fd_);
}

int Interrupt::Take() {
  struct signalfd_siginfo info = {};
  return read(fd_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

int Interrupt::WaitFor(std::chrono::milliseconds time) {
  struct pollfd waiting = {fd_, POLLIN, 0};
  poll(&waiting, 1, static_cast<int>(time.count()));
  return Take();
}

}  // namespace tercet::cli
