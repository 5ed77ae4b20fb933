// Records to sort, and the order they should come in.
#pragma once

#include <algorithm>
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
inline Lines sorted(const Lines& lines, const LineOrder& order) {
  struct Keyed {
    std::string_view key;
    const std::string* line;
  };
  std::vector<Keyed> records;
  records.reserve(lines.size());
  for (const std::string& line : lines) {
    records.push_back({order.keys ? behind_comma(line) : std::string_view(line), &line});
  }
  const bool by_bytes = order.ties == Ties::kRecordBytes && !order.unique;
  std::stable_sort(records.begin(), records.end(), [&](const Keyed& a, const Keyed& b) {
    int compared = a.key.compare(b.key);
    if (compared == 0 && by_bytes) compared = a.line->compare(*b.line);
    return order.descending ? compared > 0 : compared < 0;
  });
  if (order.unique) {
    const auto same = [](const Keyed& a, const Keyed& b) { return a.key == b.key; };
    records.erase(std::unique(records.begin(), records.end(), same), records.end());
  }
  Lines result;
  result.reserve(records.size());
  for (const Keyed& record : records) result.push_back(*record.line);
  return result;
}

inline std::string joined(const Lines& lines, char delimiter = '\n') {
  std::string text;
  for (const std::string& line : lines) (text += line) += delimiter;
  return text;
}

inline std::string prefixed(const Lines& records) {
  std::string text;
  for (const std::string& record : records) {
    const auto length = static_cast<std::uint32_t>(record.size());
    text.append(reinterpret_cast<const char*>(&length), sizeof length);
    text += record;
  }
  return text;
}

// The text of a file with these records.
inline std::string framed(const Lines& records, const RecordFraming& framing) {
  return framing.kind() == RecordFraming::Kind::kLengthPrefixed
             ? prefixed(records)
             : joined(records, framing.delimiter());
}

// Pushes all lines and takes them out again.
inline Lines pushed_through(LineSorter& sorter, const Lines& lines) {
  for (const std::string& line : lines) sorter.push(line);
  Lines found;
  for (std::string_view record; sorter.next(record);) found.emplace_back(record);
  return found;
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

inline Lines make_lines(LineKind kind, std::size_t count, std::size_t longest,
                        std::mt19937_64& random) {
  const auto some = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  const auto letters = [&](std::size_t length, unsigned alphabet) {
    std::string text(length, 'a');
    std::uint64_t word = 0;
    for (std::size_t at = 0; at < length; ++at, word >>= 8) {
      if (at % 8 == 0) word = random();  // a draw for eight of them
      const unsigned byte = word & 0xff;
      char& c = text[at];
      c = static_cast<char>(alphabet == 256 ? byte : 'a' + (byte * alphabet >> 8));
      if (c == '\n') c = '\r';
    }
    return text;
  };
  const std::string prefix = letters(longest, 3);
  Lines lines;
  for (std::size_t i = 0; i < count; ++i) {
    switch (kind) {
      case LineKind::kRandom:
        lines.push_back(letters(some(longest + 1), 256));
        break;
      case LineKind::kFewBytes:
        lines.push_back(letters(some(longest + 1), 2));
        break;
      case LineKind::kFewLines:
        lines.push_back(std::string(some(3), 'x') + prefix);
        break;
      case LineKind::kZeros:
        lines.push_back(std::string(some(longest + 1), '\0'));
        if (some(4) == 0) lines.back() += '\1';
        break;
      case LineKind::kLongPrefix:
        lines.push_back(prefix + letters(some(10), 4));
        break;
      case LineKind::kStaircase:
        lines.push_back(std::string(i * longest / count, 'a'));
        break;
      case LineKind::kNearlySorted: {
        std::string number = std::to_string(i);
        lines.push_back(std::string(12 - number.size(), '0') + number);
        if (some(50) == 0) std::swap(lines.back(), lines[some(lines.size())]);
        break;
      }
      case LineKind::kFields:
        lines.push_back(letters(some(longest + 1), 26) + "," + letters(some(4), 2));
        break;
    }
  }
  return lines;
}

}  // namespace vortex::test
