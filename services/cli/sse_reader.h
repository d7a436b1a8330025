// Server-sent events out of a stream of bytes, however the bytes are cut. Only the `data` field matters to us.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tercet::cli {

class SseReader {
 public:
  // `on_data` gets the data of each complete event, lines joined by newlines.
  explicit SseReader(std::function<void(std::string_view)> on_data) : on_data_(std::move(on_data)) {}

  void Push(std::string_view bytes);

 private:
  void Line(std::string_view line);

  std::function<void(std::string_view)> on_data_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace tercet::cli
