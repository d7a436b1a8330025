#include "services/cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "services/cli/command.h"

namespace tercet::cli {
namespace {

using Clock = std::chrono::steady_clock;

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

int Columns() {
  struct winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }
bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

bool WriteText(std::string_view text) {
  if (!StdoutIsTerminal()) return WriteAll(STDOUT_FILENO, text);
  std::string safe;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 … U+009F are control characters too; in UTF-8 they are C2 80 … C2 9F.
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) {
      ++i;
    } else if ((c >= 0x20 && c != 0x7F) || c == '\n' || c == '\t') {
      safe += text[i];
    }
  }
  return WriteAll(STDOUT_FILENO, safe);
}

void WriteNote(std::string_view text) { WriteAll(STDERR_FILENO, text); }
void WriteResult(std::string_view text) { WriteAll(STDOUT_FILENO, text); }

int Fail(const absl::Status& status) {
  Note("tercet: {}\n", std::string(status.message()));
  return absl::IsCancelled(status) ? kInterrupted : kFailure;
}

std::string Bytes(uint64_t count) {
  if (count < 1024) return fmt::format("{} B", count);
  double value = static_cast<double>(count) / 1024;
  for (const char* unit : {"KiB", "MiB", "GiB"}) {
    if (value < 1024) return fmt::format("{:.1f} {}", value, unit);
    value /= 1024;
  }
  return fmt::format("{:.1f} TiB", value);
}

Progress::Progress(std::string label, uint64_t done, uint64_t total)
    : label_(std::move(label)), begin_(done), done_(done), total_(total), started_(Clock::now()) {}

void Progress::Update(uint64_t done, uint64_t total) {
  done_ = done;
  total_ = total;
  Draw(false);
}

void Progress::Finish() { Draw(true); }

void Progress::Draw(bool last) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_ - begin_) / seconds : 0;
  const double fraction = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 0;
  const std::string numbers = total_ > 0 ? fmt::format("{:3.0f} % of {}, {}/s", fraction * 100, Bytes(total_),
                                                       Bytes(static_cast<uint64_t>(rate)))
                                         : fmt::format("{}, {}/s", Bytes(done_), Bytes(static_cast<uint64_t>(rate)));
  if (!StderrIsTerminal()) {
    const int tenths = static_cast<int>(fraction * 10);
    if (tenths <= tenths_shown_ && !(last && tenths_shown_ == 0)) return;
    tenths_shown_ = std::max(tenths, 1);
    WriteAll(STDERR_FILENO, fmt::format("{}: {}\n", label_, numbers));
    return;
  }
  if (!last && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  const int width = std::clamp(Columns() - static_cast<int>(label_.size() + numbers.size()) - 6, 0, 40);
  const int filled = static_cast<int>(fraction * width);
  std::string bar = width > 3 ? fmt::format(" [{:<{}}]", std::string(static_cast<size_t>(filled), '#'), width) : "";
  WriteAll(STDERR_FILENO, fmt::format("\r\033[K{}{} {}{}", label_, bar, numbers, last ? "\n" : ""));
}

}  // namespace tercet::cli
