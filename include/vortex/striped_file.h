// One sequence over several disks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file/file_layout.h"
#include "vortex/block_allocation.h"

namespace vortex::inline v0 {

// Shares for disks of given speeds and free space (the largest number for one that does not tell):
// in proportion to the speeds, but no disk gets
// more of `total_bytes` than fits on it; what it cannot hold goes to the others. A disk without
// space gets 0. Throws Error(ENOSPC) when all of them together are too small. `total_bytes` 0: only
// full disks matter.
std::vector<double> stripe_weights(const std::vector<double>& bytes_per_s,
                                   const std::vector<std::uint64_t>& free_bytes,
                                   std::uint64_t total_bytes);

struct StripedFileOptions {
  AllocationStrategy strategy = AllocationStrategy::kStriping;
  std::vector<double> weights = {};  // one for each part, see BlockAllocation; empty: all equal
  std::uint64_t seed = 0;            // of the random strategies
  std::uint64_t sequence = 0;
  std::size_t unit_bytes = std::size_t{2}
                           << 20;  // what lies on one disk before the next one's turn
  std::uint64_t most_bytes = std::uint64_t{1} << 40;
};

// A sequence of bytes cut into units, each whole in one of several files on different disks. Where
// a unit goes, the strategy says (BlockAllocation); within its file a part's units follow one
// another. A disk that turns out to be full is left out from then on, and what it refused goes to
// the others.
//
// When the writer finishes, the parts appear in their order, and together as far as that can be:
// all are whole, synced if the writer was asked for that, and prepared before the first gets its
// name, so that what fails until then leaves all names as they were. What is left is a rename for
// each. Should one of these fail (the folder is gone, or another folder has taken the name), or the
// process be killed among them, the parts in front of it are new, and it and those behind are as
// they were; the error says how many are new. No file system renames several files at once: where
// parts of two versions must never lie beside each other, write into a new folder, and rename that.
//
// Make one over empty files, write it through writing_layout() and read it through
// reading_layout(), with FileWriter and FileReader. It must outlive both, and is neither copied nor
// moved. One writer, and then any number of readers.
class StripedFile {
 public:
  struct Part {
    Disk* disk = nullptr;
    BlockFile file = {};
  };

  // Throws Error: EINVAL for no parts, weights that do not fit them, a unit size that does not suit
  // direct I/O, or parts that cannot seek.
  StripedFile(std::vector<Part> parts, StripedFileOptions options);
  // What was written with the same options and parts in the same order: `length` bytes. Throws
  // Error(EINVAL) when the parts are not as long as that says; a sequence for which a disk was left
  // out can only be read through the object that wrote it.
  StripedFile(std::vector<Part> parts, StripedFileOptions options, std::uint64_t length);
  ~StripedFile();
  StripedFile(const StripedFile&) = delete;
  StripedFile& operator=(const StripedFile&) = delete;

  std::unique_ptr<FileLayout> writing_layout();
  std::unique_ptr<FileLayout> reading_layout();

  std::uint64_t length() const noexcept { return length_; }
  // Units of a part, and whether it was left out because its disk was full.
  std::uint64_t units_of(std::size_t part) const noexcept { return units_[part]; }
  bool left_out(std::size_t part) const noexcept { return left_out_[part] != 0; }

 private:
  friend class StripedLayout;
  static constexpr std::size_t kNoPart = ~std::size_t{0};

  FileLayout::Place place_of(std::uint64_t unit) const noexcept;
  bool assign(std::uint64_t unit) noexcept;
  bool put(std::uint64_t unit, std::size_t part) noexcept;
  std::size_t choose(std::uint64_t unit) const noexcept;
  std::uint64_t bytes_of(std::size_t part, std::uint64_t length) const noexcept;
  void finish(std::uint64_t length, bool sync);

  std::vector<Part> parts_;
  StripedFileOptions options_;
  BlockAllocation allocation_;
  std::string name_;
  std::uint64_t most_units_;
  std::uint64_t* places_ = nullptr;  // of each unit; address space that is filled as units come
  std::uint64_t assigned_ = 0;
  std::vector<std::uint64_t> units_;  // of each part
  std::vector<char> left_out_;
  std::uint64_t length_ = 0;
};

}  // namespace vortex::inline v0
