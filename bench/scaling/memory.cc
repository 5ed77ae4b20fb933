// Sorts of arrays in memory.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bench/scaling/cell.h"
#include "bench/support/made_lines.h"
#include "bench/support/warm_array.h"
#include "io/sequence/seeded_random.h"
#include "vortex/memory_budget.h"
#include "vortex/sort.h"

namespace vortex::bench {

namespace {

// Each kind makes record i, with room of its own for kTextBytes of text, and tells the key by which
// records are sorted.
struct Numbers {
  using Record = std::uint64_t;
  static constexpr std::size_t kTextBytes = 0;
  static Record of(std::uint64_t i, char*) { return mix_bits(i); }
  static std::uint64_t key(const Record& record) { return record; }
  static void sort(std::span<Record> records, SortOptions options) {
    vortex::sort(records, options);
  }
};

struct Pairs {
  using Record = KeyValue<std::uint64_t, std::uint64_t>;
  static constexpr std::size_t kTextBytes = 0;
  static Record of(std::uint64_t i, char*) { return {mix_bits(i), i}; }
  static std::uint64_t key(const Record& record) { return record.key; }
  static void sort(std::span<Record> records, SortOptions options) {
    vortex::sort(records, options);
  }
};

// Nine of ten have one value.
struct HeavyNumbers : Numbers {
  static Record of(std::uint64_t i, char*) {
    const std::uint64_t bits = mix_bits(i);
    return bits % 10 != 0 ? 0x5bd1e9955bd1e995 : bits;
  }
};

// Half of the records have one key.
struct HeavyPairs : Pairs {
  static Record of(std::uint64_t i, char*) {
    const std::uint64_t bits = mix_bits(i);
    return {bits % 2 == 0 ? 0x5bd1e9955bd1e995 : bits, i};
  }
};

template <std::size_t kBytes>
struct Bytes {
  struct Record {
    std::array<char, kBytes> bytes;
  };
  static constexpr std::size_t kTextBytes = 0;
  static Record of(std::uint64_t i, char*) {
    const std::uint64_t words[] = {mix_bits(i), mix_bits(~i), i};
    Record record{};
    std::memcpy(record.bytes.data(), words, sizeof words);
    return record;
  }
  static std::string_view key(const Record& record) { return {record.bytes.data(), 10}; }
  static void sort(std::span<Record> records, SortOptions options) {
    vortex::sort(
        records, [](const Record& record) { return key(record); }, options);
  }
};

struct Structs {
  struct Record {
    std::uint64_t id;
    double price;
    std::uint32_t quantity;
    std::uint32_t day;
    std::array<char, 16> code;
  };
  static constexpr std::size_t kTextBytes = 0;
  static Record of(std::uint64_t i, char*) {
    const std::uint64_t bits = mix_bits(i);
    return {i, static_cast<double>(bits) * 0x1p-32, static_cast<std::uint32_t>(bits), 0, {}};
  }
  static double key(const Record& record) { return record.price; }
  static void sort(std::span<Record> records, SortOptions options) {
    vortex::sort(records, &Record::price, options);
  }
};

struct Strings {
  using Record = std::string_view;
  static constexpr std::size_t kTextBytes = 80;
  static Record of(std::uint64_t i, char* text) {
    std::string line;
    url_line(i, line);
    line.copy(text, kTextBytes);
    return {text, std::min(line.size(), kTextBytes)};
  }
  static std::string_view key(const Record& record) { return record; }
  static void sort(std::span<Record> records, SortOptions options) {
    vortex::sort(records, options);
  }
};

// As members of records are sorted.
struct StringKeys : Strings {
  static void sort(std::span<Record> records, SortOptions options) {
    vortex::sort(
        records, [](const Record& record) { return key(record); }, options);
  }
};

// The same for the same records in any order.
template <typename Record>
std::uint64_t sum_of_words(std::span<const Record> records) {
  std::uint64_t sum = 0;
  for (const Record& record : records) {
    std::array<std::uint64_t, sizeof(Record) / sizeof(std::uint64_t)> words;
    std::memcpy(words.data(), &record, sizeof words);
    for (const std::uint64_t word : words) sum += word;
  }
  return sum;
}

template <typename Kind>
class Sorting {
 public:
  using Record = typename Kind::Record;

  explicit Sorting(std::uint64_t count) : array_(count), text_(count * Kind::kTextBytes) {}

  void measure(const Cell& cell, Result& result) {
    const std::span<Record> records = array_.records();
    result.items = records.size();
    result.bytes = records.size_bytes();
    in_rounds(cell, result, [&] {
      const std::uint64_t sum = fill();
      const std::size_t resident = process_memory().resident_bytes;
      const bool told = reset_peak_resident();
      result.time([&] { Kind::sort(records, {.threads = cell.threads}); });
      if (told) {
        const std::size_t peak = process_memory().peak_resident_bytes;
        result.counters["extra_MiB"] = (peak - std::min(peak, resident)) >> 20;
      }
      expect_sorted(sum);
    });
  }

 private:
  static constexpr std::uint64_t kParts = 256;

  // Returns the sum of words.
  std::uint64_t fill() {
    const std::span<Record> records = array_.records();
    char* const text = text_.records().data();
    std::atomic<std::uint64_t> sum{0};
    in_parts(all_, records.size(), kParts, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t i = begin; i < end; ++i) {
        records[i] = Kind::of(i, text + i * Kind::kTextBytes);
      }
      sum += sum_of_words<Record>(records.subspan(begin, end - begin));
    });
    return sum;
  }

  void expect_sorted(std::uint64_t sum_before) {
    const std::span<const Record> records = array_.records();
    const auto in_order = [](const Record& a, const Record& b) {
      return Kind::key(a) < Kind::key(b);
    };
    std::atomic<std::uint64_t> sum{0};
    std::atomic<bool> sorted{true};
    in_parts(all_, records.size(), kParts, [&](std::uint64_t begin, std::uint64_t end) {
      sum += sum_of_words<Record>(records.subspan(begin, end - begin));
      begin -= begin > 0 ? 1 : 0;  // the last record of the part before belongs to the order
      const auto part = records.subspan(begin, end - begin);
      if (!std::is_sorted(part.begin(), part.end(), in_order)) sorted = false;
    });
    if (!sorted || sum != sum_before) throw std::runtime_error("the array is not sorted");
  }

  detail::ThreadTeam all_{0};
  HugeArray<Record> array_;
  HugeArray<char> text_;
};

template <typename Kind>
void measure(const Cell& cell, Result& result) {
  Sorting<Kind>(cell.bytes / (sizeof(typename Kind::Record) + Kind::kTextBytes))
      .measure(cell, result);
}

}  // namespace

bool measure_memory(const Cell& cell, Result& result) {
  static constexpr std::pair<std::string_view, void (*)(const Cell&, Result&)> kKinds[] = {
      {"u64", measure<Numbers>},
      {"pairs", measure<Pairs>},
      {"heavy_u64", measure<HeavyNumbers>},
      {"heavy_pairs", measure<HeavyPairs>},
      {"records_100", measure<Bytes<100>>},
      {"records_300", measure<Bytes<300>>},
      {"structs", measure<Structs>},
      {"strings", measure<Strings>},
      {"string_keys", measure<StringKeys>}};
  for (const auto& [name, work] : kKinds) {
    if (name != cell.kind) continue;
    work(cell, result);
    return true;
  }
  return false;
}

}  // namespace vortex::bench
