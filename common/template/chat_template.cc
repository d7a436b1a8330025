#include "common/template/chat_template.h"

#include <exception>
#include <new>
#include <utility>

#include "common/template/compiled_template.h"
#include "common/template/interpreter.h"
#include "common/template/probe.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

// "chat template, row 3, column 12: …"; the place is left out when it is not known.
absl::Status ErrorAt(const Program& program, size_t offset, std::string_view message) {
  if (offset == kNoOffset || offset > program.source.size()) {
    return absl::InvalidArgumentError(StrCat("chat template: ", message));
  }
  const std::string_view before = std::string_view(program.source).substr(0, offset);
  int64_t row = 1;
  for (char c : before) row += c == '\n';
  const size_t newline = before.rfind('\n');
  const int64_t column = CountCodePoints(newline == std::string_view::npos ? before : before.substr(newline + 1)) + 1;
  return absl::InvalidArgumentError(StrCat("chat template, row ", row, ", column ", column, ": ", message));
}

// Runs `work`; what it throws becomes a status. `offset` is asked for the place when the error names none.
template <typename Work, typename Offset>
absl::Status Confine(const Program& program, Work work, Offset offset) {
  try {
    work();
    return absl::OkStatus();
  } catch (const TemplateError& error) {
    return ErrorAt(program, error.offset == kNoOffset ? offset() : error.offset, error.message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("chat template: the machine has no memory left for it");
  } catch (const std::exception& error) {
    return ErrorAt(program, offset(), error.what());
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}

ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Compile(std::string_view source) {
  if (static_cast<int64_t>(source.size()) > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        StrCat("chat template: it has ", source.size(), " bytes, and at most ", kMaxTemplateBytes, " are supported"));
  }
  if (!IsUtf8(source)) return absl::InvalidArgumentError("chat template: it is not UTF-8 text");
  auto program = std::make_unique<Program>();
  const absl::Status compiled = Confine(
      *program,
      [&] {
        Parse(source, program.get());
        ResolveScopes(program.get());
      },
      [] { return kNoOffset; });
  if (!compiled.ok()) return compiled;
  auto chat_template = std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(program)));
  chat_template->traits_ = ProbeTraits(*chat_template);
  return chat_template;
}

absl::StatusOr<std::string> ChatTemplate::Render(const nlohmann::ordered_json& variables, const RenderLimits& limits,
                                                 std::optional<absl::CivilSecond> now) const {
  if (!variables.is_object()) return absl::InvalidArgumentError("chat template: the variables must be a JSON object");
  std::string text;
  size_t offset = kNoOffset;
  const absl::Status rendered = Confine(
      *program_,
      [&] {
        Runtime runtime(limits, now);
        Interpreter interpreter(runtime, *program_, variables);
        try {
          text = interpreter.Run();
        } catch (...) {
          offset = interpreter.offset();
          throw;
        }
      },
      [&] { return offset; });
  if (!rendered.ok()) return rendered;
  return text;
}

}  // namespace tercet::chat
