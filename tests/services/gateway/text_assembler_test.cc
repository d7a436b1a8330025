#include "services/gateway/generation/text_assembler.h"

#include <gtest/gtest.h>

#include <random>

#include "common/text/utf8.h"
#include "tests/services/gateway/fake_services.h"

namespace tercet::gateway {
namespace {

struct Assembled {
  std::string text;
  std::vector<TokenRecord> tokens;
  uint32_t generated = 0;
  bool stopped = false;
};

// Pushes ids and takes what is ready after every `take_every` of them. Checks that every piece is valid UTF-8.
Assembled Assemble(const std::vector<uint32_t>& ids, TextAssembler::Options options, size_t take_every = 1,
                   const std::vector<uint32_t>& prompt = {}) {
  options.records = true;
  TextAssembler assembler(TestVocabulary(), options);
  Assembled out;
  auto take = [&] {
    Delta delta = assembler.Take();
    EXPECT_TRUE(text::IsValidUtf8(delta.text));
    out.text += delta.text;
    for (TokenRecord& token : delta.tokens) out.tokens.push_back(std::move(token));
  };
  for (uint32_t id : prompt) assembler.PushPrompt(id, Logprobs{});
  for (size_t i = 0; i < ids.size() && !assembler.ended(); ++i) {
    assembler.PushToken(ids[i], Logprobs{-static_cast<float>(i), {}});
    if (i % take_every == 0) take();
  }
  out.stopped = assembler.ended();
  assembler.Finish();
  out.stopped = assembler.ended();
  out.generated = assembler.generated();
  take();
  return out;
}

std::string Joined(const std::vector<TokenRecord>& tokens) {
  std::string text;
  for (const TokenRecord& token : tokens) text += token.text;
  return text;
}

std::vector<uint32_t> Words(const std::vector<std::string>& words) {
  std::vector<uint32_t> ids;
  for (const std::string& word : words) ids.push_back(WordId(word));
  return ids;
}

TEST(TextAssembler, PutsACharacterTogetherFromItsBytes) {
  std::string family = "👨‍👩‍👧‍👦 삼겹살 ď";
  Assembled out = Assemble(Bytes(family), {});
  EXPECT_EQ(out.text, family);
  EXPECT_EQ(Joined(out.tokens), family);
  EXPECT_EQ(out.tokens.size(), family.size());
}

TEST(TextAssembler, ReplacesWhatNeverBecomesACharacter) {
  EXPECT_EQ(Assemble(Bytes("\xe2\x9c\x85\x85"), {}).text, "✅\uFFFD");
  EXPECT_EQ(Assemble(Bytes("a\xf0\x9f"), {}).text, "a\uFFFD") << "one replacement for an answer cut inside a character";
  EXPECT_EQ(Assemble(Bytes("\xe2\x9c" "ab"), {}).text, "\uFFFD" "ab");
}

TEST(TextAssembler, EqualsDecodingAtOnceForAnyBytes) {
  std::mt19937 random(2);
  const unsigned char kBytes[] = {'a', 0x80, 0x85, 0x9F, 0xA0, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF};
  for (int round = 0; round < 5000; ++round) {
    std::string bytes(random() % 12, ' ');
    for (char& c : bytes) c = static_cast<char>(kBytes[random() % sizeof(kBytes)]);
    Assembled out = Assemble(Bytes(bytes), {});
    ASSERT_EQ(out.text, text::ReplaceInvalid(bytes));
    ASSERT_EQ(Joined(out.tokens), out.text);
    ASSERT_EQ(out.tokens.size(), bytes.size());
  }
}

TEST(TextAssembler, OffsetsCountCharactersAndPointAtTheTokensText) {
  Assembled out = Assemble(Words({"안녕", " Paris", "\xF0\x9F\x98", "\x80 ", "G"}), {});
  EXPECT_EQ(out.text, "안녕 Paris😀 G");
  std::vector<int64_t> offsets;
  for (const TokenRecord& token : out.tokens) offsets.push_back(token.offset);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 2, 8, 8, 10}));
  EXPECT_EQ(out.tokens[2].text, "");
  EXPECT_EQ(out.tokens[3].text, "😀 ");
  EXPECT_EQ(out.tokens[3].bytes, "\x80 ");
}

TEST(TextAssembler, EndsAtAStopStringAcrossTokens) {
  std::vector<uint32_t> ids = Words({"DEF", "G", "HI", "JKL"});
  Assembled all = Assemble(ids, {.stops = {"DEFGHIJ"}});
  EXPECT_EQ(all.text, "");
  EXPECT_EQ(all.tokens.size(), 0u);
  EXPECT_TRUE(all.stopped);

  Assembled part = Assemble(ids, {.stops = {"GHIJ"}});
  EXPECT_EQ(part.text, "DEF");
  EXPECT_EQ(part.tokens.size(), 1u);
  EXPECT_EQ(part.generated, 4u);

  // Two of three letters of the first token remain; its first byte lies before the stop.
  Assembled inside = Assemble(ids, {.stops = {"FG"}});
  EXPECT_EQ(inside.text, "DE");
  ASSERT_EQ(inside.tokens.size(), 1u);
  EXPECT_EQ(inside.tokens[0].text, "DE");
  EXPECT_EQ(inside.tokens[0].bytes, "DE");
}

