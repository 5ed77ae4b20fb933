// Many files read together, each at a rate of its own, or by deadlines, out of one fixed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vortex/disk.h"
#include "vortex/sort_resources.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class ReaderGroup;

// A disk that readers read from, and what it is able to do: see measure_disk_speed() and
// measure_request_cost().
struct TimedDisk {
  Disk* disk = nullptr;         // must outlive the readers
  double read_bytes_per_s = 0;  // 0: not known, and no reader is refused for it
  double request_cost_bytes = 0;
};

struct TimedReadersOptions {
  std::vector<TimedDisk> disks;
  // Memory for blocks, never more: a block for each reader, a request for each disk, and one more,
  // at least. Little is waited for with a request for each reader.
  std::size_t memory_bytes = std::size_t{64} << 20;
  // What a reader shows at a time and gives back; see BlockPoolOptions.
  std::size_t block_bytes = std::size_t{32} << 10;
  std::size_t request_bytes = std::size_t{512} << 10;  // up to 32 blocks
  // The policy of merges that reads ahead: kOptimal, kAsynchronousForecastAndFlush or kNaive. The
  // others keep disks waiting for each other.
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  // Of what a disk reads in requests of that size, each at a place of its own, the part that
  // readers may ask for together.
  double most_load = 0.9;
  Caching caching = Caching::kAuto;
  std::function<std::uint64_t()> now_ns = {};  // the clock; none: the machine's, monotonic
};

struct TimedReaderOptions {
  // The part of the file, in bytes; what lies behind the end of the file is left out.
  std::uint64_t begin = 0;
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  // How fast it is read. 0: not known. The speed at which blocks are taken tells then, and nothing
  // is promised for it.
  double bytes_per_s = 0;
  // When the byte at an offset of the file is needed, in nanoseconds from any time on, never
  // falling: the rate changes as is known before. The rate above is what the disks promise. Called
  // with locks held: it calls no reader, does not throw, and lives as long as the reader.
  std::function<std::uint64_t(std::uint64_t offset)> due_ns = {};
  Disk* disk = nullptr;  // one of the group's, for a file; null: the first
};

struct TimedReaderStatistics {
  std::uint64_t blocks = 0;     // taken
  std::uint64_t late = 0;       // requests that had not ended when their first block was asked
                                // for, but for the first one
  std::uint64_t waited_ns = 0;  // for these
};

struct TimedReadersStatistics {
  std::uint64_t reads = 0;    // requests
  std::uint64_t flushed = 0;  // of those, dropped for blocks that were needed earlier
  std::uint64_t plans = 0;    // how often the order of reading was made
  std::size_t blocks = 0;     // of memory
  std::size_t peak_blocks = 0;
  std::vector<double> carried;   // by each disk, bytes a second
  std::vector<double> promised;  // of those, to the readers that there are
};

// One file, or part of one, of a group. Each block of it is there when it is asked for, as long as
// the disks and the memory allow that. A handle that can be moved; it keeps the memory of the
// group, but not its disks. One thread at a time uses a reader; different readers may be used by
// different threads at once.
class VORTEX_EXPORT TimedReader {
 public:
  // None of a group: it can only be destroyed or assigned to, as one that was moved from.
  TimedReader() noexcept;
  TimedReader(TimedReader&& other) noexcept;
  TimedReader& operator=(TimedReader&& other) noexcept;
  // Leaves the group, wherever it stands: its memory and what it was promised are the others'.
  // Waits for the reads under way for it.
  ~TimedReader();

  // The bytes from offset() on, to the end of their block or of the part; empty at its end. They
  // lie where the disk put them, and stay until the next call or the end of the reader, by which
  // the block is given back.
  //
  // Blocks while they are not there, which is a late block. Now and then it makes a new order of
  // reading, for which it allocates some bytes for each block of the memory.
  //
  // Throws Error, with the name of the file and the offset: what a disk said, or ENODATA where the
  // file has become shorter. So it does at that place ever after, and the other readers go on.
  // After Error(ENOMEM), where the system refuses memory for a block, and after std::bad_alloc the
  // call may be repeated.
  std::span<const std::byte> next();
  // Whether next() would return, or throw, at once; begins to read what is needed, and does not
  // block. For threads that serve many readers.
  bool ready();
  // Of the file, in bytes: of what next() returns.
  std::uint64_t offset() const noexcept;

  // From now on the rate is another one, in bytes a second, or 0 and observed; deadlines are no
  // longer asked for. Blocks that disks were told to read come first. Throws Error(EBUSY), with the
  // numbers, where the disks do not carry it, and nothing has changed.
  void set_rate(double bytes_per_s);
  // What is known of it: given, or observed; 0 until two blocks were taken.
  double rate() const noexcept;

  TimedReaderStatistics statistics() const noexcept;

 private:
  friend class TimedReaders;
  TimedReader(std::shared_ptr<ReaderGroup> group, std::uint32_t number) noexcept;

  std::shared_ptr<ReaderGroup> group_;
  std::uint32_t number_ = 0;
};

// Readers of many files at uneven rates: what Barve and Vitter (section 6.2) see in a video server.
// The times at which blocks are needed take the place of a merge's forecasting keys. They give the
// order of need, earliest deadline first, and the policies of merges (forecast and flush, optimal
// prefetching) read ahead in it, with one memory for all. Rates and deadlines are estimates: what
// is late is read first, and the order is made anew from where the readers are.
//
//   vortex::TimedReaders group({.disks = {{disk.get(), 500e6, 50e3}}, .memory_bytes = 100 << 20});
//   vortex::TimedReader film = group.open("film", {.bytes_per_s = 5e6});
//   group.fill();
//   for (auto bytes = film.next(); !bytes.empty(); bytes = film.next()) show(bytes);
//
// A reader shows a block at a time, not an array: nothing is copied or moved to an address, no
// page fault waits for a disk, and an error is an exception.
//
// Calls are thread-safe. A disk is told of reads when readers take and give back blocks, or ask
// whether they are there.
class VORTEX_EXPORT TimedReaders {
 public:
  // Allocates the memory, which is acquired as it is first used. Throws Error: EINVAL for no disks
  // and for null, for sizes that are out of range, and for other policies; ENOMEM.
  explicit TimedReaders(const TimedReadersOptions& options);
  TimedReaders(const TimedReaders&) = delete;
  TimedReaders& operator=(const TimedReaders&) = delete;
  ~TimedReaders();

  // A reader more. Throws Error, with the group as it was: EBUSY where its rate is more than its
  // disks have left, ENOBUFS where the memory is for fewer readers, both with the numbers and a way
  // out; EINVAL for a disk that is not the group's, rates below 0, and striped files whose units
  // are not of request_bytes; ESPIPE for what cannot be read at offsets; and what opening the file
  // says.
  TimedReader open(const std::string& path, const TimedReaderOptions& options = {});
  // A file that is striped over disks of the group; `disk` of the options is not used.
  TimedReader open(std::unique_ptr<FileLayout> layout, const TimedReaderOptions& options = {});

  // Blocks until the memory is full, or holds all that there is: a good time to begin.
  void fill();

  TimedReadersStatistics statistics() const;

 private:
  friend class TimedReader;
  const std::shared_ptr<ReaderGroup> group_;
};

}}  // namespace vortex::v0
