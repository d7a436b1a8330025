// A model's chat template: messages in, prompt text out, byte for byte what Jinja2 would give.
//
// The reference is jinja2 3.1's ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True) with the
// loopcontrols extension and what Hugging Face transformers adds: tojson without HTML escapes, raise_exception,
// strftime_now and
// {% generation %} blocks. Values print as Python prints them, and where Jinja2 raises an error, so do we.
//
// Not there, and refused when the template is compiled: {% autoescape %}, block inheritance through self and super, the
// filters urlize, pprint and random, lipsum. Templates that include, import or extend others fail when they reach that
// statement, as they do in transformers, where there is no loader. Integers are 64 bits wide; larger ones can be
// printed and compared, but arithmetic that needs more is an error.
//
// A template is a stranger's program, so it sees data and the methods of Python's str, list, dict … that change
// nothing; no other attribute, no file, no clock but strftime_now. Compile bounds size and nesting, Render bounds
// steps, depth, output, memory and CPU time (limits.h).
//
// Errors are InvalidArgument statuses: "chat template, row 3, column 12: …", rows and columns from 1, columns in code
// points. The interpreter uses exceptions inside this library; none leaves a function of this header.
//
// Thread safety: immutable after Compile; any number of threads may render at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "common/template/limits.h"
#include "nlohmann/json.hpp"

namespace tercet::chat {

struct Program;  // the compiled form, compiled_template.h

// How a template wants its messages, found by rendering small probes when it is compiled. What no probe could decide is
// left as transformers does it.
struct TemplateTraits {
  // tool_calls[].function.arguments: a mapping (transformers' own convention), or a string with JSON.
  bool arguments_as_mapping = true;
  // An assistant message that only calls tools may have null as content; else it needs "".
  bool null_content = true;
  // Content as a list of parts [{"type": "text", "text": …}] is understood; else it must be a string. By role.
  bool system_parts = false, user_parts = false, assistant_parts = false, tool_parts = false;
  // Content as a string is understood; else it must be a list of parts. User messages.
  bool string_content = true;
  // A system message shows in the prompt. A template without that either leaves it out or refuses.
  bool system_role = false;
  // The variable `tools` shows in the prompt.
  bool tools = false;
};

class ChatTemplate {
 public:
  // Parses, checks and probes. InvalidArgument: not UTF-8, over kMaxTemplateBytes, a syntax error, an unknown tag,
  // filter or test, nested deeper than kMaxNesting.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Compile(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token, and whatever else the
  // template knows. Leave `tools` out (or null) when there are none. Messages are used as they are: call
  // NormalizeMessages before. `now` is the local time that strftime_now shows; the machine's clock when absent.
  // InvalidArgument: the template raises an error (its own sentence is in the message), or a limit is crossed.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& variables, const RenderLimits& limits = {},
                                     std::optional<absl::CivilSecond> now = std::nullopt) const;

  const TemplateTraits& traits() const { return traits_; }

 private:
  explicit ChatTemplate(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
  TemplateTraits traits_;
};

// Gives API messages (an array, OpenAI's form) the form that the template can render:
//   tool_calls[].function.arguments  JSON text ⇄ mapping; must be a JSON object either way
//   content null or absent           "" where the template cannot take null, and always outside assistant turns with
//   tool calls content parts of type text       joined to one string where the template cannot take parts (no separator
//   between)
// Everything else stays. InvalidArgument names the place, for example
// "messages[2].tool_calls[0].function.arguments: …", and says what was expected.
absl::StatusOr<nlohmann::ordered_json> NormalizeMessages(const ChatTemplate& chat_template,
                                                         nlohmann::ordered_json messages);

}  // namespace tercet::chat