TEST(TextAssembler, CountsNothingBehindTheStop) {
  // The same stop, once with ids behind it in the same message (as speculation brings them), once without.
  Assembled out = Assemble(Words({"DEF", "G", "HI", "JKL", "JKL", "JKL"}), {.stops = {"H"}}, /*take_every=*/100);
  EXPECT_EQ(out.text, "DEFG");
  EXPECT_EQ(out.generated, 3u);
}

TEST(TextAssembler, IncludesTheStopWhenAsked) {
  Assembled out = Assemble(Words({"DEF", "G", "HI", "JKL"}), {.stops = {"GH"}, .include_stop = true});
  EXPECT_EQ(out.text, "DEFGH");
  EXPECT_EQ(Joined(out.tokens), "DEFGH");
  EXPECT_EQ(out.tokens.size(), 3u);
}

TEST(TextAssembler, FindsAStopBesideAMultiByteCharacter) {
  EXPECT_EQ(Assemble(Words({"안녕", "\xF0\x9F\x98", "\x80 ", "G"}), {.stops = {"😀"}}).text, "안녕");
  EXPECT_EQ(Assemble(Words({"안녕", "\xF0\x9F\x98", "\x80 ", "G"}), {.stops = {" G"}}).text, "안녕😀");
}

TEST(TextAssembler, ReleasesHeldTextWhenTheStopDoesNotComplete) {
  Assembled out = Assemble(Words({" Paris", "\nUser", "G"}), {.stops = {"\nUser:"}});
  EXPECT_EQ(out.text, " Paris\nUserG");
  EXPECT_EQ(out.tokens.size(), 3u);
  EXPECT_FALSE(out.stopped);
  EXPECT_EQ(Assemble(Words({" Paris", "\nUser"}), {.stops = {"\nUser:"}}).text, " Paris\nUser");
}

TEST(TextAssembler, ControlTokensAndTheEndHaveNoText) {
  Assembled out = Assemble({WordId("G"), kBos, WordId("HI"), kEnd}, {});
  EXPECT_EQ(out.text, "GHI");
  EXPECT_EQ(out.tokens.size(), 4u);
  EXPECT_EQ(out.tokens[3].text, "");
  EXPECT_EQ(out.generated, 4u);
  // An ordinary token that ends the sequence is not part of the text either.
  EXPECT_EQ(Assemble({WordId("G"), WordId("HI")}, {.stop_token_ids = {WordId("HI")}}).text, "G");
}

TEST(TextAssembler, EchoBeginsWithThePromptInWhichNoStopIsLookedFor) {
  Assembled out = Assemble(Words({"G", "HI"}), {.stops = {"I"}}, 1, Bytes("IJ"));
  EXPECT_EQ(out.text, "IJGH");
  EXPECT_EQ(out.tokens.size(), 4u);
  EXPECT_EQ(out.tokens[3].offset, 3);
}

TEST(TextAssembler, ACharacterMayBeginInThePrompt) {
  EXPECT_EQ(Assemble(Words({"\x80 "}), {}, 1, Words({"\xF0\x9F\x98"})).text, "😀 ");
}

TEST(TextAssembler, DropsThePrefixSpaceOnlyAtTheStartOfAText) {
  TextAssembler echo(TestVocabulary(/*strip_leading_space=*/true), {});
  echo.PushPrompt(kBos, std::nullopt);
  echo.PushPrompt(WordId(" Paris"), std::nullopt);
  echo.PushToken(WordId(" world"), std::nullopt);
  echo.Finish();
  EXPECT_EQ(echo.Take().text, "Paris world");
  TextAssembler continuation(TestVocabulary(/*strip_leading_space=*/true), {});
  continuation.PushToken(WordId(" world"), std::nullopt);
  continuation.Finish();
  EXPECT_EQ(continuation.Take().text, " world");
}

TEST(TextAssembler, GivesTheSameForAnyGrouping) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint32_t> ids;
    for (unsigned i = 0; i < random() % 12; ++i) ids.push_back(kFirstWord + random() % kWords.size());
    std::string whole;
    for (uint32_t id : ids) whole += kWords[id - kFirstWord];
    whole = text::ReplaceInvalid(whole);
    std::string stop = std::vector<std::string>{"GH", "I", "user", "😀", " ", "녕"}[random() % 6];
    Assembled one = Assemble(ids, {.stops = {stop}}, 1);
    Assembled many = Assemble(ids, {.stops = {stop}}, 1 + random() % 5);
    size_t found = whole.find(stop);
    ASSERT_EQ(one.text, whole.substr(0, found));
    ASSERT_EQ(many.text, one.text);
    ASSERT_EQ(one.tokens.size(), many.tokens.size());
    ASSERT_EQ(one.stopped, found != std::string::npos);
    ASSERT_EQ(Joined(one.tokens), one.text);
  }
}

}  // namespace
}  // namespace tercet::gateway
