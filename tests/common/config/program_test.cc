#include "common/config/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/temporary_directory.h"

namespace tercet::config {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() : program("tercet-test", "What it is for.") {
    program.Flag(drain_ms, "--drain-ms", "How long to drain")->check(CLI::Range(0, 1000));
    program.Flag(listen, "--listen", "Where to listen");
    program.Switch(verbose, "--verbose", "Say more");
  }
  ~ProgramTest() override {
    unsetenv("TERCET_DRAIN_MS");
    unsetenv("TERCET_VERBOSE");
    unsetenv("TERCET_CONFIG");
  }

  std::optional<int> Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tercet-test");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::optional<int> code = program.Parse(static_cast<int>(argv.size()), argv.data());
    output = testing::internal::GetCapturedStdout();
    error = testing::internal::GetCapturedStderr();
    return code;
  }

  std::string Config(const std::string& text) {
    std::ofstream(directory.file("config")) << text;
    return directory.file("config");
  }

  TemporaryDirectory directory;
  int drain_ms = 100;
  std::string listen = "127.0.0.1:1";
  bool verbose = false;
  Program program;
  std::string output, error;
};

TEST_F(ProgramTest, KeepsDefaultsWithoutArguments) {
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(drain_ms, 100);
  EXPECT_EQ(listen, "127.0.0.1:1");
}

TEST_F(ProgramTest, TakesFlagsFromTheCommandLine) {
  EXPECT_EQ(Parse({"--drain-ms", "7", "--listen=", "--verbose"}), std::nullopt);
  EXPECT_EQ(drain_ms, 7);
  EXPECT_EQ(listen, "");
  EXPECT_TRUE(verbose);
}

TEST_F(ProgramTest, EveryFlagIsAnEnvironmentVariable) {
  setenv("TERCET_DRAIN_MS", "8", 1);
  setenv("TERCET_VERBOSE", "true", 1);
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(drain_ms, 8);
  EXPECT_TRUE(verbose);
}

TEST_F(ProgramTest, EveryFlagIsAKeyOfTheConfigFile) {
  EXPECT_EQ(Parse({"--config", Config("# comment\ndrain-ms = 9\nlisten = \"unix:/a b\"\nverbose = true\n")}), std::nullopt);
  EXPECT_EQ(drain_ms, 9);
  EXPECT_EQ(listen, "unix:/a b");
  EXPECT_TRUE(verbose);
}

TEST_F(ProgramTest, CommandLineWinsOverEnvironmentWinsOverFile) {
  std::string config = Config("drain-ms = 1\n");
  setenv("TERCET_CONFIG", config.c_str(), 1);
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(drain_ms, 1);
  setenv("TERCET_DRAIN_MS", "2", 1);
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(drain_ms, 2);
  EXPECT_EQ(Parse({"--drain-ms", "3"}), std::nullopt);
  EXPECT_EQ(drain_ms, 3);
}

TEST_F(ProgramTest, HelpShowsPurposeDefaultsAndEnvironment) {
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(output, HasSubstr("What it is for."));
  EXPECT_THAT(output, HasSubstr("--drain-ms"));
  EXPECT_THAT(output, HasSubstr("=100"));
  EXPECT_THAT(output, HasSubstr("TERCET_DRAIN_MS"));
  EXPECT_EQ(Parse({"--version"}), 0);
  EXPECT_THAT(output, HasSubstr("tercet-test "));
}

// What was wrong is said in one line on stderr, and the exit code is 2.
TEST_F(ProgramTest, EveryKindOfMistakeIsOneSentence) {
  auto expect = [&](std::vector<std::string> arguments, const char* named) {
    EXPECT_EQ(Parse(arguments), 2) << named;
    EXPECT_THAT(error, HasSubstr("tercet-test: "));
    EXPECT_THAT(error, HasSubstr(named));
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
    EXPECT_EQ(output, "");
  };
  expect({"--nope"}, "--nope");
  expect({"stray"}, "stray");
  expect({"--drain-ms", "abc"}, "--drain-ms");
  expect({"--drain-ms", "-1"}, "--drain-ms");
  expect({"--drain-ms", "1001"}, "--drain-ms");
  expect({"--drain-ms", "99999999999999999999"}, "--drain-ms");
  expect({"--drain-ms"}, "--drain-ms");
  expect({"--config", directory.file("missing")}, "missing");
  expect({"--config", Config("dran-ms = 5\n")}, "dran-ms");
  expect({"--config", Config("[section]\ndrain-ms = 5\n")}, "drain-ms");
  expect({"--config", Config("drain-ms = soon\n")}, "drain-ms");
  setenv("TERCET_DRAIN_MS", "soon", 1);
  expect({}, "--drain-ms");
}

TEST(EnvironmentName, FollowsFromTheFlag) { EXPECT_EQ(EnvironmentName("--max-rows"), "TERCET_MAX_ROWS"); }

}  // namespace
}  // namespace tercet::config
