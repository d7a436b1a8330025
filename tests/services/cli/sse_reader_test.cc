#include "services/cli/sse_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tercet::cli {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Events(std::string_view stream, size_t chunk) {
  std::vector<std::string> events;
  SseReader reader([&](std::string_view data) { events.emplace_back(data); });
  for (size_t at = 0; at < stream.size(); at += chunk) reader.Push(stream.substr(at, chunk));
  return events;
}

TEST(SseReader, ReadsTheSameEventsHoweverTheBytesAreCut) {
  const std::string stream =
      "data: {\"a\":1}\n\n: comment\n\nevent: x\ndata:two\ndata: lines\n\r\ndata: [DONE]\r\n\r\n";
  for (size_t chunk = 1; chunk <= stream.size(); ++chunk) {
    EXPECT_THAT(Events(stream, chunk), ElementsAre("{\"a\":1}", "two\nlines", "[DONE]")) << chunk;
  }
}

TEST(SseReader, HoldsBackAnUnfinishedEvent) { EXPECT_THAT(Events("data: a\n\ndata: b\n", 3), ElementsAre("a")); }

}  // namespace
}  // namespace tercet::cli
