#include "common/rpc/ready_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/temporary_directory.h"

namespace tercet::rpc {
namespace {

TEST(ReadyFile, IsOneLineOfJson) {
  TemporaryDirectory directory;
  ASSERT_TRUE(WriteReadyFile(directory.file("ready"), "127.0.0.1:5", "").ok());
  std::stringstream text;
  text << std::ifstream(directory.file("ready")).rdbuf();
  EXPECT_EQ(text.str().find('\n'), text.str().size() - 1);
  nlohmann::json json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json, (nlohmann::json{{"listen", "127.0.0.1:5"}, {"metrics", ""}}));
}

TEST(ReadyFile, ReplacesAnOlderOneAndLeavesNothingElse) {
  TemporaryDirectory directory;
  ASSERT_TRUE(WriteReadyFile(directory.file("ready"), "a", "b").ok());
  ASSERT_TRUE(WriteReadyFile(directory.file("ready"), "c", "d").ok());
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(directory.file("ready")))["listen"], "c");
  auto files = std::filesystem::directory_iterator(directory.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(ReadyFile, AnEmptyPathIsNone) { EXPECT_TRUE(WriteReadyFile("", "a", "b").ok()); }

TEST(ReadyFile, AFolderThatIsNotThereIsAnErrorThatNamesTheFile) {
  absl::Status status = WriteReadyFile("/nonexistent-folder/ready", "a", "b");
  EXPECT_NE(status.message().find("/nonexistent-folder/ready"), std::string::npos) << status;
}

}  // namespace
}  // namespace tercet::rpc
