// The inputs of a sort, a merge or a check of lines.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/disk/disk.h"
#include "lines/text/input_text.h"
#include "vortex/block_pool.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// The inputs are looked at when this is made, and each is opened when its turn comes, so that any
// number of them takes few descriptors. One thread at a time.
class LineInputs {
 public:
  // The options outlive it. Throws Error: EINVAL without inputs; what would keep an input from
  // being read, as far as that is known without opening it.
  explicit LineInputs(const LineSortOptions& options);

  std::size_t size() const noexcept { return all_.size(); }
  // For messages.
  const std::string& name(std::size_t index) const noexcept;
  // The length when this was made: an input may be longer by the time it is read. A pipe has none.
  std::optional<std::uint64_t> length(std::size_t index) const noexcept {
    return all_[index].length;
  }
  // The bytes of all inputs together, or of [first, end); unknown when one of them is a pipe.
  std::optional<std::uint64_t> bytes() const noexcept { return bytes(0, size()); }
  std::optional<std::uint64_t> bytes(std::size_t first, std::size_t end) const noexcept;
  // Whether one of the inputs is this file or block device.
  bool contain(const struct stat& file) const noexcept;

  // Follows the stop of the options again, which has changed.
  void follow_stop() { stop_.follow(options_.resources.stop); }

  // How the rest of an input is read into blocks of a pool, which are filled as the options say.
  BlockReading reading(BlockPool& pool, Disk* disk, FileSourceOptions options) const;
  // Opens an input with a buffer of this size, and less where its text is less. A text that is not
  // short is read into blocks, if there are any. Throws Error.
  std::unique_ptr<InputText> open(std::size_t index, std::size_t buffer_bytes,
                                  std::optional<BlockReading> blocks = std::nullopt);
  // The file of an input, for open_part(): around the page cache, too, where that is worth it.
  BlockFile open_whole(std::size_t index) const;
  // A part of an input, as open() with this reading. The file outlives it.
  std::unique_ptr<InputText> open_part(const BlockFile& file, const TextRange& part,
                                       std::size_t buffer_bytes,
                                       std::optional<BlockReading> blocks);
  // The same with that reading.
  std::unique_ptr<InputText> open(std::size_t index, BlockPool& pool, Disk* disk,
                                  const FileSourceOptions& options);

 private:
  struct Input {
    std::optional<std::uint64_t> length;
    dev_t device = 0;  // the device that it is, or that it lies on
    ino_t number = 0;  // the number of a file
  };
  Input look_at(const std::string& path) const;
  bool reads_directly(std::size_t index) const noexcept;

  const LineSortOptions& options_;
  StopSignal stop_;
  std::vector<Input> all_;
};

}}  // namespace vortex::v0
