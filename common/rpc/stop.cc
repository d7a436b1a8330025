#include "common/rpc/stop.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace tercet::rpc {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void PrepareForStop() {
  sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void WaitForStop() {
  sigset_t set = StopSignals();
  int received = 0;
  sigwait(&set, &received);
  std::thread([set] {
    int again = 0;
    sigwait(&set, &again);
    _exit(130);
  }).detach();
}

void RequestStop() { kill(getpid(), SIGTERM); }

}  // namespace tercet::rpc
