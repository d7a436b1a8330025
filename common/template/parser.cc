// Statements: Jinja2's tags, with the loopcontrols extension and transformers' generation blocks.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/template/compiled_template.h"
#include "common/template/expression_parser.h"
#include "common/template/lexer.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

using EndTags = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::vector<Token> tokens, ConstantPool& constants)
      : stream_(std::move(tokens)), expressions_(stream_, constants), constants_(constants) {}

  Body Template() { return Statements({}); }

 private:
  using StatementPtr = std::unique_ptr<Statement>;

  // Statements and text until one of `ends`, which is then the current token (or until the end of the template).
  Body Statements(EndTags ends) {
    Body body;
    std::unique_ptr<OutputNode> output;
    const auto part = [&](ExprPtr expr) {
      if (output == nullptr) output = std::make_unique<OutputNode>(expr->offset);
      output->parts.push_back(std::move(expr));
    };
    while (!stream_.Is(TokenType::kEnd)) {
      const Token& token = stream_.Take();
      if (token.type == TokenType::kData) {
        auto text = std::make_unique<ConstantExpr>(token.offset);
        text->value = constants_.String(token.text);
        part(std::move(text));
      } else if (token.type == TokenType::kVariableBegin) {
        part(expressions_.Tuple());
        stream_.Expect(TokenType::kVariableEnd);
      } else {
        if (output != nullptr) body.push_back(std::move(output));
        if (stream_.Is(TokenType::kName) && std::find(ends.begin(), ends.end(), stream_.current().text) != ends.end()) {
          return body;
        }
        body.push_back(OneStatement(ends));
        stream_.Expect(TokenType::kBlockEnd);
      }
    }
    if (output != nullptr) body.push_back(std::move(output));
    return body;
  }

  // The body of a tag whose words end here, up to an end tag, which stays the current token.
  Body TagBody(EndTags ends) {
    ExpressionParser::Nested nested(expressions_);
    stream_.Skip(TokenType::kColon);
    stream_.Expect(TokenType::kBlockEnd);
    Body body = Statements(ends);
    if (stream_.Is(TokenType::kEnd)) {
      FailAt(stream_.offset(), "Unexpected end of template. Looking for ", Names(ends),
             "; the innermost block to close is '", open_tags_.empty() ? "" : open_tags_.back(), "'");
    }
    return body;
  }
  Body WholeBody(std::string_view end) {
    Body body = TagBody({end});
    stream_.Take();
    return body;
  }

  static std::string Names(EndTags ends) {
    std::string names;
    for (std::string_view end : ends) StrAppend(&names, names.empty() ? "'" : " or '", end, "'");
    return names;
  }

  StatementPtr OneStatement(EndTags ends) {
    if (!stream_.Is(TokenType::kName)) FailAt(stream_.offset(), "tag name expected, got ", Describe(stream_.current()));
    const Token& tag = stream_.Take();
    open_tags_.push_back(tag.text);
    StatementPtr statement = Dispatch(tag, ends);
    open_tags_.pop_back();
    return statement;
  }

  StatementPtr Dispatch(const Token& tag, EndTags ends) {
    const std::string& name = tag.text;
    if (name == "if") return If(tag.offset);
    if (name == "for") return For(tag.offset);
    if (name == "set") return Set(tag.offset);
    if (name == "macro") return Macro(tag.offset);
    if (name == "call") return CallBlock(tag.offset);
    if (name == "generation") return Generation(tag.offset);
    if (name == "filter") return FilterBlock(tag.offset);
    if (name == "with") return With(tag.offset);
    if (name == "print") return Print(tag.offset);
    if (name == "block") return Block(tag.offset);
    if (name == "break") return std::make_unique<JumpNode>(StatementKind::kBreak, tag.offset);
    if (name == "continue") return std::make_unique<JumpNode>(StatementKind::kContinue, tag.offset);
    if (name == "include" || name == "import" || name == "from" || name == "extends") return Load(tag);
    if (name == "autoescape") FailAt(tag.offset, "the tag 'autoescape' is not supported in chat templates");
    open_tags_.pop_back();
    FailAt(tag.offset, "Encountered unknown tag '", name, "'.",
           ends.size() == 0 ? "" : StrCat(" Looking for ", Names(ends), ".", OpenTag()));
  }

  std::string OpenTag() const {
    if (open_tags_.empty()) return "";
    return StrCat(" The innermost block that needs to be closed is '", open_tags_.back(), "'.");
  }

  StatementPtr If(uint32_t offset) {
    auto node = std::make_unique<IfNode>(offset);
    while (true) {
      ExprPtr test = expressions_.Tuple(false);
      Body body = TagBody({"elif", "else", "endif"});
      node->branches.emplace_back(std::move(test), std::move(body));
      if (stream_.SkipName("elif")) continue;
      if (stream_.SkipName("else")) {
        node->otherwise = WholeBody("endif");
      } else {
        stream_.Take();
      }
      return node;
    }
  }

  StatementPtr For(uint32_t offset) {
    auto node = std::make_unique<ForNode>(offset);
    node->target = expressions_.Target("in", false);
    stream_.ExpectName("in");
    node->iterable = expressions_.Tuple(false, "recursive");
    if (stream_.SkipName("if")) node->test = expressions_.Expression();
    node->recursive = stream_.SkipName("recursive");
    node->body = TagBody({"endfor", "else"});
    if (stream_.Take().text == "else") node->otherwise = WholeBody("endfor");
    return node;
  }

  StatementPtr Set(uint32_t offset) {
    ExprPtr target = expressions_.Target({}, true);
    if (stream_.Skip(TokenType::kAssign)) {
      auto node = std::make_unique<SetNode>(offset);
      node->target = std::move(target);
      node->value = expressions_.Tuple();
      return node;
    }
    auto node = std::make_unique<SetBlockNode>(offset);
    node->target = std::move(target);
    node->filter = expressions_.Filters(nullptr, false);
    node->body = WholeBody("endset");
    return node;
  }

  void Signature(MacroNode* node) {
    stream_.Expect(TokenType::kLParen);
    while (!stream_.Is(TokenType::kRParen)) {
      if (!node->parameters.empty()) stream_.Expect(TokenType::kComma);
      Parameter parameter;
      parameter.name = expressions_.Name(NameUse::kParameter);
      const std::string& name = parameter.name->name.text();
      for (const Parameter& other : node->parameters) {
        if (other.name->name.text() == name) FailAt(parameter.name->offset, "duplicate argument '", name, "'");
      }
      if (stream_.Skip(TokenType::kAssign)) {
        parameter.otherwise = expressions_.Expression();
      } else if (!node->parameters.empty() && node->parameters.back().otherwise != nullptr) {
        FailAt(stream_.offset(), "non-default argument follows default argument");
      }
      node->parameters.push_back(std::move(parameter));
    }
    stream_.Expect(TokenType::kRParen);
  }

  StatementPtr Macro(uint32_t offset) {
    auto node = std::make_unique<MacroNode>(offset);
    node->name = expressions_.Name(NameUse::kStore);
    Signature(node.get());
    node->body = WholeBody("endmacro");
    return node;
  }

  StatementPtr CallBlock(uint32_t offset) {
    auto node = std::make_unique<CallBlockNode>(offset);
    node->caller = std::make_unique<MacroNode>(offset);
    if (stream_.Is(TokenType::kLParen)) Signature(node->caller.get());
    ExprPtr call = expressions_.Expression();
    if (call->kind != ExprKind::kCall) FailAt(offset, "expected a call after 'call'");
    node->call.reset(static_cast<CallExpr*>(call.release()));
    node->caller->body = WholeBody("endcall");
    return node;
  }

  StatementPtr Generation(uint32_t offset) {
    auto node = std::make_unique<CallBlockNode>(offset);
    node->caller = std::make_unique<MacroNode>(offset);
    node->caller->body = WholeBody("endgeneration");
    return node;
  }

  StatementPtr FilterBlock(uint32_t offset) {
    auto node = std::make_unique<FilterBlockNode>(offset);
    node->filter = expressions_.Filters(nullptr, true);
    node->body = WholeBody("endfilter");
    return node;
  }

  // The targets of `with` are parameters of its scope.
  static void DeclareParameters(Expr* target) {
    if (target->kind == ExprKind::kName) static_cast<NameExpr*>(target)->use = NameUse::kParameter;
    if (target->kind != ExprKind::kTuple) return;
    for (const ExprPtr& item : static_cast<ItemsExpr*>(target)->items) DeclareParameters(item.get());
  }

  StatementPtr With(uint32_t offset) {
    auto node = std::make_unique<WithNode>(offset);
    while (!stream_.Is(TokenType::kBlockEnd)) {
      if (!node->variables.empty()) stream_.Expect(TokenType::kComma);
      ExprPtr target = expressions_.Target({}, false);
      DeclareParameters(target.get());
      stream_.Expect(TokenType::kAssign);
      node->variables.emplace_back(std::move(target), expressions_.Expression());
    }
    node->body = WholeBody("endwith");
    return node;
  }

  StatementPtr Print(uint32_t offset) {
    auto node = std::make_unique<OutputNode>(offset);
    while (!stream_.Is(TokenType::kBlockEnd)) {
      if (!node->parts.empty()) stream_.Expect(TokenType::kComma);
      node->parts.push_back(expressions_.Expression());
    }
    return node;
  }

  StatementPtr Block(uint32_t offset) {
    auto node = std::make_unique<BlockNode>(offset);
    node->name = stream_.Expect(TokenType::kName).text;
    if (std::find(block_names_.begin(), block_names_.end(), node->name) != block_names_.end()) {
      FailAt(offset, "block '", node->name, "' defined twice");
    }
    block_names_.push_back(node->name);
    if (stream_.IsName("scoped")) FailAt(stream_.offset(), "'scoped' blocks are not supported in chat templates");
    node->required = stream_.SkipName("required");
    if (node->required) FailAt(offset, "'required' blocks are not supported in chat templates");
    node->body = WholeBody("endblock");
    stream_.SkipName(node->name);
    return node;
  }

  // {% include … %} and the like: checked for their first words only, as they fail when they are reached.
  StatementPtr Load(const Token& tag) {
    auto node = std::make_unique<LoadNode>(tag.offset);
    node->tag = tag.text;
    expressions_.Expression();
    while (!stream_.Is(TokenType::kBlockEnd) && !stream_.Is(TokenType::kEnd)) stream_.Take();
    return node;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  ConstantPool& constants_;
  std::vector<std::string> open_tags_;
  std::vector<std::string> block_names_;
};

}  // namespace

Value ConstantPool::String(std::string text) {
  auto object = std::make_unique<StringObject>();
  object->references = -1;
  object->length = CountCodePoints(text);
  object->weight = static_cast<int64_t>(sizeof(StringObject) + text.size());
  object->text = std::move(text);
  objects_.push_back(std::move(object));
  return Value(Kind::kString, objects_.back().get());
}

Value ConstantPool::BigInt(std::string digits) {
  Value value = String(std::move(digits));
  return Value(Kind::kBigInt, value.object());
}

void Parse(std::string_view source, Program* program) {
  program->source = NormalizeSource(source);
  program->body = Parser(Tokenize(program->source), program->constants).Template();
}

}  // namespace tercet::chat
