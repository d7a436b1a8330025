#include "common/template/strftime.h"

#include <locale.h>
#include <time.h>

#include <vector>

#include "common/template/error.h"

namespace tercet::chat {
namespace {

constexpr size_t kMaxFormatBytes = 4096;

tm BrokenDown(absl::CivilSecond time) {
  tm out = {};
  out.tm_year = static_cast<int>(time.year() - 1900);
  out.tm_mon = time.month() - 1;
  out.tm_mday = time.day();
  out.tm_hour = time.hour();
  out.tm_min = time.minute();
  out.tm_sec = time.second();
  const absl::CivilDay day(time);
  out.tm_yday = absl::GetYearDay(day) - 1;
  // absl counts from Monday, C from Sunday.
  out.tm_wday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;
  out.tm_isdst = -1;
  return out;
}

}  // namespace

std::string FormatTime(absl::CivilSecond time, std::string_view format) {
  if (format.size() > kMaxFormatBytes) Fail("strftime_now: the format is longer than ", kMaxFormatBytes, " bytes");
  // What Python resolves before it asks C.
  std::string resolved;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      resolved.push_back(format[i]);
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      resolved += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      resolved.push_back('%');
      resolved.push_back(directive);
    }
  }
  if (resolved.empty()) return resolved;
  static const locale_t kLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  const tm broken_down = BrokenDown(time);
  // A last letter tells an empty result from a buffer that is too small. Directives may carry a width (%1000d).
  resolved.push_back('x');
  for (size_t size = resolved.size() * 8 + 256; size <= size_t{1} << 20; size *= 4) {
    std::vector<char> buffer(size);
    const size_t written = strftime_l(buffer.data(), buffer.size(), resolved.c_str(), &broken_down, kLocale);
    if (written > 0) return std::string(buffer.data(), written - 1);
  }
  Fail("strftime_now: the result is longer than a mebibyte");
}

}  // namespace tercet::chat
