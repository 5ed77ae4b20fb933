// How a record lies in memory and in runs: its lengths, its key unless it is its own, and itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lines/record/record_keys.h"
#include "sort/record/key_chunk.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// A length takes one byte where it is less than 255, else nine.
inline constexpr std::size_t kMaxLengthBytes = 1 + sizeof(std::uint64_t);
inline constexpr unsigned char kLongLength = 255;

inline std::size_t length_bytes(std::uint64_t length) noexcept {
  return length < kLongLength ? 1 : kMaxLengthBytes;
}

// Returns the end of what it wrote.
inline char* write_length(char* to, std::uint64_t length) noexcept {
  if (length < kLongLength) {
    *to = static_cast<char>(length);
    return to + 1;
  }
  *to = static_cast<char>(kLongLength);
  std::memcpy(to + 1, &length, sizeof length);
  return to + kMaxLengthBytes;
}

// Returns the end of the copy. Short texts are copied without a call.
inline char* copy_text(char* to, std::string_view text) noexcept {
  const char* const from = text.data();
  const std::size_t bytes = text.size();
  if (bytes > 16) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 8) {
    const auto last = load_word<std::uint64_t>(from + bytes - 8);
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, &last, 8);
  } else if (bytes >= 4) {
    const auto last = load_word<std::uint32_t>(from + bytes - 4);
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, &last, 4);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
  return to + bytes;
}

// Moves `from` behind the length.
inline std::uint64_t read_length(const char*& from) noexcept {
  const auto first = static_cast<unsigned char>(*from);
  if (first < kLongLength) [[likely]] {
    ++from;
    return first;
  }
  const auto length = load_word<std::uint64_t>(from + 1);
  from += kMaxLengthBytes;
  return length;
}

struct StoredRecord {
  std::string_view key;
  std::string_view record;
};

// A record that outlives what it was read from.
class KeptRecord {
 public:
  void keep(const StoredRecord& stored, bool has_keys) {
    record_ = stored.record;
    if (has_keys) key_ = stored.key;
    has_key_ = has_keys;
  }
  StoredRecord stored() const noexcept { return {has_key_ ? key_ : record_, record_}; }

 private:
  std::string key_;
  std::string record_;
  bool has_key_ = false;
};

// The rules that a sort keeps to, derived from what users say.
struct StoredOrder {
  explicit StoredOrder(const LineOrder& order) noexcept
      : has_keys(order.keys != nullptr),
        unique(order.unique),
        record_decides(has_keys && !unique && order.ties == Ties::kRecordBytes),
        input_decides(has_keys && !record_decides),
        counted(!unique && !input_decides),
        flip(order.descending ? ~std::uint64_t{0} : 0),
        whole_keys(has_keys && order.keys->shortened() ? order.keys.get() : nullptr) {}

  bool has_keys;        // else a record is its own key
  bool unique;          // of records with equal keys only the first is kept
  bool record_decides;  // between equal keys
  bool input_decides;   // the same, by the order of the input
  bool counted;         // records that the order calls equal are the same, and kept once
  std::uint64_t flip;   // turns chunks round, and so the order
  // Makes the whole keys, which decide between equal ones before anything else does; null where
  // keys are whole. Outlives this.
  const RecordKeys* whole_keys;
};

// Returns the record that begins at `from`, and moves `from` to its end.
inline StoredRecord stored_record(const char*& from, bool has_keys) noexcept {
  const std::uint64_t key_bytes = has_keys ? read_length(from) : 0;
  const std::uint64_t record_bytes = read_length(from);
  const char* const key = from;
  const char* const record = key + key_bytes;
  from = record + record_bytes;
  // Only the size is chosen: the processor could read a view that is copied as a whole only when
  // the two words that were just written have left it, and it could wait for no other record
  // meanwhile.
  return {{key, has_keys ? key_bytes : record_bytes}, {record, record_bytes}};
}

inline StoredRecord stored_record_at(const char* from, bool has_keys) noexcept {
  return stored_record(from, has_keys);
}

inline std::size_t stored_bytes(std::size_t key_bytes, std::size_t record_bytes,
                                bool has_keys) noexcept {
  return (has_keys ? length_bytes(key_bytes) + key_bytes : 0) + length_bytes(record_bytes) +
         record_bytes;
}
inline std::size_t stored_bytes(std::string_view key, std::string_view record,
                                bool has_keys) noexcept {
  return stored_bytes(key.size(), record.size(), has_keys);
}

// Returns a chunk of the sequence that decides the order, by its number. The sequence has the
// chunks of the key, and behind them those of the record where that decides between equal keys.
// Where keys were shortened, one chunk stands behind them for all that decides between equal ones:
// it is the same for all records.
inline std::uint64_t order_chunk(const StoredRecord& stored, const StoredOrder& order,
                                 std::uint64_t index) noexcept {
  std::string_view string = stored.key;
  if (order.record_decides || order.whole_keys != nullptr) {
    const std::uint64_t of_key = chunks_of(stored.key);
    if (index >= of_key) {
      if (order.whole_keys != nullptr) return 0;
      index -= of_key;
      string = stored.record;
    }
  }
  return chunk_at(string, index * kChunkBytes) ^ order.flip;
}

inline std::uint64_t order_chunks(const StoredRecord& stored, const StoredOrder& order) noexcept {
  const std::uint64_t of_key = chunks_of(stored.key);
  if (order.whole_keys != nullptr) return of_key + 1;
  return of_key + (order.record_decides ? chunks_of(stored.record) : 0);
}

// The place where two records differ.
struct Difference {
  std::uint64_t chunk;  // the number of the first that does; order_chunks() when none does
  int order;            // below 0 where `a` comes first; 0 when they are equal
};

// Compares records whose shortened keys are equal.
inline Difference difference_behind_keys(const StoredRecord& a, const StoredRecord& b,
                                         const StoredOrder& order) {
  int compared = compare_whole_keys(a.record, b.record, *order.whole_keys);
  if (compared == 0 && order.record_decides) compared = a.record.compare(b.record);
  if (compared == 0) return {order_chunks(a, order), 0};
  return {chunks_of(a.key), (compared < 0) == (order.flip == 0) ? -1 : 1};
}

// Compares records whose first `known` chunks are the same.
inline Difference difference(const StoredRecord& a, const StoredRecord& b, const StoredOrder& order,
                             std::uint64_t known) {
  const std::uint64_t of_key = chunks_of(a.key);
  std::uint64_t chunk = of_key;
  if (known < of_key) {
    chunk = differing_chunk(a.key, b.key, common_prefix(a.key, b.key, known * kChunkBytes));
  }
  if (chunk == of_key && order.whole_keys != nullptr) return difference_behind_keys(a, b, order);
  if (chunk == of_key && order.record_decides) {
    const std::size_t of_record = known > of_key ? (known - of_key) * kChunkBytes : 0;
    chunk = of_record >= a.record.size() && known > of_key
                ? known
                : of_key + differing_chunk(a.record, b.record,
                                           common_prefix(a.record, b.record, of_record));
  }
  if (chunk == order_chunks(a, order) && chunk == order_chunks(b, order)) return {chunk, 0};
  return {chunk, order_chunk(a, order, chunk) < order_chunk(b, order, chunk) ? -1 : 1};
}

}}  // namespace vortex::v0
