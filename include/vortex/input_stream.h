// An endless array to read: `const T*` to data of any size, and where its blocks come from, a range
// among others.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/one_pass_iterator.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class BlockWindow;

// Supplies an input stream with blocks: from a callback, another thread, a disk queue, one run of a
// merge. take(), release() and fill() are called inside faults, by one thread at a time, with the
// stream locked: no allocation, no exceptions, no touch of the stream itself.
// They may wait.
class VORTEX_EXPORT Source {
 public:
  virtual ~Source() = default;

  struct Taken {
    Block block;            // none at the end of the data, and on error
    std::size_t bytes = 0;  // valid bytes in it; less than a block only in the last one
    Status status = {};
  };

  // The pool all blocks come from and return to.
  virtual BlockPool& pool() noexcept = 0;

  // How many blocks the source guarantees the stream to hold at once: at least M + 1.
  virtual std::size_t blocks_for_stream() const noexcept = 0;

  // The block `index` (bytes from index * B on), for the stream to place. `index` is at least
  // `floor`, not held by the stream at present, and usually one more than the last; blocks below
  // `floor` will never be asked for again. So forward jumps skip blocks, and a comeback within M
  // may ask for one that was skipped. No block and no error: the data end at or before index * B,
  // and length() tells where.
  virtual Taken take(std::uint64_t index, std::uint64_t floor) noexcept = 0;

  // A block of take() comes back, resting, its contents no longer needed.
  virtual void release(std::uint64_t index, Block block) noexcept = 0;

  // Exact length in bytes, once it is known.
  virtual std::optional<std::uint64_t> length() const noexcept = 0;

  // Writes what readers find after the end of the data: [begin, end) is the memory for the bytes
  // from `offset` of the stream on. Zeros by default, at which NUL-terminated scanners stop.
  virtual void fill(std::byte* begin, std::byte* end, std::uint64_t offset) noexcept {
    (void)offset;
    std::memset(begin, 0, static_cast<std::size_t>(end - begin));
  }

  // Wakes a take() that waits, which then returns ECANCELED; from any thread.
  virtual void cancel() noexcept {}
};

struct InputStreamOptions {
  std::string name = "input";
  // M: after touching block i, a reader may come back as far as block i - M. Records and vector
  // loads that straddle a block border need 1.
  std::size_t comeback_blocks = 1;
  StaleBlocks stale_blocks = 0;  // on a pool of aliases; see there
  // Address space. 0: the length of the data plus what the end needs, or kUnknownLengthReservation
  // when the source does not know it. Halved down to `least_reserve_bytes` when the system refuses.
  std::uint64_t reserve_bytes = 0;
  std::uint64_t least_reserve_bytes =
      0;  // 0: no less than the known length; 1 GiB when it is unknown
};

inline constexpr std::uint64_t kUnknownLengthReservation = std::uint64_t{1} << 40;

// The untyped part. Read faults take the next block from the source, place it, and release the
// block that falls out of the window (Algorithm 6 of the Vortex paper with remapping, section 4.3).
// The window is [newest - M, newest], where newest is the highest block touched; a reader may jump
// forward as it likes. A touch behind the window, beyond the end, or a write outside the window is
// the stream's error (see guarded()); on a pool of aliases every write is, and how soon a touch
// behind the window is noticed is a choice (see StaleBlocks).
//
// The data end where the source says. After them come filler bytes (Source::fill) to the end of
// their last page and at least one whole page more; beyond that a read is an error.
//
// Any thread may read, several at once as long as all stay inside the window. System calls on
// data() fail with EFAULT or come back short unless prefault() has placed the range.
class VORTEX_EXPORT InputStreamBase : public Stream {
 public:
  using Options = InputStreamOptions;

  // Throws Error: EINVAL when the window does not fit what the source guarantees, ENOMEM from the
  // reservation.
  InputStreamBase(std::unique_ptr<Source> source, Options options);
  ~InputStreamBase() override;

  const std::byte* bytes() const noexcept { return base(); }

  // Length in bytes, once the source knows it.
  std::optional<std::uint64_t> length_bytes() const noexcept { return source_->length(); }

  // Up to which byte the data can be read, once the one at `offset` is there: waits for that as a
  // touch of it does, inside a page fault. Where the length is known, it is the length, at once;
  // otherwise the end of the block, or the length, if the data have ended. For data whose length
  // only their end tells:
  //
  //   for (std::uint64_t at = 0, end; (end = in.readable_bytes(at)) > at; at = end) use(at, end);
  //
  // Throws Error(ERANGE) for an offset beyond the reservation, where the length is not known.
  std::uint64_t readable_bytes(std::uint64_t offset) const;

  // Where system calls, requests to disks and registered buffers reach the byte at `at` whatever
  // becomes of the window: at its block's home, in a pool of aliases; `at` itself in a pool that
  // moves, as long as the block is placed. Null when the block is not placed. Waits for a fault
  // that is being served; not inside a fault of this stream.
  const std::byte* home_of(const void* at) noexcept;

