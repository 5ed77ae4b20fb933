// Arrays of things of a size that is known when the program runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "sort/memory/record_paths.h"
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
    // Rows are asked for so early that memory answers in time, and again for the first-level cache.
    constexpr std::size_t kFar = 64, kNear = 6;
    with_row(bytes_, [&](auto row) {
      for (std::size_t i = 0; i < count; ++i) {
        if (i + kFar < count) ask_for(at(place_at(i + kFar)), row);
        if (i + kNear < count) ask_for<3>(at(place_at(i + kNear)), row);
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

  // As many rows as the shares are of, by their threads.
  template <typename Shares>
  void reverse(Shares& shares) const {
    const std::size_t last = shares.count() - 1;
    shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      with_row(bytes_, [&](auto row) {
        for (std::size_t i = begin / 2; i < end / 2; ++i) exchange(row, at(i), at(last - i));
      });
    });
  }

 private:
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
