#include "lines/memory/string_sort.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "lines/record/record_keys.h"
#include "vortex/line_sort.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace {

// Sorting fewer entries by comparing whole strings costs less than a pass over their chunks.
constexpr std::size_t kFewEntries = 8;
// Up to here a comparison sort of the chunks is faster than the radix sort.
constexpr std::size_t kRadixEntries = 192;
// This many entries of a group foretell what all of them have in common.
constexpr std::size_t kSampledEntries = 8;
// How far ahead of its use the first bytes of a record are asked for.
constexpr std::size_t kAhead = 12;
// An index of fewer entries is sorted by one thread; waking others takes longer. Half of it is the
// least group that all threads sort together.
constexpr std::size_t kParallelEntries = std::size_t{1} << 15;

template <typename Strings>
class StringSort {
 public:
  StringSort(Strings strings, const StoredOrder& order, detail::ThreadTeam& team)
      : strings_(strings), order_(order), team_(team) {}

  // The first chunk of every entry, for those that do not have it.
  void load_first_chunks(std::span<IndexEntry> index) {
    load_chunks({index.data(), index.data() + index.size(), 0, Text::kKey});
  }

  void sort(std::span<IndexEntry> index) {
    const Range all{index.data(), index.data() + index.size(), 0, Text::kKey};
    const unsigned threads = all.size() < kParallelEntries ? 1 : team_.threads();
    sort_chunks(all, threads);
    threads == 1 ? sort_groups(all) : share_out(all);
  }

 private:
  // The texts that records are sorted by, one after the other as far as the order has them.
  enum class Text : std::uint8_t { kKey, kWholeKey, kRecord };

  // Entries that agree in the first `depth` bytes of a text, and in all of those before.
  struct Range {
    IndexEntry* begin;
    IndexEntry* end;
    std::size_t depth;
    Text text;
    std::size_t size() const noexcept { return static_cast<std::size_t>(end - begin); }
  };

  // The string is valid until `whole` is used for another one.
  std::string_view string(const IndexEntry& entry, const Range& range, WholeKey& whole) const {
    // Word by word, as in stored_record().
    const StoredRecord stored = strings_(entry);
    if (range.text == Text::kWholeKey) return whole.of(stored.record, *order_.whole_keys);
    const bool of_record = range.text == Text::kRecord;
    const char* const begin = of_record ? stored.record.data() : stored.key.data();
    return {begin, of_record ? stored.record.size() : stored.key.size()};
  }

  void prefetch(const IndexEntry* entry, const Range& part) const noexcept {
    if (part.end - entry > static_cast<std::ptrdiff_t>(kAhead)) {
      strings_.prefetch(entry[kAhead], part.depth);
    }
  }

  static void sort_chunks(const Range& range, unsigned threads) {
    if (range.size() < kRadixEntries) {
      std::sort(range.begin, range.end,
                [](const IndexEntry& a, const IndexEntry& b) { return a.key < b.key; });
    } else {
      vortex::sort(std::span(range.begin, range.end), {.threads = threads});
    }
  }

  // Calls `use` with each entry of the part and its string, until it returns false; returns whether
  // it did so for none.
  template <typename Use>
  bool for_each_string(const Range& part, const Use& use) const {
    WholeKey whole;
    for (IndexEntry* entry = part.begin; entry != part.end; ++entry) {
      prefetch(entry, part);
      if (!use(*entry, string(*entry, part, whole))) return false;
    }
    return true;
  }

  // Returns how many bytes the strings of the part have in common, at most `most`.
  std::size_t common_bytes(const Range& part, std::string_view first, std::size_t most) const {
    for_each_string(part, [&](const IndexEntry&, std::string_view own) {
      most = std::min(most, common_prefix(first.substr(0, most), own, part.depth));
      return most > part.depth;
    });
    return most;
  }

