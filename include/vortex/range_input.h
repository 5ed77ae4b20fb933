// An array to read that a range fills: a view, a container, what a coroutine yields.
#pragma once

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"

namespace vortex { inline namespace v0 {

namespace detail {

// The bytes of a range's elements, in order, a block at a time.
// Range: a reference to a container, or what is kept by value.
template <typename T, typename Range>
class RangeFill {
 public:
  template <typename R>
  explicit RangeFill(R&& range)  // NOLINT(bugprone-forwarding-reference-overload)
      : range_(std::forward<R>(range)),
        at_(std::ranges::begin(range_)),
        end_(std::ranges::end(range_)) {}

  std::size_t fill(std::span<std::byte> block, std::uint64_t offset) {
    if (offset < done_) {
      throw_error(EINVAL, "a range goes forward only: blocks that were jumped over are gone");
    }
    while (done_ < offset) {
      if (!have_element()) return 0;
      take(std::min<std::uint64_t>(left_, offset - done_));
    }
    std::size_t filled = 0;
    while (filled < block.size() && have_element()) {
      const std::size_t bytes = std::min(left_, block.size() - filled);
      std::memcpy(block.data() + filled, here(), bytes);
      take(bytes);
      filled += bytes;
    }
    return filled;
  }

 private:
  const std::byte* here() const noexcept {
    return reinterpret_cast<const std::byte*>(&*element_) + (sizeof(T) - left_);
  }
  bool have_element() {
    if (left_ != 0) return true;
    if (at_ == end_) return false;
    element_.emplace(*at_);
    ++at_;
    left_ = sizeof(T);
    return true;
  }
  void take(std::size_t bytes) noexcept {
    left_ -= bytes;
    done_ += bytes;
  }

  Range range_;
  std::ranges::iterator_t<Range> at_;
  std::ranges::sentinel_t<Range> end_;
  std::optional<T> element_;  // whose last `left_` bytes come next
  std::size_t left_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace detail

// An array of the elements of a range, which are computed as blocks of it are touched. T is the
// range's value type. The range is kept in the stream: a container as a reference, which must
// outlive it, anything else by value. Ranges of known size give the array its length.
//
//   auto squares = std::views::iota(0ull) | std::views::transform([](auto i) { return i * i; });
//   auto array = vortex::input_from_range(pool, squares);
//   array.data()[1'000'000];
//
// Incrementing and reading the iterators happens inside page faults, under the rules of
// FillFunction; what they throw is the stream's error. The range is gone through once: elements
// that the reader jumps over are computed and dropped, and coming back to a block that was jumped
// over is an error (EINVAL). Needs M + 1 blocks of the pool. Throws Error as
// input_from_callback() does.
template <std::ranges::input_range Range,
          typename T = std::remove_cv_t<std::ranges::range_value_t<Range>>>
InputStream<T> input_from_range(BlockPool& pool, Range&& range, InputStreamOptions options = {}) {
  std::optional<std::uint64_t> length_bytes;
  if constexpr (std::ranges::sized_range<Range>) {
    length_bytes = detail::saturating_product(std::uint64_t{std::ranges::size(range)}, sizeof(T));
  }
  // std::views::all_t by hand: clang 14 does not compile the views of libstdc++ 12.
  using Value = std::remove_cvref_t<Range>;
  constexpr bool kReferred = std::is_lvalue_reference_v<Range> && !std::ranges::view<Value>;
  using Kept = std::conditional_t<kReferred, Range, Value>;
  // A range may be movable only, but a std::function is copied.
  auto fill = std::make_shared<detail::RangeFill<T, Kept>>(std::forward<Range>(range));
  return input_from_callback<T>(
      pool,
      [fill = std::move(fill)](std::span<std::byte> block, std::uint64_t offset) {
        return fill->fill(block, offset);
      },
      std::move(options), length_bytes);
}

}}  // namespace vortex::v0
