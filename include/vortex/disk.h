// Disks: the queues of requests through which files are read and written.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>

namespace vortex::inline v0 {

// A queue of requests and the backend that carries them out. A program makes one to share it
// between files, or to choose its backend and depth, and passes it on; nothing else can be done
// with it.
class Disk;

}  // namespace vortex::inline v0

// A disk that open_disk() made waits for its requests when it is destroyed.
template <>
struct std::default_delete<vortex::Disk> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::Disk*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  void operator()(vortex::Disk* disk) const noexcept;
};

namespace vortex::inline v0 {

class FaultPlan;

// Which of the waiting requests is issued next.
enum class QueuePolicy : std::uint8_t {
  kWritesFirst,  // SPAA paper, section 3: a write frees memory, which is what readers wait for
  kReadsFirst,
  kArrival,
};

struct DiskOptions {
  std::string name = "disk";
  unsigned depth = 0;  // requests issued at once; 0: what the backend does best with
  QueuePolicy policy = QueuePolicy::kWritesFirst;
  std::shared_ptr<FaultPlan> faults = nullptr;  // faults on purpose
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
  std::uint64_t injected_faults = 0;
  std::uint64_t waits = 0;  // calls of wait() that found the request under way
  std::uint64_t waited_ns = 0;
  std::uint64_t late = 0;  // simulated disks: requests that took longer than the model says
  unsigned peak_in_flight = 0;
};

enum class DiskBackend : std::uint8_t {
  kBest,  // io_uring, or threads where it is refused
  kUring,
  kThreads,
};

struct OpenDiskOptions : DiskOptions {
  DiskBackend backend = DiskBackend::kBest;
};

// With kBest, a refusal of io_uring is no error: the statistics of the disk say why it is served by
// threads. Throws Error when the backend that was asked for cannot be had.
std::unique_ptr<Disk> open_disk(const OpenDiskOptions& options = {});

}  // namespace vortex::inline v0
