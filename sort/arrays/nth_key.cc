#include "sort/arrays/nth_key.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/scratch.h"
#include "sort/kernels/index_sort.h"
#include "vortex/detail/radix/split.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// So few are looked at all together.
constexpr std::size_t kFew = 2048;

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

// Bytes of room: one percent of the records', with what the search among the gathered keys takes of
// its own. A MiB at least, which is kept for the next call, or else huge pages, which nobody else
// would use the rest of.
std::size_t room_for(std::size_t count, std::size_t record_bytes) noexcept {
  constexpr std::size_t kKept = std::size_t{1} << 20, kHugePage = std::size_t{2} << 20;
  constexpr std::size_t kOneOf = 102;
  const std::size_t part = std::min(saturating_product(count, record_bytes) / kOneOf, count);
  return std::min(count / 2 * sizeof(std::uint64_t),
                  part <= kKept ? kKept : round_up(part, kHugePage));
}

// The reach of a bracket, in standard deviations of a rank in the sample.
constexpr double kReach = 3;

// A large sample takes time, and after a small one many keys are gathered: the best size grows as
// the count's power of two thirds (R. W. Floyd and R. L. Rivest, "Expected time bounds for
// selection", 1975). Where there is room for fewer than are gathered then, the sample is as large
// as that takes.
std::size_t sample_size(std::size_t count, std::size_t record_bytes,
                        std::size_t room_bytes) noexcept {
  constexpr std::size_t kLeast = 512;
  constexpr double kOfTime = 0.4, kSpare = 1.17;
  const auto all = static_cast<double>(count);
  const auto room = static_cast<double>(room_bytes / std::min(record_bytes, sizeof(std::uint64_t)));
  const double root = std::cbrt(all), of_room = kSpare * kReach * all / room;
  const auto size = static_cast<std::size_t>(std::max(kOfTime * root * root, of_room * of_room));
  return std::clamp(size, kLeast, room_bytes / 2 / sizeof(std::uint64_t));
}

// Keys from `low` to `high`, both included.
struct Bracket {
  std::uint64_t low;
  std::uint64_t high;
  bool ends_alone = low == high;  // only these two are counted

  std::uint64_t width() const noexcept { return high - low; }
  // Of what is gathered of a key.
  std::size_t key_bytes() const noexcept {
    return width() <= std::numeric_limits<std::uint32_t>::max() ? 4 : 8;
  }
};

// Keys of a bracket that are counted one by one.
constexpr std::size_t kFewValues = 4096;

// Keys of `all` that are likely to enclose the one that has `part` of them in front of it, by a
// sample that is sorted. There is room for `room_bytes` of the sample's keys: where they repeat too
// often, frequent ones at its ends are counted alone, or lie outside.
Bracket bracket_in(std::span<const std::uint64_t> sample, double part, const Bracket& all,
                   double room_bytes) {
  const double middle = part * static_cast<double>(sample.size());
  const double reach = kReach * std::sqrt(middle * (1 - part)) + 4;
  const auto last = static_cast<double>(sample.size() - 1);
  const std::uint64_t at = sample[static_cast<std::size_t>(std::min(middle, last))];
  Bracket found = all;
  if (middle > reach) found.low = sample[static_cast<std::size_t>(middle - reach)];
  if (middle + reach < last) found.high = sample[static_cast<std::size_t>(middle + reach) + 1];
  if (found.width() < kFewValues) return {found.low, found.high};
  const auto inside =
      static_cast<double>(std::upper_bound(sample.begin(), sample.end(), found.high) -
                          std::lower_bound(sample.begin(), sample.end(), found.low));
  const double bytes =
      (inside + kReach * std::sqrt(inside)) * static_cast<double>(found.key_bytes());
  if (bytes <= room_bytes) return found;
  if (at == found.low || at == found.high) return {found.low, found.high, true};
  return {found.low + 1, found.high - 1};
}

// What a share has found.
struct Found {
  std::size_t less = 0;
  std::size_t inside = 0;
};

