// One sequence over several disks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/detail/stream/export.h"
#include "vortex/detail/stream/file_layout.h"
#include "vortex/disk.h"

namespace vortex { inline namespace v0 {

// How the blocks of a sequence are spread over the disks. The names are those of the options and of
// the papers: SRM is Barve and Vitter, section 3; random cyclic allocation is SPAA, section 2.4.
enum class AllocationStrategy {
  kStriping,          // round robin from the first disk on
  kSimpleRandomized,  // round robin from a random disk on (SRM)
  kRandomCyclic,      // round robin through a random permutation of the disks
  kFullyRandom,       // every block on a disk of its own choosing
};

// "striping", "simple_randomized", "random_cyclic", "fully_random".
VORTEX_EXPORT std::string_view allocation_strategy_name(AllocationStrategy strategy) noexcept;

// Throws Error (EINVAL) with the names there are.
VORTEX_EXPORT AllocationStrategy parse_allocation_strategy(std::string_view name);

// Shares for disks of given speeds and free space (the largest number for one that does not tell):
// in proportion to the speeds, but no disk gets more of `total_bytes` than fits on it; what it
// cannot hold goes to the others. A disk without space gets 0. Throws Error(ENOSPC) when all of
// them together are too small. `total_bytes` 0: only full disks matter.
VORTEX_EXPORT std::vector<double> stripe_weights(const std::vector<double>& bytes_per_s,
                                                 const std::vector<std::uint64_t>& free_bytes,
                                                 std::uint64_t total_bytes);

struct StripedFileOptions {
  AllocationStrategy strategy = AllocationStrategy::kStriping;
  // One for each part: its share of the units is its weight over the sum of all. 0 leaves it out
  // for as long as another has room. Empty: all equal.
  std::vector<double> weights = {};
  std::uint64_t seed = 0;      // of the random strategies
  std::uint64_t sequence = 0;  // tells the sequences of one seed apart
  std::size_t unit_bytes = std::size_t{2}
                           << 20;  // what lies on one disk before the next one's turn
  std::uint64_t most_bytes = std::uint64_t{1} << 40;  // fewer than 2^32 - 1 units
  Caching caching = Caching::kAuto;  // kBuffered: the parts are not opened around the page cache
  bool replace = true;  // existing files give way when the writer finishes; otherwise EEXIST
};

// A sequence of bytes cut into units, each whole in one of several files on different disks. The
// strategy (BlockAllocation) says which file a unit goes to; within its file a part's units follow
// one another. A disk that turns out to be full is left out from then on, and the units that it
// refused go to the others.
//
// When the writer finishes, the parts appear in their order, and together as far as that can be:
// all are whole, synced if the writer was asked for that, and prepared before the first gets its
// name, so that a failure until then leaves all names as they were. After that, only one rename for
// each part remains. Should a rename fail (the folder is gone, or another folder has taken the
// name), or the process be killed between two, the parts in front of that one are new, and it and
// those behind are as they were; the error says how many are new. No file system renames several
// files at once: where parts of two versions must never lie beside each other, write into a new
// folder, and rename that.
//
// Make one over new files, write it through writing_layout() and read it through reading_layout(),
// with FileWriter and FileReader. It must outlive both. One writer, and then any number of readers.
class VORTEX_EXPORT StripedFile {
 public:
  struct Part {
    std::string path;
    Disk* disk = nullptr;  // null: one of its own. Must outlive the striped file
  };

  // Creates the parts. Throws Error: EINVAL for no parts, weights that do not fit them, a unit size
  // that does not suit direct I/O, too many units, or parts that cannot seek; and what creating
  // files says.
  StripedFile(const std::vector<Part>& parts, const StripedFileOptions& options);
  // Opens what was written with the same options and parts in the same order: `length` bytes.
  // Throws Error(EINVAL) when the parts are not as long as that says; a sequence for which a disk
  // was left out can only be read through the object that wrote it.
  StripedFile(const std::vector<Part>& parts, const StripedFileOptions& options,
              std::uint64_t length);
  ~StripedFile();
  StripedFile(const StripedFile&) = delete;
  StripedFile& operator=(const StripedFile&) = delete;

  std::unique_ptr<FileLayout> writing_layout();
  std::unique_ptr<FileLayout> reading_layout();

  std::uint64_t length() const noexcept;
  // Units of a part, and whether it was left out because its disk was full.
  std::uint64_t units_of(std::size_t part) const noexcept;
  bool left_out(std::size_t part) const noexcept;

 private:
  class Units;
  class Layout;
  std::unique_ptr<Units> units_;
};

}}  // namespace vortex::v0
