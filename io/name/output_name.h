// The name that a file is to have when it is whole.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <string>

#include "io/name/file_attributes.h"
#include "vortex/error.h"
#include "vortex/os/descriptor.h"

namespace vortex { inline namespace v0 {

// The folder of a file, held open: whatever it is called later, it is the one.
class OpenFolder {
 public:
  OpenFolder() = default;
  // The folder that the file at `path` lies or will lie in, whose links have been followed. Where
  // it cannot be opened the object is empty, and errno says why.
  explicit OpenFolder(const std::string& path);

  explicit operator bool() const noexcept { return static_cast<bool>(folder_); }
  // For calls such as openat(2).
  int descriptor() const noexcept { return folder_.get(); }

  // The names in it have reached the disk when this returns 0; an errno value otherwise. `file` is
  // a descriptor of a file in it. Blocks.
  int sync(int file) const noexcept;

 private:
  os::Descriptor folder_;
  bool readable_ = false;
};

// The file system has only files with names.
class NoNamelessFile : public Error {
 public:
  explicit NoNamelessFile(const std::string& path)
      : Error(EOPNOTSUPP, "create '" + path + "' without a name") {}
};

// Holds the folder open from the beginning: whatever the folder is called later, and whichever
// folder is the process's own then, that is where the file appears. Nothing that can run out is
// taken at the end but, to replace a file, an entry in the folder.
//
// create(), then prepare(), take() and settle(), each once and in this order.
class OutputName {
 public:
  // For `path`, whose links have been followed, and where `existing` is, if not null: a regular
  // file, which will give way. Throws Error for what would fail at the end, while nothing has been
  // done that could be lost.
  OutputName(const std::string& path, const struct stat* existing, bool replace);
  // Removes the temporary name, if there is one.
  ~OutputName();

  // Opens the file to be, for reading and writing: without a name (O_TMPFILE), or, where the file
  // system cannot do that, under a temporary one, if it may have one. Throws NoNamelessFile; Error.
  os::Descriptor create(unsigned mode, bool may_have_name = true);

  // Does the steps that a lack of something can stop: gives a file that replaces another its
  // temporary name, and the attributes that the other passes on. Throws Error.
  void prepare(int file);
  // At once: nothing is found under the name before, and the whole file after. Throws Error.
  void take(int file);
  // The file is in place. With `durable`, its name has reached the disk when this returns. Throws
  // Error, which says that it is in place, when that or setting its mode failed.
  void settle(int file, bool durable) const;

 private:
  [[noreturn]] void fail(const std::string& operation, int error) const;
  void expect_replaceable(const struct stat& existing) const;
  void expect_no_replacing();
  int link_to_temporary_name(int file);
  // link(2) and rename(2) from one name of the folder to another: 0 or an errno value.
  int link_in_folder(const std::string& from, const std::string& to) const noexcept;
  int rename_in_folder(const std::string& from, const std::string& to,
                       unsigned flags) const noexcept;

  const std::string path_;  // for messages
  const std::string base_;  // the name in the folder
  std::string temporary_;
  std::optional<FileAttributes> passed_on_;
  const OpenFolder folder_;
  const bool replace_;
  int mode_refusal_ = 0;
  const int creator_pid_;
};

}}  // namespace vortex::v0
