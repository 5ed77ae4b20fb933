// Makes a RecordOrder of a comparator: what a sort does for each record, compiled with the
// comparator inlined.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "vortex/detail/merge/bucket_splitters.h"
#include "vortex/detail/merge/loser_tree.h"
#include "vortex/detail/merge/order_rules.h"
#include "vortex/detail/merge/parallel_merge.h"
#include "vortex/detail/merge/record_sort.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/record_order.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// The order by these rules.
template <OrderRules R>
class OrderBy : public RecordOrder {
 public:
  explicit OrderBy(R rules)
      : RecordOrder(rules.record_bytes(), rules.leading_bits_decide()), rules_(std::move(rules)) {}

  bool less(const std::byte* left, const std::byte* right) const noexcept override {
    return detail::less(rules_, with_bits(rules_, left), with_bits(rules_, right));
  }
  std::uint64_t leading_bits(const std::byte* record) const noexcept override {
    return rules_.leading_bits(record);
  }
  void leading_bits_of(const std::byte* records, std::size_t count,
                       std::uint64_t* bits) const override {
    with_size_of(rules_, [&](auto record_bytes) {
      for (std::size_t i = 0; i < count; ++i) {
        bits[i] = rules_.leading_bits(records + i * record_bytes);
      }
    });
  }
  std::size_t normalised_bytes() const noexcept override {
    if constexpr (requires { rules_.format(); }) return rules_.format().normalised_bytes();
    return 0;
  }
  void normalise([[maybe_unused]] const std::byte* record,
                 [[maybe_unused]] std::byte* key) const noexcept override {
    if constexpr (requires { rules_.format(); }) rules_.format().normalise(record, key);
  }

  std::size_t scatter(const std::byte* records, std::size_t count, const BucketSplitters& splitters,
                      OpenBuckets& buckets) const override {
    return with_size_of(rules_, [&](auto record_bytes) {
      return with_bucket_of(splitters, [&](auto bucket_of) {
        return scatter_to(record_bytes, records, count, buckets, bucket_of);
      });
    });
  }

  void count_for_buckets(const std::byte* records, std::size_t count,
                         const BucketSplitters& splitters,
                         std::span<std::uint32_t> counts) const override {
    with_size_of(rules_, [&](auto record_bytes) {
      with_bucket_of(splitters, [&](auto bucket_of) {
        for (std::size_t i = 0; i < count; ++i) {
          ++counts[bucket_of(records, rules_.leading_bits(records))];
          records += record_bytes;
        }
      });
    });
  }

  const std::byte* greatest_in_bucket(const std::byte* records,
                                      std::size_t count) const noexcept override {
    KeyedRecord greatest = with_bits(rules_, records);
    for (; count > 1; --count) {
      records += record_bytes();
      const KeyedRecord here = with_bits(rules_, records);
      if (!detail::less(rules_, here, greatest)) greatest = here;
    }
    return greatest.record;
  }
  const std::byte* least_in_bucket(const std::byte* records,
                                   std::size_t count) const noexcept override {
    KeyedRecord least = with_bits(rules_, records);
    for (; count > 1; --count) {
      records += record_bytes();
      const KeyedRecord here = with_bits(rules_, records);
      if (detail::less(rules_, here, least)) least = here;
    }
    return least.record;
  }
  std::uint64_t leading_bits_in_bucket(const std::byte* record) const noexcept override {
    return rules_.leading_bits(record);
  }

  std::size_t divide_bucket(const std::byte* records, std::size_t count, std::uint64_t bits,
                            const std::byte* border, std::byte* low,
                            std::byte* high) const noexcept override {
    return with_size_of(rules_, [&](auto record_bytes) {
      std::byte* ends[] = {high, low};
      for (std::size_t i = 0; i < count; ++i, records += record_bytes) {
        const std::uint64_t here = rules_.leading_bits(records);
        const bool is_less = here < bits || (here == bits && border != nullptr &&
                                             rules_.less_of_equal_bits(records, border));
        std::byte*& to = ends[is_less];
        std::memcpy(to, records, record_bytes);
        to += record_bytes;
      }
      return static_cast<std::size_t>(ends[1] - low) / record_bytes;
    });
  }

