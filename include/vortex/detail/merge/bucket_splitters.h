// Which bucket a record belongs to, decided by splitters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vortex/record_order.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Splits records into buckets in order: record r belongs to the bucket whose number is the number
// of splitters not greater than r; equal records belong to one bucket. Splitters are compared by
// their leading bits; where those are equal, by the whole record if there was room to keep it, and
// else records with equal bits share a bucket.
//
// A table over the range of the splitters' bits leads to the right splitter in a step or two. Where
// they lie evenly, they are moved to where its cells begin, and the table alone decides: buckets
// become a little longer and shorter by that. Buckets may be divided and joined later.
class VORTEX_EXPORT BucketSplitters {
 public:
  // `kept_records` is room for whole splitters, or empty. Begins with equal slices of all leading
  // bits, `buckets` of them; there may be `most_buckets` later. Allocates; the rest does not. The
  // order must outlive it.
  BucketSplitters(const RecordOrder& order, unsigned buckets, unsigned most_buckets,
                  std::span<std::byte> kept_records);

  std::size_t buckets() const noexcept { return splitters() + 1; }
  bool has_room() const noexcept { return splitters() < most_; }

  // Room for the whole splitters of at most `buckets`; 0 where they are not needed.
  static std::size_t kept_bytes(const RecordOrder& order, unsigned buckets) noexcept;

  // Takes new splitters, in order, from a stream of sorted records: every i-th of `records`.
  // begin_choosing(), then note() for all records in order, batch by batch, then end_choosing().
  // The old ones are gone at once.
  void begin_choosing(std::uint64_t records) noexcept;
  void note(const std::byte* records, std::size_t count) noexcept;
  void end_choosing() noexcept;

  // Where a bucket may be divided.
  struct Border {
    std::uint64_t bits = 0;  // of the record
    const std::byte* record = nullptr;
  };
  enum class Place : std::uint8_t {
    kExact,    // no record less than the border goes to the upper bucket
    kBelow,    // only such go to the lower one
    kRounded,  // a little below the border, where that lets the table decide
  };
  // Divides a bucket: records that are not less than the border belong to a new one behind it. Of
  // records whose bits alone count, kExact leaves all with those of the border where less ones may
  // be, and kBelow none of them. False:
  // there is no room, or all records of the bucket would be on one side.
  bool divide(std::size_t bucket, const Border& border, Place place) noexcept;
  // A bucket and the one behind it become one.
  void join(std::size_t bucket) noexcept;
  // Between a bucket and the one behind it. The record is null where the bits alone count.
  Border border(std::size_t bucket) const noexcept {
    return {bits_[bucket], whole_ ? kept(bucket) : nullptr};
  }
  // Whether no record that is less belongs to the same bucket.
  bool is_least(std::size_t bucket, const Border& border) const noexcept;

  // What bucket_of() reads, as values that stores to records cannot change.
  class Finder {
   public:
    // The table decides: only_table() may be called.
    bool table_decides() const noexcept { return decides_; }
    [[gnu::always_inline]] std::size_t only_table(std::uint64_t bits) const noexcept {
      return table_[cell_of(bits)];
    }
    // `bits` are the leading bits of the record, by the order of the splitters.
    template <typename Rules>
    [[gnu::always_inline]] std::size_t bucket_of(const Rules& rules, const std::byte* record,
                                                 std::uint64_t bits) const noexcept {
      std::size_t bucket = table_[cell_of(bits)];
      while (bits_[bucket] < bits) ++bucket;
      if (bits_[bucket] == bits) [[unlikely]]
        return all_.behind_equal(rules, record, bits, bucket);
      return bucket;
    }

   private:
    friend class BucketSplitters;
    explicit Finder(const BucketSplitters& all) noexcept
        : all_(all),
          low_(all.low_),
          shift_(all.shift_),
          decides_(all.table_decides_),
          bits_(all.bits_.data()),
          table_(all.table_.data()) {}

    [[gnu::always_inline]] std::uint64_t cell_of(std::uint64_t bits) const noexcept {
      const std::uint64_t distance = bits >= low_ ? bits - low_ : 0;
      return std::min<std::uint64_t>(distance >> shift_, kCells - 1);
    }

    const BucketSplitters& all_;
    const std::uint64_t low_;
    const int shift_;
    const bool decides_;
    const std::uint64_t* const bits_;
    const std::uint16_t* const table_;
  };
  // Valid until splitters are chosen, or buckets divided or joined.
  Finder finder() const noexcept { return Finder(*this); }

 private:
  static constexpr std::size_t kCells = 2048;

  std::uint64_t next_rank() const noexcept;
  void choose(const std::byte* record) noexcept;
  void end_bits() noexcept;
  void make_table() noexcept;
  void fill_table() noexcept;
  bool move_to_cells() noexcept;
  bool lie_in_cells() const noexcept;
  std::uint64_t rounded(std::uint64_t bits) const noexcept;
  bool is_between(std::size_t bucket, const Border& border) const noexcept;

  std::size_t splitters() const noexcept { return bits_.size() - 1; }
  std::byte* kept(std::size_t splitter) const noexcept {
    return kept_.data() + splitter * order_.record_bytes();
  }

  // The number of splitters not greater than a record that has the bits of splitter `first`, the
  // first that has them, or those behind the last.
  template <typename Rules>
  [[gnu::noinline]] std::size_t behind_equal(const Rules& rules, const std::byte* record,
                                             std::uint64_t bits, std::size_t first) const noexcept {
    std::size_t end = splitters();
    if (first == end) return first;
    if (!whole_) return first + 1;
    while (first < end) {
      const std::size_t middle = first + (end - first) / 2;
      const std::byte* splitter = kept_.data() + middle * rules.record_bytes();
      if (bits_[middle] == bits && !rules.less_of_equal_bits(record, splitter)) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    return first;
  }

  const RecordOrder& order_;
  const std::size_t chosen_;  // splitters among records
  const std::size_t most_;
  std::span<std::byte> kept_;
  bool whole_ = false;  // the splitters are in kept_, too
  // The bits of the splitters, in order, distinct unless whole_; and behind them the greatest bits
  // there are, where every search ends. Without those while splitters are chosen.
  std::vector<std::uint64_t> bits_;
  // Cell c of the table covers the bits from low_ + (c << shift_) on, and the first and the last
  // one what lies beyond; table_[c] splitters lie before them, or, where the table decides, not
  // behind their beginning.
  bool table_decides_ = false;
  std::uint64_t low_ = 0;
  int shift_ = 0;
  // Of the table that has decided last, and does when all splitters lie at its cells again.
  std::uint64_t deciding_low_ = 0;
  int deciding_shift_ = 0;  // 0: none has
  std::vector<std::uint16_t> table_ = std::vector<std::uint16_t>(kCells);
  std::uint64_t records_ = 0;  // while choosing: how many there will be, how many there were,
  std::uint64_t seen_ = 0;
  std::uint64_t next_ = 0;  // and the rank of the next splitter
};

}}}  // namespace vortex::v0::detail
