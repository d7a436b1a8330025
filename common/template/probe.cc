#include "common/template/probe.h"

#include <optional>
#include <string>
#include <string_view>

namespace tercet::chat {
namespace {

using Json = nlohmann::ordered_json;

// Words that no template writes by itself.
constexpr std::string_view kSystem = "zqsystem", kUser = "zquser", kAnswer = "zqanswer", kResult = "zqresult",
                           kPart = "zqpart", kFunctionName = "zqfunction";

Json Message(std::string_view role, Json content) {
  return Json{{"role", std::string(role)}, {"content", std::move(content)}};
}

Json Part() { return Json::array({Json{{"type", "text"}, {"text", std::string(kPart)}}}); }

Json Call(Json arguments) {
  // Some templates insist on ids of nine letters and digits.
  return Json{{"id", "call00001"},
              {"type", "function"},
              {"function", Json{{"name", std::string(kFunctionName)}, {"arguments", std::move(arguments)}}}};
}

Json CallingMessage(Json content, Json arguments) {
  Json message = Message("assistant", std::move(content));
  message["tool_calls"] = Json::array({Call(std::move(arguments))});
  return message;
}

Json ResultMessage(Json content) {
  Json message = Message("tool", std::move(content));
  message["name"] = std::string(kFunctionName);
  message["tool_call_id"] = "call00001";
  return message;
}

Json Tools() {
  return Json::array(
      {Json{{"type", "function"},
            {"function", Json{{"name", std::string(kFunctionName)},
                              {"description", "zqdescription"},
                              {"parameters", Json{{"type", "object"}, {"properties", Json::object()}}}}}}});
}

int Count(std::string_view text, std::string_view word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

class Prober {
 public:
  explicit Prober(const ChatTemplate& chat_template) : template_(chat_template) {}

  TemplateTraits Run() {
    TemplateTraits traits;
    traits.arguments_as_mapping = ArgumentsAsMapping();
    arguments_ = traits.arguments_as_mapping ? Json(mapping_) : Json(text_);
    traits.null_content = TakesNull();
    traits.system_parts = Understands({Message("system", Part()), Message("user", kUser)}, false);
    traits.user_parts = Understands({Message("user", Part())}, false);
    traits.assistant_parts =
        Understands({Message("user", kUser), Message("assistant", Part()), Message("user", kUser)}, false);
    traits.tool_parts =
        Understands({Message("user", kUser), CallingMessage("", arguments_), ResultMessage(Part())}, true);
    traits.string_content = Shows({Message("user", kUser)}, false, kUser) || !traits.user_parts;
    traits.system_role = Shows({Message("system", kSystem), Message("user", kUser)}, false, kSystem);
    traits.tools = Shows({Message("user", kUser)}, true, kFunctionName);
    return traits;
  }

 private:
  std::optional<std::string> Render(Json::array_t messages, bool tools) const {
    Json variables{{"messages", Json(std::move(messages))},
                   {"add_generation_prompt", true},
                   {"bos_token", "<zqbos>"},
                   {"eos_token", "<zqeos>"}};
    if (tools) variables["tools"] = Tools();
    RenderLimits limits;
    limits.max_steps = 200'000;
    limits.max_output_bytes = 1 << 20;
    limits.max_memory_bytes = 64 << 20;
    limits.max_cpu_ms = 100;
    auto text = template_.Render(variables, limits, absl::CivilSecond(2024, 1, 2, 3, 4, 5));
    if (!text.ok()) return std::nullopt;
    return *std::move(text);
  }

  bool Shows(Json::array_t messages, bool tools, std::string_view word) const {
    const auto text = Render(std::move(messages), tools);
    return text.has_value() && Count(*text, word) > 0;
  }

  // The part's text shows, and the list around it does not.
  bool Understands(Json::array_t messages, bool tools) const {
    const auto text = Render(std::move(messages), tools);
    if (!text.has_value() || Count(*text, kPart) == 0) return false;
    return Count(*text, "'type': 'text'") + Count(*text, R"("type": "text")") + Count(*text, R"("type":"text")") == 0;
  }

  std::optional<std::string> RenderCall(const Json& content, const Json& arguments, bool result) const {
    Json::array_t messages{Message("user", kUser), CallingMessage(content, arguments)};
    if (result) messages.push_back(ResultMessage(kResult));
    return Render(std::move(messages), true);
  }

  bool ArgumentsAsMapping() const {
    for (const auto& [content, result] : {std::pair<Json, bool>{"", true},
                                          {nullptr, true},
                                          {"", false},
                                          {nullptr, false},
                                          {kAnswer, true},
                                          {kAnswer, false}}) {
      const auto mapped = RenderCall(content, mapping_, result);
      // A template that only prints its arguments shows a mapping as Python would.
      if (mapped.has_value() && Count(*mapped, "zqkey") > 0 && Count(*mapped, "zqvalue") > 0 &&
          Count(*mapped, "'zqkey'") == 0) {
        return true;
      }
      const auto written = RenderCall(content, text_, result);
      if (written.has_value() && Count(*written, text_) > 0) return false;
    }
    return true;
  }

  bool TakesNull() const {
    for (const bool result : {true, false}) {
      const auto null = RenderCall(nullptr, arguments_, result), empty = RenderCall("", arguments_, result);
      if (null.has_value() && empty.has_value()) {
        return Count(*null, "None") <= Count(*empty, "None") &&
               Count(*null, kFunctionName) >= Count(*empty, kFunctionName);
      }
      if (null.has_value()) return true;
      if (empty.has_value()) return false;
    }
    return false;
  }

  const ChatTemplate& template_;
  const Json mapping_{{"zqkey", "zqvalue"}};
  const std::string text_ = R"({"zqkey": "zqvalue"})";
  Json arguments_;
};

}  // namespace

TemplateTraits ProbeTraits(const ChatTemplate& chat_template) { return Prober(chat_template).Run(); }

}  // namespace tercet::chat
