#include "vortex/detail/radix/split_plan.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <string>

#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace detail {

std::vector<int> plan_splits(int bits, int most_bits) {
  if (bits <= 0) return {};
  if (most_bits <= 0) {
    throw Error(EINVAL, "a level of " + std::to_string(most_bits) + " bits splits nothing");
  }
  const int depth = (bits + most_bits - 1) / most_bits;
  std::vector<int> splits(static_cast<std::size_t>(depth), bits / depth);
  for (int i = 0; i < bits % depth; ++i) ++splits[static_cast<std::size_t>(i)];
  return splits;
}

std::vector<int> plan_splits(int bits, std::span<const double> speeds) {
  if (bits <= 0) return {};
  struct Best {
    double cost = std::numeric_limits<double>::infinity();
    int levels = 0;
    int last = 0;
  };
  // best[sum]: the cheapest way to split `sum` bits.
  std::vector<Best> best(static_cast<std::size_t>(bits) + 1);
  best[0].cost = 0;
  for (int sum = 1; sum <= bits; ++sum) {
    Best& here = best[static_cast<std::size_t>(sum)];
    for (int b = 1; b <= std::min(sum, static_cast<int>(speeds.size()) - 1); ++b) {
      const double speed = speeds[static_cast<std::size_t>(b)];
      const Best& rest = best[static_cast<std::size_t>(sum - b)];
      if (speed <= 0) continue;
      const double cost = rest.cost + 1 / speed;
      if (cost < here.cost || (cost == here.cost && rest.levels + 1 < here.levels)) {
        here = {cost, rest.levels + 1, b};
      }
    }
  }
  std::vector<int> splits;
  for (int sum = bits; sum > 0; sum -= splits.back()) {
    const Best& here = best[static_cast<std::size_t>(sum)];
    if (here.last == 0) {
      throw Error(EINVAL,
                  "no sequence of the given splits makes " + std::to_string(bits) + " bits");
    }
    splits.push_back(here.last);
  }
  std::sort(splits.begin(), splits.end(), std::greater<>());
  return splits;
}

SplitSteps::SplitSteps() noexcept {
  for (std::size_t bits = 1; bits < first_.size(); ++bits) {
    const std::size_t depth = (bits + 7) / 8;
    first_[bits] = static_cast<std::uint8_t>((bits + depth - 1) / depth);
  }
}

SplitSteps::SplitSteps(std::span<const double> speeds) {
  const auto usable = speeds.first(std::min<std::size_t>(speeds.size(), 9));
  if (std::none_of(usable.begin() + !usable.empty(), usable.end(),
                   [](double speed) { return speed > 0; })) {
    throw Error(EINVAL, "the speeds of splits name none of 1 to 8 bits");
  }
  int first = 0;
  for (int bits = static_cast<int>(first_.size()) + 7; bits > 0; --bits) {
    try {
      first = plan_splits(bits, usable).front();
    } catch (const Error&) {
      // The plan of the next sum splits finer than needed.
    }
    const auto index = static_cast<std::size_t>(bits);
    if (index < first_.size()) first_[index] = static_cast<std::uint8_t>(first);
  }
}

int most_split_bits(std::uint64_t bytes, int levels, int address_bits) noexcept {
  const std::uint64_t space = std::uint64_t{1} << address_bits;
  for (int bits = 8; bits > 0; --bits) {
    const std::uint64_t rooms = (std::uint64_t{1} << bits) * static_cast<std::uint64_t>(levels) + 2;
    if (bytes <= space / rooms) return bits;
  }
  return 0;
}

}}}  // namespace vortex::v0::detail
