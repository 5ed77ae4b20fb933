// Records of bytes in many shapes, and what a stable sort makes of them; these are compiled by
// themselves, without sanitizers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "sort/record/record_output.h"
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

RecordList stably_sorted(const RecordOrder& order, const RecordList& list);

// A list of only the first of each sequence of records with equal keys in `sorted`.
RecordList firsts_of_equal(const RecordOrder& order, const RecordList& sorted);

// Records that begin with a number of the shape, in big-endian order in their first bytes; the low
// bytes of the number are lost where a record is shorter. The bytes behind it are random, so that
// equal keys can be told apart.
RecordList make_records(Shape shape, std::size_t record_bytes, std::size_t count,
                        std::mt19937_64& random);

// What numbers of eight bytes, as this machine writes them, add up to, and whether none is less
// than the one before.
struct NumbersSeen {
  std::uint64_t sum = 0;
  bool sorted = true;
};
NumbersSeen numbers_in(std::span<const std::byte> bytes);

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
