#include "tests/lines/line_cases.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace vortex::test {

namespace {

// As std::string_view::compare(), whose memcmp() a sanitizer follows byte by byte.
int compare(std::string_view a, std::string_view b) {
  std::size_t at = 0;
  for (; at + 8 <= std::min(a.size(), b.size()); at += 8) {
    std::uint64_t left = 0, right = 0;
    std::memcpy(&left, a.data() + at, sizeof left);
    std::memcpy(&right, b.data() + at, sizeof right);
    if (left != right) break;
  }
  return a.substr(at, 8).compare(b.substr(at, 8));
}

std::string letters(std::size_t length, unsigned alphabet, std::mt19937_64& random) {
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
}

}  // namespace

Lines sorted(const Lines& lines, const LineOrder& order) {
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
    int compared = compare(a.key, b.key);
    if (compared == 0 && by_bytes) compared = compare(*a.line, *b.line);
    return order.descending ? compared > 0 : compared < 0;
  });
  if (order.unique) {
    const auto same = [](const Keyed& a, const Keyed& b) { return compare(a.key, b.key) == 0; };
    records.erase(std::unique(records.begin(), records.end(), same), records.end());
  }
  Lines result;
  result.reserve(records.size());
  for (const Keyed& record : records) result.push_back(*record.line);
  return result;
}

std::string joined(const Lines& lines, char delimiter) {
  std::string text;
  for (const std::string& line : lines) (text += line) += delimiter;
  return text;
}

std::string prefixed(const Lines& records) {
  std::string text;
  for (const std::string& record : records) {
    const auto length = static_cast<std::uint32_t>(record.size());
    text.append(reinterpret_cast<const char*>(&length), sizeof length);
    text += record;
  }
  return text;
}

std::string framed(const Lines& records, const RecordFraming& framing) {
  return framing.kind() == RecordFraming::Kind::kLengthPrefixed
             ? prefixed(records)
             : joined(records, framing.delimiter());
}

Lines make_lines(LineKind kind, std::size_t count, std::size_t longest, std::mt19937_64& random) {
  const auto some = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  const std::string prefix = letters(longest, 3, random);
  Lines lines;
  for (std::size_t i = 0; i < count; ++i) {
    switch (kind) {
      case LineKind::kRandom:
        lines.push_back(letters(some(longest + 1), 256, random));
        break;
      case LineKind::kFewBytes:
        lines.push_back(letters(some(longest + 1), 2, random));
        break;
      case LineKind::kFewLines:
        lines.push_back(std::string(some(3), 'x') + prefix);
        break;
      case LineKind::kZeros:
        lines.push_back(std::string(some(longest + 1), '\0'));
        if (some(4) == 0) lines.back() += '\1';
        break;
      case LineKind::kLongPrefix:
        lines.push_back(prefix + letters(some(10), 4, random));
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
        lines.push_back(letters(some(longest + 1), 26, random) + "," + letters(some(4), 2, random));
        break;
    }
  }
  return lines;
}

}  // namespace vortex::test
