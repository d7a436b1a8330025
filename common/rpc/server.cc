#include "common/rpc/server.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/impl/server_initializer.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tercet::rpc {
namespace {

void InstallPluginsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    // What goes wrong comes back as a Status; gRPC's own words are for those who ask for them.
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::channelz::experimental::InitChannelzService();
  });
}

// Learns the names of a server's services, which gRPC tells to plugins only: its health service knows none of them by itself.
class ServiceNames : public grpc::ServerBuilderOption {
 public:
  explicit ServiceNames(std::vector<std::string>* names) : names_(names) {}

  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->push_back(std::make_unique<Plugin>(names_));
  }

 private:
  class Plugin : public grpc::ServerBuilderPlugin {
   public:
    explicit Plugin(std::vector<std::string>* names) : names_(names) {}
    std::string name() override { return "service_names"; }
    void InitServer(grpc::ServerInitializer*) override {}
    void Finish(grpc::ServerInitializer* initializer) override { *names_ = *initializer->GetServiceList(); }
    void ChangeArguments(const std::string&, void*) override {}

   private:
    std::vector<std::string>* names_;
  };
  std::vector<std::string>* names_;
};

// gRPC takes a port modulo 65536.
absl::Status CheckPort(const std::string& address) {
  size_t colon = address.rfind(':');
  uint32_t port;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address ", address, " is neither host:port (port 0 to 65535) nor unix:/path (--listen)"));
  }
  return absl::OkStatus();
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
  } else if (absl::Status valid = CheckPort(options.address); !valid.ok()) {
    return valid;
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
  // Only reflection, channelz and health are synchronous here: one thread is enough for them.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);

  auto server = std::unique_ptr<Server>(new Server);
  builder.SetOption(std::make_unique<ServiceNames>(&server->service_names_));
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

void Server::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus("", serving);
  for (const std::string& name : service_names_) health->SetServingStatus(name, serving);
}

void Server::Shutdown(absl::Duration grace) {
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
}

}  // namespace tercet::rpc
