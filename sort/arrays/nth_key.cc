#include "sort/arrays/nth_key.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/scratch.h"
#include "sort/kernels/index_sort.h"
#include "vortex/detail/radix/split.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// So few are looked at all together.
constexpr std::size_t kFew = 2048;
// The gathered keys are one of this many at most: a small sample encloses a larger part.
std::size_t room_share(std::size_t count) noexcept { return count < std::size_t{1} << 18 ? 2 : 8; }

NthKey nth_of_few(const KeySource& keys, std::size_t count, std::size_t nth) noexcept {
  std::array<std::uint64_t, kFew> bits;
  keys.read(0, count, bits.data());
  const auto end = bits.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(nth), end);
  const std::uint64_t found = bits[nth];
  const auto less =
      std::count_if(bits.begin(), end, [=](std::uint64_t key) { return key < found; });
  return {found, static_cast<std::size_t>(less)};
}

// Keys from `low` to `high`, both included.
struct Bracket {
  std::uint64_t low;
  std::uint64_t high;
};

// The sample's keys whose ranks are likely to enclose the wanted one. A frequent key is a bracket
// of its own, or lies outside.
Bracket bracket_of_sample(const KeySource& keys, std::size_t count, std::size_t nth) {
  constexpr std::size_t kLeast = 512, kMost = 8192, kOneOf = 64, kFrequent = 32;
  const std::size_t size = std::clamp(count / kOneOf, kLeast, kMost);
  std::vector<std::uint64_t> sample(size), spare(size);
  take_sample(
      count, size, [&](std::size_t place) { return keys[place]; }, sample.data());
  sort_bits(sample.data(), size, spare.data());

  const double part = static_cast<double>(nth) / static_cast<double>(count);
  const double middle = part * static_cast<double>(size);
  // Four standard deviations of the rank.
  const double reach = 4 * std::sqrt(middle * (1 - part)) + 4;
  const auto most = static_cast<double>(size - 1);
  const std::uint64_t at = sample[static_cast<std::size_t>(std::min(middle, most))];
  Bracket bracket{0, std::numeric_limits<std::uint64_t>::max()};
  if (middle > reach) bracket.low = sample[static_cast<std::size_t>(middle - reach)];
  if (middle + reach < most) bracket.high = sample[static_cast<std::size_t>(middle + reach) + 1];
  const auto is_frequent = [&](std::uint64_t key) {
    const auto [begin, end] = std::equal_range(sample.begin(), sample.end(), key);
    return static_cast<std::size_t>(end - begin) > size / kFrequent;
  };
  if (is_frequent(at)) return {at, at};
  if (is_frequent(bracket.low)) ++bracket.low;
  if (is_frequent(bracket.high)) --bracket.high;
  return bracket;
}

// What a share has found.
struct Found {
  std::size_t less = 0;
  std::size_t inside = 0;
};

Found count_equal(const KeySource& keys, std::size_t begin, std::size_t end,
                  std::uint64_t key) noexcept {
  Found found;
  for_each_block(keys, begin, end, [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
    std::size_t less = 0, equal = 0;
    for (std::size_t i = 0; i < size; ++i) {
      less += bits[i] < key ? 1 : 0;
      equal += bits[i] == key ? 1 : 0;
    }
    found.less += less;
    found.inside += equal;
  });
  return found;
}

// Room for gathered keys, which all shares fill together: in sorted arrays they come from one
// share.
struct Room {
  std::uint64_t* begin;
  std::size_t most;
  std::atomic<std::size_t> used = 0;
};

// Gathers the keys of a bracket. Where the room is full, the result is void.
Found gather_inside(const KeySource& keys, std::size_t begin, std::size_t end,
                    const Bracket& bracket, Room& room) noexcept {
  Found found;
  const std::uint64_t width = bracket.high - bracket.low;
  for_each_block(keys, begin, end, [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
    std::array<std::uint64_t, kKeyBlock + 1> gathered;
    std::size_t inside = 0, less = 0;
    for (std::size_t i = 0; i < size; ++i) {
      gathered[inside] = bits[i];
      less += bits[i] < bracket.low ? 1 : 0;
      inside += bits[i] - bracket.low <= width ? 1 : 0;
    }
    found.less += less;
    found.inside += inside;
    const std::size_t at = room.used.fetch_add(inside, std::memory_order_relaxed);
    if (at + inside <= room.most) std::copy_n(gathered.begin(), inside, room.begin + at);
  });
  return found;
}

// Nothing where the bracket does not hold the key, or too many.
std::optional<NthKey> nth_in_bracket(const KeySource& keys, std::size_t nth, const Bracket& bracket,
                                     Shares& shares) {
  const bool single = bracket.low == bracket.high;
  const std::size_t most = single ? 0 : shares.count() / room_share(shares.count());
  const Scratch<std::uint64_t> memory(most + 1);
  Room room{memory.get(), most};
  std::vector<Found> parts(shares.shares());
  shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
    parts[share] = single ? count_equal(keys, begin, end, bracket.low)
                          : gather_inside(keys, begin, end, bracket, room);
  });
  if (room.used > room.most) return std::nullopt;
  std::size_t less = 0, inside = 0;
  for (const Found& part : parts) {
    less += part.less;
    inside += part.inside;
  }
  if (nth < less || nth - less >= inside) return std::nullopt;
  if (single) return NthKey{bracket.low, less};
  Shares alone(inside, 1);
  NthKey found =
      nth_key(keys_of_numbers(room.begin, {sizeof(std::uint64_t), {}}), nth - less, alone);
  found.less += less;
  return found;
}

NthKey nth_by_bytes(const KeySource& keys, std::size_t nth, Shares& shares) {
  constexpr int kByte = 8;
  using Counts = std::array<std::size_t, std::size_t{1} << kByte>;
  std::vector<Counts> parts(shares.shares());
  NthKey found{0, 0};
  std::uint64_t known = 0;  // the bits of found.bits that are
  for (int shift = 64 - kByte; shift >= 0; shift -= kByte) {
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      Counts& counts = parts[share];
      counts.fill(0);
      for_each_block(keys, begin, end,
                     [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
                       for (std::size_t i = 0; i < size; ++i) {
                         const bool counts_here = ((bits[i] ^ found.bits) & known) == 0;
                         counts[bits[i] >> shift & 0xff] += counts_here ? 1 : 0;
                       }
                     });
    });
    std::uint64_t byte = 0;
    for (;; ++byte) {
      std::size_t sum = 0;
      for (const Counts& counts : parts) sum += counts[byte];
      if (nth - found.less < sum) break;
      found.less += sum;
    }
    found.bits |= byte << shift;
    known |= std::uint64_t{0xff} << shift;
  }
  return found;
}

}  // namespace

NthKey nth_key(const KeySource& keys, std::size_t nth, Shares& shares) {
  const std::size_t count = shares.count();
  if (count <= kFew) return nth_of_few(keys, count, nth);
  const Bracket bracket = bracket_of_sample(keys, count, nth);
  if (const auto found = nth_in_bracket(keys, nth, bracket, shares)) return *found;
  return nth_by_bytes(keys, nth, shares);
}

}}}  // namespace vortex::v0::detail