  void sort(std::byte* records, std::size_t count, std::span<std::byte> scratch,
            RecordOutput& out) const override {
    sort_records(rules_, records, count, scratch, out);
  }
  void sort_bucket(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                   RecordOutput& out) const override {
    sort_records(rules_, records, count, scratch, out);
  }

  std::optional<std::size_t> scratch_to_index(std::size_t count) const noexcept override {
    return scratch_to_index_records(count);
  }
  RecordIndex index_bucket(std::byte* records, std::size_t count,
                           std::span<std::byte> scratch) const noexcept override {
    return index_records(rules_, records, count, scratch);
  }

  std::unique_ptr<RecordMerge> merge(std::span<const MergeInput> inputs,
                                     const MergeRoom& room) const override {
    if (ParallelMerge<R>::suits(rules_, inputs.size(), room)) {
      return std::make_unique<ParallelMerge<R>>(rules_, inputs, room);
    }
    return checked_merge(inputs);
  }
  std::unique_ptr<CheckedRecordMerge> checked_merge(
      std::span<const MergeInput> inputs) const override {
    return std::make_unique<TreeMerge<R>>(rules_, inputs);
  }

  std::size_t keep_first_of_equal(std::byte* records, std::size_t count,
                                  const std::byte* before) const noexcept override {
    const std::size_t bytes = record_bytes();
    std::byte* to = records;
    KeyedRecord last;
    if (before != nullptr) last = with_bits(rules_, before);
    for (const std::byte* from = records; count > 0; --count, from += bytes) {
      const KeyedRecord here = with_bits(rules_, from);
      if (last.record != nullptr && !detail::less(rules_, last, here)) continue;
      if (to != from) std::memcpy(to, from, bytes);
      last = {here.bits, to};
      to += bytes;
    }
    return static_cast<std::size_t>(to - records) / bytes;
  }

  std::size_t copy_before(const std::byte* bound, const std::byte* records, std::size_t count,
                          std::byte* to) const override {
    return copy_before_by(bound, records, count, to,
                          [](const std::byte*, std::size_t) { return std::size_t{0}; });
  }

  const R& rules() const noexcept { return rules_; }

 protected:
  // copy_before(), where behind(records, count) says of how many records, from the first on, it is
  // known that they do not come before the bound.
  template <typename Behind>
  std::size_t copy_before_by(const std::byte* bound, const std::byte* records, std::size_t count,
                             std::byte* to, const Behind& behind) const {
    return with_size_of(rules_, [&](auto record_bytes) {
      const KeyedRecord last = with_bits(rules_, bound);
      std::size_t kept = 0;
      for (std::size_t i = behind(records, count); i < count;
           i += behind(records + i * record_bytes, count - i)) {
        const std::byte* const record = records + i * record_bytes;
        ++i;
        if (!detail::less(rules_, with_bits(rules_, record), last)) continue;
        std::memcpy(to, record, record_bytes);
        to += record_bytes;
        ++kept;
      }
      return kept;
    });
  }

  // Calls kernel(bucket_of), with a function of a record and its leading bits.
  template <typename Kernel>
  auto with_bucket_of(const BucketSplitters& splitters, const Kernel& kernel) const {
    const BucketSplitters::Finder finder = splitters.finder();
    if (finder.table_decides()) {
      return kernel(
          [finder](const std::byte*, std::uint64_t bits) { return finder.only_table(bits); });
    }
    return kernel([this, finder](const std::byte* record, std::uint64_t bits) {
      return finder.bucket_of(rules_, record, bits);
    });
  }

 private:
  // Puts records to their buckets, and returns how many there was memory for.
  template <typename Size, typename BucketOf>
  [[gnu::always_inline]] std::size_t scatter_to(Size record_bytes, const std::byte* records,
                                                std::size_t count, OpenBuckets& buckets,
                                                BucketOf bucket_of) const {
    OpenBuckets::End* const ends = &buckets.end(0);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bucket = bucket_of(records, rules_.leading_bits(records));
      OpenBuckets::End& end = ends[bucket];
      if (end.room() < record_bytes && !buckets.extend(bucket)) [[unlikely]]
        return i;
      std::memcpy(end.cursor, records, record_bytes);
      end.cursor += record_bytes;
      records += record_bytes;
    }
    return count;
  }

  const R rules_;
};

