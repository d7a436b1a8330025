#include "services/gateway/http/head_rules.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

namespace tercet::gateway {
namespace {

int Judge(const std::string& head) { return CheckHead(head, Limits()).status; }
std::string With(const std::string& lines) { return "POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n"; }

TEST(HeadRules, AcceptOrdinaryHeads) {
  EXPECT_EQ(Judge("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
  EXPECT_EQ(Judge("GET /v1/models?x=1 HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(Judge(With("Content-Length: 12\r\n")), 200);
  EXPECT_EQ(Judge(With("Transfer-Encoding: chunked\r\n")), 200);
  EXPECT_EQ(Judge(With("X-Empty:\r\nX-Tab: a\tb\r\nX-Utf8: \xc3\xa9\r\n")), 200);
}

TEST(HeadRules, RefuseWhatParsersReadDifferently) {
  const std::vector<std::string> bad = {
      With("Content-Length: 1\r\nContent-Length: 2\r\n"),
      With("Content-Length: 1\r\nContent-Length: 1\r\n"),
      With("Content-Length: 1, 1\r\n"),
      With("Content-Length: +1\r\n"),
      With("Content-Length: 0x1\r\n"),
      With("Content-Length: 1 1\r\n"),
      With("Content-Length:\r\n"),
      With("Content-Length: 99999999999999999999\r\n"),
      With("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
      With("Transfer-Encoding: gzip\r\n"),
      With("Transfer-Encoding: gzip, chunked\r\n"),
      With("Transfer-Encoding: chunked, identity\r\n"),
      With("Transfer-Encoding: xchunked\r\n"),
      With("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      With("Transfer-Encoding:\r\n"),
      With("Transfer-Encoding : chunked\r\n"),
      With("Content-Length : 1\r\n"),
      With("X: a\r\n folded\r\n"),
      With("X: a\r\n\tfolded\r\n"),
      With("X: a\nY: b\r\n"),
      With("X: a\rY: b\r\n"),
      With(std::string("X: a\0b\r\n", 8)),
      With("X: a\x7f\r\n"),
      With("no colon\r\n"),
      With(": no name\r\n"),
      With("Bad Name: x\r\n"),
      With("Host: b\r\n"),
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
      " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
      "GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\r\nHost: a\r\n\r\n",
      "GET / http/1.1\r\nHost: a\r\n\r\n",
      "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
      "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
  };
  for (const std::string& head : bad) EXPECT_EQ(Judge(head), 400) << head;
}

TEST(HeadRules, AnswerOtherVersionsWith505) {
  EXPECT_EQ(Judge("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(Judge("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505);
}

TEST(HeadRules, LimitLineHeadAndCount) {
  EXPECT_EQ(Judge(absl::StrCat("GET /", std::string(9000, 'a'), " HTTP/1.1\r\nHost: a\r\n\r\n")), 414);
  EXPECT_EQ(Judge(With(absl::StrCat("X: ", std::string(17000, 'a'), "\r\n"))), 431);
  std::string many;
  for (int i = 0; i < 99; ++i) absl::StrAppend(&many, "X", i, ": a\r\n");
  EXPECT_EQ(Judge(With(many)), 200);
  EXPECT_EQ(Judge(With(many + "Y: a\r\n")), 431);
}

TEST(HeadRules, SeeFaultsBeforeTheHeadIsWhole) {
  auto partial = [](const std::string& bytes) { return CheckPartialHead(bytes, 0, Limits()).status; };
  EXPECT_EQ(partial("GET / HTTP/1.1\r\nHo"), 200);
  EXPECT_EQ(partial("GET / HTTP/1.1\r"), 200);
  EXPECT_EQ(partial("GET / HTTP/1.1\n"), 400);
  EXPECT_EQ(partial(std::string("GET \0", 5)), 400);
  EXPECT_EQ(partial(std::string(9000, 'a')), 414);
  EXPECT_EQ(partial("GET / HTTP/1.1\r\nX: " + std::string(17000, 'a')), 431);
}

TEST(HeadRules, FindTheEndAlsoWhenItComesByteByByte) {
  std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t i = 1; i < head.size(); ++i) EXPECT_EQ(FindHeadEnd(head.substr(0, i), i - 1), std::string::npos);
  for (size_t scanned = 0; scanned < head.size(); ++scanned) EXPECT_EQ(FindHeadEnd(head + "body", scanned), head.size());
}

}  // namespace
}  // namespace tercet::gateway
