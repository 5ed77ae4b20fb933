// An endless array to write: `T*` whose blocks flow away behind the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "vortex/gaps.h"
#include "vortex/sink.h"
#include "vortex/stream/window_stream.h"

namespace vortex::inline v0 {

struct OutputStreamOptions {
  std::string name = "output";
  // L: after touching block i, a writer may come back as far as block i - L; blocks may be written
  // in any order within that. Records and vector stores that straddle a block border need 1.
  std::size_t comeback_blocks = 1;
  StaleBlocks stale_blocks = 0;                          // on a pool of aliases; see there
  std::uint64_t reserve_bytes = std::uint64_t{1} << 40;  // the most that can be written
  std::uint64_t least_reserve_bytes = std::uint64_t{1}
                                      << 30;  // accepted when the system refuses more
  // No kernel tells which bytes of a page were written, so nothing cheaper than clearing all of
  // them keeps the promise of zeros.
  Gaps gaps = Gaps::kZeros;
};

// The untyped part. A write fault places an empty block from the sink; a block more than L behind
// the newest is complete and is handed over (section 4.3 of the Vortex paper). A touch behind the
// window is the stream's error (on a pool of aliases as soon as StaleBlocks says), and so is a read
// of a block that was never written, where the processor tells reads from writes. What the writer
// leaves out of a block that it touched is zeros, whatever the sink, unless Gaps::kUnspecified is
// asked for. Whole blocks that it jumps over go to Sink::skip(): zeros in a file, an error for
// callbacks, pipelines and what cannot seek.
//
// One thread writes, or several that together stay inside the window. System calls on data() fail
// with EFAULT or come back short unless prefault() has placed the range.
class OutputStreamBase : public WindowStream {
 public:
  using Options = OutputStreamOptions;

  // Throws Error: EINVAL when the window does not fit what the sink guarantees, ENOMEM from the
  // reservation.
  OutputStreamBase(std::unique_ptr<Sink> sink, Options options);
  // Without finish() the sink is told that the data are not whole.
  ~OutputStreamBase() override;

  std::byte* bytes() noexcept { return base(); }

  // The data end at `length_bytes`: hands over what is left, waits until the sink is done with it,
  // and takes the memory away. Blocks beyond the end are dropped; blocks before it that were never
  // touched are skipped, as for a jump. Throws Error: the stream's failure, the sink's error,
  // EINVAL when blocks beyond the end have already been handed over, EALREADY on a second call. Not
  // inside a fault.
  void finish_bytes(std::uint64_t length_bytes);

  // Places every block of [offset, offset + bytes) now, so that the range can be given to system
  // calls that write memory. Throws like InputStreamBase::prefault. Not inside a fault.
  void prefault(std::uint64_t offset, std::size_t bytes);

  Sink& sink() noexcept { return *sink_; }

 protected:
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  void wake() noexcept final { sink_->cancel(); }

 private:
  bool place_block(std::uint64_t index, std::uint64_t offset) noexcept;
  // Hands over every block below `floor`; the data end at `length`.
  bool hand_over_below(std::uint64_t floor, std::uint64_t length, std::uint64_t offset) noexcept;
  void drop_all() noexcept;

  std::unique_ptr<Sink> sink_;
  const Gaps gaps_;
  std::uint64_t handed_over_ = 0;  // blocks below were completed or skipped
  bool finished_ = false;
};

// OutputStream<T>: `for (std::uint64_t i = 0; i < n; ++i) out.data()[i] = f(i); out.finish(n);`
template <typename T>
class OutputStream : public OutputStreamBase {
  static_assert(
      std::is_trivially_copyable_v<T>,
      "a stream moves bytes between memory and elsewhere: its element type must be trivially "
      "copyable");

 public:
  using OutputStreamBase::OutputStreamBase;
  // While this is still an OutputStream for those who wait inside its faults.
  ~OutputStream() override { close(); }

  // The array. Valid until finish(); writing it may wait inside a page fault.
  T* data() noexcept { return reinterpret_cast<T*>(bytes()); }

  // Ends the data after `count` elements. See finish_bytes().
  void finish(std::uint64_t count) { finish_bytes(count * sizeof(T)); }
};

}  // namespace vortex::inline v0