  // Guesses it from a few of the entries.
  std::size_t guess_common_bytes(const Range& range, std::string_view first) const {
    std::size_t most = first.size();
    WholeKey whole;
    for (std::size_t i = 1; i <= kSampledEntries; ++i) {
      const IndexEntry& entry = range.begin[(range.size() - 1) * i / kSampledEntries];
      most = common_prefix(first.substr(0, most), string(entry, range, whole), range.depth);
    }
    return most;
  }

  // Loads the chunks behind the first `common` bytes. Returns false, with the chunks unspecified,
  // where not all strings have those bytes in common.
  bool load_chunks_behind(const Range& part, std::string_view first, std::size_t common) const {
    return for_each_string(part, [&](IndexEntry& entry, std::string_view own) {
      if (common_prefix(first.substr(0, common), own, part.depth) != common) return false;
      entry.key = chunk_at(own, common) ^ order_.flip;
      return true;
    });
  }

  void load_chunks(const Range& part) const {
    for_each_string(part, [&](IndexEntry& entry, std::string_view own) {
      entry.key = chunk_at(own, part.depth) ^ order_.flip;
      return true;
    });
  }

  // Skips what the entries have in common, and sorts them by what follows. A few of them mostly
  // tell how much that is, and then each string is looked at once.
  void sort_next_chunks(Range& range, unsigned threads) {
    WholeKey whole;
    const std::string_view first = string(*range.begin, range, whole);
    const std::size_t guess = guess_common_bytes(range, first);
    range.depth = load_chunks_behind_guess(range, first, guess, threads);
    sort_chunks(range, threads);
  }

  // Returns how many bytes the entries have in common, at most the guess, and loads their chunks
  // from there.
  std::size_t load_chunks_behind_guess(Range range, std::string_view first, std::size_t guess,
                                       unsigned threads) {
    std::atomic<bool> right{true};
    in_parts(range, threads, [&](const Range& part) {
      if (right.load(std::memory_order_relaxed) && !load_chunks_behind(part, first, guess)) {
        right.store(false, std::memory_order_relaxed);
      }
    });
    if (right.load(std::memory_order_relaxed)) return guess;
    std::atomic<std::size_t> common{guess};
    in_parts(range, threads, [&](const Range& part) {
      const std::size_t own = common_bytes(part, first, common.load(std::memory_order_relaxed));
      std::size_t least = common.load(std::memory_order_relaxed);
      while (own < least && !common.compare_exchange_weak(least, own, std::memory_order_relaxed)) {
      }
    });
    range.depth = common.load(std::memory_order_relaxed);
    in_parts(range, threads, [&](const Range& part) { load_chunks(part); });
    return range.depth;
  }

  template <typename Part>
  void in_parts(const Range& range, unsigned threads, const Part& use) {
    if (threads == 1) return use(range);
    const std::size_t parts = 8 * std::size_t{threads};
    team_.run(parts, [&](std::size_t i) {
      Range part = range;
      part.begin = range.begin + range.size() * i / parts;
      part.end = range.begin + range.size() * (i + 1) / parts;
      use(part);
    });
  }

  // The first group of at least two equal chunks at or behind `from`.
  static Range next_group(IndexEntry* from, const Range& range) noexcept {
    while (range.end - from > 1) {
      IndexEntry* end = from + 1;
      while (end != range.end && end->key == from->key) ++end;
      if (end - from > 1) return {from, end, range.depth, range.text};
      from = end;
    }
    return {range.end, range.end, range.depth, range.text};
  }

