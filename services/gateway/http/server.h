// The HTTP/1.1 server: sockets, connections, limits. Turns bytes into Requests for one Handler and answers into bytes.
//
// Every connection has a strand on which its handler and all callbacks of its exchanges run; a few threads serve them all.
// Per connection one request at a time is worked on; what a client sends ahead waits. While a request is worked on the
// socket is watched, so a client that goes away is noticed at once. All members are thread-safe.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/gateway/http/exchange.h"
#include "services/gateway/http/limits.h"

namespace tercet::gateway {

// For the access log: one finished request.
struct AccessRecord {
  std::string request_id, method, path, peer;
  int status = 0;              // 0: none was sent
  bool complete = true;        // false: the client was gone before the end
  absl::Duration duration;
  size_t request_bytes = 0;
  size_t response_bytes = 0;
  std::vector<std::pair<std::string, std::string>> notes;
};

struct ServerOptions {
  // "host:port" (port 0 takes a free one) or "unix:/path".
  std::string listen;
  int threads = 1;
  Limits limits;
  Handler handler;
  // Called on a connection's strand. May be empty.
  std::function<void(const AccessRecord&)> on_access;
};

class HttpServer {
 public:
  // UNAVAILABLE when it cannot listen, INVALID_ARGUMENT for an address that is none.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(ServerOptions options);
  // Stops at once.
  virtual ~HttpServer() = default;

  // The address in use, with the port that was chosen.
  virtual const std::string& address() const = 0;
  // Requests being read or worked on, and connections open.
  virtual int active_requests() const = 0;
  virtual int connections() const = 0;
  // A strand of its own, for work that belongs to no connection.
  virtual std::shared_ptr<Strand> NewStrand() = 0;
  // Closes the listener and idle connections, gives running answers up to `grace` to be written, closes the rest.
  virtual void Stop(absl::Duration grace) = 0;
};

}  // namespace tercet::gateway
