#include "tests/sort/record_lists.h"

#include <algorithm>
#include <cstring>

#include "sort/record/format_order.h"
#include "tests/array/nested_outliers.h"

namespace vortex::test {

namespace {

// Eight bytes, or fewer, of the key that decides first, as a number with their order: found without
// the library, and once for each record.
class LeadingNumber {
 public:
  explicit LeadingNumber(const RecordFormat& format)
      : key_(format.keys().empty() ? RecordKey{0, format.record_bytes(), {}, false}
                                   : format.keys().front()),
        alone_(format.keys().size() <= 1 && key_.length <= 8) {}

  bool decides_alone() const { return alone_; }
  std::uint64_t operator()(const std::byte* record) const {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    const KeyKind kind = key_.type.kind;
    const bool backwards =
        kind != KeyKind::kBytes && key_.type.byte_order == ByteOrder::kLittleEndian;
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(key_.length, 8); ++i) {
      const std::size_t at = backwards ? key_.length - 1 - i : i;
      number |= std::to_integer<std::uint64_t>(record[key_.offset + at]) << (56 - 8 * i);
    }
    if (kind == KeyKind::kSigned || kind == KeyKind::kFloat) {
      number = kind == KeyKind::kFloat && (number & kSign) != 0 ? ~number : number ^ kSign;
    }
    return key_.descending ? ~number : number;
  }

 private:
  const RecordKey key_;
  const bool alone_;
};

}  // namespace

RecordList stably_sorted(const RecordOrder& order, const RecordList& list) {
  struct Place {
    std::uint64_t number;
    const std::byte* record;
  };
  std::vector<Place> places(list.count());
  const auto* const by_format = dynamic_cast<const FormatOrder*>(&order);
  const LeadingNumber number_of(by_format != nullptr ? by_format->format() : RecordFormat(1));
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = {by_format != nullptr ? number_of(list.at(i)) : 0, list.at(i)};
  }
  const bool alone = by_format != nullptr && number_of.decides_alone();
  std::stable_sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
    return a.number != b.number ? a.number < b.number : !alone && order.less(a.record, b.record);
  });
  RecordList sorted{list.record_bytes, std::vector<std::byte>(list.bytes.size())};
  std::byte* to = sorted.bytes.data();
  for (const Place& place : places) {
    std::memcpy(to, place.record, list.record_bytes);
    to += list.record_bytes;
  }
  return sorted;
}

RecordList firsts_of_equal(const RecordOrder& order, const RecordList& sorted) {
  RecordCollector firsts(sorted.record_bytes);
  for (std::size_t i = 0; i < sorted.count(); ++i) {
    if (i == 0 || order.less(sorted.at(i - 1), sorted.at(i))) firsts.append(sorted.at(i));
  }
  return firsts.list;
}

RecordList make_records(Shape shape, std::size_t record_bytes, std::size_t count,
                        std::mt19937_64& random) {
  RecordList list{record_bytes, std::vector<std::byte>(record_bytes * count)};
  for (std::size_t at = 0; at < list.bytes.size(); at += 8) {
    const std::uint64_t eight = random();
    std::memcpy(list.bytes.data() + at, &eight, std::min<std::size_t>(8, list.bytes.size() - at));
  }
  const std::uint64_t step = count == 0 ? 0 : ~std::uint64_t{0} / count;
  const std::uint64_t constant = random();
  std::vector<std::uint64_t> nested;
  if (shape == Shape::kNestedOutliers) {
    nested = random() % 2 == 0 ? nested_keys<std::uint64_t>(outliers_at_every_byte<std::uint64_t>(),
                                                            count, random)
                               : nested_keys<std::uint64_t>(random_nesting(random), count, random);
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t number = random();
    switch (shape) {
      case Shape::kRandom:
        break;
      case Shape::kSorted:
        number = i * step;
        break;
      case Shape::kReversed:
        number = (count - i) * step;
        break;
      case Shape::kEqual:
        number = constant;
        break;
      case Shape::kFewValues:
        number = (number % 5) << 61;
        break;
      case Shape::kSkewed:
        number >>= number % 64;
        break;
      case Shape::kHugeAndRest:
        if (number % 16 != 0) number = constant;
        break;
      case Shape::kDrifting:
        number = i * step + number % 64 * step;
        break;
      case Shape::kExtremes:
        number = number % 2 == 0 ? 0 : ~std::uint64_t{0};
        break;
      case Shape::kNestedOutliers:
        number = nested[i];
        break;
    }
    for (std::size_t at = 0; at < std::min<std::size_t>(8, record_bytes); ++at) {
      list.bytes[i * record_bytes + at] = static_cast<std::byte>(number >> (56 - 8 * at));
    }
  }
  return list;
}

NumbersSeen numbers_in(std::span<const std::byte> bytes) {
  NumbersSeen seen;
  std::uint64_t last = 0;
  for (std::size_t at = 0; at + sizeof last <= bytes.size(); at += sizeof last) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    seen.sorted &= last <= number;
    seen.sum += last = number;
  }
  return seen;
}

}  // namespace vortex::test
