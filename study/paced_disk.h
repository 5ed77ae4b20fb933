// A disk of exact speed in real time, for benchmarks that want several equal disks, or unequal
// ones.
#pragma once

#include <atomic>
#include <cstdint>

#include "io/disk/disk.h"
#include "study/service_clock.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 {

// Serves one request at a time as SimulatedDisk does, but in real time: a thread moves the bytes
// with plain system calls, best on files in memory, and reports the result when the service model
// says that the disk is done. A request whose bytes took longer than that to move is late: with any
// of those, the machine was measured and not the model.
class PacedDisk final : public Disk {
 public:
  // Counts late requests in `late`, which several disks may share and which must outlive them;
  // null: nobody asks. Throws Error(EAGAIN) when the system refuses a thread.
  explicit PacedDisk(ServiceModel model, DiskOptions options = {},
                     std::atomic<std::uint64_t>* late = nullptr);
  // Waits for the requests under way.
  ~PacedDisk() override;

 private:
  const char* backend() const noexcept override { return "simulated (real time)"; }
  void start(Request& request) noexcept override;
  void serve() noexcept;

  ServiceClock service_;
  std::atomic<std::uint64_t>* const late_;
  FutexMutex mutex_;
  RequestQueue started_;
  FutexSemaphore started_count_;
  MaskedThread thread_;
};

}}  // namespace vortex::v0
