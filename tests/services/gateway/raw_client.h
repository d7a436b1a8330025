// An HTTP client that does exactly what a test says: bytes out, bytes in. Blocking, with a time limit on every read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tercet::gateway {

struct HttpAnswer {
  int status = 0;  // 0: the connection ended before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = false;  // the body came whole
};

class RawClient {
 public:
  // `address`: "host:port" or "unix:/path".
  explicit RawClient(const std::string& address);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return socket_ >= 0; }
  // False when the peer has closed.
  bool Send(std::string_view bytes);
  // Whatever comes next; "" at the end of the stream or after `timeout_ms`.
  std::string Read(int timeout_ms = 10000);
  // The next answer.
  HttpAnswer ReadAnswer(bool head_only = false);
  // Reads on until `text` has come, and returns all that came since the last call that consumed it.
  bool ReadUntil(std::string_view text);
  // Nothing more comes and the peer has closed.
  bool AtEnd();
  void CloseSending();
  void Close();
  // Small buffers, so that a reader who does not read is noticed soon. Before connecting it cannot be set; see the server.
  const std::string& unread() const { return in_; }

 private:
  bool Fill(int timeout_ms = 10000);

  int socket_ = -1;
  std::string in_;
};

// One request on a connection of its own.
HttpAnswer Get(const std::string& address, const std::string& path);
HttpAnswer Post(const std::string& address, const std::string& path, const std::string& body,
                const std::vector<std::pair<std::string, std::string>>& headers = {});
std::string PostText(const std::string& path, const std::string& body,
                     const std::vector<std::pair<std::string, std::string>>& headers = {});

// The payloads of "data: …" lines, in order. Fails the test when an event is not exactly "data: <one line>\n\n".
std::vector<std::string> EventsOf(const std::string& body);

}  // namespace tercet::gateway
