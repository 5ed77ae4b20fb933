#include "sort/arrays/key_order.h"

#include "sort/kernels/index_sort.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Sorts pairs of a key and a place by both; they come in the order of their places.
void sort_group(std::vector<Pair64>& group) {
  constexpr std::size_t kFew = 1024;
  if (group.size() > kFew) {
    sort_pairs_64(group.data(), group.size(), true, 1);
    return;
  }
  std::sort(group.begin(), group.end(), before_by_both);
}

}  // namespace

KeySample::KeySample(const KeySource& keys, std::size_t count) noexcept
    : count_(count), size_(std::min(count, std::clamp(count / kOneOf, kLeast, kMost))) {
  take_sample(
      count, size_, [&](std::size_t place) { return keys[place]; }, keys_.data());
  sort_bits(keys_.data(), size_, nullptr);
}

KeyRange<std::uint64_t> KeySample::likely_range() const noexcept {
  const std::uint64_t least = keys_[0], greatest = keys_[size_ - 1];
  const std::uint64_t beyond = (greatest - least) / 4;
  return {least - std::min(least, beyond), saturating_sum(greatest, beyond)};
}

bool KeySample::are_doubles() const noexcept {
  constexpr unsigned kSlices = 32;
  const KeyRange<std::uint64_t> range{keys_[0], keys_[size_ - 1]};
  if (!LinearDigit<std::uint64_t>::suits(range)) return false;
  const auto by_values = LinearDigit<std::uint64_t>::of(range, kSlices);
  return by_values.factor > 0 &&
         2 * fullest_bucket(keys_.data(), size_, by_values) <
             fullest_bucket(keys_.data(), size_, ScaledDigit<std::uint64_t>::of(range, kSlices));
}

KeyWords KeySample::words_of_doubles() const noexcept {
  const KeyWords words = KeyWords::of_doubles(count_, false);
  const bool are_short =
      std::all_of(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(size_),
                  [&](std::uint64_t key) { return KeyWords::is_short(key, words.dropped()); });
  return are_short ? KeyWords::of_doubles(count_, true) : words;
}

bool KeySample::has_few_ties(const KeyWords& form) const noexcept {
  // About this many keys lie between two of the sample, each equal to another where there are fewer
  // different parts of keys than that.
  const double between = static_cast<double>(count_) / static_cast<double>(size_);
  double ties = 0;
  for (std::size_t i = 1; i < size_; ++i) {
    const auto parts =
        static_cast<double>((keys_[i] >> form.dropped()) - (keys_[i - 1] >> form.dropped()));
    ties += between >= parts ? between : between * (between / parts);
  }
  return ties < static_cast<double>(count_) / 8;
}

KeyRange<std::uint64_t> range_of(const KeySource& keys, Shares& shares) {
  using Range = KeyRange<std::uint64_t>;
  std::vector<Range> parts(shares.shares());
  shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
    Range range = Range::none();
    for_each_block(keys, begin, end, [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i) range.widen(bits[i]);
    });
    parts[share] = range;
  });
  Range all = Range::none();
  for (const Range& part : parts) all.widen(part);
  return all;
}

void settle_ties(const KeySource& keys, std::uint64_t* words, std::size_t count,
                 const KeyWords& form, std::vector<Pair64>& group) {
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i + 1;
    while (end < count && form.same_part(words[i], words[end])) ++end;
    if (end - i > 1) {
      group.clear();
      for (std::size_t at = i; at < end; ++at) {
        const std::size_t place = form.place(words[at]);
        group.push_back({keys[place], place});
      }
      sort_group(group);
      for (std::size_t at = i; at < end; ++at)
        words[at] = form.with_place(words[at], group[at - i].value);
    }
    i = end;
  }
}

}}}  // namespace vortex::v0::detail
