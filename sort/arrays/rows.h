// Arrays of things of a size that is known when the program runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Calls use() with the size of a row, as a constant where it is a usual one.
template <typename Use>
void with_row(std::size_t bytes, const Use& use) {
  with_constant<1, 2, 4, 8, 16, 48, 64, 100>(bytes, use);
}

// An array of rows that are moved as bytes.
class Rows {
 public:
  Rows(void* data, std::size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}

  std::byte* at(std::size_t place) const noexcept { return data_ + place * bytes_; }
  std::size_t bytes() const noexcept { return bytes_; }

  // Copies the rows at places[0 ... count) to `to`, one behind the other.
  template <typename PlaceAt>
  void gather(std::size_t count, const PlaceAt& place_at, std::byte* to) const noexcept {
    // Rows that are prefetched ahead, so that memory answers in time.
    constexpr std::size_t kAhead = 24;
    with_row(bytes_, [&](auto row) {
      for (std::size_t i = 0; i < count; ++i) {
        if (i + kAhead < count) prefetch(place_at(i + kAhead));
        std::memcpy(to + i * bytes_, at(place_at(i)), row);
      }
    });
  }

  // Exchanges the rows at places[i] and others[i].
  void swap(std::size_t count, const std::size_t* places,
            const std::size_t* others) const noexcept {
    with_row(bytes_, [&](auto row) {
      for (std::size_t i = 0; i < count; ++i) exchange(row, at(places[i]), at(others[i]));
    });
  }

  void reverse(std::size_t count) const noexcept {
    with_row(bytes_, [&](auto row) {
      for (std::size_t i = 0; i < count / 2; ++i) exchange(row, at(i), at(count - 1 - i));
    });
  }

 private:
  // gcc takes what does nothing but prefetch for a function without effect, and drops calls of it.
  [[gnu::always_inline]] void prefetch(std::size_t place) const noexcept {
    constexpr std::size_t kLine = 64, kMostLines = 4;
    const std::size_t some = std::min(kMostLines * kLine, bytes_);
    for (std::size_t byte = 0; byte < some; byte += kLine) __builtin_prefetch(at(place) + byte);
    __builtin_prefetch(at(place) + some - 1);
  }

  template <std::size_t kBytes>
  static void exchange(std::integral_constant<std::size_t, kBytes>, std::byte* a, std::byte* b) {
    std::array<std::byte, kBytes> first, second;
    std::memcpy(&first, a, kBytes);
    std::memcpy(&second, b, kBytes);
    std::memcpy(a, &second, kBytes);
    std::memcpy(b, &first, kBytes);
  }
  static void exchange(std::size_t bytes, std::byte* a, std::byte* b) {
    std::swap_ranges(a, a + bytes, b);
  }

  std::byte* data_;
  std::size_t bytes_;
};

}}}  // namespace vortex::v0::detail
