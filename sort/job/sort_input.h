// An input of a sort: opened, checked, and seen to be the same at the end.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/file/block_file.h"
#include "vortex/file_reader.h"

namespace vortex::inline v0 {

// A file, device or pipe with records in it, open from construction on. Not copied, not moved.
class SortInput {
 public:
  // "-" is standard input. Throws Error: what open(2) reports; EINVAL when the length is known and
  // no multiple of the record's.
  SortInput(const std::string& path, std::size_t record_bytes);
  ~SortInput();
  SortInput(const SortInput&) = delete;
  SortInput& operator=(const SortInput&) = delete;

  const std::string& name() const noexcept { return name_; }
  // None for pipes.
  std::optional<std::uint64_t> length_bytes() const noexcept { return length_bytes_; }
  const struct stat& identity() const noexcept { return identity_; }

  // The reader of this input, once.
  FileReaderBase open_reader(const FileReaderOptions& options);

  // Throws Error(EINVAL) that says which length is no multiple of the record's.
  [[noreturn]] void refuse_length(std::uint64_t length_bytes) const;
  // Throws Error(EBUSY) when the file's size or time of modification is not what it was.
  void expect_unchanged() const;

 private:
  std::string name_;
  BlockFile file_;
  int watched_ = -1;  // the same open file, kept beside the reader's
  std::size_t record_bytes_;
  std::optional<std::uint64_t> length_bytes_;
  struct stat identity_ {};
};

}  // namespace vortex::inline v0
