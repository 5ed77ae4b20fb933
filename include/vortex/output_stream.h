// An endless array to write: `T*` whose blocks flow away behind the writer, and where they go.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The bytes that a reader finds where the writer has left bytes out of a block that it touched.
enum class Gaps : std::uint8_t {
  kZeros,        // each block is cleared before the writer gets it, which costs a pass over it
  kUnspecified,  // whatever the memory held, the data of other users of the pool included: for
                 // writers that write every byte
};

class BlockWindow;

// Takes the blocks of an output stream: a callback, a channel to another thread, a disk queue.
// take(), complete(), skip() and discard() are called inside faults (or inside finish()), by one
// thread at a time, with the stream locked: no allocation, no exceptions, no touch of the stream
// itself. They may wait.
class VORTEX_EXPORT Sink {
 public:
  virtual ~Sink() = default;

  struct Taken {
    Block block;  // resting; none on error
    Status status = {};
    bool zeros = false;  // the block holds nothing else; otherwise its contents are unspecified
  };

  // The pool all blocks come from and return to.
  virtual BlockPool& pool() noexcept = 0;

  // How many blocks the sink guarantees the stream to hold at once: at least L + 1.
  virtual std::size_t blocks_for_stream() const noexcept = 0;

  // An empty block for `index`.
  virtual Taken take(std::uint64_t index) noexcept = 0;

  // Block `index` is final and belongs to the sink from here on, even on error. Resting. Indexes
  // arrive in increasing order; every index below the end arrives here or in skip(). `bytes` is
  // less than a block only in the last one.
  virtual Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept = 0;

  // The writer went past the blocks [first, first + count) without touching them. By default an
  // error: what they would hold is anybody's guess.
  virtual Status skip(std::uint64_t first, std::uint64_t count) noexcept {
    (void)first;
    (void)count;
    return {EINVAL, "the writer jumped over blocks that it can never write again"};
  }

  // A block of take() that will not be completed. Resting.
  virtual void discard(Block block) noexcept = 0;

  // All blocks have been handed over and the data end at `length` bytes. Called outside faults, may
  // allocate and wait.
  virtual Status finish(std::uint64_t length) noexcept {
    (void)length;
    return {};
  }

  // The stream ends without finish(): what was handed over is not a whole.
  virtual void abandon() noexcept {}

  // Wakes a call that waits, which then returns ECANCELED; from any thread.
  virtual void cancel() noexcept {}
};

struct OutputStreamOptions {
  std::string name = "output";
  // L: after touching block i, a writer may come back as far as block i - L; blocks may be written
  // in any order within that. Records and vector stores that straddle a block border need 1.
  std::size_t comeback_blocks = 1;
  StaleBlocks stale_blocks = 0;                          // on a pool of aliases; see there
  std::uint64_t reserve_bytes = std::uint64_t{1} << 40;  // the most that can be written
  // When the system refuses reserve_bytes, the half is tried, and so on, down to this. So the
  // largest reserve_bytes means as much as can be had.
  std::uint64_t least_reserve_bytes = std::uint64_t{1} << 30;
  // No kernel tells which bytes of a page were written, so nothing cheaper than clearing all of
  // them keeps the promise of zeros.
  Gaps gaps = Gaps::kZeros;
};

// The untyped part. A write fault places an empty block from the sink; a block more than L behind
// the newest is complete and is handed over (section 4.3 of the Vortex paper). A touch behind the
// window is the stream's error (on a pool of aliases once the block is vacated: see StaleBlocks),
// and so is a read of a block that was never written, where the processor tells reads from writes.
// Bytes that the writer leaves out of a block that it touched are zeros, whatever the sink, unless
// the options ask for Gaps::kUnspecified. Whole blocks that the writer jumps over go to
// Sink::skip(): they are zeros in a file, and an error for callbacks, pipelines and outputs that
// cannot seek.
//
// One thread writes, or several that together stay inside the window. System calls on data() fail
// with EFAULT or come back short unless prefault() has placed the range.
class VORTEX_EXPORT OutputStreamBase : public Stream {
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

  // See InputStreamBase::home_of().
  const std::byte* home_of(const void* at) noexcept;

  // Places every block of [offset, offset + bytes) now, so that the range can be given to system
  // calls that write memory. Throws like InputStreamBase::prefault. Not inside a fault.
  void prefault(std::uint64_t offset, std::size_t bytes);

  Sink& sink() noexcept { return *sink_; }

 protected:
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  bool is_vacant(std::uint64_t index) const noexcept final;
  void wake() noexcept final { sink_->cancel(); }
  Window window() const noexcept final;
  std::size_t block_bytes() const noexcept final;

 private:
  bool place_block(std::uint64_t index, std::uint64_t offset) noexcept;
  // Hands over every block below `floor`; the data end at `length`.
  bool hand_over_below(std::uint64_t floor, std::uint64_t length, std::uint64_t offset) noexcept;
  void drop_all() noexcept;

  const std::unique_ptr<Sink> sink_;
  const std::unique_ptr<BlockWindow> window_;
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
  void finish(std::uint64_t count) { finish_bytes(detail::saturating_product(count, sizeof(T))); }
};

// Vortex-A for writers: the consumer runs inside the producer's page faults. The function takes the
// finished bytes of the stream from `offset` on. It is called in order, inside a page fault of the
// writer or inside finish(), under the same rules as FillFunction. An exception that it throws
// becomes the stream's error, with the errno value that the exception carries.
using DrainFunction = std::function<void(std::span<const std::byte> block, std::uint64_t offset)>;

// A sink that hands finished blocks to the function, for an OutputStream that holds up to `blocks`
// blocks of the pool at once; they are guaranteed to it. Throws Error: EINVAL for more than
// kMaxPoolBlocks, ENOMEM when the pool cannot guarantee them. `name` is the stream's, for messages.
VORTEX_EXPORT std::unique_ptr<Sink> callback_sink(BlockPool& pool, std::size_t blocks,
                                                  DrainFunction drain_function,
                                                  const std::string& name);

// An array whose bytes go to a function as they are finished. Needs L + 1 blocks of the pool.
template <typename T>
OutputStream<T> output_to_callback(BlockPool& pool, DrainFunction drain_function,
                                   OutputStreamOptions options = {}) {
  auto sink = callback_sink(pool, detail::saturating_sum(options.comeback_blocks, 1),
                            std::move(drain_function), options.name);
  return OutputStream<T>(std::move(sink), std::move(options));
}

// A bare read(2) into stream memory that is not placed fails with EFAULT or, when the first part is
// placed, comes back short: the kernel's own accesses raise no SIGSEGV. This call places each part
// first.
//
// Reads from the descriptor into [offset, offset + bytes) of the stream, until that is full or the
// descriptor is at its end; returns how many bytes were read. Throws Error:
// the stream's failure, EINVAL behind the stream's window, or what read(2) reports. Not inside a
// fault.
VORTEX_EXPORT std::uint64_t read_into_stream(int descriptor, OutputStreamBase& stream,
                                             std::uint64_t offset, std::uint64_t bytes);

}}  // namespace vortex::v0