// Of each of these keys.
void count_each(const KeySource& keys, std::size_t begin, std::size_t end,
                std::span<const std::uint64_t> wanted, std::span<Found> found) noexcept {
  for_each_block(keys, begin, end, [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
    for (std::size_t key = 0; key < wanted.size(); ++key) {
      std::size_t less = 0, more = 0;
      // Borrows: vectors without a comparison of such words take twice as long to compare.
      for (std::size_t i = 0; i < size; ++i) {
        std::uint64_t difference = 0;
        less += __builtin_sub_overflow(bits[i], wanted[key], &difference) ? 1 : 0;
        more += __builtin_sub_overflow(wanted[key], bits[i], &difference) ? 1 : 0;
      }
      found[key].less += less;
      found[key].inside += size - less - more;
    }
  });
}

// Calls give(offsets, count) with how far keys in a bracket lie behind its first, a block at a
// time.
template <typename Offset, typename Give>
Found find_inside(const KeySource& keys, std::size_t begin, std::size_t end, const Bracket& bracket,
                  const Give& give) noexcept {
  Found found;
  const std::uint64_t width = bracket.width();
  for_each_block(keys, begin, end, [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
    std::array<Offset, kKeyBlock + 1> offsets;
    std::size_t inside = 0, less = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t offset = bits[i] - bracket.low;
      offsets[inside] = static_cast<Offset>(offset);
      less += bits[i] < bracket.low ? 1 : 0;
      inside += offset <= width ? 1 : 0;
    }
    found.less += less;
    found.inside += inside;
    give(offsets.data(), inside);
  });
  return found;
}

// Looks for a key in passes, each of which leaves fewer that it may be.
class NthSearch {
 public:
  NthSearch(const KeySource& keys, std::size_t nth, std::size_t record_bytes, Shares& shares,
            std::size_t room_bytes)
      : keys_(keys),
        nth_(nth),
        record_bytes_(record_bytes),
        shares_(shares),
        room_bytes_(room_bytes),
        room_(room_bytes_),
        parts_(shares.shares()),
        inside_(shares.count()) {}

  NthKey find() {
    constexpr int kPasses = 3;
    for (int pass = 0; pass < kPasses; ++pass) {
      const auto bracket = next_bracket();
      if (!bracket) break;
      if (const auto found = look_into(*bracket)) return *found;
    }
    return find_by_bytes();
  }

 private:
  // Nothing where the sample has too few of the keys that are left.
  std::optional<Bracket> next_bracket() {
    constexpr std::size_t kMost = std::size_t{1} << 24, kLeastLeft = 64;
    const std::size_t count = shares_.count(), most = room_bytes_ / sizeof(std::uint64_t);
    if (inside_ <= most) return all_;
    const std::size_t size = inside_ == count ? sample_size(count, record_bytes_, room_bytes_)
                                              : std::min(most / 2, kMost);
    auto* const sample = static_cast<std::uint64_t*>(room_.get());
    shares_.run([&](std::size_t share, std::size_t, std::size_t) {
      const std::size_t parts = parts_.size(), end = size * (share + 1) / parts;
      for (std::size_t i = size * share / parts; i < end; ++i)
        sample[i] = keys_[sample_place(i, size, count)];
    });
    const std::uint64_t* const end = std::remove_if(
        sample, sample + size, [&](std::uint64_t key) { return key - all_.low > all_.width(); });
    const auto left = static_cast<std::size_t>(end - sample);
    if (left < kLeastLeft) return std::nullopt;
    sort_bits(sample, left, sample + size);
    const auto inside = static_cast<double>(inside_);
    return bracket_in({sample, left}, static_cast<double>(nth_ - less_) / inside, all_,
                      static_cast<double>(room_bytes_) * static_cast<double>(left) / inside);
  }

