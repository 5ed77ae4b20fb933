#include "lines/text/line_inputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/file/block_file.h"
#include "io/file/own_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kLargeBuffer = std::size_t{256} << 10;
const std::string kStandardInput = "standard input";

// Returns the room for a text of this length, and one byte more, which shows its end.
std::size_t buffer_for(std::uint64_t bytes, std::size_t most) {
  const std::uint64_t pages = bytes / os::page_bytes() + 1;
  return static_cast<std::size_t>(std::min<std::uint64_t>(pages * os::page_bytes(), most));
}

// "-" is standard input.
BlockFile open_file(const std::string& path, bool direct) {
  if (path == "-") return BlockFile::borrow(STDIN_FILENO, kStandardInput, false);
  return BlockFile::open(path, direct);
}

}  // namespace

LineInputs::LineInputs(const LineSortOptions& options)
    : options_(options), stop_(options.resources.stop) {
  if (options.inputs.empty()) throw Error(EINVAL, "a sort needs an input");
  all_.reserve(options.inputs.size());
  for (const std::string& path : options.inputs) all_.push_back(look_at(path));
}

LineInputs::Input LineInputs::look_at(const std::string& path) const {
  struct stat status {};
  if ((path == "-" ? fstat(STDIN_FILENO, &status) : stat(path.c_str(), &status)) != 0 ||
      (path != "-" && faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0)) {
    throw Error(errno, "open '" + path + "'");
  }
  if (S_ISDIR(status.st_mode)) throw Error(EISDIR, "read failed: '" + path + "'");
  const bool is_device = S_ISBLK(status.st_mode);
  Input input;
  if (S_ISREG(status.st_mode) && path != "-") {
    input.length = static_cast<std::uint64_t>(status.st_size);
  } else if (S_ISREG(status.st_mode) || is_device || path == "-") {
    const BlockFile file = open_file(path, false);
    if (file.seekable()) input.length = file.length();
  }
  input.device = is_device ? status.st_rdev : status.st_dev;
  input.number = is_device ? 0 : status.st_ino;
  return input;
}

const std::string& LineInputs::name(std::size_t index) const noexcept {
  const std::string& path = options_.inputs[index];
  return path == "-" ? kStandardInput : path;
}

std::optional<std::uint64_t> LineInputs::bytes(std::size_t first, std::size_t end) const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (!all_[i].length) return std::nullopt;
    bytes = detail::saturating_sum(bytes, *all_[i].length);
  }
  return bytes;
}

bool LineInputs::contain(const struct stat& file) const noexcept {
  const bool is_device = S_ISBLK(file.st_mode);
  if (!is_device && !S_ISREG(file.st_mode)) return false;
  const dev_t device = is_device ? file.st_rdev : file.st_dev;
  const ino_t number = is_device ? 0 : file.st_ino;
  return std::any_of(all_.begin(), all_.end(), [&](const Input& input) {
    return input.length && input.device == device && input.number == number;
  });
}

std::unique_ptr<InputText> LineInputs::open(std::size_t index, BlockPool& pool, Disk* disk,
                                            const FileSourceOptions& options) {
  const std::size_t most =
      FileSource::blocks_needed(options, pool.block_bytes()) * pool.block_bytes();
  return open(index, std::min(kLargeBuffer, most), reading(pool, disk, options));
}

BlockReading LineInputs::reading(BlockPool& pool, Disk* disk, FileSourceOptions options) const {
  options.requests.caching = options_.resources.caching;
  options.requests.register_pool = homes_can_be_registered(pool);
  return {&pool, disk, options};
}

bool LineInputs::reads_directly(std::size_t index) const noexcept {
  return all_[index].length.value_or(0) > InputText::kShort &&
         options_.resources.caching != Caching::kBuffered;
}

BlockFile LineInputs::open_whole(std::size_t index) const {
  return open_file(options_.inputs[index], reads_directly(index));
}

std::unique_ptr<InputText> LineInputs::open_part(const BlockFile& file, const TextRange& part,
                                                 std::size_t buffer_bytes,
                                                 std::optional<BlockReading> blocks) {
  buffer_bytes = buffer_for(part.end - part.begin, buffer_bytes);
  return std::make_unique<InputText>(file.lend_first(part.end), buffer_bytes, std::move(blocks),
                                     stop_, part.begin);
}

std::unique_ptr<InputText> LineInputs::open(std::size_t index, std::size_t buffer_bytes,
                                            std::optional<BlockReading> blocks) {
  BlockFile file = open_file(options_.inputs[index], blocks && reads_directly(index));
  if (file.seekable()) buffer_bytes = buffer_for(file.length(), buffer_bytes);
  return std::make_unique<InputText>(std::move(file), buffer_bytes, std::move(blocks), stop_);
}

}}  // namespace vortex::v0
