// Cuts a template into tokens, with Jinja2's rules for white space: trim_blocks, lstrip_blocks, the signs - and +, raw
// blocks, comments, one newline at the very end dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/template/token.h"

namespace tercet::chat {

// \r\n and \r become \n, and one newline at the end goes: offsets of tokens count in this text.
std::string NormalizeSource(std::string_view source);

// `source` is normalized and UTF-8. The last token is kEnd. Throws TemplateError.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace tercet::chat
