// The HTTP server on real sockets, with a handler that says what it was asked.
#include "services/gateway/http/server.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "services/gateway/http/reply.h"
#include "tests/services/gateway/fake_services.h"
#include "tests/services/gateway/raw_client.h"

namespace tercet::gateway {
namespace {

class HttpServerTest : public testing::Test {
 protected:
  // Answers "METHOD PATH BODY"; /hold never answers, /lost forgets the exchange, /events streams what the body says.
  void Start(Limits limits = {}, const std::string& listen = "127.0.0.1:0") {
    ServerOptions options{.listen = listen, .threads = 2, .limits = limits};
    options.handler = [this](std::shared_ptr<Exchange> exchange) {
      const Request& request = exchange->request();
      {
        std::lock_guard lock(mutex_);
        handled_.push_back(request.method + " " + request.path);
      }
      if (request.path == "/lost") return;
      if (request.path == "/hold" || request.path == "/flood") {
        exchange->OnGone([this](Gone reason) { gone_.push_back(reason); ++gone_count_; });
        std::lock_guard lock(mutex_);
        held_.push_back(exchange);
        if (request.path == "/hold") return;
        exchange->BeginEvents();
        Flood(exchange);
        return;
      }
      if (request.path == "/events") {
        exchange->BeginEvents();
        exchange->Send("data: one\n\n");
        exchange->Send("data: two\n\n");
        exchange->EndEvents(false);
        return;
      }
      exchange->Reply(Response{.content_type = "text/plain", .body = request.method + " " + request.path + " " + request.body});
    };
    auto server = HttpServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Sends without end until the client is found too slow.
  void Flood(const std::shared_ptr<Exchange>& exchange) {
    if (gone_count_ > 0) return;
    exchange->Send("data: " + std::string(10000, 'x') + "\n\n");
    exchange->strand()->Post([this, exchange] { Flood(exchange); });
  }

  void TearDown() override {
    {
      std::lock_guard lock(mutex_);
      held_.clear();
    }
    if (server_ != nullptr) server_->Stop(absl::ZeroDuration());
  }

  const std::string& address() const { return server_->address(); }
  size_t handled() {
    std::lock_guard lock(mutex_);
    return handled_.size();
  }

  // Sends raw bytes on a fresh connection and returns the status of the first answer.
  int Status(const std::string& bytes) {
    RawClient client(address());
    client.Send(bytes);
    return client.ReadAnswer().status;
  }

  std::mutex mutex_;
  std::vector<std::string> handled_;
  std::vector<std::shared_ptr<Exchange>> held_;
  std::vector<Gone> gone_;
  std::atomic<int> gone_count_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOnTcpAndOnAUnixSocket) {
  Start();
  EXPECT_EQ(Get(address(), "/a%20b?q=1").body, "GET /a b ");
  std::string path = testing::TempDir() + "tercet-gateway-test.sock";
  server_->Stop(absl::ZeroDuration());
  Start({}, "unix:" + path);
  EXPECT_EQ(Get(address(), "/x").body, "GET /x ");
}

TEST_F(HttpServerTest, RefusesAnAddressInUse) {
  Start();
  auto second = HttpServer::Start(ServerOptions{.listen = address(), .threads = 1});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(HttpServer::Start(ServerOptions{.listen = "nonsense", .threads = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(HttpServerTest, KeepsTheConnectionAndAnswersPipelinedRequestsInOrder) {
  Start();
  RawClient client(address());
  std::string bytes;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&bytes, PostText(absl::StrCat("/", i), absl::StrCat("body", i)));
  client.Send(bytes);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.ReadAnswer().body, absl::StrCat("POST /", i, " body", i));
}

TEST_F(HttpServerTest, ReadsARequestThatComesByteByByte) {
  Start();
  RawClient client(address());
  for (char c : PostText("/slow", "hello")) {
    client.Send(std::string(1, c));
  }
  EXPECT_EQ(client.ReadAnswer().body, "POST /slow hello");
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  Start();
  RawClient client(address());
  std::string head = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  client.Send(head + "5\r\nhello\r\n7;ext=1\r\n, world\r\n0\r\n\r\n" + head + "1\r\nx\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().body, "POST /c hello, world");
  EXPECT_EQ(client.ReadAnswer().body, "POST /c x");
}

TEST_F(HttpServerTest, ClosesWhenAskedOrSpokenToInHttp10) {
  Start();
  RawClient one(address());
  one.Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  HttpAnswer answer = one.ReadAnswer();
  EXPECT_EQ(answer.headers["connection"], "close");
  EXPECT_TRUE(one.AtEnd());
  RawClient two(address());
  two.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(two.ReadAnswer().status, 200);
  EXPECT_TRUE(two.AtEnd());
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  Start();
  RawClient client(address());
  client.Send("HEAD /h HTTP/1.1\r\nHost: a\r\n\r\nGET /g HTTP/1.1\r\nHost: a\r\n\r\n");
  HttpAnswer head = client.ReadAnswer(/*head_only=*/true);
  EXPECT_EQ(head.headers["content-length"], "8");
  EXPECT_EQ(client.ReadAnswer().body, "GET /g ");
}

TEST_F(HttpServerTest, EchoesFitRequestIdsAndReplacesOthers) {
  Start();
  auto id_for = [&](const std::string& id) {
    RawClient client(address());
    client.Send(absl::StrCat("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: ", id, "\r\n\r\n"));
    return client.ReadAnswer().headers["x-request-id"];
  };
  EXPECT_EQ(id_for("abc-123"), "abc-123");
  EXPECT_EQ(id_for("has space").substr(0, 4), "req-");
  EXPECT_EQ(id_for(std::string(129, 'a')).substr(0, 4), "req-");
  EXPECT_EQ(id_for("caf\xc3\xa9").substr(0, 4), "req-");
}

TEST_F(HttpServerTest, SaysContinueToThoseWhoWait) {
  Start();
  RawClient client(address());
  client.Send("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().status, 100);
  client.Send("ok");
  EXPECT_EQ(client.ReadAnswer().body, "POST /e ok");
  EXPECT_EQ(Status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: magic\r\n\r\n"), 417);
}

TEST_F(HttpServerTest, RefusesSmuggledRequestsAndClosesWithoutReadingOn) {
  Start();
  const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::vector<std::string> attacks = {
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Content-Length: 9\r\n\r\n",
      "POST / HTTP/1.1\nHost: a\n\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 9\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(20000, 'e'),
  };
  for (const std::string& attack : attacks) {
    SCOPED_TRACE(attack.substr(0, 200));
    RawClient client(address());
    client.Send(attack + smuggled);
    HttpAnswer answer = client.ReadAnswer();
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.headers["connection"], "close");
    EXPECT_EQ(answer.body.substr(0, 21), "{\"error\":{\"message\":\"");
    EXPECT_TRUE(client.AtEnd());
  }
  EXPECT_EQ(handled(), 0u);
}

TEST_F(HttpServerTest, LimitsLineHeadersAndBody) {
  Start(Limits{.body_bytes = 1000});
  EXPECT_EQ(Status("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  EXPECT_EQ(Status("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(17000, 'a')), 431);
  EXPECT_EQ(Status("GET / HTTP/3.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(Status("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(Status("GET /%0d%0a HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  for (auto [bytes, status] : {std::pair{999, 200}, {1000, 200}, {1001, 413}}) {
    EXPECT_EQ(Status(PostText("/", std::string(bytes, 'x'))), status) << bytes;
    EXPECT_EQ(Status(absl::StrCat("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", absl::Hex(bytes), "\r\n",
                                  std::string(bytes, 'x'), "\r\n0\r\n\r\n")),
              status)
        << bytes;
  }
  // Also when the client goes on sending: it can read the answer before its connection breaks.
  RawClient client(address());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
  for (int i = 0; i < 20 && client.Send(std::string(1000000, 'x')); ++i) {
  }
  EXPECT_EQ(client.ReadAnswer().status, 413);
}

TEST_F(HttpServerTest, GivesUpOnSlowRequests) {
  Start(Limits{.head_timeout = absl::Milliseconds(150),
               .body_timeout = absl::Milliseconds(150),
               .idle_timeout = absl::Milliseconds(300)});
  RawClient head(address());
  head.Send("GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(head.ReadAnswer().status, 408);
  EXPECT_TRUE(head.AtEnd());
  RawClient body(address());
  body.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(body.ReadAnswer().status, 408);
  RawClient idle(address());
  EXPECT_TRUE(idle.AtEnd()) << "an idle connection is closed without a word";
}

TEST_F(HttpServerTest, BoundsConnections) {
  Start(Limits{.connections = 2});
  RawClient one(address()), two(address());
  one.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  two.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(one.ReadAnswer().status, 200);
  EXPECT_EQ(two.ReadAnswer().status, 200);
  RawClient three(address());
  HttpAnswer refused = three.ReadAnswer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers["retry-after"], "1");
  one.Close();
  EXPECT_TRUE(Eventually([&] { return Status("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == 200; }));
}

TEST_F(HttpServerTest, StreamsEvents) {
  Start();
  RawClient client(address());
  client.Send("GET /events HTTP/1.1\r\nHost: a\r\n\r\nGET /after HTTP/1.1\r\nHost: a\r\n\r\n");
  HttpAnswer answer = client.ReadAnswer();
  EXPECT_EQ(answer.headers["content-type"], "text/event-stream; charset=utf-8");
  EXPECT_EQ(answer.body, "data: one\n\ndata: two\n\n");
  EXPECT_EQ(client.ReadAnswer().body, "GET /after ");
  RawClient old(address());
  old.Send("GET /events HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.ReadAnswer().body, "data: one\n\ndata: two\n\n");
}

TEST_F(HttpServerTest, TellsTheHandlerThatTheClientIsGone) {
  Start();
  for (bool half : {false, true}) {
    int before = gone_count_;
    RawClient client(address());
    client.Send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return server_->active_requests() == 1; }));
    half ? client.CloseSending() : client.Close();
    ASSERT_TRUE(Eventually([&] { return gone_count_ == before + 1; }));
    EXPECT_EQ(gone_.back(), Gone::kDisconnected);
    EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 0; }));
  }
}

TEST_F(HttpServerTest, DropsAReaderWhoDoesNotRead) {
  Start(Limits{.unsent_event_bytes = 64 << 10});
  RawClient client(address());
  client.Send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return gone_count_ == 1; }));
  EXPECT_EQ(gone_[0], Gone::kTooSlow);
  {
    std::lock_guard lock(mutex_);
    held_.clear();
  }
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AnswersForAHandlerThatForgot) {
  Start();
  EXPECT_EQ(Status("GET /lost HTTP/1.1\r\nHost: a\r\n\r\n"), 500);
}

TEST_F(HttpServerTest, StopClosesIdleConnectionsAndTellsRunningOnes) {
  Start();
  RawClient idle(address()), running(address());
  running.Send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return server_->active_requests() == 1 && server_->connections() == 2; }));
  absl::Time begin = absl::Now();
  server_->Stop(absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_TRUE(running.AtEnd());
}

}  // namespace
}  // namespace tercet::gateway
