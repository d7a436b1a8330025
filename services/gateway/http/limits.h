// What one client may ask of the HTTP server. A client that goes over a limit gets an answer that says so, where HTTP has
// one, and loses its connection.
#pragma once

#include <absl/time/time.h>

#include <cstddef>

namespace tercet::gateway {

struct Limits {
  size_t request_line_bytes = 8 << 10;  // 414
  size_t head_bytes = 16 << 10;         // request line and headers; 431
  size_t headers = 100;                 // 431
  size_t body_bytes = 40 << 20;         // 413; room for 32 MiB of text with its JSON escapes
  size_t connections = 2048;            // more are answered 503 and closed
  // Bytes a client may send ahead while its request is being worked on; then its socket is left unread.
  size_t pipelined_bytes = 64 << 10;
  // Events written for a client that does not read them (besides what the kernel holds); then its request is cancelled.
  size_t unsent_event_bytes = 256 << 10;

  absl::Duration head_timeout = absl::Seconds(10);  // from the first byte of a request to the end of its headers; 408
  absl::Duration body_timeout = absl::Seconds(10);  // for each further 16 KiB of the body; 408
  absl::Duration idle_timeout = absl::Seconds(60);  // between requests
  absl::Duration write_timeout = absl::Seconds(60);  // without one byte taken by the client
};

// A body must bring this many bytes in every body_timeout.
inline constexpr size_t kBodyProgressBytes = 16 << 10;

}  // namespace tercet::gateway
