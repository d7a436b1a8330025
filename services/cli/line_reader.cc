#include "services/cli/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cwchar>
#include <iostream>
#include <utility>

namespace tercet::cli {

struct LineReader::Editor {
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::string prompt;
  Interrupt* interrupt = nullptr;
  bool interrupted = false;

  static Editor* Of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self);
  }
  static char* Prompt(EditLine* edit) { return Of(edit)->prompt.data(); }

  // One character, waiting for Ctrl-C beside the terminal. 1: got it; 0: end of input.
  static int GetCharacter(EditLine* edit, wchar_t* character) {
    Editor* self = Of(edit);
    std::mbstate_t state = {};
    for (;;) {
      struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {self->interrupt->fd(), POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) continue;
      if (fds[1].revents != 0 && self->interrupt->Take() != 0) {
        self->interrupted = true;
        return 0;
      }
      if (fds[0].revents == 0) continue;
      char byte = 0;
      if (read(STDIN_FILENO, &byte, 1) != 1) return 0;
      const size_t length = std::mbrtowc(character, &byte, 1, &state);
      if (length == static_cast<size_t>(-2)) continue;  // in the middle of a character
      if (length != static_cast<size_t>(-1)) return 1;
      state = {};  // not a character of this locale: skip the byte
    }
  }
};

LineReader::LineReader(std::string prompt, Interrupt* interrupt) : prompt_(std::move(prompt)), interrupt_(interrupt) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) return;
  editor_ = std::make_unique<Editor>();
  editor_->prompt = prompt_;
  editor_->interrupt = interrupt_;
  editor_->edit = el_init("tercet", stdin, stderr, stderr);
  editor_->history = history_init();
  HistEvent event;
  history(editor_->history, &event, H_SETSIZE, 1000);
  history(editor_->history, &event, H_SETUNIQUE, 1);
  el_set(editor_->edit, EL_CLIENTDATA, editor_.get());
  el_set(editor_->edit, EL_PROMPT, &Editor::Prompt);
  el_set(editor_->edit, EL_EDITOR, "emacs");
  el_set(editor_->edit, EL_HIST, history, editor_->history);
  el_set(editor_->edit, EL_GETCFN, &Editor::GetCharacter);
}

LineReader::~LineReader() {
  if (!editor_) return;
  history_end(editor_->history);
  el_end(editor_->edit);
}

std::optional<std::string> LineReader::Read() {
  std::string line;
  if (!editor_) {
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  int count = 0;
  editor_->interrupted = false;
  const char* typed = el_gets(editor_->edit, &count);
  if (editor_->interrupted) {
    el_reset(editor_->edit);
    std::fputs("\n", stderr);
    return "";
  }
  if (typed == nullptr || count <= 0) return std::nullopt;
  line.assign(typed, static_cast<size_t>(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    history(editor_->history, &event, H_ENTER, line.c_str());
  }
  return line;
}

}  // namespace tercet::cli
