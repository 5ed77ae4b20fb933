// Keys that compiled code reads, whatever they are part of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "vortex/detail/record/key.h"
#include "vortex/detail/record/key_code.h"
#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 { namespace detail {

// Reads the keys of an array as bits whose order is the one that is wanted. One call for a block of
// keys costs next to nothing, so what uses it is compiled once, in the library.
struct KeySource {
  // Puts the bits of the keys of records [begin, begin + count) into `bits`. From any thread.
  using Read = void (*)(const void* context, std::size_t begin, std::size_t count,
                        std::uint64_t* bits) noexcept;

  void read(std::size_t begin, std::size_t count, std::uint64_t* bits) const noexcept {
    function(context, begin, count, bits);
  }
  std::uint64_t operator[](std::size_t place) const noexcept {
    std::uint64_t bits;
    read(place, 1, &bits);
    return bits;
  }

  const void* context;
  Read function;
};

// How an array of numbers is made: of 1, 2, 4 or 8 bytes each, floating-point ones of 4 or 8.
struct NumberForm {
  std::size_t bytes;
  KeyCode code;  // never of kind kBytes
};
template <RadixKey K>
constexpr NumberForm number_form(Order order) noexcept {
  return {sizeof(K), key_code<K>(order)};
}

// The keys of an array of numbers.
VORTEX_EXPORT KeySource keys_of_numbers(const void* numbers, const NumberForm& form) noexcept;

// The keys of records: `key(record)`. Must outlive its source.
template <typename T, typename KeyFunction>
class RecordKeys {
 public:
  RecordKeys(const T* records, KeyFunction key, Order order)
      : records_(records), key_of_(std::move(key), order) {}

  KeySource source() const noexcept { return {this, &read}; }

 private:
  static void read(const void* context, std::size_t begin, std::size_t count,
                   std::uint64_t* bits) noexcept {
    const auto& keys = *static_cast<const RecordKeys*>(context);
    for (std::size_t i = 0; i < count; ++i) bits[i] = keys.key_of_(keys.records_[begin + i]);
  }

  const T* records_;
  OrderedKey<T, KeyFunction> key_of_;
};

}}}  // namespace vortex::v0::detail
