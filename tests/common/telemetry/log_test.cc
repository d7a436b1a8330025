#include "common/telemetry/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

namespace tercet::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Logged(const std::function<void()>& act) {
  testing::internal::CaptureStderr();
  act();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, TextIsOneLineWithFields) {
  ASSERT_TRUE(ConfigureLog("p", "info", "text").ok());
  std::string line = Logged([] { log::Info("listening", {{"address", "unix:/s"}, {"rows", 5}, {"ok", true}}); });
  EXPECT_THAT(line, HasSubstr("listening address=unix:/s rows=5 ok=true\n"));
}

TEST(Log, JsonIsOneObjectALine) {
  ASSERT_TRUE(ConfigureLog("tercet-x", "info", "json").ok());
  std::string line = Logged([] { log::Warn("a \"b\"", {{"text", "c\nd"}, {"number", 1.5}, {"flag", false}}); });
  nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["message"], "a \"b\"");
  EXPECT_EQ(json["text"], "c\nd");
  EXPECT_EQ(json["number"], 1.5);
  EXPECT_EQ(json["flag"], false);
  EXPECT_EQ(json["process"], "tercet-x");
  EXPECT_TRUE(json.contains("time"));
  EXPECT_TRUE(json.contains("level"));
}

// Whatever a client sends must not look like a record of its own, nor break the format.
TEST(Log, AValueCannotForgeARecord) {
  for (const char* format : {"text", "json"}) {
    ASSERT_TRUE(ConfigureLog("p", "info", format).ok());
    for (std::string value : {std::string("x\n2026-01-01 error forged"), std::string("\r\n\x1b[31m"), std::string("\0", 1),
                              std::string("\xff\xfe"), std::string("\"}\n{\""), std::string()}) {
      std::string line = Logged([&] { log::Info("m\n" + value, {{"k", value}}); });
      EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
      EXPECT_EQ(nlohmann::json::accept(line), std::string(format) == "json") << line;
    }
  }
}

TEST(Log, NumbersThatJsonLacksAreQuoted) {
  ASSERT_TRUE(ConfigureLog("p", "info", "json").ok());
  std::string line = Logged([] {
    log::Info("m", {{"a", std::numeric_limits<double>::infinity()}, {"b", std::numeric_limits<double>::quiet_NaN()}});
  });
  EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST(Log, LevelsBelowTheChosenAreSilent) {
  ASSERT_TRUE(ConfigureLog("p", "warn", "text").ok());
  EXPECT_EQ(Logged([] { log::Info("no"); }), "");
  EXPECT_THAT(Logged([] { log::Error("yes"); }), HasSubstr("yes"));
  ASSERT_TRUE(ConfigureLog("p", "off", "text").ok());
  EXPECT_EQ(Logged([] { log::Error("no"); }), "");
}

TEST(Log, UnknownLevelOrFormatIsASentenceNamingTheFlag) {
  EXPECT_THAT(ConfigureLog("p", "loud", "text").message(), HasSubstr("--log-level"));
  EXPECT_THAT(ConfigureLog("p", "info", "xml").message(), HasSubstr("--log-format"));
}

}  // namespace
}  // namespace tercet::telemetry
