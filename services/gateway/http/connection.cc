#include "services/gateway/http/connection.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/time/clock.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <cstdlib>

#include "services/gateway/http/api_error.h"
#include "services/gateway/http/request_id.h"
#include "services/gateway/http/target.h"

namespace tercet::gateway {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr absl::Duration kLingerTime = absl::Seconds(5);

std::string_view View(boost::string_view text) { return {text.data(), text.size()}; }

std::string HttpDate() {
  return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone());
}

}  // namespace

// Beast's parser, fed with heads that CheckHead has approved.
class RequestReader {
 public:
  explicit RequestReader(size_t body_limit) {
    parser_.body_limit(body_limit);
    parser_.header_limit(1 << 20);  // CheckHead has its own, stricter limit
  }

  // Takes what belongs to this request from the front of `in`. False: `verdict()` says what is wrong.
  bool Feed(std::string_view* in, bool eager) {
    parser_.eager(eager);
    while (!in->empty() && !parser_.is_done()) {
      error_code error;
      size_t taken = parser_.put(asio::buffer(in->data(), in->size()), error);
      in->remove_prefix(taken);
      if (error == http::error::need_more) break;
      if (error == http::error::body_limit) return Fail(413, "the request body is longer than this server accepts");
      if (error) return Fail(400, absl::StrCat("the request is not valid HTTP: ", error.message()));
      if (!eager) break;
      if (taken == 0) break;
    }
    return true;
  }

  void HeadIsDone() { header_fields_ = Fields(); }
  // Trailers would be merged into the headers behind the back of whoever checked those.
  bool HasTrailers() const { return Fields() > header_fields_; }

  bool done() const { return parser_.is_done(); }
  bool chunked() const { return parser_.chunked(); }
  const http::request<http::string_body>& message() const { return parser_.get(); }
  std::string TakeBody() { return std::move(parser_.get().body()); }
  const HeadVerdict& verdict() const { return verdict_; }

 private:
  bool Fail(int status, std::string message) {
    verdict_ = {status, std::move(message)};
    return false;
  }
  std::ptrdiff_t Fields() const { return std::distance(parser_.get().begin(), parser_.get().end()); }

  http::request_parser<http::string_body> parser_;
  std::ptrdiff_t header_fields_ = 0;
  HeadVerdict verdict_;
};

// What a handler holds of a connection.
class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, int64_t ordinal, Request request)
      : connection_(std::move(connection)),
        strand_(connection_->strand_),
        ordinal_(ordinal),
        request_(std::move(request)) {}

  ~ConnectionExchange() override {
    strand_->Post([connection = std::move(connection_), ordinal = ordinal_] {
      if (!connection->Current(ordinal)) return;
      // Only a bug comes here; the client still gets an answer.
      Response response{.status = 500, .close = true};
      response.body = ErrorBody(ToApiError(absl::InternalError("the server lost track of this request")));
      connection->Reply(std::move(response));
    });
  }

  Request& request() override { return request_; }
  const std::shared_ptr<Strand>& strand() override { return strand_; }
  void Reply(Response response) override {
    if (connection_->Current(ordinal_)) connection_->Reply(std::move(response));
  }
  void BeginEvents() override {
    if (connection_->Current(ordinal_)) connection_->BeginEvents();
  }
  void Send(std::string_view events) override {
    if (connection_->Current(ordinal_)) connection_->Send(events);
  }
  void EndEvents(bool close) override {
    if (connection_->Current(ordinal_)) connection_->EndEvents(close);
  }
  void OnGone(absl::AnyInvocable<void(Gone)> callback) override {
    if (connection_->Current(ordinal_)) {
      connection_->on_gone_ = std::move(callback);
    } else {
      strand_->Post([callback = std::move(callback)]() mutable { callback(Gone::kDisconnected); });
    }
  }
  void Note(std::string_view key, std::string value) override {
    if (connection_->Current(ordinal_)) connection_->access_.notes.emplace_back(key, std::move(value));
  }

 private:
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Strand> strand_;
  int64_t ordinal_;
  Request request_;
};

Connection::Connection(std::shared_ptr<ServerShared> shared, std::shared_ptr<ReactorStrand> strand, Socket socket,
                       std::string peer)
    : shared_(std::move(shared)),
      limits_(shared_->options.limits),
      strand_(std::move(strand)),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      timer_(strand_->executor()) {
  shared_->connections.fetch_add(1);
}

