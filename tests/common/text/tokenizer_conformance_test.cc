// Ids equal the reference's on every vocabulary of the conformance folder whose kind is known here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/text/tokenizer.h"
#include "tests/test_paths.h"

namespace tercet::text {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> SplitCases(const std::string& text) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> cases;
  size_t begin = 0;
  while (true) {
    size_t end = text.find(kSeparator, begin);
    cases.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return cases;
    begin = end + kSeparator.size();
  }
}

TEST(TokenizerConformance, IdsEqualTheReferenceOnEveryVocabulary) {
  std::string folder = tests::ConformancePath("tokenizers");
  if (folder.empty()) GTEST_SKIP() << "TERCET_CONFORMANCE_DIR has no tokenizers";
  int vocabularies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string path = entry.path().string();
    if (!path.ends_with(".gguf")) continue;
    SCOPED_TRACE(path);
    auto file = gguf::File::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    auto vocabulary = Vocabulary::Load(**file);
    auto tokenizer = vocabulary.ok() ? Tokenizer::Create(*vocabulary)
                                     : absl::StatusOr<std::unique_ptr<const Tokenizer>>(vocabulary.status());
    if (!tokenizer.ok()) {
      // What is not known is refused by name, never guessed.
      EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kUnimplemented) << tokenizer.status();
      std::cout << path << ": " << tokenizer.status().message() << "\n";
      continue;
    }
    ++vocabularies;
    std::vector<std::string> cases = SplitCases(ReadFile(path + ".inp"));
    std::istringstream lines(ReadFile(path + ".out"));
    size_t index = 0;
    for (std::string line; std::getline(lines, line) && index < cases.size(); ++index) {
      std::istringstream numbers(line);
      std::vector<uint32_t> right;
      for (uint32_t id; numbers >> id;) right.push_back(id);
      auto ids = (*tokenizer)->Encode(cases[index], {});
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*ids, right) << "case " << index << ": \"" << cases[index] << "\"";
    }
    EXPECT_GE(index, 40u);
  }
  EXPECT_GE(vocabularies, 5);
}

}  // namespace
}  // namespace tercet::text
