// Structured logs: one line a record on stderr, a message for people and fields for machines.
//
// A record is never split, control characters in values are escaped (a value cannot forge a second record), and prompts
// are never logged by default. Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <concepts>
#include <initializer_list>
#include <string>

namespace tercet::telemetry {

// A field's value: text or number.
class LogValue {
 public:
  template <std::integral T>
  LogValue(T number) : text_(std::to_string(number)), quoted_(false) {}  // NOLINT: implicit, for braces at the call
  LogValue(double number);                                               // NOLINT
  LogValue(bool value) : text_(value ? "true" : "false"), quoted_(false) {}  // NOLINT
  LogValue(const char* text) : text_(text) {}                            // NOLINT
  LogValue(std::string text) : text_(std::move(text)) {}                 // NOLINT
  LogValue(absl::string_view text) : text_(text) {}                      // NOLINT

  const std::string& text() const { return text_; }
  bool quoted() const { return quoted_; }

 private:
  std::string text_;
  bool quoted_ = true;
};

struct LogField {
  absl::string_view key;
  LogValue value;
};
using LogFields = std::initializer_list<LogField>;

// `level`: "debug", "info", "warn", "error", "off". `format`: "text" or "json". `process` names the program in each record.
absl::Status ConfigureLog(absl::string_view process, absl::string_view level, absl::string_view format);

void Debug(absl::string_view message, LogFields fields = {});
void Info(absl::string_view message, LogFields fields = {});
void Warn(absl::string_view message, LogFields fields = {});
void Error(absl::string_view message, LogFields fields = {});

}  // namespace tercet::telemetry

namespace tercet::log {
using telemetry::Debug;
using telemetry::Error;
using telemetry::Info;
using telemetry::Warn;
}  // namespace tercet::log
