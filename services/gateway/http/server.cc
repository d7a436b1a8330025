#include "services/gateway/http/server.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <absl/time/clock.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/executor_work_guard.hpp>

#include <mutex>
#include <thread>

#include "services/gateway/http/api_error.h"
#include "services/gateway/http/connection.h"
#include "services/gateway/http/reactor.h"

namespace tercet::gateway {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
using UnixStream = asio::local::stream_protocol;

// Pause after accept fails for want of file descriptors; trying again at once would only spin.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

std::string PeerName(const tcp::socket& socket) {
  error_code error;
  tcp::endpoint peer = socket.remote_endpoint(error);
  return error ? "unknown" : absl::StrCat(peer.address().to_string(), ":", peer.port());
}
std::string PeerName(const UnixStream::socket&) { return "unix"; }

void Prepare(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
}
void Prepare(UnixStream::socket&) {}

absl::Status CannotListen(const std::string& address, const error_code& error) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", error.message(), " (choose another address with --listen)"));
}

class Implementation final : public HttpServer {
 public:
  explicit Implementation(ServerOptions options)
      : reactor_(std::make_shared<Reactor>()),
        shared_(std::make_shared<ServerShared>()),
        work_(reactor_->get_executor()),
        accepting_(std::make_shared<ReactorStrand>(reactor_)) {
    shared_->options = std::move(options);
  }

  ~Implementation() override { Stop(absl::ZeroDuration()); }

