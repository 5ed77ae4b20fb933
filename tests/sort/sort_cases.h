// Sorts at random, and what they need: disks of all kinds, and what must come out.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "sort/job/sort_folders.h"
#include "study/faulty_disk.h"
#include "study/virtual_clock.h"
#include "tests/disk/test_disk.h"
#include "tests/sort/record_lists.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/record_order.h"

namespace vortex::test {

// A thread that does all, one beside it that writes runs, and teams that sort buckets and merge.
inline constexpr unsigned kThreadCounts[] = {1, 2, 7};
// The team and one of the others, by turns; all of them where tests may take long.
template <typename Random>
std::vector<unsigned> thread_counts(Random& random) {
  if (!long_tests()) return {kThreadCounts[random() % 2], kThreadCounts[2]};
  return {std::begin(kThreadCounts), std::end(kThreadCounts)};
}

// Disks for a sort, all of one kind, on one clock and with one plan of faults.
inline SortDiskFunction sort_disks(Backend backend, std::shared_ptr<FaultPlan> faults = nullptr) {
  return [backend, faults, clock = std::make_shared<VirtualClock>()](const std::string&) {
    return with_faults(open_test_disk(backend, *clock), faults);
  };
}

// The same, where only the disks of runs have faults.
inline SortDiskFunction run_disks(std::shared_ptr<FaultPlan> faults) {
  return [with = sort_disks(Backend::kThreads, std::move(faults)),
          without = sort_disks(Backend::kThreads)](const std::string& folder) {
    return folder.empty() ? without(folder) : with(folder);
  };
}

// What a disk does while it says that all went well.
struct Lie {
  const char* name;
  PlannedFault::Kind kind;
  bool in_part;  // the rest is done
  Operation operation;
};
inline constexpr Lie kLies[] = {
    {"a written bit is flipped", PlannedFault::Kind::kFlipped, true, Operation::kWrite},
    {"a bit that is read is flipped", PlannedFault::Kind::kFlipped, true, Operation::kRead},
    {"a write is torn", PlannedFault::Kind::kSilent, true, Operation::kWrite},
    {"a write is lost", PlannedFault::Kind::kSilent, false, Operation::kWrite},
    {"a read is torn", PlannedFault::Kind::kSilent, true, Operation::kRead},
    {"a read gives what was there", PlannedFault::Kind::kSilent, false, Operation::kRead},
};

// At one request of its operation.
template <typename Random>
std::shared_ptr<FaultAt> lie_at(std::uint64_t request, const Lie& lie, Random& random) {
  const std::size_t bytes = lie.in_part ? random() % (std::size_t{16} << 10) : 0;
  return std::make_shared<FaultAt>(request, PlannedFault{.kind = lie.kind, .bytes = bytes},
                                   lie.operation);
}

// Whether an error says which bytes of a run are others.
inline testing::AssertionResult finds_out(int error, const std::string& message, const Lie& lie) {
  // A file may lack its end.
  const bool is_short = error == ENODATA && lie.operation == Operation::kWrite;
  if (error != EBADMSG && !is_short) return testing::AssertionFailure() << message;
  for (const char* const part : {"a temporary file in '", "of a run) ", " at byte "}) {
    if (!contains(message, part)) return contains(message, part);
  }
  return testing::AssertionSuccess();
}

template <typename Random>
std::shared_ptr<FaultPlan> harmless_faults(Random& random) {
  return std::make_shared<RandomFaults>(
      random(), RandomFaults::Rates{
                    .short_transfer = 0.1, .interrupted = 0.05, .try_again = 0.05, .late = 0.1});
}

// Where syncing a file costs little, when there is such a place.
inline std::filesystem::path fast_folder() {
  return access("/dev/shm", W_OK) == 0 ? std::filesystem::path("/dev/shm")
                                       : std::filesystem::temp_directory_path();
}

inline void write_file(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

inline std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

inline bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Anything from 1 to 1000, and what matters more often.
template <typename Random>
std::size_t random_record_bytes(Random& random) {
  constexpr std::size_t kUsual[] = {1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 64, 100, 104, 128, 512, 1000};
  return random() % 2 == 0 ? kUsual[random() % std::size(kUsual)] : 1 + random() % 1000;
}

// Up to `most_bytes`, around borders of blocks of 16 KiB more often than not.
template <typename Random>
std::size_t random_count(std::size_t record_bytes, std::size_t most_bytes, Random& random) {
  const std::size_t most = std::max<std::size_t>(most_bytes / record_bytes, 1);
  std::size_t count = random() % (most + 1);
  if (random() % 2 == 0) {
    constexpr std::size_t kBlock = std::size_t{16} << 10;
    const std::size_t blocks = count * record_bytes / kBlock;
    count = blocks * kBlock / record_bytes + random() % 3;
    if (count > 0 && random() % 2 == 0) --count;
  }
  return std::min(count, most);
}

// The least memory, to a tenth, with which `plan(memory_bytes)` does not throw Error(ENOMEM).
template <typename Plan>
std::uint64_t least_memory(const Plan& plan) {
  for (std::uint64_t bytes = std::uint64_t{64} << 10;; bytes += bytes / 10) {
    try {
      plan(bytes);
      return bytes;
    } catch (const Error& error) {
      if (error.code().value() != ENOMEM) throw;
    }
  }
}

}  // namespace vortex::test
