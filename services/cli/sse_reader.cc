#include "services/cli/sse_reader.h"

#include <utility>

namespace tercet::cli {

void SseReader::Push(std::string_view bytes) {
  for (char c : bytes) {
    if (c != '\n') {
      line_ += c;
      continue;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    Line(line_);
    line_.clear();
  }
}

void SseReader::Line(std::string_view line) {
  if (line.empty()) {
    if (has_data_) on_data_(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  constexpr std::string_view kField = "data:";
  if (line.substr(0, kField.size()) != kField) return;
  line.remove_prefix(kField.size());
  if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

}  // namespace tercet::cli
