#include "cli/records/csv_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

constexpr std::size_t kMaxHeadBytes = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Names of columns are looked up before the sort reads its inputs. What a pipe gave then would be
// missing from the sort, and to open one may wait for ever.
void expect_readable_twice(const std::string& path) {
  std::error_code error;
  const bool regular = path != "-" && std::filesystem::is_regular_file(path, error);
  if (error) throw Error(error.value(), "read the head of '" + path + "'");
  if (regular) return;
  throw Error(EINVAL,
              fmt::format("names of columns need a first input that can be read twice, and {} is "
                          "no regular file: give the numbers of the columns",
                          path == "-" ? "standard input" : "'" + path + "'"));
}

bool is_utf16(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

// Takes the first value from the front of `rest`, and its quotes off: the quote that closes one may
// have text behind it, which belongs to the value. What ends the value stays. False: it never ends.
bool take_value(std::string_view& rest, char separator, bool ends, std::string& value) {
  const auto take = [&](std::size_t bytes, std::size_t behind) {
    value += rest.substr(0, bytes);
    rest.remove_prefix(bytes + behind);
  };
  const bool quoted = rest.starts_with('"');
  if (quoted) rest.remove_prefix(1);
  for (bool open = quoted; open;) {
    const std::size_t quote = rest.find('"');
    if (quote == rest.npos) return false;
    open = rest.substr(quote).starts_with("\"\"");
    take(quote + (open ? 1 : 0), 1);
  }
  const std::size_t end = rest.find_first_of(std::string{separator, '\n'});
  if (end == rest.npos && !ends) return false;
  std::string_view plain = rest.substr(0, end);
  const bool last = end == rest.npos || rest[end] == '\n';
  const std::size_t carriage_return = last && plain.ends_with('\r') ? 1 : 0;
  take(plain.size() - carriage_return, carriage_return);
  return true;
}

// The first record of a text, with the values of its columns. False: it does not end there.
bool read_head(std::string_view text, char separator, bool ends, std::string& head,
               std::vector<std::string>& names) {
  for (std::string_view rest = text;; rest.remove_prefix(1)) {
    if (!take_value(rest, separator, ends, names.emplace_back())) return false;
    if (!rest.starts_with(separator)) {
      head = text.substr(0, text.size() - rest.size());
      return true;
    }
  }
}

}  // namespace

CsvHead::CsvHead(const std::string& path, char separator) {
  expect_readable_twice(path);
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw Error(errno, "read the head of '" + path + "'");
  std::string text(kMaxHeadBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const bool ends = file.eof() || file.peek() == std::ifstream::traits_type::eof();
  if (is_utf16(text)) {
    throw Error(EINVAL, fmt::format("'{0}' is UTF-16, in which no names of columns are found: make "
                                    "it UTF-8 with iconv -f UTF-16 -t UTF-8 '{0}'",
                                    path));
  }
  std::string_view rest = text;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  if (rest.empty()) {
    throw Error(EINVAL,
                fmt::format("'{}' is empty and has no names of columns: write the names into "
                            "its first line, or give the numbers of the columns",
                            path));
  }
  if (read_head(rest, separator, ends, text_, names_)) return;
  throw Error(
      EINVAL,
      fmt::format("'{}' has no head that ends in its first {}: close the quote that opens in "
                  "its first line, or give the numbers of the columns",
                  path, format_bytes(kMaxHeadBytes)));
}

std::optional<std::size_t> CsvHead::column_named(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names_.begin()) + 1;
}

}  // namespace vortex::cli
