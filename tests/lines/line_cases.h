// Records to sort, and the order they should come in. What makes them is compiled by itself,
// without sanitizers: it would take longer than what is tested.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vortex/line_sort.h"

namespace vortex::test {

using Lines = std::vector<std::string>;

// The key of a record is what stands behind its first comma, or nothing.
inline std::string_view behind_comma(std::string_view record) {
  const std::size_t comma = record.find(',');
  return comma == record.npos ? std::string_view() : record.substr(comma + 1);
}

class KeysBehindComma final : public RecordKeys {
 public:
  // Keys may be shortened to a few bytes.
  explicit KeysBehindComma(std::size_t most_bytes = std::string_view::npos)
      : most_bytes_(most_bytes) {}

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      keys.append(behind_comma(record).substr(0, most_bytes_));
      keys.end_key();
    }
  }
  bool shortened() const noexcept override { return most_bytes_ != std::string_view::npos; }
  void append_whole(std::string_view record, std::string& key) const override {
    key += behind_comma(record);
  }

 private:
  const std::size_t most_bytes_;
};

// The keys of any number of threads at a time.
class ManyKeys : public RecordKeys {
 public:
  explicit ManyKeys(std::shared_ptr<const RecordKeys> keys) : keys_(std::move(keys)) {}
  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    keys_->append(records, keys);
  }
  bool appended_by_any_thread() const noexcept override { return true; }
  bool shortened() const noexcept override { return keys_->shortened(); }
  void append_whole(std::string_view record, std::string& key) const override {
    keys_->append_whole(record, key);
  }

 private:
  const std::shared_ptr<const RecordKeys> keys_;
};

// Whole keys, or keys that are shortened to a few bytes.
inline std::shared_ptr<const RecordKeys> some_keys(std::mt19937_64& random) {
  constexpr std::size_t kMostBytes[] = {
      0, 1, 2, 20, std::string_view::npos, std::string_view::npos};
  return std::make_shared<KeysBehindComma>(kMostBytes[random() % std::size(kMostBytes)]);
}

inline LineOrder random_order(std::mt19937_64& random, bool with_keys) {
  LineOrder order;
  if (with_keys) order.keys = some_keys(random);
  order.descending = random() % 2 == 0;
  order.unique = random() % 4 == 0;
  order.ties = random() % 2 == 0 ? Ties::kInputOrder : Ties::kRecordBytes;
  return order;
}
inline LineOrder random_order(std::mt19937_64& random) {
  return random_order(random, random() % 2 == 0);
}

// The order by std::stable_sort, of keys that are found once.
Lines sorted(const Lines& lines, const LineOrder& order);

std::string joined(const Lines& lines, char delimiter = '\n');
std::string prefixed(const Lines& records);
// The text of a file with these records.
std::string framed(const Lines& records, const RecordFraming& framing);

// Pushes all lines and takes them out again.
inline Lines given_by(LineSorter& sorter) {
  Lines given;
  for (std::string_view record; sorter.next(record);) given.emplace_back(record);
  return given;
}

inline Lines pushed_through(LineSorter& sorter, const Lines& lines) {
  for (const std::string& line : lines) sorter.push(line);
  return given_by(sorter);
}

inline Lines sorted_in_memory(const Lines& lines, const LineOrder& order, unsigned threads = 0) {
  std::vector<std::string_view> views(lines.begin(), lines.end());
  views.resize(sort_lines_in_memory(views, order, threads));
  return {views.begin(), views.end()};
}

// The kinds of lines; none has a newline in it.
enum class LineKind {
  kRandom,      // all bytes
  kFewBytes,    // two letters, so that there are long common prefixes and equal lines
  kFewLines,    // most are equal
  kZeros,       // NUL bytes, of different lengths
  kLongPrefix,  // behind a common prefix
  kStaircase,   // each a prefix of the next
  kNearlySorted,
  kFields,  // with commas, of few keys
};
inline constexpr LineKind kAllLineKinds[] = {
    LineKind::kRandom,     LineKind::kFewBytes,  LineKind::kFewLines,     LineKind::kZeros,
    LineKind::kLongPrefix, LineKind::kStaircase, LineKind::kNearlySorted, LineKind::kFields};

Lines make_lines(LineKind kind, std::size_t count, std::size_t longest, std::mt19937_64& random);

}  // namespace vortex::test
