// One client connection: reads requests, hands them out one at a time, writes answers, watches deadlines and the peer.
// Everything runs on the connection's strand. Includes Asio; only the server's own files include this.
//
// States, in order; an error or a deadline leads to kClosing or straight to kClosed:
//   kHead      waiting for a request or reading its headers
//   kBody      reading its body
//   kWorking   the handler has it; the answer is being written
//   kClosing   the last answer has been written; what the client still sends is thrown away for a moment, so that it can
//              read the answer before its own data bounces
//   kClosed
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/http/exchange.h"
#include "services/gateway/http/head_rules.h"
#include "services/gateway/http/limits.h"
#include "services/gateway/http/reactor.h"
#include "services/gateway/http/server.h"

namespace tercet::gateway {

// What all connections of a server share.
struct ServerShared {
  ServerOptions options;
  std::atomic<int> connections{0};
  std::atomic<int> active_requests{0};
};

class RequestReader;  // the HTTP parser of one request, kept out of this header

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = asio::generic::stream_protocol::socket;

  // `socket` runs on `strand`.
  Connection(std::shared_ptr<ServerShared> shared, std::shared_ptr<ReactorStrand> strand, Socket socket, std::string peer);
  ~Connection();

  void Start();
  // Closes when the present answer has been written; at once when there is none.
  void CloseWhenIdle();
  // Drops the client; a running exchange is told that the server stops.
  void Abort();

 private:
  friend class ConnectionExchange;
  using Clock = std::chrono::steady_clock;
  enum class State { kHead, kBody, kWorking, kClosing, kClosed };

  // Reading.
  void WaitReadable();
  void OnReadable();
  void OnPeerClosed();
  void Advance();
  bool AdvanceHead();
  bool AdvanceBody();
  void HandOut();
  void Refuse(int status, std::string message);

  // Writing. `ordinal` says for which request a call was meant; calls that come too late are ignored.
  bool Current(int64_t ordinal) const { return state_ == State::kWorking && ordinal == ordinal_ && !answered_; }
  void Reply(Response response);
  void BeginEvents();
  void Send(std::string_view events);
  void EndEvents(bool close);
  std::string ResponseHead(int status, std::string_view content_type) const;
  void Flush();
  void OnWritten(const boost::system::error_code& error, size_t bytes);
  void FinishAnswer();

  // Ending.
  void TellGone(Gone reason);
  void RecordAccess(bool complete);
  void Linger();
  void Close();

  void SetDeadline(Clock::time_point* which, absl::Duration from_now);
  void ArmTimer();
  void OnTimer();

  std::shared_ptr<ServerShared> shared_;
  const Limits& limits_;
  std::shared_ptr<ReactorStrand> strand_;
  Socket socket_;
  std::string peer_;
  asio::steady_timer timer_;

  State state_ = State::kHead;
  bool waiting_readable_ = false;
  bool peer_closed_ = false;
  bool close_after_ = false;

  std::string in_;           // bytes not yet parsed
  size_t scanned_ = 0;       // of in_, looked at for the end of the head
  std::unique_ptr<RequestReader> reader_;
  size_t body_progress_ = 0;

  int64_t ordinal_ = 0;      // counts requests
  bool answered_ = false;    // the answer is complete, perhaps not yet written
  bool head_only_ = false;
  bool chunked_ = false;
  bool http11_ = true;
  AccessRecord access_;
  Clock::time_point began_;
  absl::AnyInvocable<void(Gone)> on_gone_;

  std::string out_;          // to be written next
  std::string sending_;      // being written
  size_t sent_ = 0;

  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
  Clock::time_point armed_ = Clock::time_point::max();
};

}  // namespace tercet::gateway
