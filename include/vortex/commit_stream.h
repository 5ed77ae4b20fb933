// One array that two threads share, committed ahead of the writer and decommitted behind the
// reader: Vortex-B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "vortex/detail/export.h"
#include "vortex/stream.h"

namespace vortex::inline v0 {

class FutexSemaphore;

struct CommitStreamOptions {
  std::string name = "commit stream";
  std::size_t block_bytes = std::size_t{1} << 20;
  std::size_t read_ahead_blocks = 2;       // N, at least 1
  std::size_t writer_comeback_blocks = 1;  // L
  std::size_t reader_comeback_blocks = 1;  // M
  std::uint64_t reserve_bytes = std::uint64_t{1} << 40;
  std::uint64_t least_reserve_bytes = std::uint64_t{1}
                                      << 30;  // accepted when the system refuses more
};

// The untyped part. Section 4.2 of the Vortex paper, Algorithms 7 and 8: blocks that the writer
// enters are committed, a page at the start of each block that it has left for good is a guard, and
// the reader that trips over a guard lets the writer move on and blocks more than M behind it be
// decommitted. Two semaphores count the empty and the full blocks.
//
// It needs no pool and takes N + L + M + 1 blocks, but every block is fresh memory from the kernel,
// which is what makes it slow; and its reader is seen at guards only. A reader that jumps into a
// block that the writer is still filling gets what is there. A reader that jumps beyond the writer
// waits, where the processor tells reads from writes (x86-64); elsewhere it is taken for the
// writer. A Pipeline has neither weakness.
//
// One thread writes and one reads. Errors are those of every stream (see guarded.h).
class VORTEX_EXPORT CommitStreamBase : public Stream {
 public:
  using Options = CommitStreamOptions;

  // Throws Error: EINVAL for a block that is no multiple of the page or without read-ahead, ENOMEM
  // from the reservation.
  explicit CommitStreamBase(const Options& options);
  ~CommitStreamBase() override;

  std::byte* writer_bytes() noexcept { return base(); }

  // Waits until the first block has its guard, or the writer has finished. Throws the stream's
  // failure.
  const std::byte* reader_bytes();

  // The writer is done: the data end at `length` bytes. After them come zeros to the end of the
  // page and for a page more. Throws Error: EINVAL when less was announced than the reader may have
  // seen, EALREADY on a second call, and the stream's failure.
  void finish_bytes(std::uint64_t length);

  std::optional<std::uint64_t> length_bytes() const noexcept;

 protected:
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  void wake() noexcept final;
  Window window() const noexcept final;
  std::size_t block_bytes() const noexcept final { return block_bytes_; }

 private:
  struct State;

  std::byte* block_at(std::uint64_t index) noexcept { return base() + index * block_bytes_; }
  bool serve_writer(std::uint64_t index, std::uint64_t offset) noexcept;
  bool serve_reader(std::uint64_t index, std::uint64_t offset) noexcept;
  bool serve_end(std::uint64_t offset) noexcept;
  bool guard_below(std::uint64_t floor, std::uint64_t offset) noexcept;
  bool decommit(std::uint64_t index, std::uint64_t offset) noexcept;
  // Waits with the stream unlocked, since the other thread's fault is what ends the wait.
  bool acquire_unlocked(FutexSemaphore& semaphore, std::uint64_t offset) noexcept;

  const std::size_t block_bytes_;
  const std::unique_ptr<State> state_;
};

// CommitStream<T>: give writer_data() to one thread and reader_data() to another; they are the same
// address.
template <typename T>
class CommitStream : public CommitStreamBase {
  static_assert(
      std::is_trivially_copyable_v<T>,
      "a stream shows bytes that another thread wrote: its element type must be trivially "
      "copyable");

 public:
  using CommitStreamBase::CommitStreamBase;

  T* writer_data() noexcept { return reinterpret_cast<T*>(writer_bytes()); }
  // May wait; see reader_bytes().
  const T* reader_data() { return reinterpret_cast<const T*>(reader_bytes()); }
  void finish(std::uint64_t count) { finish_bytes(count * sizeof(T)); }
};

}  // namespace vortex::inline v0
