// Ctrl-C and SIGTERM as something to wait for, next to sockets and files.
//
// Call BlockSignals first in main, before any thread starts: from then on SIGINT, SIGTERM and SIGHUP are delivered only
// here, and SIGPIPE is ignored. Any thread may wait; a signal is given to one.
#pragma once

#include <chrono>

namespace tercet::cli {

void BlockSignals();

// Undoes BlockSignals in a child between fork and exec. Async-signal-safe.
void UnblockSignalsInChild();

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Readable when a signal waits.
  int fd() const { return fd_; }
  // Takes one waiting signal: its number, or 0 when there is none.
  int Take();
  // Waits for a signal, at most so long, and takes it: its number, or 0.
  int WaitFor(std::chrono::milliseconds time);

 private:
  int fd_;
};

}  // namespace tercet::cli
