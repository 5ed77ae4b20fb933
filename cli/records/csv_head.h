// The names of the columns of CSV.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vortex::cli {

// The first record of a file, which holds the names, each in quotes or not (RFC 4180).
class CsvHead {
 public:
  // Reads it, without a byte-order mark in front. Throws Error; EINVAL if the file is no regular
  // one, which cannot be read again by the sort, or is empty.
  CsvHead(const std::string& path, char separator);

  // The number of the first column of that name, from 1.
  std::optional<std::size_t> column_named(std::string_view name) const;
  std::size_t columns() const noexcept { return names_.size(); }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
};

}  // namespace vortex::cli
