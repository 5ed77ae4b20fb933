#include "sort/split/splitters.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

Splitters::Splitters(const RecordOrder& order, std::vector<std::byte> records,
                     std::vector<DividedKey> divided)
    : order_(order), records_(std::move(records)), divided_(std::move(divided)) {
  bits_.resize(records_.size() / order_.record_bytes());
  order_.leading_bits_of(records_.data(), bits_.size(), bits_.data());
  for (std::size_t i = 1; i < bits_.size(); ++i) {
    if (!order_.less(splitter(i), splitter(i - 1))) continue;
    throw Error(EINVAL, "splitter " + std::to_string(i) +
                            " comes before the one in front of it: sort the splitters");
  }
}

void Splitters::find(const std::byte* records, std::size_t count, std::uint32_t* parts) {
  std::array<std::uint64_t, kAtOnce> bits;
  const std::size_t bytes = order_.record_bytes();
  const bool exact = order_.leading_bits_decide();
  while (count > 0) {
    const std::size_t few = std::min(count, kAtOnce);
    order_.leading_bits_of(records, few, bits.data());
    count_splitters(bits.data(), few, parts);
    for (std::size_t i = 0; !exact && i < few; ++i) {
      if (parts[i] == 0 || bits_[parts[i] - 1] != bits[i]) continue;
      parts[i] = behind_equal(records + i * bytes, bits[i], parts[i]);
    }
    for (std::size_t i = 0; !divided_.empty() && i < few; ++i) {
      divide(records + i * bytes, bits[i], parts[i]);
    }
    records += few * bytes;
    parts += few;
    count -= few;
  }
}

// How many splitters have bits that are not greater. All records take each step of the search
// together, and no step depends on what is found by a branch: the processor is at many at once.
void Splitters::count_splitters(const std::uint64_t* bits, std::size_t count,
                                std::uint32_t* parts) const noexcept {
  std::fill_n(parts, count, 0U);
  const std::uint64_t* const splitters = bits_.data();
  for (auto length = static_cast<std::uint32_t>(bits_.size()); length > 0;) {
    const std::uint32_t half = (length + 1) / 2;
    for (std::size_t i = 0; i < count; ++i) {
      const bool behind = splitters[parts[i] + half - 1] <= bits[i];
      parts[i] += half & (0U - static_cast<std::uint32_t>(behind));
    }
    length -= half;
  }
}

// Of the splitters with these bits, the last in front of `end`: how many are not greater than the
// record, with those in front of them.
std::uint32_t Splitters::behind_equal(const std::byte* record, std::uint64_t bits,
                                      std::uint32_t end) const noexcept {
  const auto last = bits_.begin() + static_cast<std::ptrdiff_t>(end);
  auto first =
      static_cast<std::uint32_t>(std::lower_bound(bits_.begin(), last, bits) - bits_.begin());
  while (first < end) {
    const std::uint32_t middle = first + (end - first) / 2;
    if (order_.less(record, splitter(middle))) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

void Splitters::divide(const std::byte* record, std::uint64_t bits, std::uint32_t& part) noexcept {
  if (part == 0 || bits_[part - 1] != bits) return;
  const auto key = std::lower_bound(
      divided_.begin(), divided_.end(), part,
      [](const DividedKey& divided, std::size_t wanted) { return divided.last() < wanted; });
  if (key == divided_.end() || key->last() != part) return;
  if (!order_.leading_bits_decide() && order_.less(splitter(part - 1), record)) return;
  const std::uint64_t number = key->seen++;
  const auto behind = std::upper_bound(key->ends.begin(), key->ends.end(), number);
  part =
      static_cast<std::uint32_t>(key->first + static_cast<std::size_t>(behind - key->ends.begin()));
}

}}  // namespace vortex::v0
