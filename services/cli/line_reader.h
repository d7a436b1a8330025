// Lines from a person: edited and with history on a terminal, plain from a pipe. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "services/cli/interrupt.h"

namespace tercet::cli {

class LineReader {
 public:
  // `interrupt` (not owned) makes Ctrl-C drop the line being typed.
  LineReader(std::string prompt, Interrupt* interrupt);
  ~LineReader();

  // The next line without its end; nothing at the end of input (Ctrl-D). After Ctrl-C: an empty line.
  std::optional<std::string> Read();

 private:
  struct Editor;

  std::string prompt_;
  Interrupt* interrupt_;
  std::unique_ptr<Editor> editor_;  // null: input is no terminal
};

}  // namespace tercet::cli
