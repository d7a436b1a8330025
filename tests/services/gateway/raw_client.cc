#include "tests/services/gateway/raw_client.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace tercet::gateway {

RawClient::RawClient(const std::string& address) {
  if (address.rfind("unix:", 0) == 0) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::strncpy(to.sun_path, address.c_str() + 5, sizeof(to.sun_path) - 1);
    socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) Close();
    return;
  }
  size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  socket_ = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) Close();
}

RawClient::~RawClient() { Close(); }

void RawClient::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

void RawClient::CloseSending() { shutdown(socket_, SHUT_WR); }

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(sent);
  }
  return true;
}

bool RawClient::Fill(int timeout_ms) {
  if (socket_ < 0) return false;
  pollfd ready{socket_, POLLIN, 0};
  if (poll(&ready, 1, timeout_ms) <= 0) return false;
  char buffer[65536];
  ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  in_.append(buffer, got);
  return true;
}

std::string RawClient::Read(int timeout_ms) {
  if (in_.empty()) Fill(timeout_ms);
  return std::exchange(in_, {});
}

bool RawClient::ReadUntil(std::string_view text) {
  while (in_.find(text) == std::string::npos) {
    if (!Fill()) return false;
  }
  return true;
}

bool RawClient::AtEnd() {
  if (!in_.empty()) return false;
  pollfd ready{socket_, POLLIN, 0};
  if (poll(&ready, 1, 10000) <= 0) return false;
  char byte;
  return recv(socket_, &byte, 1, 0) <= 0;
}

HttpAnswer RawClient::ReadAnswer(bool head_only) {
  HttpAnswer answer;
  size_t end;
  while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return answer;
  }
  std::string head = in_.substr(0, end + 2);
  in_.erase(0, end + 4);
  answer.status = std::stoi(head.substr(9, 3));
  for (size_t begin = head.find("\r\n") + 2; begin < head.size();) {
    size_t line_end = head.find("\r\n", begin);
    std::string line = head.substr(begin, line_end - begin);
    size_t colon = line.find(':');
    answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    begin = line_end + 2;
  }
  if (answer.status == 100 || head_only) {
    answer.complete = true;
    return answer;
  }
  if (answer.headers.count("transfer-encoding") != 0) {
    while (true) {
      size_t line_end;
      while ((line_end = in_.find("\r\n")) == std::string::npos) {
        if (!Fill()) return answer;
      }
      size_t size = std::stoul(in_.substr(0, line_end), nullptr, 16);
      while (in_.size() < line_end + 2 + size + 2) {
        if (!Fill()) return answer;
      }
      answer.body.append(in_, line_end + 2, size);
      in_.erase(0, line_end + 2 + size + 2);
      if (size == 0) break;
    }
    answer.complete = true;
    return answer;
  }
  if (answer.headers.count("content-length") == 0) {
    while (Fill()) {
    }
    answer.body = std::exchange(in_, {});
    answer.complete = true;
    return answer;
  }
  size_t length = std::stoul(answer.headers["content-length"]);
  while (in_.size() < length) {
    if (!Fill()) return answer;
  }
  answer.body = in_.substr(0, length);
  in_.erase(0, length);
  answer.complete = true;
  return answer;
}

HttpAnswer Get(const std::string& address, const std::string& path) {
  RawClient client(address);
  client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: test\r\n\r\n"));
  return client.ReadAnswer();
}

std::string PostText(const std::string& path, const std::string& body,
                     const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string text = absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: test\r\nContent-Length: ", body.size(), "\r\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&text, name, ": ", value, "\r\n");
  return absl::StrCat(text, "\r\n", body);
}

HttpAnswer Post(const std::string& address, const std::string& path, const std::string& body,
                const std::vector<std::pair<std::string, std::string>>& headers) {
  RawClient client(address);
  client.Send(PostText(path, body, headers));
  return client.ReadAnswer();
}

std::vector<std::string> EventsOf(const std::string& body) {
  std::vector<std::string> events;
  size_t begin = 0;
  while (begin < body.size()) {
    size_t end = body.find("\n\n", begin);
    if (end == std::string::npos || body.compare(begin, 6, "data: ") != 0) {
      ADD_FAILURE() << "not an event: " << body.substr(begin, 200);
      return events;
    }
    std::string payload = body.substr(begin + 6, end - begin - 6);
    EXPECT_EQ(payload.find_first_of("\r\n"), std::string::npos) << payload;
    events.push_back(payload);
    begin = end + 2;
  }
  return events;
}

}  // namespace tercet::gateway
