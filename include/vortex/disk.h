// Disks: the queues of requests through which files are read and written, how fast they are, and
// one sequence over several of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A queue of requests and the backend that carries them out. A program makes one to share it
// between files, or to choose its backend and depth, and passes it on; nothing else can be done
// with it.
class Disk;

// Which bytes lie in which file and at which place of it: one file, or several on several disks.
// Readers and writers take one; see StripedFile.
class FileLayout;

}}  // namespace vortex::v0

// A disk that open_disk() made waits for its requests when it is destroyed.
template <>
struct std::default_delete<vortex::Disk> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::Disk*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  VORTEX_EXPORT void operator()(vortex::Disk* disk) const noexcept;
};
template <>
struct std::default_delete<vortex::FileLayout> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::FileLayout*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  VORTEX_EXPORT void operator()(vortex::FileLayout* layout) const noexcept;
};

namespace vortex { inline namespace v0 {

// How a file is read or written.
enum class Caching : std::uint8_t {
  kAuto,  // reading: each request through the page cache if it holds the data, around it otherwise;
          // writing: around it
  kDirect,    // around the page cache; through it only where the file system refuses that
  kBuffered,  // through the page cache
};

// Where an output has the name of a file that exists, a new file takes that name when the output is
// whole: nobody ever sees a part of it, and the old file's hard links keep the old contents. Or the
// contents of the file are replaced then: it keeps its hard links, owner and place, and may lie in
// a folder that takes no new file, or be mounted. The new contents wait in a folder of runs, and an
// error while they are copied leaves a part of them, which the error says.
enum class InPlace : std::uint8_t {
  kNever,
  kWhereNeeded,  // where no new file can take the name
  kAlways,
};

enum class DiskBackend : std::uint8_t {
  kBest,  // io_uring, or threads where it is refused
  kUring,
  kThreads,
};

struct DiskOptions {
  std::string name = "disk";
  unsigned depth = 0;  // requests issued at once, at most 4096; 0: what the backend does best with
  DiskBackend backend = DiskBackend::kBest;
};

struct DiskStatistics {
  std::string backend;
  std::string fallback;  // why a better backend is not used; empty when the best one is
  std::string
      registration;         // how the memory of the blocks is known to the kernel, or why it is not
  std::uint64_t reads = 0;  // requests that ended, and their bytes
  std::uint64_t writes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t failures = 0;        // requests that ended with an error
  std::uint64_t attempts = 0;        // system calls or submissions
  std::uint64_t fixed_attempts = 0;  // of those, with registered memory
  std::uint64_t retries = 0;         // after EINTR or EAGAIN
  std::uint64_t short_transfers = 0;
  std::uint64_t waits = 0;  // calls of wait() that found the request under way
  std::uint64_t waited_ns = 0;
  unsigned peak_in_flight = 0;
};

// The requests that read a file, or those that write it.
struct TransferStatistics {
  std::uint64_t requests = 0;
  std::uint64_t cached_requests = 0;  // of those, through the page cache
  std::uint64_t bytes = 0;
  std::uint64_t waits = 0;  // for a block that was not there yet, or whose room was being written
  std::uint64_t waited_ns = 0;
};

// In any order only.
struct AnyOrderStatistics {
  std::uint64_t cursors = 0;       // walks noticed so far
  std::uint64_t reread_bytes = 0;  // read once more, since the block had been dropped
  std::uint64_t drops = 0;         // blocks dropped that had been touched
  std::uint64_t unused = 0;        // blocks read ahead and dropped untouched
};

// What a reader, a writer or an array of a file counts.
struct FileStatistics {
  TransferStatistics source;  // of what was read
  TransferStatistics sink;    // of what was written
  AnyOrderStatistics any_order;
  std::vector<DiskStatistics> disks;
  std::string direct;  // "direct I/O", or why not
  std::size_t pool_bytes = 0;
  // A remedy when more than a quarter of all bytes had been read before, and more than
  // the memory holds; empty otherwise.
  std::string advice;
};

// With kBest, a refusal of io_uring is no error: the statistics of the disk say why it is served by
// threads. Throws Error when the backend that was asked for cannot be had, and EINVAL for a depth
// beyond its limit.
VORTEX_EXPORT std::unique_ptr<Disk> open_disk(const DiskOptions& options = {});

// In bytes a second, never 0.
struct VORTEX_EXPORT DiskSpeed {
  double read = 0;
  double write = 0;
  // The speed of reading while as many bytes are written at the same time. A full-duplex disk comes
  // near the smaller of the two speeds above, a half-duplex one only half as far.
  double copy = 0;

  // The least time in which the disk can read and write these bytes, in any order.
  double seconds(std::uint64_t read_bytes, std::uint64_t written_bytes) const noexcept;
};

struct DiskSpeedOptions {
  std::uint64_t bytes = std::uint64_t{256} << 20;  // of each of the two files, at most
  // Writing, reading and copying each end early after so long, once the requests under way have
  // ended. A disk that is slow is measured with less data.
  std::uint64_t most_ns = 500'000'000;
  std::size_t request_bytes = std::size_t{1} << 20;  // a multiple of 4096
  unsigned depth = 4;                          // requests under way, of each kind, at most 4096
  std::function<std::uint64_t()> now_ns = {};  // the disk's clock; none: the machine's
};

// Writes a temporary file in the folder, reads it, and copies it to another one: around the page
// cache where the file system can, synced, the room allocated before. Takes up to three times
// `most_ns`, and the time of `depth` requests each.
//
// Blocks; allocates 2 * depth * request_bytes of memory. Throws Error: ENOSPC, and whatever the
// folder or the disk reports. The files have no names and are gone afterwards in any case.
VORTEX_EXPORT DiskSpeed measure_disk_speed(Disk& disk, const std::string& folder,
                                           const DiskSpeedOptions& options = {});

// What each request costs a disk beside the time for its bytes, in bytes that it could have moved
// meanwhile: near 0 where any place is as good as another, megabytes where an arm goes there.
//
// Writes a temporary file of options.bytes, then reads small parts of it at places far apart, and
// then parts of options.request_bytes, each for at most options.most_ns. A file that the cache of
// the disk holds whole shows no arm: the larger it is, the better. Blocks, allocates and throws as
// measure_disk_speed() does. 0 where so little was written in the time that there is that nothing
// can be told.
VORTEX_EXPORT double measure_request_cost(Disk& disk, const std::string& folder,
                                          const DiskSpeedOptions& options = {});

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
// strategy says which file a unit goes to; within its file a part's units follow
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
