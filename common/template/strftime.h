// strftime_now: the local time in a format of C's strftime, as Python's datetime.strftime passes it on.
#pragma once

#include <string>
#include <string_view>

#include "absl/time/civil_time.h"

namespace tercet::chat {

// In the C locale, whatever the process has set. %f is 000000, %z and %Z are empty (the time carries no zone).
std::string FormatTime(absl::CivilSecond time, std::string_view format);

}  // namespace tercet::chat
