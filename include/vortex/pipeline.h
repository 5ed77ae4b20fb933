// Two threads, one array without an end: a producer writes it, a consumer reads it. Pipeline is
// Vortex-C; CommitStream is Vortex-B, the baseline that it improves on.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class FutexEvent;

// The numbers of blocks are at most kMaxPoolBlocks, also together, and the length is less than 2^64
// - 1; otherwise the constructor throws Error(EINVAL) that names the option.
struct PipelineOptions {
  std::string name = "pipeline";
  std::size_t block_bytes = kDefaultBlockBytes;  // B, where the pipeline makes its own pool
  std::size_t read_ahead_blocks = 2;             // N
  std::size_t writer_comeback_blocks = 1;        // L: how far back the producer may write
  std::size_t reader_comeback_blocks = 1;        // M: how far back the consumer may read
  // How the pool that the pipeline makes gets its blocks to both threads.
  PoolKind pool_kind = PoolKind::kThreads;
  // The stale blocks of each of the two arrays, on a pool of aliases. With 0, every touch behind a
  // window is an error at once, and each block costs an interruption of the other thread.
  StaleBlocks stale_blocks = 15;
  // The bytes that the reader finds where the producer left bytes out of a block. Clearing blocks
  // that move between two threads of one program costs more than the moves.
  Gaps gaps = Gaps::kUnspecified;
  // The length when it is known before the data are; finish() must agree with it.
  std::optional<std::uint64_t> length_bytes = std::nullopt;
  // Address space for each of the two arrays while the length is not known; halved down to 1 GiB
  // when the system refuses, so that the largest number is as much as can be had.
  std::uint64_t reserve_bytes = kUnknownLengthReservation;
  // Blocks come from here instead of a pool of the pipeline's own, which holds exactly what it
  // needs.
  std::shared_ptr<BlockPool> pool = nullptr;
};

namespace detail {

// What joins the two threads of a pipeline. Thread-safe; nothing here may be called inside a fault.
class VORTEX_EXPORT Channel {
 public:
  virtual ~Channel() = default;

  // PipelineReader::wait_size() in bytes, PipelineWriter::fail() and Pipeline::cancel(), of which
  // the first one stays.
  virtual std::uint64_t wait_length() = 0;
  virtual void break_off(int error, std::string_view cause) noexcept = 0;
  virtual void cancel(int error, std::string_view cause) noexcept = 0;
  // Waits until the writer may go to this block, or would get an error there. False, at once:
  // `given_up` is true. Whoever sets it wakes the writer.
  virtual bool await_room(std::uint64_t block, const std::atomic<bool>& given_up) noexcept = 0;
  virtual void wake_writer() noexcept = 0;
  // N + L + M + 1, and how often an end had to sleep.
  virtual std::size_t capacity_blocks() const noexcept = 0;
  virtual std::uint64_t sleeps() const noexcept = 0;
};

// The channel that joins the two threads; each end keeps it alive.
VORTEX_EXPORT std::shared_ptr<Channel> make_channel(const PipelineOptions& options);
// Each is made once.
VORTEX_EXPORT std::unique_ptr<Sink> writing_end_of(const std::shared_ptr<Channel>& channel);
VORTEX_EXPORT std::unique_ptr<Source> reading_end_of(const std::shared_ptr<Channel>& channel);
VORTEX_EXPORT OutputStreamOptions writer_options(const PipelineOptions& options);
VORTEX_EXPORT InputStreamOptions reader_options(const PipelineOptions& options);

}  // namespace detail

// The end of a pipeline that writes. Going out of scope without finish() (an exception, an early
// return) is an error that the reader gets after the blocks that were handed over.
template <typename T>
class PipelineWriter {
 public:
  PipelineWriter(PipelineWriter&&) noexcept = default;
  // The end that is replaced goes as out of scope.
  PipelineWriter& operator=(PipelineWriter&& other) noexcept {
    if (this == &other) return *this;
    leave();
    stream_ = std::move(other.stream_);
    channel_ = std::move(other.channel_);
    return *this;
  }
  ~PipelineWriter() { leave(); }

  // The array. Writing it may wait inside a page fault for the reader. See OutputStream.
  T* data() noexcept { return stream_->data(); }

  // The data end after `count` elements. Throws Error: EPIPE when the reader left before it had
  // read them all, EINVAL when another length was announced, and the stream's failure.
  void finish(std::uint64_t count) { stream_->finish(count); }

  // Gives up: the reader gets the blocks that were handed over, and then this error.
  void fail(int error, std::string_view cause) noexcept { channel_->break_off(error, cause); }

  OutputStream<T>& stream() noexcept { return *stream_; }

 private:
  template <typename U>
  friend class Pipeline;
  PipelineWriter(std::shared_ptr<detail::Channel> channel,
                 std::unique_ptr<OutputStream<T>> stream) noexcept
      : channel_(std::move(channel)), stream_(std::move(stream)) {}

  void leave() noexcept {
    if (!stream_) return;
    if (const Failure failure = stream_->failure()) fail(failure.error, failure.cause.view());
    stream_.reset();
  }