  // Goes to the bytes behind the chunks that are equal. Returns false where there are none: then
  // the group is in order.
  bool descend(Range& group) const {
    if (!ends_string(group.begin->key ^ order_.flip)) {
      group.depth += kChunkBytes;
      return true;
    }
    const bool has_whole_key = order_.whole_keys != nullptr && group.text == Text::kKey;
    if (has_whole_key || (order_.record_decides && group.text != Text::kRecord)) {
      group.depth = 0;
      group.text = has_whole_key ? Text::kWholeKey : Text::kRecord;
      return true;
    }
    if (order_.input_decides) {
      std::sort(group.begin, group.end,
                [](const IndexEntry& a, const IndexEntry& b) { return a.value < b.value; });
    }
    if (order_.unique || order_.counted) {
      for (IndexEntry* entry = group.begin + 1; entry != group.end; ++entry) entry->key = kSameKey;
    }
    return false;
  }

  // Returns a number below 0 where `a` comes first, 0 where the order of the input decides or
  // nothing does.
  int compare(const IndexEntry& a, const IndexEntry& b, const Range& range) const {
    const StoredRecord left = strings_(a);
    const StoredRecord right = strings_(b);
    int compared = 0;
    if (range.text == Text::kKey) {
      compared = left.key.substr(range.depth).compare(right.key.substr(range.depth));
    }
    if (compared == 0 && range.text != Text::kRecord && order_.whole_keys != nullptr) {
      compared = compare_whole_keys(left.record, right.record, *order_.whole_keys);
    }
    if (compared == 0 && order_.record_decides) {
      const std::size_t depth = range.text == Text::kRecord ? range.depth : 0;
      compared = left.record.substr(depth).compare(right.record.substr(depth));
    }
    return order_.flip == 0 ? compared : (compared < 0) - (compared > 0);
  }

  void sort_few(const Range& group) const {
    for (IndexEntry* entry = group.begin + 1; entry != group.end; ++entry) {
      const IndexEntry moved = *entry;
      IndexEntry* to = entry;
      bool equal = false;
      for (; to != group.begin; --to) {
        const int compared = compare(moved, to[-1], group);
        equal = compared == 0;
        const bool earlier = equal && order_.input_decides && moved.value < to[-1].value;
        if (compared >= 0 && !earlier) break;
        *to = to[-1];
      }
      *to = moved;
      if (order_.counted && equal && to != group.begin) to->key = kSameKey;
    }
    if (!order_.unique) return;
    for (IndexEntry* entry = group.begin + 1; entry != group.end; ++entry) {
      if (compare(*entry, entry[-1], group) == 0) entry->key = kSameKey;
    }
  }

  bool is_long(const IndexEntry& entry) const noexcept {
    return strings_(entry).record.size() > kLongRecord;
  }

  // Moves the long records of a group that is to be sorted by whole keys behind the others, and
  // returns the first of them. Their keys are not made: there is no memory for them.
  IndexEntry* separate_long(const Range& group) const {
    if (group.text != Text::kWholeKey || group.depth > 0) return group.end;
    IndexEntry* entry = group.begin;
    for (; entry != group.end; ++entry) {
      prefetch(entry, group);
      if (is_long(*entry)) break;
    }
    return std::partition(entry, group.end, [&](const IndexEntry& e) { return !is_long(e); });
  }

  // Sorts a group by whole keys. Its long records, from `long_ones` on, are compared with the
  // others and with each other.
  void sort_with_long(const Range& group, IndexEntry* long_ones, unsigned threads) {
    Range others{group.begin, long_ones, group.depth, group.text};
    if (others.size() > kFewEntries) {
      sort_next_chunks(others, threads);
      threads == 1 ? sort_groups(others) : share_out(others);
    } else if (others.size() > 0) {
      sort_few(others);
    }
    const auto before = [&](const IndexEntry& a, const IndexEntry& b) {
      const int compared = compare(a, b, group);
      return compared < 0 || (compared == 0 && order_.input_decides && a.value < b.value);
    };
    std::sort(long_ones, group.end, before);
    std::inplace_merge(group.begin, long_ones, group.end, before);
    if (!order_.unique && !order_.counted) return;
    for (IndexEntry* entry = group.begin + 1; entry != group.end; ++entry) {
      // Others that are the same as another are marked, and remain so.
      if ((is_long(*entry) || is_long(entry[-1])) && compare(*entry, entry[-1], group) == 0) {
        entry->key = kSameKey;
      }
    }
  }