Connection::~Connection() { shared_->connections.fetch_sub(1); }

void Connection::Start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  SetDeadline(&read_deadline_, limits_.idle_timeout);
  WaitReadable();
}

// ---------------------------------------------------------------- reading

void Connection::WaitReadable() {
  if (waiting_readable_ || peer_closed_ || state_ == State::kClosed) return;
  if (state_ == State::kWorking && in_.size() >= limits_.pipelined_bytes) return;
  waiting_readable_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->waiting_readable_ = false;
    if (!error && self->state_ != State::kClosed) self->OnReadable();
  });
}

void Connection::OnReadable() {
  // The bytes pass through a buffer of the thread, so that an idle connection holds none.
  thread_local std::vector<char> buffer(kReadBytes);
  error_code error;
  size_t bytes = socket_.read_some(asio::buffer(buffer), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) return WaitReadable();
  if (error) return OnPeerClosed();
  if (state_ != State::kClosing) {
    in_.append(buffer.data(), bytes);
    if (state_ != State::kWorking) Advance();
  }
  WaitReadable();
}

void Connection::OnPeerClosed() {
  peer_closed_ = true;
  // Half a connection counts as none: a client that stops listening for more is not told apart from one that only stops
  // sending. An answer that is already complete is still written.
  if (state_ == State::kWorking && answered_) return;
  TellGone(Gone::kDisconnected);
  Close();
}

void Connection::Advance() {
  while (state_ == State::kHead || state_ == State::kBody) {
    if (!(state_ == State::kHead ? AdvanceHead() : AdvanceBody())) return;
  }
}

bool Connection::AdvanceHead() {
  // An empty line before a request is tolerated, as RFC 9112 asks for.
  if (scanned_ == 0 && absl::StartsWith(in_, "\r\n")) in_.erase(0, 2);
  if (in_.empty()) return false;
  if (scanned_ == 0) {
    began_ = Clock::now();
    access_ = AccessRecord{.peer = peer_};
    head_only_ = false;
    SetDeadline(&read_deadline_, limits_.head_timeout);
  }
  size_t end = FindHeadEnd(in_, scanned_);
  HeadVerdict verdict = end == std::string::npos ? CheckPartialHead(in_, scanned_, limits_)
                                                 : CheckHead(std::string_view(in_).substr(0, end), limits_);
  scanned_ = in_.size();
  if (!verdict.ok()) {
    Refuse(verdict.status, std::move(verdict.message));
    return false;
  }
  if (end == std::string::npos) return false;

  ++ordinal_;
  scanned_ = 0;
  reader_ = std::make_unique<RequestReader>(limits_.body_bytes);
  std::string_view head = std::string_view(in_).substr(0, end);
  bool parsed = reader_->Feed(&head, /*eager=*/false);
  in_.erase(0, end);
  const auto& message = reader_->message();
  http11_ = message.version() == 11;
  head_only_ = message.method() == http::verb::head;
  access_.method = std::string(View(message.method_string()));
  if (!parsed) {
    Refuse(reader_->verdict().status, reader_->verdict().message);
    return false;
  }
  reader_->HeadIsDone();
  close_after_ = close_after_ || !message.keep_alive() || !http11_;

  std::string_view expect = View(message[http::field::expect]);
  if (!expect.empty() && !absl::EqualsIgnoreCase(absl::string_view(expect.data(), expect.size()), "100-continue")) {
    Refuse(417, "the only Expect understood is 100-continue");
    return false;
  }
  state_ = State::kBody;
  body_progress_ = 0;
  SetDeadline(&read_deadline_, limits_.body_timeout);
  if (!expect.empty() && http11_ && in_.empty() && !reader_->done()) {
    out_.append("HTTP/1.1 100 Continue\r\n\r\n");
    Flush();
  }
  return true;
}

