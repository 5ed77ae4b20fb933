// Requests to a disk, the attempts to carry them out, and queues of requests.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vortex { inline namespace v0 {

enum class Operation : std::uint8_t { kRead, kWrite };

inline constexpr std::size_t kMaxPieces = 32;

// A transfer that is handed to the kernel at once: the whole of a request, or the rest that an
// earlier attempt left over.
struct Attempt {
  Operation operation = Operation::kRead;
  int file = -1;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;  // the sum of `memory`
  const iovec* memory = nullptr;
  unsigned memory_count = 0;
};

// Carries out the attempt with preadv or pwritev (readv or writev where the descriptor cannot seek)
// and returns the bytes moved or a negative errno value. Keeps errno.
std::int64_t transfer(const Attempt& attempt) noexcept;

// The same for a descriptor that poll(2) says is ready: moves what a pipe or a socket takes now,
// and does not wait for its other side to make room for all.
std::int64_t transfer_at_once(const Attempt& attempt) noexcept;

// The memory of a request in several pieces. It belongs to whoever submits the request and stays
// where it is until the request has ended. Requests of one piece do without: a merge keeps one for
// each of its buffers.
struct Pieces {
  std::array<std::byte*, kMaxPieces> begins{};
  std::array<iovec, kMaxPieces> attempt;  // for the disk
};

// One transfer between a range of a file and memory, in one piece or several (small blocks are
// grouped into one request). It is plain storage of whoever submits it: submitting allocates
// nothing, and the request must stay where it is until it has ended.
//
// It ends in one of two ways. With a `complete` function, that function is called once, by
// whichever thread finds the result (a thread of the disk, or one that waits for another request),
// possibly inside a page fault: no allocation, no exceptions, no waiting. It may submit requests,
// and the disk does not touch this one after calling it. Without one, done() becomes true, which
// Disk::wait() waits for.
struct Request {
  // The offset of descriptors that cannot seek: bytes are moved in the order of submission. Only
  // for disks that carry out one request at a time.
  static constexpr std::uint64_t kSequential = ~std::uint64_t{0};

  Operation operation = Operation::kRead;
  int file = -1;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  // Reading: with this many bytes the transfer is whole, although it asks for more (direct I/O asks
  // for whole sectors, and files end anywhere). 0: all of them.
  std::size_t least_bytes = 0;
  // A transfer that was cut short goes on at a multiple of this: what direct I/O demands, else 1.
  std::size_t alignment = 1;

  // One piece of memory, which begins here, or, where `pieces` is not null, `piece_count` of them,
  // `piece_bytes` each; the last may be longer than what is left of `bytes`.
  std::byte* memory = nullptr;
  Pieces* pieces = nullptr;
  unsigned piece_count = 0;
  std::size_t piece_bytes = 0;

  // A write that succeeds leaves zeros in all its pieces.
  bool clear_written = false;

  // The kernel copies between the memory and a file that it has in memory, too.
  bool copies = false;

  void (*complete)(Request& request) noexcept = nullptr;
  void* context = nullptr;  // for `complete`

  // The outcome: `error` is an errno value; when it is 0, fewer bytes than wanted_bytes() mean that
  // the file ends there (reading only).
  std::size_t bytes_done = 0;
  int error = 0;

  void set_memory(std::byte* begin, std::size_t size) noexcept {
    memory = begin;
    pieces = nullptr;
    piece_count = 1;
    piece_bytes = size;
    bytes = size;
  }
  std::size_t wanted_bytes() const noexcept { return least_bytes != 0 ? least_bytes : bytes; }

  // It has ended (and has no `complete`); the outcome may be read.
  bool done() const noexcept { return state_.load(std::memory_order_acquire) == State::kDone; }
  bool under_way() const noexcept {
    return state_.load(std::memory_order_acquire) == State::kUnderWay;
  }

  // For the backends of Disk.
  const Attempt& attempt() const noexcept { return attempt_; }
  // Bytes done when a transfer was last cut at no multiple of `alignment`; 0: none was.
  std::size_t cut_at() const noexcept { return cut_at_; }

 private:
  friend class Disk;
  friend class RequestQueue;

  enum class State : std::uint8_t { kNew, kUnderWay, kDone };

  // Prepares an attempt for the bytes from `bytes_done` on.
  void prepare_attempt() noexcept;

  std::atomic<State> state_{State::kNew};
  Request* next_ = nullptr;
  Attempt attempt_;
  iovec one_piece_{};           // what the attempt moves, where there is one piece
  unsigned interruptions_ = 0;  // in a row, with nothing moved
  unsigned refusals_ = 0;       // likewise
  std::size_t cut_at_ = 0;
  std::uint64_t issued_ns_ = 0;  // for the trace
};

// Requests in order of arrival, linked through themselves. Not thread-safe.
class RequestQueue {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push(Request& request) noexcept;
  Request* pop() noexcept;  // null when empty

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

}}  // namespace vortex::v0