  // Places every block of [offset, offset + bytes) now, waiting for the data as a fault would, so
  // that the range can be given to system calls. It stays placed until the reader touches a block
  // more than M ahead. Throws Error: EINVAL when the range spans more than the window or begins
  // behind it, ERANGE when the data end before it does, and the stream's failure. Not inside a
  // fault.
  void prefault(std::uint64_t offset, std::size_t bytes);

  Source& source() noexcept { return *source_; }

 protected:
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  bool handle_overrun(std::uint64_t offset) noexcept final;
  bool is_vacant(std::uint64_t index) const noexcept final;
  void wake() noexcept final { source_->cancel(); }
  Window window() const noexcept final;
  std::size_t block_bytes() const noexcept final;

 private:
  bool place_block(std::uint64_t index, std::uint64_t offset) noexcept;
  bool release_below(std::uint64_t floor, std::uint64_t offset) noexcept;
  bool serve_end(std::uint64_t offset, std::uint64_t length) noexcept;

  const std::unique_ptr<Source> source_;
  const std::unique_ptr<BlockWindow> window_;
  std::uint64_t released_ = 0;  // blocks below are not placed
  bool filler_placed_ = false;  // the page after the end, where the last block has no room for it
};

// InputStream<T>: `for (std::uint64_t i = 0; i < n; ++i) sum += stream.data()[i];`
template <typename T>
class InputStream : public InputStreamBase {
  static_assert(
      std::is_trivially_copyable_v<T>,
      "a stream moves bytes between memory and elsewhere: its element type must be trivially "
      "copyable");

 public:
  using InputStreamBase::InputStreamBase;
  // While this is still an InputStream for those who wait inside its faults.
  ~InputStream() override { close(); }

  // The array. Valid while the stream lives; reading it may wait inside a page fault.
  const T* data() const noexcept { return reinterpret_cast<const T*>(bytes()); }

  // Whole elements, once the length is known.
  std::optional<std::uint64_t> size() const noexcept {
    const auto length = length_bytes();
    if (!length) return std::nullopt;
    return *length / sizeof(T);
  }

  // The whole elements as an input range, which waits for its end where the length is not known. It
  // can be gone through once, for blocks behind the window are gone; between data() and the end of
  // the window lies the contiguous part.
  detail::OnePassIterator<T, InputStreamBase> begin() const noexcept { return {*this, data()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
};

// Vortex-A (section 4.1 of the Vortex paper, Algorithm 6): the producer runs inside the consumer's
// page faults. The function writes the bytes of the stream from `offset` on into `block` and
// returns how many it wrote; fewer than the block holds means that the data end there, and more is
// the stream's error. It runs inside a page fault of the reader, so it must not touch the stream
// itself, or take a lock that the interrupted code may hold (if the reader can be inside malloc
// when it faults, do not allocate). It may read and write other streams. An exception that it
// throws becomes the stream's error, with the errno value that the exception carries.
using FillFunction = std::function<std::size_t(std::span<std::byte> block, std::uint64_t offset)>;

// A source whose blocks the function fills, for an InputStream that holds up to `blocks` blocks of
// the pool at once; they are guaranteed to it. With a known length the function is never asked for
// more. Throws Error: EINVAL for more blocks than kMaxPoolBlocks and for a length of 2^64 - 1,
// ENOMEM when the pool cannot guarantee them. `name` is the stream's, for messages.
VORTEX_EXPORT std::unique_ptr<Source> callback_source(BlockPool& pool, std::size_t blocks,
                                                      FillFunction fill_function,
                                                      std::optional<std::uint64_t> length_bytes,
                                                      const std::string& name);

// An array whose bytes a function computes as they are read. Needs M + 1 blocks of the pool.
//
//   vortex::BlockPool pool({.pool_bytes = 4 << 20});
//   auto squares = vortex::input_from_callback<std::uint64_t>(pool, fill, {.name = "squares"});
//   squares.data()[123456789012];
template <typename T>
InputStream<T> input_from_callback(BlockPool& pool, FillFunction fill_function,
                                   InputStreamOptions options = {},
                                   std::optional<std::uint64_t> length_bytes = std::nullopt) {
  auto source = callback_source(pool, detail::saturating_sum(options.comeback_blocks, 1),
                                std::move(fill_function), length_bytes, options.name);
  return InputStream<T>(std::move(source), std::move(options));
}

// A bare write(2) from stream memory that is not placed fails with EFAULT or, when the first part
// is placed, comes back short: the kernel's own accesses raise no SIGSEGV. This call places each
// part first.
//
// Writes bytes [offset, offset + bytes) of the stream to the descriptor, all of them. Throws Error:
// the stream's failure, EINVAL behind the stream's window, ERANGE beyond the end of the data
// (before anything is written where the length is known, else before the first block that does not
// hold all that is wanted of it), or what write(2) reports. Not inside a fault.
VORTEX_EXPORT void write_from_stream(int descriptor, InputStreamBase& stream, std::uint64_t offset,
                                     std::uint64_t bytes);

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
