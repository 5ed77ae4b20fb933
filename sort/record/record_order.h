// The order of records of bytes, as the parts of an external sort see it.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include "vortex/key.h"
#include "vortex/record_format.h"
#include "vortex/record_key.h"

namespace vortex::inline v0 {

// An order of records that are record_bytes() bytes at any address:
//   less(a, b)             a strict weak order over whole records;
//   leading_bits(a)        if leading_bits(a) < leading_bits(b), then less(a, b);
//   leading_bits_decide()  whether equal bits mean equal records.
// Immutable and cheap to copy; its functions may be called by several threads at a time and must
// not throw.
template <typename O>
concept RecordOrder = std::copy_constructible<O> &&
    requires(const O& order, const std::byte* record) {
  { order.record_bytes() }
  noexcept->std::same_as<std::size_t>;
  { order.less(record, record) }
  noexcept->std::same_as<bool>;
  { order.leading_bits(record) }
  noexcept->std::same_as<std::uint64_t>;
  { order.leading_bits_decide() }
  noexcept->std::same_as<bool>;
};

// Something that records are appended to; append() copies one record.
template <typename Output>
concept RecordOutput = requires(Output& output, const std::byte* record) {
  output.append(record);
};

// The order that a format's keys give. The usual first keys are read inline: 8 bytes or more, and
// numbers of 4 bytes that are the only key.
class FormatOrder {
 public:
  explicit FormatOrder(RecordFormat format)
      : format_(std::move(format)), encoder_(key_encoder(format_.keys().front())) {
    const RecordKey& first = format_.keys().front();
    offset_ = first.offset;
    const bool is_bytes = first.type.kind == KeyKind::kBytes;
    const bool swaps = (std::endian::native == std::endian::little) ==
                       (is_bytes || first.type.byte_order == ByteOrder::kBigEndian);
    if (is_bytes ? first.length >= 8 : first.length == 8) {
      shape_ = swaps ? Shape::kSwapped : Shape::kPlain;
    } else if (!is_bytes && first.length == 4 && format_.keys().size() == 1) {
      shape_ = swaps ? Shape::kSwappedHalf : Shape::kHalf;
    }
  }

  const RecordFormat& format() const noexcept { return format_; }
  std::size_t record_bytes() const noexcept { return format_.record_bytes(); }

  std::uint64_t leading_bits(const std::byte* record) const noexcept {
    std::uint64_t word = 0;
    std::uint32_t half = 0;
    switch (shape_) {
      case Shape::kPlain:
        std::memcpy(&word, record + offset_, sizeof word);
        break;
      case Shape::kSwapped:
        std::memcpy(&word, record + offset_, sizeof word);
        word = __builtin_bswap64(word);
        break;
      case Shape::kHalf:
        std::memcpy(&half, record + offset_, sizeof half);
        word = std::uint64_t{half} << 32;
        break;
      case Shape::kSwappedHalf:
        std::memcpy(&half, record + offset_, sizeof half);
        word = std::uint64_t{__builtin_bswap32(half)} << 32;
        break;
      case Shape::kOther:
        return format_.leading_bits(record);
    }
    return encoder_.encode(word);
  }
  bool leading_bits_decide() const noexcept { return format_.leading_bits_decide(); }

  // Records are nothing but their leading bits, and record_of() makes them of those.
  bool bits_are_record() const noexcept {
    return (shape_ == Shape::kPlain || shape_ == Shape::kSwapped) &&
           record_bytes() == sizeof(std::uint64_t);
  }
  void record_of(std::uint64_t bits, std::byte* record) const noexcept {
    bits = encoder_.decode(bits);
    if (shape_ == Shape::kSwapped) bits = __builtin_bswap64(bits);
    std::memcpy(record, &bits, sizeof bits);
  }

  bool less(const std::byte* left, const std::byte* right) const noexcept {
    const std::uint64_t a = leading_bits(left);
    const std::uint64_t b = leading_bits(right);
    if (a != b || leading_bits_decide()) return a < b;
    return format_.compare(left, right) < 0;
  }

 private:
  // How the first key is read: as 8 bytes in the processor's order, or the other, or as 4, or by
  // the format.
  enum class Shape : std::uint8_t { kOther, kPlain, kSwapped, kHalf, kSwappedHalf };

  RecordFormat format_;
  KeyEncoder<std::uint64_t> encoder_;
  std::size_t offset_ = 0;
  Shape shape_ = Shape::kOther;
};

// The order of a comparator `less(const T&, const T&)` over records of type T. It must not throw.
template <typename T, typename Less = std::less<T>>
class ComparatorOrder {
  static_assert(std::is_trivially_copyable_v<T>,
                "records are moved as bytes: they must be trivially copyable");
  static_assert(std::predicate<const Less&, const T&, const T&>,
                "the comparator must be callable, as a constant, with two records");

 public:
  explicit ComparatorOrder(Less less = {}) : less_(std::move(less)) {}

  std::size_t record_bytes() const noexcept { return sizeof(T); }
  std::uint64_t leading_bits(const std::byte* /*record*/) const noexcept { return 0; }
  bool leading_bits_decide() const noexcept { return false; }

  bool less(const std::byte* left, const std::byte* right) const noexcept {
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

// Whether `Less` puts records of type T, which are numbers, in their usual order.
template <typename T, typename Less>
inline constexpr bool kUsualOrderOfNumbers = RadixKey<T> && (std::same_as<Less, std::less<T>> ||
                                                             std::same_as<Less, std::less<>>);

// The order of records of type T by `Less`. Numbers in their usual order are compared as their bits
// are, which is faster, and total for floating-point numbers too: NaNs have their places, and -0.0
// comes before +0.0 (see RadixKey).
template <typename T, typename Less>
using OrderOfType =
    std::conditional_t<kUsualOrderOfNumbers<T, Less>, FormatOrder, ComparatorOrder<T, Less>>;

template <typename T, typename Less>
OrderOfType<T, Less> order_of_type(Less less) {
  if constexpr (kUsualOrderOfNumbers<T, Less>) {
    const ByteOrder byte_order = std::endian::native == std::endian::little
                                     ? ByteOrder::kLittleEndian
                                     : ByteOrder::kBigEndian;
    return FormatOrder(RecordFormat(
        sizeof(T), {{.offset = 0,
                     .length = sizeof(T),
                     .type = {key_code<T>(Order::kAscending).kind, sizeof(T), byte_order}}}));
  } else {
    return ComparatorOrder<T, Less>(std::move(less));
  }
}

}  // namespace vortex::inline v0