bool Connection::AdvanceBody() {
  std::string_view rest = in_;
  bool fine = reader_->Feed(&rest, /*eager=*/true);
  size_t taken = in_.size() - rest.size();
  in_.erase(0, taken);
  access_.request_bytes += taken;
  body_progress_ += taken;
  if (!fine) {
    Refuse(reader_->verdict().status, reader_->verdict().message);
    return false;
  }
  if (reader_->done()) {
    if (reader_->HasTrailers()) {
      Refuse(400, "trailers behind a chunked body are not accepted");
      return false;
    }
    HandOut();
    return false;
  }
  if (in_.size() > limits_.head_bytes) {  // a chunk's size line that does not end
    Refuse(400, "a chunk of the body has no proper size line");
    return false;
  }
  if (body_progress_ >= kBodyProgressBytes) {
    body_progress_ = 0;
    SetDeadline(&read_deadline_, limits_.body_timeout);
  }
  return false;
}

void Connection::HandOut() {
  const auto& message = reader_->message();
  Request request;
  request.method = std::string(View(message.method_string()));
  request.peer = peer_;
  for (const auto& field : message) {
    request.headers.emplace_back(absl::AsciiStrToLower(absl::string_view(field.name_string().data(), field.name_string().size())),
                                 View(field.value()));
  }
  request.id = RequestIdOr(request.Header("x-request-id"));
  access_.request_id = request.id;
  std::optional<std::string> path = PathOfTarget(View(message.target()));
  if (!path.has_value()) return Refuse(400, "the request's target is not a path with proper percent-encoding");
  request.path = access_.path = std::move(*path);
  request.body = reader_->TakeBody();
  reader_.reset();

  state_ = State::kWorking;
  answered_ = false;
  chunked_ = false;
  read_deadline_ = Clock::time_point::max();
  shared_->active_requests.fetch_add(1);
  shared_->options.handler(std::make_shared<ConnectionExchange>(shared_from_this(), ordinal_, std::move(request)));
}

void Connection::Refuse(int status, std::string message) {
  // Where this request ends is not certain, so nothing behind it is read.
  in_.clear();
  reader_.reset();
  if (state_ != State::kWorking) {
    state_ = State::kWorking;
    answered_ = false;
    shared_->active_requests.fetch_add(1);
  }
  read_deadline_ = Clock::time_point::max();
  if (access_.request_id.empty()) access_.request_id = RequestIdOr("");
  ApiError error = ToApiError(WithHttpStatus(absl::InvalidArgumentError(message), status));
  Reply(Response{.status = status, .body = ErrorBody(error), .close = true});
}

// ---------------------------------------------------------------- writing

std::string Connection::ResponseHead(int status, std::string_view content_type) const {
  std::string_view reason = View(http::obsolete_reason(static_cast<http::status>(status)));
  std::string head = absl::StrFormat("HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n", status,
                                     absl::string_view(reason.data(), reason.size()), HttpDate(),
                                     absl::string_view(content_type.data(), content_type.size()));
  if (!access_.request_id.empty()) absl::StrAppend(&head, "x-request-id: ", access_.request_id, "\r\n");
  if (close_after_) head.append("Connection: close\r\n");
  return head;
}

