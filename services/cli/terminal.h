// What is written where people look: text of a model on a terminal, progress of long work, errors.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace tercet::cli {

bool StdoutIsTerminal();
bool StderrIsTerminal();

// Writes a model's text to stdout at once: as it is into a pipe or file; on a terminal without the control characters
// with which a text could steer it. False when the reader has gone.
bool WriteText(std::string_view text);

// For people, on stderr, and results, on stdout. A reader that has gone (a closed pipe) is no error.
void WriteNote(std::string_view text);
void WriteResult(std::string_view text);
template <typename... Parts>
void Note(fmt::format_string<Parts...> format, Parts&&... parts) {
  WriteNote(fmt::format(format, std::forward<Parts>(parts)...));
}
template <typename... Parts>
void Result(fmt::format_string<Parts...> format, Parts&&... parts) {
  WriteResult(fmt::format(format, std::forward<Parts>(parts)...));
}

// "tercet: sentence" on stderr. Returns the exit code for a failed command.
int Fail(const absl::Status& status);

// Progress on stderr: a bar that is redrawn on a terminal, a line for every tenth elsewhere. Not thread-safe.
class Progress {
 public:
  // `total` in bytes; 0: unknown.
  Progress(std::string label, uint64_t done, uint64_t total);
  void Update(uint64_t done, uint64_t total);
  // Ends the line. Called once.
  void Finish();

 private:
  void Draw(bool last);

  std::string label_;
  uint64_t begin_;
  uint64_t done_;
  uint64_t total_;
  int tenths_shown_ = 0;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point drawn_;
};

// "12.3 MiB".
std::string Bytes(uint64_t count);

}  // namespace tercet::cli
