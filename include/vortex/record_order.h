// Records of bytes: their format (the length of a record and the places of its keys), their order
// as the parts of an external sort see it, and where sorted records go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/record/key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

enum class ByteOrder : std::uint8_t { kLittleEndian, kBigEndian };

// The type of a number or a string of bytes, as the program names it: u8 ... u64, i8 ... i64, f32,
// f64, each with "le" (the default) or "be" behind it, or bytes.
struct KeyType {
  KeyKind kind = KeyKind::kBytes;
  std::size_t bytes = 0;  // of a number; 0 for kBytes, whose length is the key's
  ByteOrder byte_order = ByteOrder::kLittleEndian;

  bool operator==(const KeyType&) const = default;
};

// One key of a record. Numbers are ordered as numbers, in the total order of RadixKey.
struct RecordKey {
  std::size_t offset = 0;  // bytes from the beginning of the record
  std::size_t length = 0;  // in bytes
  KeyType type;
  bool descending = false;

  bool operator==(const RecordKey&) const = default;
};

// "u32be" and so on; throws Error(EINVAL) with the names there are. `context` begins the message.
VORTEX_EXPORT KeyType parse_key_type(std::string_view text, const std::string& context);
VORTEX_EXPORT std::string to_string(const KeyType& type);

// OFFSET:LENGTH[:TYPE][:desc], the type being bytes by default. Throws Error(EINVAL) that quotes
// the text and says which part is wrong and what is allowed there. Whether the key lies inside a
// record is RecordFormat's business.
VORTEX_EXPORT RecordKey parse_record_key(std::string_view text);

// The text that parse_record_key() understands, with nothing left out.
VORTEX_EXPORT std::string to_string(const RecordKey& key);

// The value of a number whose bytes are at `bytes`, as bits.
VORTEX_EXPORT std::uint64_t load_bits(const std::byte* bytes, const KeyType& type) noexcept;
VORTEX_EXPORT void store_bits(std::byte* bytes, const KeyType& type, std::uint64_t bits) noexcept;

// Encodes the value of such a number, shifted to the top of a word. For kBytes: the first bytes of
// the key, loaded as a big-endian number.
inline KeyEncoder<std::uint64_t> key_encoder(const RecordKey& key) noexcept {
  return KeyEncoder<std::uint64_t>({key.type.kind, key.descending},
                                   static_cast<int>(8 * (key.length < 8 ? key.length : 8)));
}

// Two whole neighbouring records fit in the window of a stream of default blocks.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;

// Blocks that a reader or writer of records holds at once: two where records straddle blocks.
inline std::size_t blocks_for_records(std::size_t block_bytes, std::size_t record_bytes) noexcept {
  return record_bytes == 0 || block_bytes % record_bytes == 0 ? 1 : 2;
}

// Records of one length, ordered by their keys, the first counting most. Records are compared by
// their keys alone: two that differ elsewhere are equal. Immutable; the methods marked noexcept
// allocate nothing.
class VORTEX_EXPORT RecordFormat {
 public:
  // Without keys, the whole record is one key of bytes. Throws Error(EINVAL) that names the key,
  // the record's length and the limit.
  explicit RecordFormat(std::size_t record_bytes, std::vector<RecordKey> keys = {});

  std::size_t record_bytes() const noexcept { return record_bytes_; }
  const std::vector<RecordKey>& keys() const noexcept { return keys_; }

  // The same keys with ascending and descending exchanged.
  RecordFormat reversed() const;

  // Less than, equal to or greater than 0, as `left` belongs before, beside or behind `right`.
  int compare(const std::byte* left, const std::byte* right) const noexcept {
    return compare_from(0, left, right);
  }

  // The first 64 bits of the normalised key: if leading_bits(a) < leading_bits(b), then a belongs
  // before b. Where leading_bits_decide(), equal bits mean equal keys.
  std::uint64_t leading_bits(const std::byte* record) const noexcept;
  bool leading_bits_decide() const noexcept { return normalised_bytes_ <= 8; }
  // compare() for records whose leading bits are known to be equal: looks at the rest of the keys.
  int compare_behind_leading_bits(const std::byte* left, const std::byte* right) const noexcept {
    return compare_from(first_behind_, left, right);
  }

  // The keys as one string of bytes that memcmp() orders as compare() orders the records.
  std::size_t normalised_bytes() const noexcept { return normalised_bytes_; }
  void normalise(const std::byte* record, std::byte* normalised) const noexcept;

