#include "common/rpc/server.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

namespace tercet::rpc {
namespace {

void InstallPluginsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::channelz::experimental::InitChannelzService();
  });
}

// Makes room for a Unix socket: a leftover file is removed, a living owner is respected.
absl::Status ClaimSocketPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the Unix socket path ", path, " is longer than ",
                                                   sizeof(address.sun_path) - 1, " bytes; choose a shorter one"));
  }
  struct stat file;
  if (lstat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not a socket"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool answered = probe >= 0 && connect(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (probe >= 0) close(probe);
  if (answered) return absl::AlreadyExistsError(absl::StrCat("another process already serves on unix:", path));
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  InstallPluginsOnce();
  bool is_unix = absl::StartsWith(options.address, "unix:");
  if (is_unix) {
    absl::Status claimed = ClaimSocketPath(std::string(absl::StripPrefix(options.address, "unix:")));
    if (!claimed.ok()) return claimed;
  }

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_receive_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(options.max_receive_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16384);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65536);
  // With SO_REUSEPORT two processes would silently share a port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);

  auto server = std::unique_ptr<Server>(new Server);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || (!is_unix && port == 0)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.address, ": the address is not valid or is in use (--listen)"));
  }
  server->address_ = options.address;
  if (!is_unix) {
    size_t colon = options.address.rfind(':');
    if (colon != std::string::npos) server->address_ = absl::StrCat(options.address.substr(0, colon), ":", port);
  }
  server->SetServing(false);
  return server;
}

Server::~Server() {
  if (server_ != nullptr) Shutdown(absl::ZeroDuration());
}

void Server::SetServing(bool serving) { server_->GetHealthCheckService()->SetServingStatus(serving); }

void Server::Shutdown(absl::Duration grace) {
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
}

}  // namespace tercet::rpc
