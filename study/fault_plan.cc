#include "study/fault_plan.h"

#include <cerrno>

namespace vortex { inline namespace v0 {

PlannedFault FaultAt::decide(const Attempt& attempt, std::uint64_t) noexcept {
  if (only_ && attempt.operation != *only_) return {};
  const std::uint64_t number = seen_.fetch_add(1, std::memory_order_relaxed);
  return number == number_ || (lasting_ && number > number_) ? fault_ : PlannedFault{};
}

// SplitMix64: every state gives a good number, so threads need only agree on the next state.
std::uint64_t RandomFaults::random() noexcept {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  std::uint64_t z = state_.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

PlannedFault RandomFaults::decide(const Attempt& attempt, std::uint64_t) noexcept {
  using Kind = PlannedFault::Kind;
  double lot = static_cast<double>(random() >> 11) * 0x1p-53;
  auto drawn = [&lot](double rate) {
    lot -= rate;
    return lot < 0;
  };
  if (drawn(rates_.short_transfer)) {
    return {.kind = Kind::kShort, .bytes = random() % attempt.bytes + 1};
  }
  if (drawn(rates_.interrupted)) return {.kind = Kind::kError, .error = EINTR};
  if (drawn(rates_.try_again)) return {.kind = Kind::kError, .error = EAGAIN};
  if (drawn(rates_.late)) {
    return {.kind = Kind::kLate, .overtakers = static_cast<unsigned>(random() % 7 + 1)};
  }
  if (drawn(rates_.input_output_error)) return {.kind = Kind::kError, .error = EIO};
  if (attempt.operation == Operation::kRead) return {};
  if (drawn(rates_.no_space)) return {.kind = Kind::kError, .error = ENOSPC};
  if (drawn(rates_.torn)) {
    return {.kind = Kind::kTorn, .error = EIO, .bytes = random() % attempt.bytes};
  }
  return {};
}

}}  // namespace vortex::v0
