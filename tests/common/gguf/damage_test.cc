// Files cut anywhere, with flipped bits, or that are no files at all: always a status, never a crash, and cheap.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/gguf/file.h"
#include "tests/common/gguf/gguf_builder.h"

namespace tercet::gguf {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Bytes = GgufBuilder::Bytes;

// One of everything.
Bytes GoodFile() {
  return GgufBuilder()
      .String("general.architecture", "llama")
      .Uint("llama.block_count", 1)
      .Float("llama.rope.freq_base", 10000)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .Strings("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "b"})
      .Array<float>("tokenizer.ggml.scores", 6, {0, -1, -2})
      .Array<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 1})
      .FloatTensor("output_norm.weight", {8}, std::vector<float>(8, 1.0f))
      .Tensor("token_embd.weight", 2, {32, 3}, Bytes(54))
      .Build();
}

// Touches everything that a parsed file offers.
size_t Walk(const File& file) {
  size_t sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    sum += key.size() + value.TypeName().size();
    if (value.element_type() == ValueType::kString) {
      if (value.is_array()) {
        for (std::string_view text : value.AsStrings()) sum += text.size() + (text.empty() ? 0 : text.back());
      } else {
        sum += value.AsString().size();
      }
    } else {
      for (uint64_t i = 0; i < value.count(); ++i) sum += value.AsUnsigned(i) + (value.AsBool(i) ? 1 : 0);
    }
  }
  for (const Tensor& tensor : file.tensors()) {
    for (std::byte b : tensor.data) sum += static_cast<size_t>(b);
  }
  return sum;
}

long PeakRssKiB() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class GgufOnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "gguf-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(Path(name), std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return Path(name);
  }

  std::string folder_;
};

TEST(GgufDamage, RefusesAFileCutAtAnyByte) {
  const Bytes good = GoodFile();
  ASSERT_TRUE(File::Parse(good).ok()) << File::Parse(good).status();
  for (size_t length = 0; length < good.size(); ++length) {
    // A copy of exactly that length, so that a sanitizer sees each read past its end.
    const Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    auto file = File::Parse(cut);
    ASSERT_FALSE(file.ok()) << "cut to " << length << " of " << good.size();
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(file.status().message().empty());
  }
}

TEST(GgufDamage, SurvivesAnyFlippedBit) {
  Bytes bytes = GoodFile();
  size_t accepted = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    if (auto file = File::Parse(bytes); file.ok()) accepted += Walk(**file) != 0;
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
  }
  EXPECT_GT(accepted, 0u);  // flips in weights and texts are invisible to a parser
}

TEST(GgufDamage, SurvivesTenThousandRandomlyDamagedFiles) {
  const Bytes good = GoodFile();
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 10000; ++round) {
    Bytes bytes = good;
    const int changes = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < changes; ++i)
      bytes[random() % bytes.size()] = std::byte(random() % 4 == 0 ? 0xFF : random() % 256);
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const Bytes exact(bytes.begin(), bytes.end());
    if (auto file = File::Parse(exact); file.ok()) Walk(**file);
  }
}

TEST(GgufDamage, RefusingAFileCostsNoMemoryWhateverItClaims) {
  std::vector<Bytes> evil;
  evil.push_back(GgufBuilder().DeclareMetadata(uint64_t{1} << 61).Build());
  evil.push_back(GgufBuilder().DeclareTensors(uint64_t{1} << 61).Build());
  for (uint32_t type : {0u, 4u, 8u, 9u}) {
    Bytes value;
    GgufBuilder::Put(&value, type);
    GgufBuilder::Put(&value, uint64_t{1} << 62);
    evil.push_back(GgufBuilder().Raw("k", 9, value).Build());
  }
  evil.push_back(GgufBuilder().Tensor("t", 0, {uint64_t{1} << 40, 1024}, Bytes(64)).Build());
  for (const Bytes& bytes : evil) ASSERT_FALSE(File::Parse(bytes).ok());  // first use of everything
  const long before = PeakRssKiB();
  for (const Bytes& bytes : evil) ASSERT_FALSE(File::Parse(bytes).ok());
  EXPECT_LT(PeakRssKiB() - before, 1024);
}

