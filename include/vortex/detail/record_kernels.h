// Makes a RecordOrder of a comparator: what a sort does for each record, compiled with the
// comparator inlined.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/bucket_splitters.h"
#include "vortex/detail/key.h"
#include "vortex/detail/loser_tree.h"
#include "vortex/detail/order_rules.h"
#include "vortex/detail/record_sort.h"
#include "vortex/record_order.h"

namespace vortex::inline v0::detail {

// Calls kernel(bytes) with the size of a record, as a constant where it is a usual one.
template <typename Kernel>
auto with_constant_size(std::size_t record_bytes, const Kernel& kernel) {
  switch (record_bytes) {
    case 4:
      return kernel(std::integral_constant<std::size_t, 4>{});
    case 8:
      return kernel(std::integral_constant<std::size_t, 8>{});
    case 12:
      return kernel(std::integral_constant<std::size_t, 12>{});
    case 16:
      return kernel(std::integral_constant<std::size_t, 16>{});
    case 24:
      return kernel(std::integral_constant<std::size_t, 24>{});
    case 32:
      return kernel(std::integral_constant<std::size_t, 32>{});
    case 64:
      return kernel(std::integral_constant<std::size_t, 64>{});
    case 100:
      return kernel(std::integral_constant<std::size_t, 100>{});
    case 128:
      return kernel(std::integral_constant<std::size_t, 128>{});
    default:
      return kernel(record_bytes);
  }
}

// The same for rules whose records have one size that the compiler knows already.
template <OrderRules R, typename Kernel>
auto with_size_of(const R& rules, const Kernel& kernel) {
  if constexpr (requires { typename std::bool_constant<(R::kRecordBytes > 0)>; }) {
    return kernel(std::integral_constant<std::size_t, R::kRecordBytes>{});
  } else {
    return with_constant_size(rules.record_bytes(), kernel);
  }
}

// RecordMerge by a loser tree.
template <OrderRules R>
class TreeMerge final : public CheckedRecordMerge {
 public:
  TreeMerge(const R& rules, std::span<const MergeInput> inputs)
      : rules_(rules), tree_(rules, inputs), previous_(rules.record_bytes()) {}

  void start() noexcept override { tree_.start(); }
  std::uint64_t records_left() const noexcept override { return tree_.records_left(); }

  void merge(std::uint64_t count, RecordOutput& out) override {
    with_size_of(rules_, [&](auto record_bytes) {
      for (std::uint64_t left = count * record_bytes; left > 0;) {
        const std::span<std::byte> room = out.room(left);
        for (std::byte* to = room.data(); to != room.data() + room.size(); to += record_bytes) {
          std::memcpy(to, tree_.winner(), record_bytes);
          tree_.advance();
        }
        out.written(room.size());
        left -= room.size();
      }
    });
  }

  // A record that comes before the one that was taken last was no head then, or it would have won:
  // it follows that one in the same input. So what is not sorted shows there, and nowhere else.
  std::optional<OutOfOrder> merge_checked(std::uint64_t count, RecordOutput& out) override {
    const std::size_t record_bytes = rules_.record_bytes();
    for (std::uint64_t left = count * record_bytes; left > 0;) {
      const std::span<std::byte> room = out.room(left);
      KeyedRecord previous{previous_bits_, previous_.data()};
      for (std::size_t at = 0; at < room.size(); at += record_bytes) {
        const KeyedRecord winner{tree_.winner_bits(), tree_.winner()};
        const std::size_t input = tree_.winner_input();
        if (input == previous_input_ && less(rules_, winner, previous)) {
          out.written(at);
          return OutOfOrder{input, winner.record};
        }
        std::memcpy(room.data() + at, winner.record, record_bytes);
        previous = {winner.bits, room.data() + at};
        previous_input_ = input;
        tree_.advance();
      }
      // The last record is kept here, since the output may do anything with the room from now on.
      std::memcpy(previous_.data(), previous.record, record_bytes);
      previous_bits_ = previous.bits;
      out.written(room.size());
      left -= room.size();
    }
    return std::nullopt;
  }