  bool operator==(const RecordFormat&) const = default;

 private:
  int compare_from(std::size_t first, const std::byte* left, const std::byte* right) const noexcept;

  std::size_t record_bytes_;
  std::vector<RecordKey> keys_;
  std::size_t normalised_bytes_ = 0;  // the sum of the keys' lengths
  std::size_t first_behind_ = 0;      // the first key that the leading bits do not hold whole
};

// "records of 100 bytes by 0:10:bytes"
VORTEX_EXPORT std::string to_string(const RecordFormat& format);

// Where sorted records go, a batch at a time.
//
// The sender asks for room, puts records there in their order, and says how many bytes of it are
// used. One thread at a time; what either call throws ends the output.
class VORTEX_EXPORT RecordOutput {
 public:
  virtual ~RecordOutput() = default;

  // Room for one record at least and `most_bytes` (whole records) at most. Valid until the next
  // call. It may be memory of a stream, so that writing to it waits inside a fault and fails as the
  // stream does: write inside guarded().
  virtual std::span<std::byte> room(std::size_t most_bytes) = 0;

  // The next records are in the first `bytes` of the last room.
  virtual void written(std::size_t bytes) = 0;

 protected:
  RecordOutput() = default;
  RecordOutput(const RecordOutput&) = default;
  RecordOutput& operator=(const RecordOutput&) = default;
};

// Copies records that lie one behind the other, forwards or backwards.
VORTEX_EXPORT void append_records(RecordOutput& out, const std::byte* records, std::uint64_t count,
                                  std::size_t record_bytes);
VORTEX_EXPORT void append_reversed(RecordOutput& out, const std::byte* records, std::uint64_t count,
                                   std::size_t record_bytes);

// How records have to be passed on to be in order.
struct RecordIndex {
  enum class Order : std::uint8_t { kGiven, kReversed, kPlaces };
  Order order = Order::kGiven;
  // kPlaces: the value of each pair is the place of a record, counted in records.
  const Pair64* places = nullptr;
};

namespace detail {
class BucketSplitters;
}

// Where one sorted sequence lies: `records` records from `begin` on, which may be the plain pointer
// of a stream.
struct MergeInput {
  const std::byte* begin = nullptr;
  std::uint64_t records = 0;
};

// A record of a merge's input that belongs before the one in front of it.
struct OutOfOrder {
  std::size_t input = 0;
  const std::byte* record = nullptr;
};

// The memory that a merge may use besides a few hundred bytes for each input. Records are no longer
// than blocks.
struct MergeRoom {
  std::size_t block_bytes = 0;    // of the inputs
  std::size_t working_bytes = 0;  // memory to put in order what comes next of all inputs
  unsigned threads = 1;           // that may do so, the caller included
  // The newest blocks of each input that can be read at a time: blocks_for_records() at least.
  std::size_t window_blocks = 1;
  // How far behind the beginning of a block each input begins; empty: where one does.
  std::span<const std::size_t> skipped = {};
};

// A merge of sorted sequences, made by RecordOrder::merge(). Stable: equal records come in the
// order of their inputs. The data need no sentinels, and nothing behind the last record of an input
// is touched.
//
// When the last whole record of a block is taken, at the latest, the last byte of the next one of
// the same input is touched, whatever the order looks at, before any other byte of its block, and
// in the order of these last whole records. So inputs which are streams need their blocks exactly
// in that order (see foretold_order()). The thread that calls merge() touches blocks first; until
// the merge is destroyed, other threads may read what MergeRoom::window_blocks says. Nothing here
// allocates; all of it may wait in faults of the inputs and of the output.
class VORTEX_EXPORT RecordMerge {
 public:
  virtual ~RecordMerge() = default;

  // Touches the first records, input by input. To be called once, before all else.
  virtual void start() noexcept = 0;
  virtual std::uint64_t records_left() const noexcept = 0;

  // Moves the next `count` records, records_left() at most, to `out`. Throws what that throws.
  virtual void merge(std::uint64_t count, RecordOutput& out) = 0;

 protected:
  RecordMerge() = default;
  RecordMerge(const RecordMerge&) = default;
  RecordMerge& operator=(const RecordMerge&) = default;
};

