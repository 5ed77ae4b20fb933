// A disk of each kind, for tests that run on all of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "study/faulty_disk.h"
#include "study/paced_disk.h"
#include "study/simulated_disk.h"
#include "vortex/disk.h"

namespace vortex::test {

enum class Backend { kUring, kThreads, kVirtual, kPaced };

inline constexpr std::array kAllBackends = {Backend::kUring, Backend::kThreads, Backend::kVirtual,
                                            Backend::kPaced};

inline std::string name_of(Backend backend) {
  constexpr std::array kNames = {"Uring", "Threads", "Virtual", "Paced"};
  return kNames[static_cast<std::size_t>(backend)];
}

// Where io_uring is refused, threads serve instead, as in programs.
inline std::unique_ptr<Disk> open_test_disk(Backend backend, VirtualClock& clock) {
  if (backend == Backend::kVirtual) {
    return std::make_unique<SimulatedDisk>(clock,
                                           ServiceModel{1'000'000'000, 500'000'000, 100'000});
  }
  if (backend == Backend::kPaced) {
    return std::make_unique<PacedDisk>(ServiceModel{4'000'000'000, 4'000'000'000, 100});
  }
  DiskOptions options;
  options.backend = backend == Backend::kThreads ? DiskBackend::kThreads : DiskBackend::kBest;
  return open_disk(options);
}

// That attempt fails, or from it on all; of both operations, or of one.
inline std::shared_ptr<FaultAt> error_at(std::uint64_t number, int error,
                                         std::optional<Operation> only = {}, bool lasting = false) {
  const PlannedFault fault{.kind = PlannedFault::Kind::kError, .error = error};
  return std::make_shared<FaultAt>(number, fault, only, lasting);
}

// From write `from` on, each changes a bit.
inline std::shared_ptr<FaultPlan> damaged_writes(std::uint64_t from) {
  return std::make_shared<FaultAt>(
      from, PlannedFault{.kind = PlannedFault::Kind::kFlipped, .bytes = 12345}, Operation::kWrite,
      true);
}

// Nothing happens to the attempts, which are counted.
inline std::shared_ptr<FaultAt> counted(std::optional<Operation> only = {}) {
  return std::make_shared<FaultAt>(0, PlannedFault{}, only);
}

// An error at attempt `number` from a moment on, however many came before.
class LaterError final : public FaultPlan {
 public:
  LaterError(std::uint64_t number, int error) noexcept : number_(number), error_(error) {}
  void begin() noexcept { begun_.store(true); }
  PlannedFault decide(const Attempt& /*attempt*/, std::uint64_t /*number*/) noexcept override {
    if (!begun_.load() || seen_.fetch_add(1) != number_) return {};
    return {.kind = PlannedFault::Kind::kError, .error = error_};
  }

 private:
  const std::uint64_t number_;
  const int error_;
  std::atomic<bool> begun_{false};
  std::atomic<std::uint64_t> seen_{0};
};

inline std::uint64_t injected_faults(const Disk& disk) {
  return dynamic_cast<const FaultyDisk&>(disk).injected_faults();
}

struct TestDisk {
  explicit TestDisk(Backend backend, std::shared_ptr<FaultPlan> faults = nullptr)
      : disk(with_faults(open_test_disk(backend, clock), std::move(faults))) {}
  VirtualClock clock;
  std::unique_ptr<Disk> disk;
};

}  // namespace vortex::test
