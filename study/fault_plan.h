// Faults on purpose: what a disk may do to a request besides carrying it out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "io/disk/request.h"

namespace vortex { inline namespace v0 {

// The fate of one attempt.
struct PlannedFault {
  enum class Kind : std::uint8_t {
    kNone,
    kShort,    // only the first `bytes` are moved, and so it is reported
    kError,    // nothing is moved; `error` is reported
    kTorn,     // the first `bytes` are moved, and `error` is reported
    kFlipped,  // carried out, but for a bit of byte `bytes`, or as many behind the beginning again
    kSilent,   // only whole sectors of the first `bytes` are moved, and all is reported
    kLate,     // carried out; the result is held back until `overtakers` later ones have been
               // reported, or until nothing else is under way
  };
  Kind kind = Kind::kNone;
  int error = 0;
  std::size_t bytes = 0;
  unsigned overtakers = 0;
};

// Decides the fate of every attempt of the FaultyDisks it is given to. Called by any thread,
// several at once, inside faults too: no allocation.
class FaultPlan {
 public:
  virtual ~FaultPlan() = default;
  // Attempts of a disk are numbered from 0 in the order they are issued; a resubmission counts
  // anew.
  virtual PlannedFault decide(const Attempt& attempt, std::uint64_t number) noexcept = 0;
};

// One fault at attempt `number` (and, if `lasting`, at every later one), among the attempts of one
// operation or of both.
class FaultAt final : public FaultPlan {
 public:
  FaultAt(std::uint64_t number, PlannedFault fault, std::optional<Operation> only = std::nullopt,
          bool lasting = false) noexcept
      : number_(number), fault_(fault), only_(only), lasting_(lasting) {}
  PlannedFault decide(const Attempt& attempt, std::uint64_t number) noexcept override;

  std::uint64_t attempts() const noexcept { return seen_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t number_;
  PlannedFault fault_;
  std::optional<Operation> only_;
  bool lasting_;
  std::atomic<std::uint64_t> seen_{0};
};

// Random faults with given probabilities, reproducible from the seed for one order of attempts.
class RandomFaults final : public FaultPlan {
 public:
  struct Rates {
    double short_transfer = 0;
    double interrupted = 0;  // EINTR
    double try_again = 0;    // EAGAIN
    double late = 0;         // overtaken by up to 7 others: delays and reordering
    double input_output_error = 0;
    double no_space = 0;  // ENOSPC, writes only
    double torn = 0;      // writes only, EIO
  };
  RandomFaults(std::uint64_t seed, Rates rates) noexcept : state_(seed), rates_(rates) {}
  PlannedFault decide(const Attempt& attempt, std::uint64_t number) noexcept override;

 private:
  std::uint64_t random() noexcept;

  std::atomic<std::uint64_t> state_;
  Rates rates_;
};

}}  // namespace vortex::v0