  std::shared_ptr<detail::Channel> channel_;
  std::unique_ptr<OutputStream<T>> stream_;
};

// The end of a pipeline that reads. When it goes out of scope before the writer has finished, the
// writer gets EPIPE.
template <typename T>
class PipelineReader {
 public:
  PipelineReader(PipelineReader&&) noexcept = default;
  // The end that is replaced goes as out of scope.
  PipelineReader& operator=(PipelineReader&& other) noexcept {
    stream_ = std::move(other.stream_);
    channel_ = std::move(other.channel_);
    return *this;
  }

  // The array. Reading it may wait inside a page fault for the writer. After the last byte come
  // zeros to the end of its page and for a page more. See InputStream.
  const T* data() const noexcept { return stream_->data(); }

  // The number of whole elements, once it is known.
  std::optional<std::uint64_t> size() const noexcept { return stream_->size(); }

  // The elements as an input range, as those of an InputStream.
  auto begin() const noexcept { return stream_->begin(); }
  std::default_sentinel_t end() const noexcept { return {}; }

  // Waits for it. Throws Error when the writer gives up or the pipeline is cancelled. Do not wait
  // for a writer that waits for you: it gets no further than N + L blocks ahead of what was read.
  std::uint64_t wait_size() { return channel_->wait_length() / sizeof(T); }

  InputStream<T>& stream() noexcept { return *stream_; }

 private:
  template <typename U>
  friend class Pipeline;
  PipelineReader(std::shared_ptr<detail::Channel> channel,
                 std::unique_ptr<InputStream<T>> stream) noexcept
      : channel_(std::move(channel)), stream_(std::move(stream)) {}

  std::shared_ptr<detail::Channel> channel_;
  std::unique_ptr<InputStream<T>> stream_;
};

// Vortex-C (section 4.3 of the Vortex paper): what one thread writes to writer().data(), another
// thread finds at reader().data(), as if both were one array of any size, while N + L + M + 1
// blocks of memory move from one to the other. Nothing is copied and neither thread sees a block.
//
//   vortex::Pipeline<std::uint64_t> pipeline({});
//   std::thread producer([out = pipeline.writer(), n]() mutable {
//     for (std::uint64_t i = 0; i < n; ++i) out.data()[i] = i;
//     out.finish(n);
//   });
//   auto in = pipeline.reader();
//   for (std::uint64_t i = 0; i < n; ++i) sum += in.data()[i];
//
// The writer may go back L blocks and write them in any order within that; the reader may go back M
// blocks and jump forward as it likes. With the reader in block c the writer gets no further than
// block c + N + L: it waits, spinning briefly, then asleep. Touches outside the windows are errors
// of the stream (see guarded()).
//
// Any thread may hold an end, one at a time; the ends outlive the Pipeline object. A filter reads
// one pipeline and writes the next.
template <typename T>
class Pipeline {
  static_assert(std::is_trivially_copyable_v<T>,
                "a pipeline moves bytes from one thread to another: its element type must be "
                "trivially copyable");

 public:
  // Throws Error: ENOMEM when memory or address space is refused, EINVAL for a bad block size, for
  // numbers beyond their limits, and for a length that no address space holds.
  explicit Pipeline(const PipelineOptions& options)
      : channel_(detail::make_channel(options)),
        writer_(channel_, std::make_unique<OutputStream<T>>(detail::writing_end_of(channel_),
                                                            detail::writer_options(options))),
        reader_(channel_, std::make_unique<InputStream<T>>(detail::reading_end_of(channel_),
                                                           detail::reader_options(options))) {}

  // The ends, each to be taken once. An end that is not taken is destroyed with the Pipeline, with
  // the same effect as when a taken end goes out of scope.
  PipelineWriter<T> writer() noexcept { return std::move(writer_); }
  PipelineReader<T> reader() noexcept { return std::move(reader_); }

  // Wakes both threads where they wait; each gets this error at the next block that it needs. From
  // any thread.
  void cancel(int error = ECANCELED,
              std::string_view cause = "the pipeline was cancelled") noexcept {
    channel_->cancel(error, cause);
  }

  // For tests and measurements of the library.
  const detail::Channel& channel() const noexcept { return *channel_; }

 private:
  const std::shared_ptr<detail::Channel> channel_;
  PipelineWriter<T> writer_;
  PipelineReader<T> reader_;
};

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
// writer. With the engine userfaultfd it waits until the writer touches the same page. A Pipeline
// has none of these weaknesses.
//
// One thread writes and one reads. Errors are those of every stream (see guarded()).
class VORTEX_EXPORT CommitStreamBase : public Stream {
 public:
  using Options = CommitStreamOptions;

  // Throws Error: EINVAL for a block that is no multiple of the page, without read-ahead, and for a
  // window of more than 2^20 blocks or more bytes than are reserved; ENOMEM from the reservation.
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
  template <typename Look>
  bool await(FutexEvent& event, std::uint64_t offset, Look look) noexcept;

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
  void finish(std::uint64_t count) { finish_bytes(detail::saturating_product(count, sizeof(T))); }
};

}}  // namespace vortex::v0