  absl::Status Listen() {
    const std::string& listen = shared_->options.listen;
    absl::Status status = absl::StartsWith(listen, "unix:") ? ListenUnix(listen.substr(5)) : ListenTcp(listen);
    if (!status.ok()) return status;
    for (int i = 0; i < shared_->options.threads; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "http");
        reactor_->run();
      });
    }
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  int active_requests() const override { return shared_->active_requests.load(); }
  int connections() const override { return shared_->connections.load(); }
  std::shared_ptr<Strand> NewStrand() override { return std::make_shared<ReactorStrand>(reactor_); }

  void Stop(absl::Duration grace) override {
    if (threads_.empty()) return;
    accepting_->Post([this] {
      error_code ignored;
      if (tcp_.has_value()) tcp_->close(ignored);
      if (unix_.has_value()) unix_->close(ignored);
    });
    ForEachConnection(&Connection::CloseWhenIdle);
    WaitForConnections(grace);
    ForEachConnection(&Connection::Abort);
    WaitForConnections(absl::Seconds(1));
    reactor_->stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    reactor_->Close();
    if (!unix_path_.empty()) unlink(unix_path_.c_str());
  }

 private:
  absl::Status ListenTcp(const std::string& listen) {
    size_t colon = listen.rfind(':');
    std::string host = colon == std::string::npos ? "" : listen.substr(0, colon);
    std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
    bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) {
      return absl::InvalidArgumentError(
          absl::StrCat("the address \"", listen, "\" is neither host:port nor unix:/path (--listen)"));
    }
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    error_code error;
    tcp::resolver resolver(*reactor_);
    auto found = resolver.resolve(host.empty() ? "0.0.0.0" : host, port, tcp::resolver::passive, error);
    if (error || found.empty()) return CannotListen(listen, error ? error : asio::error::host_not_found);
    tcp::endpoint endpoint = found.begin()->endpoint();
    tcp_.emplace(accepting_->executor());
    tcp_->open(endpoint.protocol(), error);
    if (!error) tcp_->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) tcp_->bind(endpoint, error);
    if (!error) tcp_->listen(asio::socket_base::max_listen_connections, error);
    if (error) return CannotListen(listen, error);
    address_ = absl::StrCat(host.empty() ? "0.0.0.0" : listen.substr(0, colon), ":", tcp_->local_endpoint().port());
    Accept(*tcp_);
    return absl::OkStatus();
  }

  absl::Status ListenUnix(const std::string& path) {
    if (path.empty() || path.size() > 107) {
      return absl::InvalidArgumentError(absl::StrCat("the Unix socket path \"", path, "\" must have 1 to 107 bytes"));
    }
    struct stat file;
    if (lstat(path.c_str(), &file) == 0) {
      // A socket left behind by a process that is gone is replaced; anything else is somebody's.
      if (!S_ISSOCK(file.st_mode)) return absl::UnavailableError(absl::StrCat(path, " exists and is not a socket"));
      error_code refused;
      UnixStream::socket(*reactor_).connect(UnixStream::endpoint(path), refused);
      if (!refused) return absl::UnavailableError(absl::StrCat("another process already serves on unix:", path));
      unlink(path.c_str());
    }
    error_code error;
    unix_.emplace(accepting_->executor());
    unix_->open(UnixStream(), error);
    if (!error) unix_->bind(UnixStream::endpoint(path), error);
    if (!error) unix_->listen(asio::socket_base::max_listen_connections, error);
    if (error) return CannotListen(absl::StrCat("unix:", path), error);
    unix_path_ = path;
    address_ = absl::StrCat("unix:", path);
    Accept(*unix_);
    return absl::OkStatus();
  }

  template <typename Acceptor>
  void Accept(Acceptor& acceptor) {
    auto strand = std::make_shared<ReactorStrand>(reactor_);
    auto socket = std::make_shared<typename Acceptor::protocol_type::socket>(strand->executor());
    acceptor.async_accept(*socket, [this, &acceptor, strand, socket](const error_code& error) {
      if (!acceptor.is_open()) return;
      if (error && error != asio::error::connection_aborted) {
        auto timer = std::make_shared<asio::steady_timer>(accepting_->executor(), absl::ToChronoNanoseconds(kAcceptPause));
        timer->async_wait([this, &acceptor, timer](const error_code&) {
          if (acceptor.is_open()) Accept(acceptor);
        });
        return;
      }
      if (!error) {
        std::string peer = PeerName(*socket);
        Prepare(*socket);
        Admit(strand, Connection::Socket(std::move(*socket)), std::move(peer));
      }
      Accept(acceptor);
    });
  }

  void Admit(const std::shared_ptr<ReactorStrand>& strand, Connection::Socket socket, std::string peer) {
    if (shared_->connections.load() >= static_cast<int>(shared_->options.limits.connections)) {
      std::string body = ErrorBody(ToApiError(absl::UnavailableError("too many connections; try again later")));
      std::string answer = absl::StrCat(
          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
          "Content-Length: ", body.size(), "\r\n\r\n", body);
      error_code ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(answer), ignored);
      return;
    }
    auto connection = std::make_shared<Connection>(shared_, strand, std::move(socket), std::move(peer));
    {
      std::lock_guard lock(mutex_);
      if (known_.size() > 64 && known_.size() > 2 * static_cast<size_t>(connections())) {
        absl::erase_if(known_, [](const auto& entry) { return entry.second.first.expired(); });
      }
      known_.emplace(next_connection_++, std::make_pair(std::weak_ptr(connection), strand));
    }
    strand->Post([connection] { connection->Start(); });
  }

  void ForEachConnection(void (Connection::*action)()) {
    std::lock_guard lock(mutex_);
    for (auto& [number, entry] : known_) {
      entry.second->Post([weak = entry.first, action] {
        if (auto connection = weak.lock()) ((*connection).*action)();
      });
    }
  }

  void WaitForConnections(absl::Duration longest) {
    absl::Time deadline = absl::Now() + longest;
    while (connections() > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  }

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<ServerShared> shared_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::shared_ptr<ReactorStrand> accepting_;  // where the acceptors below are used
  std::optional<tcp::acceptor> tcp_;
  std::optional<UnixStream::acceptor> unix_;
  std::string unix_path_;
  std::string address_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards the two below
  absl::flat_hash_map<int64_t, std::pair<std::weak_ptr<Connection>, std::shared_ptr<ReactorStrand>>> known_;
  int64_t next_connection_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(ServerOptions options) {
  auto server = std::make_unique<Implementation>(std::move(options));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace tercet::gateway
