// A gRPC server as every Tercet process runs it: the process's services, grpc.health.v1, reflection and channelz.
//
// Health starts as NOT_SERVING; the process says SetServing(true) once it can do its work. Owns the listening socket.
// Thread-safe after Start.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"

namespace tercet::rpc {

struct ServerOptions {
  // "host:port" (port 0 takes a free one) or "unix:/path". A path on which another process answers is refused; a stale
  // socket file is replaced.
  std::string address;
  // Not owned; must outlive the server.
  std::vector<grpc::Service*> services;
  size_t max_receive_bytes = kMaxMessageBytes;
  // Most calls at a time on one connection; more wait at the client.
  int max_concurrent_streams = 1024;
};

class Server {
 public:
  // UNAVAILABLE when it cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();

  // The address in use, with the port that was chosen.
  const std::string& address() const { return address_; }

  // Answers of grpc.health.v1 for "" and every service.
  void SetServing(bool serving);

  // Stops accepting, cancels calls still open after `grace`, and returns when all have ended.
  void Shutdown(absl::Duration grace);

 private:
  Server() = default;

  std::string address_;
  std::vector<std::string> service_names_;  // as grpc.health.v1 knows them
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tercet::rpc
