#include "services/gateway/json_text.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

namespace tercet::gateway {
namespace {

// Builds the tree and keeps the first complaint.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Complain("binary values are not JSON"); }

  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) {
      return Complain(absl::StrCat("the key \"", name.substr(0, 100), "\" appears twice in one object"));
    }
    open_.back().key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // nlohmann: "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …; last read: …".
    std::string reason = error.what();
    if (size_t column = reason.find("column "); column != std::string::npos) {
      if (size_t colon = reason.find(": ", column); colon != std::string::npos) reason = reason.substr(colon + 2);
    } else if (size_t bracket = reason.find("] "); bracket != std::string::npos) {
      reason = reason.substr(bracket + 2);
    }
    if (size_t excerpt = reason.find("; last read"); excerpt != std::string::npos) reason.resize(excerpt);
    return Complain(absl::StrCat(reason, " (at byte ", position, ")"));
  }

  const std::string& complaint() const { return complaint_; }
  Json Take() { return std::move(root_); }

 private:
  struct OpenContainer {
    Json* container;
    std::string key;
    absl::flat_hash_set<std::string> keys;
  };

  bool Complain(std::string reason) {
    if (complaint_.empty()) complaint_ = std::move(reason);
    return false;
  }

  // Where the next value goes. A container's elements move only while it is the innermost one, so the pointers in `open_`
  // stay valid.
  Json* Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    OpenContainer& parent = open_.back();
    if (parent.container->is_array()) {
      auto* array = parent.container->get_ptr<Json::array_t*>();
      array->push_back(std::move(value));
      return &array->back();
    }
    auto* object = parent.container->get_ptr<Json::object_t*>();
    object->emplace_back(std::move(parent.key), std::move(value));
    return &object->back().second;
  }

  bool Count() {
    if (++values_ > kMaxJsonValues) return Complain(absl::StrCat("it holds more than ", kMaxJsonValues, " values"));
    return true;
  }

  bool Add(Json value) {
    if (!Count()) return false;
    Place(std::move(value));
    return true;
  }

  bool Open(Json empty) {
    if (!Count()) return false;
    if (open_.size() >= kMaxJsonDepth) return Complain(absl::StrCat("it is nested deeper than ", kMaxJsonDepth));
    Json* placed = Place(std::move(empty));
    open_.push_back({placed, {}, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<OpenContainer> open_;
  int64_t values_ = 0;
  std::string complaint_;
};

// Bytes of the line separator at text[i], 0 if there is none: U+0085, U+2028, U+2029.
int UnicodeLineBreak(std::string_view text, size_t i) {
  auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0; };
  if (byte(i) == 0xC2 && byte(i + 1) == 0x85) return 2;
  if (byte(i) == 0xE2 && byte(i + 1) == 0x80 && (byte(i + 2) == 0xA8 || byte(i + 2) == 0xA9)) return 3;
  return 0;
}

void AppendEscape(std::string* out, unsigned code_point) {
  constexpr char kHex[] = "0123456789abcdef";
  const char escape[6] = {'\\',
                          'u',
                          kHex[code_point >> 12 & 15],
                          kHex[code_point >> 8 & 15],
                          kHex[code_point >> 4 & 15],
                          kHex[code_point & 15]};
  out->append(escape, sizeof(escape));
}

}  // namespace

absl::StatusOr<Json> ParseJsonObject(std::string_view body) {
  TreeBuilder builder;
  bool parsed = Json::sax_parse(body.begin(), body.end(), &builder);
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat("the request body is not usable JSON: ", builder.complaint()));
  }
  Json root = builder.Take();
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("the request body must be a JSON object, not ", root.type_name()));
  }
  return root;
}

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  size_t plain = 0;  // first byte not yet copied
  auto copy_until = [&](size_t end, size_t skip) {
    out->append(text, plain, end - plain);
    plain = end + skip;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      copy_until(i, 0);
      out->push_back('\\');
    } else if (c < 0x20 || c == 0x7F) {
      copy_until(i, 1);
      switch (c) {
        case '\n': out->append("\\n"); break;
        case '\r': out->append("\\r"); break;
        case '\t': out->append("\\t"); break;
        default: AppendEscape(out, c);
      }
    } else if (c == 0xC2 || c == 0xE2) {
      if (int width = UnicodeLineBreak(text, i); width > 0) {
        copy_until(i, width);
        AppendEscape(out, width == 2 ? 0x85 : 0x2000 + static_cast<unsigned char>(text[i + 2]) - 0x80);
        i += width - 1;
      }
    }
  }
  out->append(text, plain, text.size() - plain);
  out->push_back('"');
}

void AppendJsonFloat(std::string* out, float value) {
  if (std::isnan(value) || value < -9999.0f) value = -9999.0f;
  if (value > 9999.0f) value = 9999.0f;
  char digits[32];
  auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  out->append(digits, error == std::errc() ? end : digits);
}

}  // namespace tercet::gateway