void Connection::Reply(Response response) {
  close_after_ = close_after_ || response.close;
  access_.status = response.status;
  std::string head = ResponseHead(response.status, response.content_type);
  for (const auto& [name, value] : response.headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  absl::StrAppend(&head, "Content-Length: ", response.body.size(), "\r\n\r\n");
  out_.append(head);
  if (!head_only_) out_.append(response.body);
  answered_ = true;
  Flush();
}

void Connection::BeginEvents() {
  access_.status = 200;
  chunked_ = http11_;
  std::string head = ResponseHead(200, "text/event-stream; charset=utf-8");
  head.append("Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
  head.append(chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
  out_.append(head);
}

void Connection::Send(std::string_view events) {
  if (events.empty()) return;
  if (chunked_) {
    absl::StrAppendFormat(&out_, "%x\r\n", events.size());
    out_.append(events);
    out_.append("\r\n");
  } else {
    out_.append(events);
  }
  Flush();
  if (out_.size() + sending_.size() - sent_ <= limits_.unsent_event_bytes) return;
  TellGone(Gone::kTooSlow);
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);  // what the kernel still holds is dropped, too
  Close();
}

void Connection::EndEvents(bool close) {
  close_after_ = close_after_ || close;
  if (chunked_) out_.append("0\r\n\r\n");
  answered_ = true;
  Flush();
  if (sending_.empty() && state_ == State::kWorking) FinishAnswer();
}

void Connection::Flush() {
  if (!sending_.empty() || out_.empty() || state_ == State::kClosed) return;
  sending_.swap(out_);
  sent_ = 0;
  SetDeadline(&write_deadline_, limits_.write_timeout);
  socket_.async_write_some(asio::buffer(sending_),
                           [self = shared_from_this()](const error_code& error, size_t bytes) { self->OnWritten(error, bytes); });
}

void Connection::OnWritten(const error_code& error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) {
    peer_closed_ = true;
    TellGone(Gone::kDisconnected);
    return Close();
  }
  access_.response_bytes += bytes;
  sent_ += bytes;
  if (sent_ < sending_.size()) {
    SetDeadline(&write_deadline_, limits_.write_timeout);
    socket_.async_write_some(
        asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
        [self = shared_from_this()](const error_code& e, size_t n) { self->OnWritten(e, n); });
    return;
  }
  sending_.clear();
  sent_ = 0;
  write_deadline_ = Clock::time_point::max();
  if (!out_.empty()) return Flush();
  if (state_ == State::kWorking && answered_) FinishAnswer();
}

void Connection::FinishAnswer() {
  on_gone_ = nullptr;
  RecordAccess(/*complete=*/true);
  std::string().swap(sending_);
  std::string().swap(out_);
  if (peer_closed_) return Close();
  if (close_after_) return Linger();
  state_ = State::kHead;
  scanned_ = 0;
  SetDeadline(&read_deadline_, limits_.idle_timeout);
  // By way of the queue, so that a client with many small requests in flight cannot make the stack deep.
  strand_->Post([self = shared_from_this()] {
    if (self->state_ == State::kHead) self->Advance();
    self->WaitReadable();
  });
}

// ---------------------------------------------------------------- ending

void Connection::TellGone(Gone reason) {
  if (state_ != State::kWorking) return;
  RecordAccess(answered_ && sending_.empty());
  state_ = State::kClosing;
  auto callback = std::exchange(on_gone_, nullptr);
  // By way of the queue: the handler may be in the middle of Send.
  if (callback && !answered_) strand_->Post([callback = std::move(callback), reason]() mutable { callback(reason); });
}

void Connection::RecordAccess(bool complete) {
  shared_->active_requests.fetch_sub(1);
  if (!shared_->options.on_access) return;
  access_.complete = complete;
  access_.duration = absl::FromChrono(Clock::now() - began_);
  shared_->options.on_access(access_);
}

void Connection::Linger() {
  state_ = State::kClosing;
  in_.clear();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  SetDeadline(&read_deadline_, kLingerTime);
  WaitReadable();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  error_code ignored;
  timer_.cancel(ignored);
  socket_.close(ignored);
}

void Connection::CloseWhenIdle() {
  close_after_ = true;
  if (state_ == State::kHead && in_.empty()) Close();
}

void Connection::Abort() {
  TellGone(Gone::kServerStopping);
  Close();
}

// ---------------------------------------------------------------- deadlines

void Connection::SetDeadline(Clock::time_point* which, absl::Duration from_now) {
  *which = Clock::now() + absl::ToChronoNanoseconds(from_now);
  if (*which < armed_) ArmTimer();
}

// One timer serves both deadlines. A deadline that moves away leaves it running; it looks again when it goes off.
void Connection::ArmTimer() {
  armed_ = std::min(read_deadline_, write_deadline_);
  if (armed_ == Clock::time_point::max() || state_ == State::kClosed) return;
  timer_.expires_at(armed_);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ != State::kClosed) self->OnTimer();
  });
}

void Connection::OnTimer() {
  Clock::time_point now = Clock::now();
  armed_ = Clock::time_point::max();
  if (now >= write_deadline_) {
    TellGone(Gone::kTooSlow);
    return Close();
  }
  if (now >= read_deadline_) {
    read_deadline_ = Clock::time_point::max();
    bool idle = state_ == State::kHead && in_.empty();
    if (idle || state_ == State::kClosing) return Close();
    if (state_ == State::kHead || state_ == State::kBody) {
      Refuse(408, "the request did not arrive in time");
    }
  }
  if (armed_ == Clock::time_point::max()) ArmTimer();
}

}  // namespace tercet::gateway
