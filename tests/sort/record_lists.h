// Records of bytes in many shapes, and what a stable sort makes of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "tests/array/nested_outliers.h"
#include "tests/support/same_bytes.h"
#include "vortex/record_order.h"

namespace vortex::test {

enum class Shape {
  kRandom,
  kSorted,
  kReversed,
  kEqual,
  kFewValues,
  kSkewed,
  kHugeAndRest,
  kDrifting,
  kExtremes,
  kNestedOutliers
};
inline constexpr Shape kShapes[] = {Shape::kRandom,        Shape::kSorted,    Shape::kReversed,
                                    Shape::kEqual,         Shape::kFewValues, Shape::kSkewed,
                                    Shape::kHugeAndRest,   Shape::kDrifting,  Shape::kExtremes,
                                    Shape::kNestedOutliers};

// A record for comparators.
struct KeyAndValue {
  std::uint64_t key;
  std::uint64_t value;
};

// `count` records one after the other.
struct RecordList {
  std::size_t record_bytes = 0;
  std::vector<std::byte> bytes;

  std::size_t count() const { return bytes.size() / record_bytes; }
  const std::byte* at(std::size_t index) const { return bytes.data() + index * record_bytes; }
};

// Collects what is written, in rooms of 1, 2, ... 100 records.
class RecordCollector final : public RecordOutput {
 public:
  explicit RecordCollector(std::size_t record_bytes) : list{record_bytes, {}} {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    rooms_ = rooms_ % 100 + 1;
    room_.resize(std::min(most_bytes, rooms_ * list.record_bytes));
    return room_;
  }
  void written(std::size_t bytes) override {
    list.bytes.insert(list.bytes.end(), room_.begin(),
                      room_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  void append(const std::byte* record) {
    list.bytes.insert(list.bytes.end(), record, record + list.record_bytes);
  }

  RecordList list;

 private:
  std::vector<std::byte> room_;
  std::size_t rooms_ = 0;
};

// Collects as well, in rooms of some records, and calls a function, which may throw, with the bytes
// that have been written.
class WatchedOutput final : public RecordOutput {
 public:
  using Watch = std::function<void(std::size_t done)>;
  WatchedOutput(std::size_t record_bytes, std::size_t records, Watch watch)
      : list{record_bytes, {}}, room_(record_bytes * records), watch_(std::move(watch)) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    watch_(list.bytes.size());
    return std::span(room_).first(std::min(most_bytes, room_.size()));
  }
  void written(std::size_t bytes) override {
    list.bytes.insert(list.bytes.end(), room_.begin(),
                      room_.begin() + static_cast<std::ptrdiff_t>(bytes));
    watch_(list.bytes.size());
  }

  RecordList list;

 private:
  std::vector<std::byte> room_;
  const Watch watch_;
};

template <typename Array>
std::vector<std::byte> bytes_of(const Array& array) {
  const auto bytes = std::as_bytes(std::span(array));
  return {bytes.begin(), bytes.end()};
}

// For those who keep an order that the test has.
inline std::shared_ptr<const RecordOrder> borrowed(const RecordOrder& order) {
  return {std::shared_ptr<void>(), &order};
}

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

inline RecordList stably_sorted(const RecordOrder& order, const RecordList& list) {
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

// A list of only the first of each sequence of records with equal keys in `sorted`.
inline RecordList firsts_of_equal(const RecordOrder& order, const RecordList& sorted) {
  RecordCollector firsts(sorted.record_bytes);
  for (std::size_t i = 0; i < sorted.count(); ++i) {
    if (i == 0 || order.less(sorted.at(i - 1), sorted.at(i))) firsts.append(sorted.at(i));
  }
  return firsts.list;
}

// Records that begin with a number of the shape, in big-endian order in their first bytes; the low
// bytes of the number are lost where a record is shorter. The bytes behind it are random, so that
// equal keys can be told apart.
template <typename Random>
RecordList make_records(Shape shape, std::size_t record_bytes, std::size_t count, Random& random) {
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

// Keys of many kinds for records of one size.
template <typename Random>
RecordFormat random_format(std::size_t record_bytes, Random& random) {
  const bool descending = random() % 2 == 0;
  std::vector<RecordKey> keys;
  switch (random() % 4) {
    case 0:  // the whole record
      break;
    case 1:  // decided by the leading bits
      keys.push_back({0, std::min<std::size_t>(record_bytes, 1 + random() % 8), {}, descending});
      break;
    case 2:
      keys.push_back({0, std::min<std::size_t>(record_bytes, 1 + random() % 12), {}, descending});
      keys.push_back({record_bytes - 1, 1, {}, !descending});
      break;
    case 3:  // nothing of what make_records() put there
      if (record_bytes > 8)
        keys.push_back({8, std::min<std::size_t>(record_bytes - 8, 10), {}, false});
      break;
  }
  return RecordFormat(record_bytes, keys);
}

}  // namespace vortex::test
