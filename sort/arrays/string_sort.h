// Sorting strings by an index of their first bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sort/arrays/compared_entries.h"
#include "sort/arrays/index_entries.h"
#include "sort/record/key_chunk.h"
#include "vortex/detail/array/large_groups.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

// Sorts an index. The entries are sorted by their chunks, as numbers, in cache-friendly passes of
// the radix sort; where chunks are equal, those behind the longest common prefix take their place
// (caching multikey sort after Ng and Kakehi, with chunks of a radix sort instead of pivots). So
// each byte of a distinguishing prefix is looked at about once, and a common prefix of any length
// is skipped at the speed of memory. Takes the memory of vortex::sort() besides, and for nested
// common prefixes a few bytes for each level.
//
// `Strings` says what is sorted. Entries may have several texts, which decide one after the other,
// the first being 0:
//   Scratch                   what text() may use, of one thread
//   text(entry, text, scratch)  the string, valid until `scratch` is used for another one
//   prefetch(entry, depth)    asks for the bytes at about `depth` of the string
//   text_behind(text)         the text that decides between entries that agree in one; 0: none
//   compare(a, b, text, depth)  below 0 where `a` comes first, by the text from `depth` on and
//                             those behind it; 0 where none of them decides
//   flip()                    all bits where the order is descending, else 0
//   by_value()                whether equal entries come in the order of their values
//   marks_unique(), marks_same()  whether equal entries are marked: where all of their keys are, or
//                             where nothing tells them apart
//   is_long(entry), keeps_long(text)  whether an entry's text is not to be made, and of which text
//                             that is so
template <typename Strings, typename Team>
class StringSort {
 public:
  StringSort(const Strings& strings, Team& team) : strings_(strings), team_(team) {}

  // The index has the first chunk of every entry.
  void sort(std::span<IndexEntry> index) {
    const Range all{index.data(), index.data() + index.size(), 0, 0};
    const unsigned threads = all.size() < kParallelEntries ? 1 : team_.threads();
    sort_chunks(all, threads);
    threads == 1 ? sort_groups(all) : share_out(all);
  }

 private:
  // Sorting fewer entries by comparing whole strings costs less than a pass over their chunks.
  static constexpr std::size_t kFewEntries = 8;
  // This many entries of a group foretell what all of them have in common.
  static constexpr std::size_t kSampledEntries = 8;
  // How far ahead of its use a string is asked for.
  static constexpr std::size_t kAhead = 12;
  // An index of fewer entries is sorted by one thread; waking others takes longer. Half of it is
  // the least group that all threads sort together.
  static constexpr std::size_t kParallelEntries = std::size_t{1} << 15;

  // Entries that agree in the first `depth` bytes of a text, and in all of those before.
  struct Range {
    IndexEntry* begin;
    IndexEntry* end;
    std::size_t depth;
    unsigned text;
    std::size_t size() const noexcept { return static_cast<std::size_t>(end - begin); }
    Range part(std::size_t from, std::size_t to) const noexcept {
      return {begin + from, begin + to, depth, text};
    }
  };
  using Scratch = typename Strings::Scratch;

  std::string_view string(const IndexEntry& entry, const Range& range, Scratch& scratch) const {
    return strings_.text(entry, range.text, scratch);
  }

  [[gnu::always_inline]] void prefetch(const IndexEntry* entry, const Range& part) const noexcept {
    if (part.end - entry > static_cast<std::ptrdiff_t>(kAhead)) {
      strings_.prefetch(entry[kAhead], part.depth);
    }
  }

  static void sort_chunks(const Range& range, unsigned threads) {
    sort_by_chunk({range.begin, range.end}, threads);
  }

