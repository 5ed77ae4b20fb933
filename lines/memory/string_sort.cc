#include "lines/memory/string_sort.h"

#include <cstdint>

#include "lines/record/record_keys.h"
#include "sort/arrays/scratch.h"
#include "sort/arrays/strings.h"
#include "vortex/line_sort.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace {

// Records whose keys decide first, then their whole keys and their bytes, as far as the order has
// them. `Records` finds the record of an entry.
template <typename Records>
class OrderedRecords {
 public:
  using Scratch = WholeKey;

  OrderedRecords(const Records& records, const StoredOrder& order)
      : records_(records), order_(order) {}

  std::string_view text(const IndexEntry& entry, unsigned text, Scratch& whole) const {
    // Word by word, as in stored_record().
    const StoredRecord stored = records_(entry);
    if (text == kWholeKey) return whole.of(stored.record, *order_.whole_keys);
    const bool of_record = text == kRecord;
    const char* const begin = of_record ? stored.record.data() : stored.key.data();
    return {begin, of_record ? stored.record.size() : stored.key.size()};
  }
  [[gnu::always_inline]] void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    records_.prefetch(entry, depth);
  }

  unsigned text_behind(unsigned text) const noexcept {
    if (order_.whole_keys != nullptr && text == kKey) return kWholeKey;
    return order_.record_decides && text != kRecord ? kRecord : 0;
  }

  int compare(const IndexEntry& a, const IndexEntry& b, unsigned text, std::size_t depth) const {
    const StoredRecord left = records_(a);
    const StoredRecord right = records_(b);
    int compared = 0;
    if (text == kKey) compared = left.key.substr(depth).compare(right.key.substr(depth));
    if (compared == 0 && text != kRecord && order_.whole_keys != nullptr) {
      compared = compare_whole_keys(left.record, right.record, *order_.whole_keys);
    }
    if (compared == 0 && order_.record_decides) {
      const std::size_t behind = text == kRecord ? depth : 0;
      compared = left.record.substr(behind).compare(right.record.substr(behind));
    }
    return order_.flip == 0 ? compared : (compared < 0) - (compared > 0);
  }

  std::uint64_t flip() const noexcept { return order_.flip; }
  bool by_value() const noexcept { return order_.input_decides; }
  bool marks_unique() const noexcept { return order_.unique; }
  bool marks_same() const noexcept { return order_.counted; }

  // The whole keys of long records are not made: there is no memory for them.
  bool is_long(const IndexEntry& entry) const noexcept {
    return records_(entry).record.size() > kLongRecord;
  }
  static bool keeps_long(unsigned text) noexcept { return text == kWholeKey; }

 private:
  static constexpr unsigned kKey = 0, kWholeKey = 1, kRecord = 2;

  const Records records_;
  const StoredOrder order_;
};

class StoredRecords {
 public:
  explicit StoredRecords(bool has_keys) : has_keys_(has_keys) {}
  StoredRecord operator()(const IndexEntry& entry) const noexcept {
    return stored_record_at(stored_at(entry), has_keys_);
  }
  // The lengths, and the bytes at about `depth`.
  [[gnu::always_inline]] void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(stored_at(entry));
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(stored_at(entry)) + depth + kChunkBytes));
  }

 private:
  bool has_keys_;
};

class ViewedRecords {
 public:
  ViewedRecords(const KeyBatch& keys, std::span<const std::string_view> records)
      : keys_(keys), records_(records) {}
  StoredRecord operator()(const IndexEntry& entry) const noexcept {
    return {keys_.key(entry.value), records_[entry.value]};
  }
  [[gnu::always_inline]] void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(keys_.key(entry.value).data()) + depth));
  }

 private:
  const KeyBatch& keys_;
  const std::span<const std::string_view> records_;
};

}  // namespace

void sort_stored(std::span<IndexEntry> index, const StoredOrder& order, detail::ThreadTeam& team) {
  StringSort(OrderedRecords(StoredRecords(order.has_keys), order), team).sort(index);
}

std::size_t sort_lines_in_memory(std::span<std::string_view> records, const LineOrder& order,
                                 unsigned threads) {
  if (!order.keys) {
    const Order direction = order.descending ? Order::kDescending : Order::kAscending;
    return detail::sort_strings(records, {.order = direction, .threads = threads}, order.unique);
  }
  const StoredOrder stored_order(order);
  KeyBatch batch;
  make_keys(*order.keys, records, batch);
  const detail::Scratch<IndexEntry> memory(records.size());
  const std::span index(memory.get(), records.size());
  detail::ThreadTeam team(threads_for_strings(index.size(), threads));
  in_parts(index.size(), team, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      index[i] = {chunk_at(batch.key(i), 0) ^ stored_order.flip, i};
    }
  });
  StringSort(OrderedRecords(ViewedRecords(batch, records), stored_order), team).sort(index);
  return arrange_views(records, index, order.unique, team);
}

}}  // namespace vortex::v0