  // Nothing where the bracket does not hold the key, or too many.
  std::optional<NthKey> look_into(const Bracket& bracket) {
    if (bracket.ends_alone) return count_ends(bracket);
    if (bracket.width() < kFewValues) return count_values(bracket);
    return bracket.key_bytes() == 4 ? gather<std::uint32_t>(bracket)
                                    : gather<std::uint64_t>(bracket);
  }
  std::optional<NthKey> count_ends(const Bracket& bracket) {
    const std::array<std::uint64_t, 2> ends{bracket.low, bracket.high};
    const std::span wanted(ends.data(), bracket.width() == 0 ? 1 : 2);
    std::vector<std::array<Found, 2>> found(parts_.size());
    shares_.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      std::array<Found, 2> own;
      count_each(keys_, begin, end, wanted, own);
      found[share] = own;
    });
    for (std::size_t key = 0; key < wanted.size(); ++key) {
      for (std::size_t share = 0; share < parts_.size(); ++share) parts_[share] = found[share][key];
      if (encloses({wanted[key], wanted[key]})) return NthKey{wanted[key], less_};
    }
    return std::nullopt;
  }
  std::optional<NthKey> count_values(const Bracket& bracket) {
    std::vector<std::vector<std::size_t>> counts(parts_.size());
    for (auto& of_share : counts) of_share.resize(bracket.width() + 1);
    shares_.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      std::size_t* const own = counts[share].data();
      parts_[share] = find_inside<std::uint32_t>(
          keys_, begin, end, bracket, [&](const std::uint32_t* offsets, std::size_t size) {
            for (std::size_t i = 0; i < size; ++i) ++own[offsets[i]];
          });
    });
    if (!encloses(bracket)) return std::nullopt;
    for (NthKey found{bracket.low, less_};; ++found.bits) {
      std::size_t equal = 0;
      for (const auto& of_share : counts) equal += of_share[found.bits - bracket.low];
      if (nth_ - found.less < equal) return found;
      found.less += equal;
    }
  }
  // To room that all shares fill together: in sorted arrays these keys come from one share.
  template <typename Offset>
  std::optional<NthKey> gather(const Bracket& bracket) {
    auto* const room = static_cast<Offset*>(room_.get());
    const std::size_t most = room_bytes_ / sizeof(Offset);
    std::atomic<std::size_t> used = 0;
    shares_.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      parts_[share] = find_inside<Offset>(
          keys_, begin, end, bracket, [&](const Offset* offsets, std::size_t size) {
            const std::size_t at = used.fetch_add(size, std::memory_order_relaxed);
            if (at + size <= most) std::copy_n(offsets, size, room + at);
          });
    });
    if (!encloses(bracket) || used > most) return std::nullopt;
    Shares alone(inside_, 1);
    const NthKey found =
        nth_key(keys_of_numbers(room, {sizeof(Offset), {}}), nth_ - less_, sizeof(Offset), alone);
    return NthKey{bracket.low + found.bits, less_ + found.less};
  }

  // Whether the bracket that the shares have looked into holds the key. Leaves those among which it
  // is.
  bool encloses(const Bracket& bracket) noexcept {
    Found sum;
    for (const Found& part : parts_) {
      sum.less += part.less;
      sum.inside += part.inside;
    }
    if (nth_ < sum.less) {
      all_.high = bracket.low - 1;
      inside_ = sum.less - less_;
      return false;
    }
    if (nth_ - sum.less >= sum.inside) {
      all_.low = bracket.high + 1;
      inside_ -= sum.less + sum.inside - less_;
      less_ = sum.less + sum.inside;
      return false;
    }
    all_ = bracket;
    less_ = sum.less;
    inside_ = sum.inside;
    return true;
  }

  NthKey find_by_bytes();

  const KeySource& keys_;
  const std::size_t nth_;
  const std::size_t record_bytes_;
  Shares& shares_;
  const std::size_t room_bytes_;
  const ScratchMemory room_;
  std::vector<Found> parts_;  // of the shares
  // The key is one of these, of which there are so many, and so many are less than all of them.
  Bracket all_{0, std::numeric_limits<std::uint64_t>::max()};
  std::size_t inside_;
  std::size_t less_ = 0;
};

NthKey NthSearch::find_by_bytes() {
  constexpr int kByte = 8;
  using Counts = std::array<std::size_t, std::size_t{1} << kByte>;
  std::vector<Counts> parts(shares_.shares());
  NthKey found{0, 0};
  std::uint64_t known = 0;  // the bits of found.bits that are
  for (int shift = 64 - kByte; shift >= 0; shift -= kByte) {
    shares_.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      Counts& counts = parts[share];
      counts.fill(0);
      for_each_block(keys_, begin, end,
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
      if (nth_ - found.less < sum) break;
      found.less += sum;
    }
    found.bits |= byte << shift;
    known |= std::uint64_t{0xff} << shift;
  }
  return found;
}

}  // namespace

NthKey nth_key(const KeySource& keys, std::size_t nth, std::size_t record_bytes, Shares& shares,
               std::size_t most_room) {
  const std::size_t count = shares.count();
  if (count <= kFew) return nth_of_few(keys, count, nth);
  const std::size_t room = std::min(room_for(count, record_bytes), most_room);
  return NthSearch(keys, nth, record_bytes, shares, room).find();
}

}}}  // namespace vortex::v0::detail
