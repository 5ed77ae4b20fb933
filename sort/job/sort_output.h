// Where a sort writes to: nothing is found under the name before everything is there.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "io/file/block_file.h"
#include "vortex/file_writer.h"

namespace vortex::inline v0 {

// Where the runs of a sort are kept unless it is said: beside its output, or, when that is no file,
// in temporary_folder().
std::string default_run_folder(const std::string& output);

// A file, device or pipe to be written, open from construction on.
class SortOutput {
 public:
  // "-" is standard output. Throws Error: what open(2) reports.
  explicit SortOutput(const std::string& path);

  const std::string& name() const noexcept { return file_.name(); }
  // Of a file that will appear under a name; none for pipes and devices.
  const std::optional<std::string>& folder() const noexcept { return folder_; }
  const struct stat& identity() const noexcept { return identity_; }

  // Throws Error(ENOSPC) when a file system or a device has no room for so many bytes.
  void expect_room(std::uint64_t bytes) const;
  // Reserves room in the file system. Throws Error(ENOSPC).
  void reserve(std::uint64_t bytes) { file_.allocate(bytes); }

  // The writer of this output, once; its finish_bytes() publishes.
  FileWriterBase open_writer(const FileWriterOptions& options);

 private:
  BlockFile file_;
  std::optional<std::string> folder_;
  struct stat identity_ {};
};

}  // namespace vortex::inline v0
