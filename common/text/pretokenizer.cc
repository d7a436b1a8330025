#include "common/text/pretokenizer.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <initializer_list>

#include "common/text/character_class.h"
#include "common/text/utf8.h"

namespace tercet::text {
namespace {

using Digits = PretokenizerRules::Digits;
using Class = CharacterClass;

struct Row {
  std::initializer_list<const char*> names;
  PretokenizerRules rules;
};

// Models that share an expression share a row.
const Row kRows[] = {
    {{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de"}, {Digits::kRun, false, false, false}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {Digits::kSplitFirst, false, false, false}},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"}, {Digits::kUpToThree, true, true, true}},
    {{"qwen2", "deepseek-r1-qwen"}, {Digits::kSingle, true, true, false}},
};

// A position in the text with the class of what stands there; at the end `at` is text.size() and the class kEnd's stand-in.
class Scanner {
 public:
  Scanner(std::string_view text, size_t at) : text_(text), at_(at) { Load(); }

  bool end() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  Class cls() const { return class_; }
  char32_t value() const { return point_.value; }
  bool Is(Class c) const { return !end() && class_ == c; }
  bool IsSpace() const { return !end() && (class_ == Class::kSpace || class_ == Class::kNewline); }
  bool IsSymbol() const { return !end() && class_ == Class::kOther; }

  void Next() {
    at_ += point_.bytes;
    Load();
  }
  template <typename Predicate>
  void SkipWhile(Predicate predicate) {
    while (!end() && predicate()) Next();
  }

 private:
  void Load() {
    if (end()) return;
    point_ = DecodeAt(text_, at_);
    class_ = ClassOf(point_.value);
  }

  std::string_view text_;
  size_t at_;
  CodePoint point_{};
  Class class_ = Class::kOther;
};

// Length of a contraction at text[at], which is an apostrophe; 0 if there is none. In the order of the expressions, of which
// none is a prefix of another.
size_t ContractionLength(std::string_view text, size_t at, bool any_case) {
  auto letter = [&](size_t i) -> char {
    if (at + i >= text.size()) return 0;
    char c = text[at + i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  char first = letter(1), second = letter(2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  return 0;
}

// "\s+(?!\S)|\s+": a run of white space leaves its last character to what follows, unless that is the end.
size_t SpaceEnd(Scanner scan) {
  size_t begin = scan.at(), last = begin;
  while (scan.IsSpace()) {
    last = scan.at();
    scan.Next();
  }
  return scan.end() || last == begin ? scan.at() : last;
}

size_t LineRulesEnd(const PretokenizerRules& rules, std::string_view text, size_t begin) {
  Scanner scan(text, begin);
  if (scan.value() == '\'') {
    if (size_t length = ContractionLength(text, begin, rules.any_case_contractions)) return begin + length;
  }
  // [^\r\n\p{L}\p{N}]?\p{L}+
  Scanner letters = scan;
  if (letters.cls() == Class::kOther || letters.cls() == Class::kSpace) letters.Next();
  if (letters.Is(Class::kLetter)) {
    letters.SkipWhile([&] { return letters.cls() == Class::kLetter; });
    return letters.at();
  }
  if (scan.cls() == Class::kNumber) {
    int most = rules.digits == Digits::kUpToThree ? 3 : 1;
    for (int i = 0; i < most && scan.Is(Class::kNumber); ++i) scan.Next();
    return scan.at();
  }
  // " ?[^\s\p{L}\p{N}]+[\r\n]*"
  Scanner symbols = scan;
  if (symbols.value() == ' ') symbols.Next();
  if (symbols.IsSymbol()) {
    symbols.SkipWhile([&] { return symbols.cls() == Class::kOther; });
    symbols.SkipWhile([&] { return symbols.cls() == Class::kNewline; });
    return symbols.at();
  }
  // "\s*[\r\n]+": up to the last line end of the run.
  size_t line_end = 0;
  for (Scanner space = scan; space.IsSpace();) {
    bool newline = space.cls() == Class::kNewline;
    space.Next();
    if (newline) line_end = space.at();
  }
  return line_end > 0 ? line_end : SpaceEnd(scan);
}

size_t PlainRulesEnd(const PretokenizerRules& rules, std::string_view text, size_t begin) {
  Scanner scan(text, begin);
  if (scan.value() == '\'') {
    if (size_t length = ContractionLength(text, begin, rules.any_case_contractions)) return begin + length;
  }
  // " ?\p{L}+", " ?\p{N}+", " ?[^\s\p{L}\p{N}]+"
  Scanner run = scan;
  if (run.value() == ' ') run.Next();
  if (!run.end() && !run.IsSpace()) {
    Class wanted = run.cls();
    run.SkipWhile([&] { return run.cls() == wanted; });
    return run.at();
  }
  return SpaceEnd(scan);
}

}  // namespace

absl::StatusOr<PretokenizerRules> FindPretokenizer(const std::string& name) {
  std::string known;
  for (const Row& row : kRows) {
    for (const char* each : row.names) {
      if (name == each) return row.rules;
      absl::StrAppend(&known, known.empty() ? "" : ", ", each);
    }
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.pre is \"", name, "\"; pre-tokenizers known here are ", known,
                                               ", and another one's rules would give wrong ids"));
}

size_t PieceEnd(const PretokenizerRules& rules, std::string_view text, size_t begin) {
  if (rules.line_rules) return LineRulesEnd(rules, text, begin);
  if (rules.digits != Digits::kSplitFirst) return PlainRulesEnd(rules, text, begin);
  Scanner scan(text, begin);
  if (scan.cls() == Class::kNumber) {
    scan.Next();
    return scan.at();
  }
  // What lies between two digits is a text of its own: its end counts as the end for white space. A piece ends at the first
  // digit, so nothing beyond it needs to be looked at.
  size_t end = PlainRulesEnd(rules, text, begin);
  Scanner within(text, begin);
  within.SkipWhile([&] { return within.at() < end && within.cls() != Class::kNumber; });
  if (within.at() < end) return within.at();
  // White space that gave up its last character to a digit keeps it after all.
  Scanner behind(text, end);
  if (behind.IsSpace() && Scanner(text, begin).IsSpace()) {
    behind.Next();
    if (behind.Is(Class::kNumber)) return behind.at();
  }
  return end;
}

}  // namespace tercet::text
