#include "services/gateway/generation/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace tercet::gateway {
namespace {

// The specification: the smallest find() over all stop strings on the whole text, the shorter string at equal places.
std::optional<StopMatcher::Match> Expected(const std::string& text, const std::vector<std::string>& stops) {
  std::optional<StopMatcher::Match> best;
  for (const std::string& stop : stops) {
    size_t found = text.find(stop);
    if (found == std::string::npos) continue;
    auto begin = static_cast<int64_t>(found);
    auto end = begin + static_cast<int64_t>(stop.size());
    if (!best || begin < best->begin || (begin == best->begin && end < best->end)) best = {begin, end};
  }
  return best;
}

// Feeds `text` in the pieces that `cuts` makes and returns the text that was let through.
std::string Answer(const std::string& text, const std::vector<std::string>& stops, const std::vector<size_t>& cuts) {
  StopMatcher matcher(stops);
  int64_t released = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= cuts.size() && !matcher.settled(); ++i) {
    size_t end = i < cuts.size() ? cuts[i] : text.size();
    matcher.Feed(std::string_view(text).substr(begin, end - begin));
    EXPECT_GE(matcher.released(), released) << "text that was let through cannot be taken back";
    released = matcher.released();
    begin = end;
  }
  matcher.Finish();
  return text.substr(0, matcher.released());
}

TEST(StopMatcher, LetsEverythingThroughWithoutStops) {
  StopMatcher matcher({});
  matcher.Feed("abc");
  EXPECT_EQ(matcher.released(), 3);
  matcher.Finish();
  EXPECT_FALSE(matcher.match().has_value());
}

TEST(StopMatcher, FindsAStopThatBeginsAndEndsInsidePieces) {
  EXPECT_EQ(Answer("DEFGHIJKL", {"FGHIJ"}, {3, 4, 6}), "DE");
  EXPECT_EQ(Answer("DEFGHIJKL", {"DEFGHIJ"}, {3, 4, 6}), "");
  EXPECT_EQ(Answer(" Paris is", {"Pari"}, {6}), " ");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStop) {
  StopMatcher matcher({"\nUser:"});
  matcher.Feed("Hello\nUse");
  EXPECT_EQ(matcher.released(), 5);
  matcher.Feed("less");
  EXPECT_EQ(matcher.released(), 13);
}

TEST(StopMatcher, ReleasesABegunStopAtTheEnd) { EXPECT_EQ(Answer("one tw", {"two"}, {5}), "one tw"); }

TEST(StopMatcher, AnEarlierStopThatEndsLaterWins) {
  // "C" is complete first, but "BCD" begins before it.
  EXPECT_EQ(Answer("ABCD", {"C", "BCD"}, {3}), "A");
  EXPECT_EQ(Answer("ABCX", {"C", "BCD"}, {3}), "AB");
  EXPECT_EQ(Answer("ABC", {"C", "BCD"}, {}), "AB");
}

TEST(StopMatcher, OfTwoStopsAtOnePlaceTheShorterCounts) {
  StopMatcher matcher({"stop it", "stop"});
  matcher.Feed("please stop it");
  ASSERT_TRUE(matcher.settled());
  EXPECT_EQ(matcher.match()->begin, 7);
  EXPECT_EQ(matcher.match()->end, 11);
}

TEST(StopMatcher, EqualsFindForAnyTextStopsAndCuts) {
  std::mt19937 random(1);
  auto letters = [&](size_t longest) {
    std::string text(random() % (longest + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::string text = letters(24);
    std::vector<std::string> stops;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      std::string stop = letters(5);
      if (!stop.empty()) stops.push_back(stop);
    }
    std::vector<size_t> cuts;
    for (size_t at = random() % 4; at < text.size(); at += random() % 5) cuts.push_back(at);
    std::optional<StopMatcher::Match> expected = Expected(text, stops);
    ASSERT_EQ(Answer(text, stops, cuts), expected ? text.substr(0, expected->begin) : text)
        << "text " << text << ", stops " << testing::PrintToString(stops) << ", cuts " << testing::PrintToString(cuts);
  }
}

TEST(StopMatcher, IsLinearInALongRunOfAlmostStops) {
  std::string stop = std::string(1000, 'a') + "b";
  StopMatcher matcher({stop});
  for (int i = 0; i < 2000; ++i) matcher.Feed(std::string(1000, 'a'));
  EXPECT_EQ(matcher.released(), 2000 * 1000 - 1000);
}

}  // namespace
}  // namespace tercet::gateway
