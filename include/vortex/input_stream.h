// An endless array to read: `const T*` to data of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "vortex/source.h"
#include "vortex/stream/window_stream.h"

namespace vortex::inline v0 {

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
// the stream's error (see guarded.h); on a pool of aliases every write is, and how soon a touch
// behind the window is noticed is a choice (see StaleBlocks).
//
// The data end where the source says. After them come filler bytes (Source::fill) to the end of
// their last page and at least one whole page more; beyond that a read is an error.
//
// Any thread may read, several at once as long as all stay inside the window. System calls on
// data() fail with EFAULT or come back short unless prefault() has placed the range.
class InputStreamBase : public WindowStream {
 public:
  using Options = InputStreamOptions;

  // Throws Error: EINVAL when the window does not fit what the source guarantees, ENOMEM from the
  // reservation.
  InputStreamBase(std::unique_ptr<Source> source, Options options);
  ~InputStreamBase() override;

  const std::byte* bytes() const noexcept { return base(); }

  // Length in bytes, once the source knows it.
  std::optional<std::uint64_t> length_bytes() const noexcept { return source_->length(); }

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
  void wake() noexcept final { source_->cancel(); }

 private:
  bool place_block(std::uint64_t index, std::uint64_t offset) noexcept;
  bool release_below(std::uint64_t floor, std::uint64_t offset) noexcept;
  bool serve_end(std::uint64_t offset, std::uint64_t length) noexcept;

  std::unique_ptr<Source> source_;
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
};

}  // namespace vortex::inline v0