// A merge of inputs that may not be sorted, made by RecordOrder::checked_merge().
class CheckedRecordMerge : public RecordMerge {
 public:
  // As merge(). Ends before the first record that shows that its input is not sorted.
  virtual std::optional<OutOfOrder> merge_checked(std::uint64_t count, RecordOutput& out) = 0;
};

// Buckets that records are scattered to: the open end of each.
class VORTEX_EXPORT OpenBuckets {
 public:
  struct End {
    std::byte* cursor = nullptr;  // the next record goes here
    std::byte* limit = nullptr;   // there is room up to here

    std::size_t room() const noexcept { return static_cast<std::size_t>(limit - cursor); }
  };

  explicit OpenBuckets(std::size_t buckets) : ends_(buckets) {}
  virtual ~OpenBuckets() = default;

  End& end(std::size_t bucket) noexcept { return ends_[bucket]; }
  const End& end(std::size_t bucket) const noexcept { return ends_[bucket]; }
  std::size_t size() const noexcept { return ends_.size(); }

  // Makes room for a record at an end that has none. False: no memory is left. May throw.
  virtual bool extend(std::size_t bucket) = 0;

 protected:
  OpenBuckets(const OpenBuckets&) = default;
  OpenBuckets& operator=(const OpenBuckets&) = default;

 private:
  std::vector<End> ends_;
};

// A strict weak order over whole records that are record_bytes() bytes at any address, and all that
// a sort does with records by their order. A virtual call takes a batch of records, so that what is
// done for each is compiled with the order inlined: for formats in the library, for the comparator
// of a program in that program (OrderBy, vortex/detail/merge/record_kernels.h).
//
// The leading bits of a record are the first 64 bits of its key: if leading_bits(a) <
// leading_bits(b), then less(a, b). An order that has none takes 0 for all.
//
// Immutable; for any number of threads at a time. Merges and sorts of large buckets allocate.
class VORTEX_EXPORT RecordOrder {
 public:
  virtual ~RecordOrder() = default;
  RecordOrder(const RecordOrder&) = delete;
  RecordOrder& operator=(const RecordOrder&) = delete;

  std::size_t record_bytes() const noexcept { return record_bytes_; }
  // Whether equal leading bits mean equal records.
  bool leading_bits_decide() const noexcept { return leading_bits_decide_; }

  // For single records: a block's last one, a splitter; and for several, whose reading may fault.
  virtual bool less(const std::byte* left, const std::byte* right) const noexcept = 0;
  virtual std::uint64_t leading_bits(const std::byte* record) const noexcept = 0;
  virtual void leading_bits_of(const std::byte* records, std::size_t count,
                               std::uint64_t* bits) const = 0;
  // The key as a string of bytes that memcmp() orders as less() does the records; 0 bytes: none.
  virtual std::size_t normalised_bytes() const noexcept = 0;
  virtual void normalise(const std::byte* record, std::byte* key) const noexcept = 0;

  // Puts `count` records, in their order, behind the ends of their buckets, until no room is left
  // for one. Returns how many that were. Reading `records` may fault.
  virtual std::size_t scatter(const std::byte* records, std::size_t count,
                              const detail::BucketSplitters& splitters,
                              OpenBuckets& buckets) const = 0;
  // Adds how many of `count` records scatter() would put to each bucket.
  virtual void count_for_buckets(const std::byte* records, std::size_t count,
                                 const detail::BucketSplitters& splitters,
                                 std::span<std::uint32_t> counts) const = 0;

  // Of some records of a bucket as scatter() left them: the last greatest one, and a least one.
  virtual const std::byte* greatest_in_bucket(const std::byte* records,
                                              std::size_t count) const noexcept = 0;
  virtual const std::byte* least_in_bucket(const std::byte* records,
                                           std::size_t count) const noexcept = 0;
  // The leading bits of such a record; where they do not decide, it is as it came.
  virtual std::uint64_t leading_bits_in_bucket(const std::byte* record) const noexcept = 0;

  // Copies such records in their order: those that are less than a border to `low`, the others to
  // `high`, and returns how many are less. The border is a record, or, if that is null, its leading
  // bits alone. Both places have room for all.
  virtual std::size_t divide_bucket(const std::byte* records, std::size_t count, std::uint64_t bits,
                                    const std::byte* border, std::byte* low,
                                    std::byte* high) const noexcept = 0;