 private:
  const R& rules_;
  LoserTree<R> tree_;
  std::vector<std::byte> previous_;
  std::uint64_t previous_bits_ = 0;
  std::size_t previous_input_ = ~std::size_t{0};
};

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
      return scatter_by(record_bytes, records, count, splitters, buckets,
                        [](std::byte* to, const std::byte* record, std::uint64_t, auto bytes) {
                          std::memcpy(to, record, bytes);
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
                                     const MergeRoom& /*room*/) const override {
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

  const R& rules() const noexcept { return rules_; }

 protected:
  // Puts records of `record_bytes` to their buckets by put(to, record, its leading bits,
  // record_bytes).
  template <typename Size, typename Put>
  std::size_t scatter_by(Size record_bytes, const std::byte* records, std::size_t count,
                         const BucketSplitters& splitters, OpenBuckets& buckets, Put put) const {
    return with_bucket_of(splitters, [&](auto bucket_of) {
      return scatter_to(record_bytes, records, count, buckets, put, bucket_of);
    });
  }

 private:
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

  template <typename Size, typename Put, typename BucketOf>
  [[gnu::always_inline]] std::size_t scatter_to(Size record_bytes, const std::byte* records,
                                                std::size_t count, OpenBuckets& buckets, Put put,
                                                BucketOf bucket_of) const {
    OpenBuckets::End* const ends = &buckets.end(0);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = rules_.leading_bits(records);
      const std::size_t bucket = bucket_of(records, bits);
      OpenBuckets::End& end = ends[bucket];
      if (end.room() < record_bytes && !buckets.extend(bucket)) [[unlikely]]
        return i;
      put(end.cursor, records, bits, record_bytes);
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
    const Record a(left);
    const Record b(right);
    return std::invoke(less_, a.get(), b.get());
  }

 private:
  // A record at an address that does not suit its type is copied to one that does.
  class Record {
   public:
    explicit Record(const std::byte* bytes) noexcept : at_(bytes) {
      if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0) [[unlikely]] {
        std::memcpy(copy_, bytes, sizeof(T));
        at_ = copy_;
      }
    }
    Record(const Record&) = delete;
    Record& operator=(const Record&) = delete;
    const T& get() const noexcept { return *std::launder(reinterpret_cast<const T*>(at_)); }

   private:
    alignas(T) std::byte copy_[sizeof(T)];
    const std::byte* at_;
  };

  Less less_;
};

template <typename T, typename Less = std::less<T>>
class ComparatorOrder final : public OrderBy<ComparatorRules<T, Less>> {
 public:
  explicit ComparatorOrder(Less less = {})
      : OrderBy<ComparatorRules<T, Less>>(ComparatorRules<T, Less>(std::move(less))) {}
};

// The order of records of type T by `less`. Numbers in their usual order are compared as their bits
// are, which is faster, and total for floating-point numbers too: NaNs have their places, and -0.0
// comes before +0.0 (see RadixKey).
template <typename T, typename Less>
std::shared_ptr<const RecordOrder> order_of_type(Less less) {
  if constexpr (RadixKey<T> &&
                (std::same_as<Less, std::less<T>> || std::same_as<Less, std::less<>>)) {
    constexpr ByteOrder kOwn = std::endian::native == std::endian::little ? ByteOrder::kLittleEndian
                                                                          : ByteOrder::kBigEndian;
    const KeyType type = {key_code<T>(Order::kAscending).kind, sizeof(T), kOwn};
    return order_of_format(
        RecordFormat(sizeof(T), {{.offset = 0, .length = sizeof(T), .type = type}}));
  } else {
    return std::make_shared<ComparatorOrder<T, Less>>(std::move(less));
  }
}

}  // namespace vortex::inline v0::detail