  // Sorts the groups of equal chunks of entries that are sorted by their chunks. Groups nest as
  // deep as common prefixes do, so what is open is kept here and not on the stack.
  void sort_groups(const Range& sorted) {
    struct Open {
      Range range;
      IndexEntry* next;
    };
    std::vector<Open> open{{sorted, sorted.begin}};
    while (!open.empty()) {
      Range group = next_group(open.back().next, open.back().range);
      open.back().next = group.end;
      if (group.size() == 0) {
        open.pop_back();
        continue;
      }
      if (!descend(group)) continue;
      if (group.size() <= kFewEntries) {
        sort_few(group);
        continue;
      }
      if (IndexEntry* const long_ones = separate_long(group); long_ones != group.end) {
        sort_with_long(group, long_ones, 1);
        continue;
      }
      sort_next_chunks(group, 1);
      open.push_back({group, group.begin});
    }
  }

  // Does the same by all threads: they sort together those groups that are too large for one of
  // them, and share out the others.
  void share_out(const Range& all) {
    const unsigned threads = team_.threads();
    const std::size_t large = std::max(kParallelEntries / 2, all.size() / (4 * threads));
    const std::size_t task_entries = std::max(kFewEntries, all.size() / (32 * threads));
    std::vector<Range> tasks;
    std::vector<Range> sorted{all};  // by their chunks
    while (!sorted.empty()) {
      const Range range = sorted.back();
      sorted.pop_back();
      Range task{range.begin, range.begin, range.depth, range.text};
      const auto end_task = [&](IndexEntry* next) {
        if (task.size() > 1) tasks.push_back(task);
        task.begin = task.end = next;
      };
      while (task.end != range.end) {
        Range group = next_group(task.end, range);
        task.end = group.begin;
        if (group.size() < large) {
          task.end = group.end;
          if (task.size() >= task_entries) end_task(group.end);
          continue;
        }
        end_task(group.end);
        if (!descend(group)) continue;
        if (IndexEntry* const long_ones = separate_long(group); long_ones != group.end) {
          sort_with_long(group, long_ones, threads);
          continue;
        }
        sort_next_chunks(group, threads);
        sorted.push_back(group);
      }
      end_task(range.end);
    }
    team_.run(tasks.size(), [&](std::size_t i) { sort_groups(tasks[i]); });
  }

  const Strings strings_;
  const StoredOrder order_;
  detail::ThreadTeam& team_;
};

}  // namespace

void sort_stored(std::span<IndexEntry> index, const StoredOrder& order, detail::ThreadTeam& team) {
  StringSort(StoredStrings(order.has_keys), order, team).sort(index);
}

std::size_t sort_lines_in_memory(std::span<std::string_view> records, const LineOrder& order,
                                 unsigned threads) {
  const StoredOrder stored_order(order);
  KeyBatch batch;
  std::vector<std::string_view> keys;
  if (order.keys) {
    make_keys(*order.keys, records, batch);
    keys.reserve(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) keys.push_back(batch.key(i));
  }
  std::vector<IndexEntry> index(records.size());
  for (std::size_t i = 0; i < index.size(); ++i) index[i].value = i;
  detail::ThreadTeam team(threads);
  StringSort sort(ViewedStrings(keys, records), stored_order, team);
  sort.load_first_chunks(index);
  sort.sort(index);

  std::vector<std::string_view> sorted;
  sorted.reserve(records.size());
  for (const IndexEntry& entry : index) {
    if (!order.unique || entry.key != kSameKey) sorted.push_back(records[entry.value]);
  }
  std::copy(sorted.begin(), sorted.end(), records.begin());
  return sorted.size();
}

}}  // namespace vortex::v0