  // Appends `count` records to `out` in order; equal ones keep their order. See sort_records() for
  // the scratch, for what is thrown, and for what is left of the records.
  virtual void sort(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                    RecordOutput& out) const = 0;
  // The same for the records of a bucket as scatter() left them there.
  virtual void sort_bucket(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                           RecordOutput& out) const = 0;

  // How much scratch sort_bucket() takes when `out` gives it the room of the very records that it
  // sorts; then it throws nothing. None: it cannot do so.
  virtual std::optional<std::size_t> scratch_to_sort_in_place(std::size_t) const noexcept {
    return std::nullopt;
  }

  // How much scratch index_bucket() takes, which orders have that cannot sort in place. None: they
  // can, or the records are too many at once.
  virtual std::optional<std::size_t> scratch_to_index(std::size_t) const noexcept {
    return std::nullopt;
  }
  // The order of a bucket's records, which stay as they are. Lies in the scratch; equal records
  // keep their order.
  virtual RecordIndex index_bucket(std::byte* /*records*/, std::size_t /*count*/,
                                   std::span<std::byte> /*scratch*/) const noexcept {
    return {};
  }

  // Sorts the records of a bucket, as scatter() left them there, where they are, with at most
  // `threads` threads. Allocates at most bytes_to_sort_large_bucket(), a small part of what the
  // records take. Returns false where it cannot do that, or where there is no memory; nothing has
  // changed then.
  virtual bool sort_large_bucket(std::byte* /*records*/, std::size_t /*count*/,
                                 unsigned /*threads*/) const noexcept {
    return false;
  }
  virtual std::optional<std::size_t> bytes_to_sort_large_bucket(
      std::size_t /*count*/, unsigned /*threads*/) const noexcept {
    return std::nullopt;
  }

  // A merge of the inputs, which must not outlive the order.
  virtual std::unique_ptr<RecordMerge> merge(std::span<const MergeInput> inputs,
                                             const MergeRoom& room) const = 0;
  virtual std::unique_ptr<CheckedRecordMerge> checked_merge(
      std::span<const MergeInput> inputs) const = 0;

  // Moves the first of equal records, which come in order, together at the front, and returns how
  // many these are. Records equal to `before`, unless that is null, are dropped, too.
  virtual std::size_t keep_first_of_equal(std::byte* records, std::size_t count,
                                          const std::byte* before) const noexcept = 0;

  // Copies those of `count` records that come before `bound`, in their order, to `to`, which has
  // room for all of them. Returns how many these are. Reading `records` may fault.
  virtual std::size_t copy_before(const std::byte* bound, const std::byte* records,
                                  std::size_t count, std::byte* to) const = 0;

 protected:
  RecordOrder(std::size_t record_bytes, bool leading_bits_decide) noexcept
      : record_bytes_(record_bytes), leading_bits_decide_(leading_bits_decide) {}

 private:
  const std::size_t record_bytes_;
  const bool leading_bits_decide_;
};

// The order that a format's keys give.
VORTEX_EXPORT std::shared_ptr<const RecordOrder> order_of_format(RecordFormat format);

// Orders records as sort(records, key) does, by a number that is a member of theirs or that a
// function of one record returns: integers, enumerations, and floating-point numbers in the total
// order of RadixKey. Sorts of files (external_sort(), Sorter) sort by the number then, which is
// faster than to compare records; to them, and to std::sort(), it is a comparator like any other.
//
//   vortex::Sorter<Item, vortex::ByKey<double Item::*>> sorter(resources, {&Item::price});
//   vortex::external_sort<Item>(options, vortex::ByKey(&Item::price, vortex::Order::kDescending));
//
// The key must not throw, must give the same for the same record, and is called by all threads of a
// sort at once.
template <typename KeyFunction>
class ByKey {
 public:
  ByKey(KeyFunction key, Order order = Order::kAscending)  // not explicit: see above
      : key_(std::move(key)), order_(order) {}

  template <typename T>
  requires RadixKey<std::remove_cvref_t<std::invoke_result_t<const KeyFunction&, const T&>>>
  bool operator()(const T& left, const T& right) const noexcept {
    const auto a = to_key_bits(detail::take_key(key_, left));
    const auto b = to_key_bits(detail::take_key(key_, right));
    return order_ == Order::kAscending ? a < b : b < a;
  }

  const KeyFunction& key() const noexcept { return key_; }
  Order order() const noexcept { return order_; }

 private:
  KeyFunction key_;
  Order order_;
};

}}  // namespace vortex::v0