  // Calls `use` with each entry of the part and its string, until it returns false; returns whether
  // it did so for none.
  template <typename Use>
  bool for_each_string(const Range& part, const Use& use) const {
    Scratch scratch;
    for (IndexEntry* entry = part.begin; entry != part.end; ++entry) {
      prefetch(entry, part);
      if (!use(*entry, string(*entry, part, scratch))) return false;
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
    Scratch scratch;
    for (std::size_t i = 1; i <= kSampledEntries; ++i) {
      const IndexEntry& entry = range.begin[(range.size() - 1) * i / kSampledEntries];
      most = common_prefix(first.substr(0, most), string(entry, range, scratch), range.depth);
    }
    return most;
  }

  // Loads the chunks behind the first `common` bytes. Returns false, with the chunks unspecified,
  // where not all strings have those bytes in common.
  bool load_chunks_behind(const Range& part, std::string_view first, std::size_t common) const {
    const std::uint64_t flip = strings_.flip();
    return for_each_string(part, [&](IndexEntry& entry, std::string_view own) {
      if (common_prefix(first.substr(0, common), own, part.depth) != common) return false;
      entry.key = chunk_at(own, common) ^ flip;
      return true;
    });
  }

  void load_chunks(const Range& part) const {
    const std::uint64_t flip = strings_.flip();
    for_each_string(part, [&](IndexEntry& entry, std::string_view own) {
      entry.key = chunk_at(own, part.depth) ^ flip;
      return true;
    });
  }

  // Skips what the entries have in common, and sorts them by what follows. A few of them mostly
  // tell how much that is, and then each string is looked at once.
  void sort_next_chunks(Range& range, unsigned threads) {
    Scratch scratch;
    const std::string_view first = string(*range.begin, range, scratch);
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
      lower(common, common_bytes(part, first, common.load(std::memory_order_relaxed)));
    });
    range.depth = common.load(std::memory_order_relaxed);
    in_parts(range, threads, [&](const Range& part) { load_chunks(part); });
    return range.depth;
  }

  template <typename Use>
  void in_parts(const Range& range, unsigned threads, const Use& use) {
    if (threads == 1) return use(range);
    vortex::in_parts(range.size(), team_,
                     [&](std::size_t begin, std::size_t end) { use(range.part(begin, end)); });
  }

  // A range that is sorted by its chunks, and whose groups are being sorted.
  struct Open {
    Range range;
    IndexEntry* next;   // in front of it they are
    IndexEntry* asked;  // the strings of groups in front of it have been asked for
  };

  // Asks for the strings of the next entries that are not alone with their chunk, since those that
  // come one after the other in an order do not lie so.
  void ask_ahead(Open& open) const noexcept {
    constexpr std::ptrdiff_t kWindow = 32;
    const Range& range = open.range;
    if (open.asked - open.next > kWindow / 2 || open.asked == range.end) return;
    IndexEntry* entry = std::max({open.asked, open.next, range.begin + 1});
    IndexEntry* const end = entry + std::min(range.end - entry, kWindow);
    const std::uint64_t flip = strings_.flip();
    for (; entry != end; ++entry) {
      if (entry->key != entry[-1].key || ends_string(entry->key ^ flip)) continue;
      strings_.prefetch(entry[-1], range.depth + kChunkBytes);
      strings_.prefetch(*entry, range.depth + kChunkBytes);
    }
    open.asked = end;
  }

  // The next group of at least two equal chunks.
  Range next_group(Open& open) const noexcept {
    const Range& range = open.range;
    while (range.end - open.next > 1) {
      ask_ahead(open);
      IndexEntry* const begin = open.next;
      IndexEntry* end = begin + 1;
      while (end != range.end && end->key == begin->key) ++end;
      open.next = end;
      if (end - begin > 1) return {begin, end, range.depth, range.text};
    }
    return {range.end, range.end, range.depth, range.text};
  }

  // Goes to the bytes behind the chunks that are equal. Returns false where there are none: then
  // the group is in order.
  bool descend(Range& group, unsigned threads) {
    if (!ends_string(group.begin->key ^ strings_.flip())) {
      group.depth += kChunkBytes;
      return true;
    }
    if (const unsigned text = strings_.text_behind(group.text); text != 0) {
      group.depth = 0;
      group.text = text;
      return true;
    }
    if (strings_.by_value()) sort_by_value(group, threads);
    if (strings_.marks_unique() || strings_.marks_same()) {
      in_parts(group, threads, [&](const Range& part) {
        IndexEntry* const first = part.begin + (part.begin == group.begin ? 1 : 0);
        for (IndexEntry* entry = first; entry < part.end; ++entry) entry->key = kSameKey;
      });
    }
    return false;
  }

  void sort_by_value(const Range& group, unsigned threads) {
    if (group.size() < kRadixEntries) {
      std::sort(group.begin, group.end,
                [](const IndexEntry& a, const IndexEntry& b) { return a.value < b.value; });
      return;
    }
    const auto turn = [&] {
      in_parts(group, threads, [](const Range& part) { turn_entries(part.begin, part.end); });
    };
    turn();
    try {
      sort_chunks(group, threads);
    } catch (...) {
      turn();
      throw;
    }
    turn();
  }

  int compare(const IndexEntry& a, const IndexEntry& b, const Range& range) const {
    return strings_.compare(a, b, range.text, range.depth);
  }

  void sort_few(const Range& group) const {
    for (IndexEntry* entry = group.begin + 1; entry != group.end; ++entry) {
      const IndexEntry moved = *entry;
      IndexEntry* to = entry;
      bool equal = false;
      for (; to != group.begin; --to) {
        const int compared = compare(moved, to[-1], group);
        equal = compared == 0;
        const bool earlier = equal && strings_.by_value() && moved.value < to[-1].value;
        if (compared >= 0 && !earlier) break;
        *to = to[-1];
      }
      *to = moved;
      if (strings_.marks_same() && equal && to != group.begin) to->key = kSameKey;
    }
    if (!strings_.marks_unique()) return;
    for (IndexEntry* entry = group.begin + 1; entry != group.end; ++entry) {
      if (compare(*entry, entry[-1], group) == 0) entry->key = kSameKey;
    }
  }

  // Moves the long records of a group that is to be sorted by a text that they do not make behind
  // the others, and returns the first of them.
  IndexEntry* separate_long(const Range& group, unsigned threads) {
    if (!strings_.keeps_long(group.text) || group.depth > 0) return group.end;
    std::atomic<IndexEntry*> first{group.end};
    in_parts(group, threads, [&](const Range& part) {
      IndexEntry* entry = part.begin;
      for (; entry != part.end && entry < first.load(std::memory_order_relaxed); ++entry) {
        prefetch(entry, part);
        if (strings_.is_long(*entry)) return lower(first, entry);
      }
    });
    IndexEntry* const begin = first.load(std::memory_order_relaxed);
    const auto stays = [&](const IndexEntry& e) { return !strings_.is_long(e); };
    if (threads == 1) return std::partition(begin, group.end, stays);
    return begin + bring_to_front(std::span(begin, group.end), team_, stays);
  }

  // Sorts such a group. Its long records, from `long_ones` on, are compared with the others and
  // with each other.
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
      return compared < 0 || (compared == 0 && strings_.by_value() && a.value < b.value);
    };
    if (threads == 1) {
      std::sort(long_ones, group.end, before);
      std::inplace_merge(group.begin, long_ones, group.end, before);
    } else {
      sort_behind({group.begin, group.end}, long_ones, team_, before);
    }
    if (!strings_.marks_unique() && !strings_.marks_same()) return;
    // Others that are the same as another are marked, and remain so, unless threads have merged.
    const auto is_new = [&](const IndexEntry& e) { return threads != 1 || strings_.is_long(e); };
    in_parts(group, threads, [&](const Range& part) {
      IndexEntry* const first = part.begin + (part.begin == group.begin ? 1 : 0);
      for (IndexEntry* entry = first; entry < part.end; ++entry) {
        if ((is_new(*entry) || is_new(entry[-1])) && compare(*entry, entry[-1], group) == 0)
          entry->key = kSameKey;
      }
    });
  }

  // Puts a group in order up to its next chunks, by which it is sorted then. Returns false where
  // nothing is left to do.
  bool open_group(Range& group, unsigned threads) {
    if (!descend(group, threads)) return false;
    if (group.size() <= kFewEntries) {
      sort_few(group);
      return false;
    }
    if (IndexEntry* const long_ones = separate_long(group, threads); long_ones != group.end) {
      sort_with_long(group, long_ones, threads);
      return false;
    }
    sort_next_chunks(group, threads);
    return true;
  }

  // Sorts the groups of equal chunks of entries that are sorted by their chunks. Groups nest as
  // deep as common prefixes do, so what is open is kept here and not on the stack.
  void sort_groups(const Range& sorted) {
    std::vector<Open> open{{sorted, sorted.begin, sorted.begin}};
    while (!open.empty()) {
      Range group = next_group(open.back());
      if (group.size() == 0) {
        open.pop_back();
      } else if (open_group(group, 1)) {
        open.push_back({group, group.begin, group.begin});
      }
    }
  }

  // Does the same by all threads: they sort together those groups that are so large that it pays,
  // and share out the others.
  void share_out(const Range& all) {
    const unsigned threads = team_.threads();
    const std::size_t large = std::max(kParallelEntries / 2, all.size() / (4 * threads));
    const std::size_t task_entries = std::max(kFewEntries, all.size() / (32 * threads));
    const unsigned side_by_side = detail::groups_at_once(all.size(), threads);
    // They share out all but the sort of the next chunks, which is about a quarter of the work and
    // has a thread for each kSortedByThread entries.
    const auto time_for_all = [threads](std::size_t size) {
      return size / threads + std::min(size, std::max(size / threads, detail::kSortedByThread)) / 4;
    };
    const auto [alone, tasks] = detail::share_out_groups(
        all, large, task_entries, threads, side_by_side,
        [](const Range& sorted, std::size_t i) { return sorted.begin[i].key; }, time_for_all,
        [&](Range& group) { return open_group(group, threads); });
    const std::size_t runners = std::min<std::size_t>(side_by_side, alone.size());
    std::atomic<std::size_t> next{0};
    team_.run(runners + tasks.size(), [&, &alone = alone, &tasks = tasks](std::size_t i) {
      if (i >= runners) return sort_groups(tasks[i - runners]);
      for (std::size_t at = next++; at < alone.size(); at = next++) {
        Range group = alone[at];
        if (open_group(group, 1)) sort_groups(group);
      }
      release_sort_memory();  // other threads may be the next that sort large ones
    });
  }

  const Strings strings_;
  Team& team_;
};

}}  // namespace vortex::v0
