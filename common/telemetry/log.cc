#include "common/telemetry/log.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>

namespace tercet::telemetry {
namespace {

struct State {
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
};

State& Log() {
  static State* state = [] {
    auto* s = new State;
    s->logger = std::make_shared<spdlog::logger>("tercet", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    s->logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    return s;
  }();
  return *state;
}

std::string JsonString(absl::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool PlainWord(absl::string_view text) {
  for (char c : text) {
    if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\') return false;
  }
  return !text.empty();
}

void Write(spdlog::level::level_enum level, absl::string_view message, LogFields fields) {
  State& log = Log();
  if (!log.logger->should_log(level)) return;
  std::string line = log.json ? absl::StrCat("\"message\":", JsonString(message)) : absl::CHexEscape(message);
  for (const LogField& field : fields) {
    const std::string& text = field.value.text();
    if (log.json) {
      absl::StrAppend(&line, ",", JsonString(field.key), ":", field.value.quoted() ? JsonString(text) : text);
    } else {
      absl::StrAppend(&line, " ", field.key, "=", PlainWord(text) ? text : JsonString(text));
    }
  }
  log.logger->log(level, spdlog::string_view_t(line));
}

}  // namespace

LogValue::LogValue(double number) : text_(absl::StrCat(number)), quoted_(text_.find_first_of("in") != std::string::npos) {}

absl::Status ConfigureLog(absl::string_view process, absl::string_view level, absl::string_view format) {
  spdlog::level::level_enum parsed;
  if (level == "debug") {
    parsed = spdlog::level::debug;
  } else if (level == "info") {
    parsed = spdlog::level::info;
  } else if (level == "warn") {
    parsed = spdlog::level::warn;
  } else if (level == "error") {
    parsed = spdlog::level::err;
  } else if (level == "off") {
    parsed = spdlog::level::off;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-level is debug, info, warn, error or off, not \"", level, "\""));
  }
  State& log = Log();
  if (format == "json") {
    log.json = true;
    log.logger->set_pattern(absl::StrCat(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","process":)",
                                         JsonString(process), R"(,"pid":%P,%v})"),
                            spdlog::pattern_time_type::utc);
  } else if (format == "text") {
    log.json = false;
    log.logger->set_pattern(absl::StrCat("%Y-%m-%dT%H:%M:%S.%eZ %-7l ", process, "[%P] %v"),
                            spdlog::pattern_time_type::utc);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--log-format is text or json, not \"", format, "\""));
  }
  log.logger->set_level(parsed);
  log.logger->flush_on(spdlog::level::debug);
  return absl::OkStatus();
}

void Debug(absl::string_view message, LogFields fields) { Write(spdlog::level::debug, message, fields); }
void Info(absl::string_view message, LogFields fields) { Write(spdlog::level::info, message, fields); }
void Warn(absl::string_view message, LogFields fields) { Write(spdlog::level::warn, message, fields); }
void Error(absl::string_view message, LogFields fields) { Write(spdlog::level::err, message, fields); }

}  // namespace tercet::telemetry
