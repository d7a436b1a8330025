// SIGTERM and SIGINT, received by a thread that waits for them and never inside a handler.
#pragma once

namespace tercet::rpc {

// Call first in main, before any thread starts: blocks SIGTERM and SIGINT for the whole process and ignores SIGPIPE.
void PrepareForStop();

// Waits for the first SIGTERM or SIGINT. From then on a second one ends the process at once with exit code 130.
void WaitForStop();

// Makes WaitForStop return, as if the signal had come. Thread-safe.
void RequestStop();

}  // namespace tercet::rpc
