// Finds out what a template does with messages by rendering small conversations that carry marked words.
#pragma once

#include "common/template/chat_template.h"

namespace tercet::chat {

TemplateTraits ProbeTraits(const ChatTemplate& chat_template);

}  // namespace tercet::chat
