// A disk around another one that fails on purpose.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/disk/disk.h"
#include "study/fault_plan.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// The queue is its own, and the attempts of its requests become requests to the inner disk, unless
// the plan has another fate for them. So whoever uses it meets short transfers and errors where a
// backend would report them. As thread-safe as the inner disk.
class FaultyDisk final : public Disk {
 public:
  FaultyDisk(std::unique_ptr<Disk> inner, std::shared_ptr<FaultPlan> plan);
  // Waits for the requests under way.
  ~FaultyDisk() override;

  std::uint64_t injected_faults() const noexcept {
    return injected_.load(std::memory_order_relaxed);
  }

  void interrupt() noexcept override;
  DiskStatistics statistics() const override;
  void register_memory(std::byte* begin, std::size_t bytes, std::size_t block_bytes) override;
  void unregister_memory(std::byte* begin) noexcept override;
  std::uint64_t now_ns() const noexcept override { return inner_.now_ns(); }
  void await_progress(std::uint32_t seen) noexcept override;

 private:
  // An attempt from its start to its report.
  struct Errand {
    Request request;  // to the inner disk
    Pieces pieces;
    FaultyDisk* disk = nullptr;
    Request* outer = nullptr;
    std::size_t wanted = 0;  // bytes to move
    std::size_t moved = 0;
    bool forced = false;  // what is reported when all of them have been moved:
    std::int64_t forced_result = 0;
    bool flips = false;  // a bit of this byte of what is read:
    std::size_t flipped = 0;
    unsigned overtakers = 0;  // later results that are still to be reported before this one
    std::int64_t result = 0;  // held back
  };
  struct Report {
    Request* request;
    std::int64_t result;
  };

  const char* backend() const noexcept override { return backend_.c_str(); }
  void start(Request& request) noexcept override;
  void flush() noexcept override { inner_.send(); }

  Errand& errand_for(Request& request) noexcept;
  void carry_out(Errand& errand) noexcept;
  void submit_part(Errand& errand) noexcept;
  static void part_ended(Request& request) noexcept;
  void ended(Errand& errand, std::int64_t result) noexcept;
  void report(Errand& errand, std::int64_t result) noexcept;
  void report_overtaken() noexcept;
  void report_injected(Errand& errand, std::int64_t result) noexcept;

  std::unique_ptr<Disk> own_inner_;
  Disk& inner_;
  std::shared_ptr<FaultPlan> plan_;
  std::string backend_;
  std::atomic<std::uint64_t> started_{0};
  std::atomic<std::uint64_t> injected_{0};

  FutexMutex mutex_;  // guards what follows
  std::vector<Errand> errands_;
  std::vector<Errand*> free_;
  std::vector<Errand*> held_back_;
  std::vector<Report> injected_reports_;
  bool reporting_ = false;  // a thread takes them out
  unsigned with_inner_ = 0;
};

// The disk itself where there is no plan.
std::unique_ptr<Disk> with_faults(std::unique_ptr<Disk> disk, std::shared_ptr<FaultPlan> plan);

}}  // namespace vortex::v0
