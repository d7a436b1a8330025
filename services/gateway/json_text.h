// JSON text in and out.
//
// In: one strict parser for every request body. Besides what JSON forbids (NaN, invalid UTF-8, lone surrogates, trailing
// text) it refuses what would make two readers disagree or a small body expensive: a key that appears twice in one object,
// deep nesting, and more values than any request needs. Out: appending to a string, because answers are built token by
// token. All functions are pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tercet::gateway {

// Keeps the order of keys: chat templates print objects as they came.
using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 64;
inline constexpr int64_t kMaxJsonValues = 2'000'000;

// The body's JSON object. INVALID_ARGUMENT with a sentence and the offset in bytes otherwise.
absl::StatusOr<Json> ParseJsonObject(std::string_view body);

// Appends `text`, valid UTF-8, as a JSON string with its quotes. Every line separator that some client may split events at
// (CR, LF, U+0085, U+2028, U+2029) is written as an escape.
void AppendJsonString(std::string* out, std::string_view text);

// Appends the shortest decimal that reads back as the same float; a number that JSON cannot express is clamped to ±9999,
// OpenAI's stand-in for an infinite log-probability.
void AppendJsonFloat(std::string* out, float value);

}  // namespace tercet::gateway