// The order of a comparator `less(const T&, const T&)` over records of type T. It must not throw.
template <typename T, typename Less = std::less<T>>
class ComparatorRules {
  static_assert(std::is_trivially_copyable_v<T>,
                "records are moved as bytes: they must be trivially copyable");
  static_assert(std::predicate<const Less&, const T&, const T&>,
                "the comparator must be callable, as a constant, with two records");

 public:
  static constexpr std::size_t kRecordBytes = sizeof(T);

  explicit ComparatorRules(Less less = {}) : less_(std::move(less)) {}

  std::size_t record_bytes() const noexcept { return sizeof(T); }
  std::uint64_t leading_bits(const std::byte* /*record*/) const noexcept { return 0; }
  bool leading_bits_decide() const noexcept { return false; }

  bool less_of_equal_bits(const std::byte* left, const std::byte* right) const noexcept {
    const RecordAt<T> a(left);
    const RecordAt<T> b(right);
    return std::invoke(less_, a.get(), b.get());
  }

 private:
  Less less_;
};

template <typename T, typename Less = std::less<T>>
class ComparatorOrder final : public OrderBy<ComparatorRules<T, Less>> {
 public:
  explicit ComparatorOrder(Less less = {})
      : OrderBy<ComparatorRules<T, Less>>(ComparatorRules<T, Less>(std::move(less))) {}
};

// The order of a key that a function makes of records of type T: its bits decide.
template <typename T, typename KeyFunction>
class KeyRules {
  static_assert(std::is_trivially_copyable_v<T>,
                "records are moved as bytes: they must be trivially copyable");
  using Key = OrderedKey<T, KeyFunction>;

 public:
  static constexpr std::size_t kRecordBytes = sizeof(T);

  explicit KeyRules(const ByKey<KeyFunction>& by) : key_(by.key(), by.order()) {}

  std::size_t record_bytes() const noexcept { return sizeof(T); }
  std::uint64_t leading_bits(const std::byte* record) const noexcept {
    constexpr int kBelow = 64 - std::numeric_limits<typename Key::Bits>::digits;
    return std::uint64_t{key_(RecordAt<T>(record).get())} << kBelow;
  }
  bool leading_bits_decide() const noexcept { return true; }
  bool less_of_equal_bits(const std::byte*, const std::byte*) const noexcept { return false; }

 private:
  Key key_;
};

template <typename Less>
inline constexpr bool kIsByKey = false;
template <typename KeyFunction>
inline constexpr bool kIsByKey<ByKey<KeyFunction>> = true;

// The order of records by a number at a place of theirs, which is compiled once.
VORTEX_EXPORT std::shared_ptr<const RecordOrder> order_of_number(std::size_t record_bytes,
                                                                 const SortKey& key);

// The order of records of type T by `less`. Numbers in their usual order are compared as their bits
// are, which is faster, and total for floating-point numbers too: NaNs have their places, and -0.0
// comes before +0.0 (see RadixKey).
template <typename T, typename Less>
std::shared_ptr<const RecordOrder> order_of_type(Less less) {
  if constexpr (RadixKey<T> &&
                (std::same_as<Less, std::less<T>> || std::same_as<Less, std::less<>>)) {
    return order_of_number(sizeof(T), {.code = key_code<T>(Order::kAscending),
                                       .place = {0, static_cast<int>(sizeof(T))}});
  } else if constexpr (kIsByKey<Less>) {
    using KeyFunction = std::remove_cvref_t<decltype(less.key())>;
    if constexpr (MemberKey<T, KeyFunction>::kIsOne) {
      return order_of_number(sizeof(T), sort_key_of_member<T>(less.key(), less.order()));
    } else {
      return std::make_shared<OrderBy<KeyRules<T, KeyFunction>>>(KeyRules<T, KeyFunction>(less));
    }
  } else {
    return std::make_shared<ComparatorOrder<T, Less>>(std::move(less));
  }
}

}}}  // namespace vortex::v0::detail
