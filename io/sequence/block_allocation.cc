#include "io/sequence/block_allocation.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "io/sequence/seeded_random.h"
#include "vortex/error.h"
#include "vortex/os/names.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::array kNames = {
    Named{AllocationStrategy::kStriping, "striping"},
    Named{AllocationStrategy::kSimpleRandomized, "simple_randomized"},
    Named{AllocationStrategy::kRandomCyclic, "random_cyclic"},
    Named{AllocationStrategy::kFullyRandom, "fully_random"},
};

// Slots of the heaviest disk in a cycle of unequal ones.
constexpr unsigned kMaxSlotsOfADisk = 32;

// How many slots of the cycle each disk gets, in lowest terms.
std::vector<unsigned> slots_of_disks(const std::vector<double>& weights) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::vector<unsigned> slots;
  unsigned divisor = 0;
  for (const double weight : weights) {
    unsigned count = 0;
    if (weight > 0) {
      count = std::max(1U, static_cast<unsigned>(std::lround(weight / largest * kMaxSlotsOfADisk)));
    }
    slots.push_back(count);
    divisor = std::gcd(divisor, count);
  }
  for (unsigned& count : slots) count /= divisor;
  return slots;
}

// Each disk as often as its slots say, at distances as equal as possible: in every slot each disk
// gains its share, and the one that has gained most and not yet been paid is next.
std::vector<unsigned> even_cycle(const std::vector<unsigned>& slots) {
  const int length = static_cast<int>(std::accumulate(slots.begin(), slots.end(), 0U));
  std::vector<int> gained(slots.size(), 0);
  std::vector<unsigned> cycle;
  for (int slot = 0; slot < length; ++slot) {
    for (std::size_t disk = 0; disk < slots.size(); ++disk) {
      gained[disk] += static_cast<int>(slots[disk]);
    }
    const auto next = std::max_element(gained.begin(), gained.end());
    *next -= length;
    cycle.push_back(static_cast<unsigned>(next - gained.begin()));
  }
  return cycle;
}

}  // namespace

std::string_view allocation_strategy_name(AllocationStrategy strategy) noexcept {
  return name_in(kNames, strategy);
}

AllocationStrategy parse_allocation_strategy(std::string_view name) {
  return value_in(kNames, name, "allocation strategy");
}

BlockAllocation::BlockAllocation(AllocationStrategy strategy, const std::vector<double>& weights,
                                 std::uint64_t seed, std::uint64_t sequence)
    : random_(mix_bits(mix_bits(seed) ^ sequence)) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw Error(EINVAL, "the weight of a disk is " + std::to_string(weight) +
                              "; it must be finite and at least 0");
    }
    sum += weight;
  }
  if (!(sum > 0)) {
    throw Error(EINVAL, "none of " + std::to_string(weights.size()) +
                            " disks has a positive weight: no place for a block");
  }
  if (strategy == AllocationStrategy::kFullyRandom) {
    double running = 0;
    for (const double weight : weights) cumulative_.push_back(running += weight);
    return;
  }
  cycle_ = even_cycle(slots_of_disks(weights));
  SeededRandom random(random_);
  if (strategy == AllocationStrategy::kSimpleRandomized) first_slot_ = random.below(cycle_.size());
  if (strategy == AllocationStrategy::kRandomCyclic) {
    for (std::size_t last = cycle_.size() - 1; last > 0; --last) {
      std::swap(cycle_[last], cycle_[random.below(last + 1)]);
    }
  }
}

unsigned BlockAllocation::disk(std::uint64_t block) const noexcept {
  if (!cycle_.empty()) return cycle_[(first_slot_ + block) % cycle_.size()];
  SeededRandom random(random_ ^ mix_bits(block));
  const double point = random.unit() * cumulative_.back();
  // The first running sum above the point: never a disk of weight 0.
  return static_cast<unsigned>(std::upper_bound(cumulative_.begin(), cumulative_.end(), point) -
                               cumulative_.begin());
}

std::vector<double> shares_that_fit(const std::vector<double>& bytes_per_s,
                                    const std::vector<std::uint64_t>& free_bytes,
                                    std::uint64_t total_bytes) {
  std::vector<double> weights = bytes_per_s;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (free_bytes[i] == 0) weights[i] = 0;
  }
  if (total_bytes == 0) return weights;
  // Disks that would overflow get what fits, and the others share the rest, which may make others
  // overflow.
  std::vector<double> share(weights.size(), 0);
  std::vector<bool> full(weights.size(), false);
  auto left = static_cast<double>(total_bytes);
  for (bool again = true; again;) {
    again = false;
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += full[i] ? 0 : weights[i];
    if (sum <= 0) break;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i]) continue;
      share[i] = left * weights[i] / sum;
      if (share[i] > static_cast<double>(free_bytes[i])) {
        share[i] = static_cast<double>(free_bytes[i]);
        full[i] = true;
        again = true;
      }
    }
    if (again) {
      left = static_cast<double>(total_bytes);
      for (std::size_t i = 0; i < weights.size(); ++i) left -= full[i] ? share[i] : 0;
    }
  }
  return share;
}

}}  // namespace vortex::v0
