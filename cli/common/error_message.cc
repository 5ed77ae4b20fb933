#include "cli/common/error_message.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

// Names without blanks go without quotes, as in GNU programs.
std::string_view without_needless_quotes(std::string_view place) {
  if (place.size() < 3 || place.front() != '\'' || place.back() != '\'') return place;
  const std::string_view name = place.substr(1, place.size() - 2);
  return name.find_first_of(" \t'\"\\$`") == std::string_view::npos ? name : place;
}

// All but the number of "writing PLACE at byte N; WAY OUT". Empty where the cause is another.
std::string failed_transfer(std::string_view cause, int error) {
  constexpr std::string_view kOffset = " at byte ";
  const bool writes = cause.starts_with("writing ");
  const std::size_t end = cause.rfind(kOffset);
  if ((!writes && !cause.starts_with("reading ")) || end == std::string_view::npos) return {};
  const std::size_t begin = cause.find(' ') + 1;
  const std::size_t way_out = cause.find("; ", end);
  std::string text = writes ? "write failed: " : "read failed: ";
  text += without_needless_quotes(cause.substr(begin, end - begin));
  text += ": ";
  text += std::strerror(error);
  if (way_out != std::string_view::npos) text += cause.substr(way_out);
  return text;
}

}  // namespace

std::string message_for_people(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return std::strerror(ENOMEM);
  const auto* const of_stream = dynamic_cast<const StreamError*>(&exception);
  const std::string_view plain = message_of(exception);
  const std::string_view cause = of_stream != nullptr ? of_stream->failure().cause.view() : plain;
  const std::string transfer = failed_transfer(cause, errno_of(exception, EIO));
  if (!transfer.empty()) return printable(transfer);
  // What plain calls say.
  for (const std::string_view failed : {"write failed: ", "read failed: "}) {
    if (!plain.starts_with(failed) || errno_of(exception, 0) == 0) continue;
    return std::string(failed) + std::string(without_needless_quotes(plain.substr(failed.size()))) +
           ": " + std::strerror(errno_of(exception, 0));
  }
  // The system's word for EINVAL says nothing that the message does not say better.
  const bool by_us = errno_of(exception, 0) == EINVAL;
  return std::string(by_us ? message_of(exception) : std::string_view(exception.what()));
}

void tell_error(const char* program, const std::exception& exception,
                std::string_view way_out) noexcept {
  try {
    std::string text = printable(message_for_people(exception));
    if (errno_of(exception, 0) == ENOMEM) text += way_out;
    std::fprintf(stderr, "%s: %s\n", program, text.c_str());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: %s\n", program, std::strerror(errno_of(exception, ENOMEM)));
  }
}

}  // namespace vortex::cli
