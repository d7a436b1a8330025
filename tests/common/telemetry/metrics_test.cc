#include "common/telemetry/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tercet::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Get(const std::string& address, const std::string& path) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, static_cast<size_t>(n));
  close(fd);
  return reply;
}

TEST(Metrics, AreServedOnThePortThatWasChosen) {
  Metrics metrics;
  metrics.Counter("tercet_test_things_total", "Things", {{"kind", "a"}}).Increment(3);
  metrics.Gauge("tercet_test_level", "Level").Set(1.5);
  metrics.Histogram("tercet_test_seconds", "Seconds", LatencyBuckets()).Observe(0.02);
  absl::StatusOr<std::string> address = metrics.Serve("127.0.0.1:0");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_THAT(*address, Not(HasSubstr(":0")));
  std::string reply = Get(*address, "/metrics");
  EXPECT_THAT(reply, HasSubstr("200 OK"));
  EXPECT_THAT(reply, HasSubstr("tercet_test_things_total{kind=\"a\"} 3"));
  EXPECT_THAT(reply, HasSubstr("tercet_test_level 1.5"));
  EXPECT_THAT(reply, HasSubstr("tercet_test_seconds_count 1"));
}

TEST(Metrics, TheSameNameAndLabelsAreTheSameObject) {
  Metrics metrics;
  EXPECT_EQ(&metrics.Counter("tercet_test_total", "x", {{"a", "1"}}), &metrics.Counter("tercet_test_total", "x", {{"a", "1"}}));
  EXPECT_NE(&metrics.Counter("tercet_test_total", "x", {{"a", "1"}}), &metrics.Counter("tercet_test_total", "x", {{"a", "2"}}));
}

TEST(Metrics, AnEmptyAddressServesNothing) {
  Metrics metrics;
  absl::StatusOr<std::string> address = metrics.Serve("");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, "");
}

TEST(Metrics, AnAddressInUseOrInvalidIsASentenceNamingTheFlag) {
  Metrics first, second;
  absl::StatusOr<std::string> address = first.Serve("127.0.0.1:0");
  ASSERT_TRUE(address.ok());
  for (const std::string& bad : {*address, std::string("nonsense:port"), std::string("127.0.0.1:99999")}) {
    absl::StatusOr<std::string> refused = second.Serve(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(refused.status().message(), HasSubstr(bad));
    EXPECT_THAT(refused.status().message(), HasSubstr("--metrics-listen"));
  }
}

}  // namespace
}  // namespace tercet::telemetry
