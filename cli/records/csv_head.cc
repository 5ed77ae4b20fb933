#include "cli/records/csv_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lines/fields/field_finder.h"
#include "lines/fields/key_bytes.h"
#include "lines/fields/key_locale.h"
#include "lines/record/framing.h"
#include "vortex/error.h"

namespace vortex::cli {

namespace {

constexpr std::size_t kMaxHeadBytes = std::size_t{1} << 20;

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

std::string head_of(const std::string& path, char separator) {
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
  std::string_view head;
  const FramedRecords found =
      split_records(RecordFraming::quoted('\n', separator), rest, ends, {&head, 1});
  if (found.records == 1) return std::string(head);
  throw Error(
      EINVAL,
      fmt::format("'{}' has no head that ends in its first {}: close the quote that opens in "
                  "its first line, or give the numbers of the columns",
                  path, format_bytes(kMaxHeadBytes)));
}

}  // namespace

CsvHead::CsvHead(const std::string& path, char separator) : text_(head_of(path, separator)) {
  const KeyLocale locale("C");
  const FieldFinder fields(locale, FieldRules::kCsv, separator);
  std::string room;
  KeyBytes scratch(room);
  const std::size_t columns = fields.columns(text_);
  for (std::size_t column = 0; column < columns; ++column) {
    const KeySpecification where{.begin_field = column, .end_field = column};
    names_.emplace_back(fields.find(text_, where, scratch));
  }
}

std::optional<std::size_t> CsvHead::column_named(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names_.begin()) + 1;
}

}  // namespace vortex::cli
