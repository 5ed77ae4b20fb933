#include "sort/job/sort_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "io/file/single_file.h"
#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

BlockFile open_file(const std::string& path) {
  if (path == "-") return BlockFile::borrow(STDIN_FILENO, "standard input", false);
  return BlockFile::open(path);
}

}  // namespace

SortInput::SortInput(const std::string& path, std::size_t record_bytes)
    : file_(open_file(path)), record_bytes_(record_bytes) {
  name_ = file_.name();
  if (fstat(file_.descriptor(), &identity_) != 0) throw Error(errno, "stat '" + name_ + "'");
  if (file_.seekable()) length_bytes_ = file_.length();
  if (length_bytes_ && *length_bytes_ % record_bytes_ != 0) refuse_length(*length_bytes_);
  watched_ = fcntl(file_.descriptor(), F_DUPFD_CLOEXEC, 3);
  if (watched_ < 0) throw Error(errno, "duplicate the descriptor of '" + name_ + "'");
}

SortInput::~SortInput() { close(watched_); }

FileReaderBase SortInput::open_reader(const FileReaderOptions& options) {
  return FileReaderBase(std::make_unique<SingleFile>(std::move(file_), options.disk), options);
}

void SortInput::refuse_length(std::uint64_t length_bytes) const {
  throw Error(EINVAL, "'" + name_ + "' has " + std::to_string(length_bytes) +
                          " bytes, which is no multiple of the record's " +
                          std::to_string(record_bytes_));
}

void SortInput::expect_unchanged() const {
  if (!S_ISREG(identity_.st_mode)) return;
  struct stat now {};
  if (fstat(watched_, &now) != 0) throw Error(errno, "stat '" + name_ + "'");
  if (now.st_size == identity_.st_size && now.st_mtim.tv_sec == identity_.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == identity_.st_mtim.tv_nsec) {
    return;
  }
  throw Error(EBUSY, "'" + name_ + "' was changed while it was sorted");
}

}  // namespace vortex::inline v0
