// POST /tokenize and POST /detokenize, under the names that llama-server and vLLM use for the same things.
//
// /tokenize    {"content": text} or {"prompt": text}; "add_special" or "add_special_tokens" (default: false with "content",
//              true with "prompt", as in those servers), "parse_special" (default false), "with_pieces", "return_token_strs"
//           →  {"tokens": [id, …], "count", "max_model_len"[, "token_strs"]}; with_pieces: [{"id", "piece"}, …], where a
//              piece that is not UTF-8 by itself is an array of bytes.
// /detokenize  {"tokens": [id, …]}, "include_special" (default false: control tokens have no text)
//           →  {"content": text, "prompt": the same text}
// Both take "model", which must be one that is served.
#pragma once

#include <memory>

#include "services/gateway/backends.h"
#include "services/gateway/http/exchange.h"

namespace tercet::gateway {

void HandleTokenize(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange);
void HandleDetokenize(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange);

}  // namespace tercet::gateway
