// Every case of the conformance templates: the text equals what Jinja2 rendered, byte for byte, and what Jinja2 refuses is
// refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/template/chat_template.h"

namespace tercet::chat {
namespace {

std::filesystem::path Directory() {
  if (const char* given = std::getenv("TERCET_CONFORMANCE_DIR")) return std::filesystem::path(given) / "templates";
  const char* source = std::getenv("TERCET_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "../shared/conformance/templates";
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "2026-01-02T03:04:05"
absl::CivilSecond ParseTime(const std::string& text) {
  const auto number = [&](size_t at, size_t count) { return std::stoi(text.substr(at, count)); };
  return absl::CivilSecond(number(0, 4), number(5, 2), number(8, 2), number(11, 2), number(14, 2), number(17, 2));
}

TEST(ConformanceTemplates, EqualJinjaByteForByte) {
  if (!std::filesystem::is_directory(Directory())) {
    GTEST_SKIP() << Directory() << " is not there; set TERCET_CONFORMANCE_DIR to run the conformance templates";
  }
  int cases = 0, equal = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Directory())) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().filename().string();
    const auto golden = nlohmann::ordered_json::parse(ReadFile(entry.path().string() + ".golden.json"));
    const absl::CivilSecond now = ParseTime(golden["now"].get<std::string>());
    const auto chat_template = ChatTemplate::Compile(ReadFile(entry.path()));
    ASSERT_TRUE(chat_template.ok()) << name << ": " << chat_template.status();
    for (const auto& test_case : golden["cases"]) {
      ++cases;
      const auto text = (*chat_template)->Render(test_case["context"], {}, now);
      const std::string place = name + ", case " + test_case["case"].get<std::string>();
      if (test_case.contains("error")) {
        EXPECT_FALSE(text.ok()) << place << ": expected " << test_case["error"] << ", rendered " << text.value_or("");
        equal += !text.ok();
      } else {
        EXPECT_TRUE(text.ok()) << place << ": " << text.status();
        EXPECT_EQ(text.value_or(""), test_case["output"].get<std::string>()) << place;
        equal += text.value_or("") == test_case["output"].get<std::string>();
      }
    }
  }
  RecordProperty("cases", cases);
  std::cout << equal << " of " << cases << " cases equal\n";
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace tercet::chat