TEST_F(GgufOnDisk, LoadsAVocabularyOf152000StringsFast) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 152000; ++i) tokens.push_back(absl::StrCat("token", i));
  const std::string path = Write("big.gguf", GgufBuilder().Strings("tokenizer.ggml.tokens", tokens).Build());
  const auto begin = std::chrono::steady_clock::now();
  auto file = File::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  auto read = (*file)->Strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) ASSERT_EQ((*read)[i], tokens[i]);
}

TEST_F(GgufOnDisk, OpensAFileAndASymbolicLinkToIt) {
  const std::string path = Write("good.gguf", GoodFile());
  std::filesystem::create_symlink(path, Path("link.gguf"));
  for (const std::string& name : {path, Path("link.gguf")}) {
    auto file = File::Open(name);
    ASSERT_TRUE(file.ok()) << file.status();
    const size_t sum = Walk(**file);
    (*file)->DropPages();
    EXPECT_EQ(Walk(**file), sum);
  }
}

TEST_F(GgufOnDisk, NamesPathAndFault) {
  Bytes cut = GoodFile();
  cut.resize(20);
  const std::string path = Write("cut.gguf", cut);
  auto file = File::Open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), StartsWith(path + ": the file ends inside"));
}

TEST_F(GgufOnDisk, RefusesWhatIsNotARegularFile) {
  EXPECT_EQ(File::Open(Path("nothing.gguf")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(File::Open(Path("nothing.gguf/below")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(File::Open(folder_).status().message()), HasSubstr("is a directory"));
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(std::string(File::Open(Path("fifo")).status().message()), HasSubstr("not a regular file"));
  EXPECT_THAT(std::string(File::Open("/dev/null").status().message()), HasSubstr("not a regular file"));
  EXPECT_THAT(std::string(File::Open(Write("empty.gguf", {})).status().message()), HasSubstr("the file is empty"));
  EXPECT_FALSE(File::Open("").ok());
}

TEST_F(GgufOnDisk, SaysWhenReadingIsNotAllowed) {
  const std::string path = Write("secret.gguf", GoodFile());
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Root may read everything, so be nobody for a moment.
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const absl::Status status = File::Open(path).status();
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
}

// Real models, when they are there: the whole table, and cuts in every section of a large file.
TEST(GgufRealModels, AreReadAndTheirTruncationsRefused) {
  const char* folder = std::getenv("TERCET_MODEL_DIR");
  const char* source = std::getenv("TERCET_SOURCE_DIR");
  const std::string models = folder != nullptr ? folder : absl::StrCat(source != nullptr ? source : ".", "/models");
  int found = 0;
  for (const char* name : {"smollm2.gguf", "gemma3.gguf", "qwen2.5-coder.gguf"}) {
    const std::string path = absl::StrCat(models, "/", name);
    if (!std::filesystem::exists(path)) continue;
    ++found;
    auto file = File::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->String("general.architecture").ok());
    EXPECT_GT((*file)->Strings("tokenizer.ggml.tokens")->size(), 40000u);
    EXPECT_NE((*file)->Find("token_embd.weight"), nullptr);
    const std::span<const std::byte> bytes = (*file)->bytes();
    for (size_t length : {size_t{1024}, size_t{100000}, bytes.size() / 2, bytes.size() - 1}) {
      EXPECT_FALSE(File::Parse(bytes.first(length)).ok()) << path << " cut to " << length;
    }
  }
  if (found == 0) GTEST_SKIP() << "no model in " << models << "; fetch one with: tercet pull smollm2";
}

}  // namespace
}  // namespace tercet::gguf
