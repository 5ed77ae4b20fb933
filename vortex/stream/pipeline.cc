#include "vortex/pipeline.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/pool/block_memory.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMinReservation = std::uint64_t{1} << 30;

constexpr Status kClosed = {ECANCELED, "this end of the channel is closed"};
constexpr Status kReaderLeft = {EPIPE, "the reader has left"};

// A bounded channel that moves blocks, never bytes, from one writer to one reader (section 4.3 of
// the Vortex paper; Algorithm 7 with remapping instead of commit and decommit, and no guards). It
// draws N + L + M + 1 blocks from the pool and no more: with the reader in block c, the writer may
// be as far as block c + N + L, and blocks from c - M on are kept.
//
// The two ends are a Sink for an OutputStream and a Source for an InputStream. When an end goes,
// the other one learns of it: a reader gets everything that was handed over before the writer gave
// up, and then the error; a writer gets EPIPE at the next block it needs.
class BlockChannel final : public Channel {
 public:
  // Throws Error(ENOMEM) when the pool cannot guarantee the blocks.
  BlockChannel(const PipelineOptions& options, std::shared_ptr<BlockPool> pool, std::size_t blocks)
      : pool_(std::move(pool)),
        quota_(*pool_, blocks, blocks, "channel '" + options.name + "'"),
        options_(options),
        length_(options.length_bytes.value_or(kUnknown)),
        slots_(blocks) {
    empty_.reserve(blocks);
  }
  ~BlockChannel() override {
    if (pool_->inherited()) return;
    for (const Block block : empty_) quota_.give_back(block);
    for (const Slot& slot : slots_) {
      if (slot.block) quota_.give_back(slot.block);
    }
  }

  std::size_t capacity_blocks() const noexcept override { return slots_.size(); }
  std::uint64_t sleeps() const noexcept override { return readable_.sleeps() + writable_.sleeps(); }

  std::uint64_t wait_length() override {
    if (pool_->inherited()) {
      throw Error(EFAULT, "channel '" + options_.name +
                              "': used in a forked child, which does not inherit streams");
    }
    return await(readable_, [&]() -> std::optional<std::uint64_t> {
      if (const auto known = length()) return known;
      for (const Status& reason : {stopped(reading_closed_), broken()}) {
        if (reason.ok()) continue;
        throw Error(reason.error, "channel '" + options_.name + "': " + reason.cause);
      }
      return std::nullopt;
    });
  }

  // After finish() nothing happens.
  void break_off(int error, std::string_view cause) noexcept override {
    if (pool_->inherited()) return;  // a forked child has a copy of a lock that others may hold
    {
      std::lock_guard lock(mutex_);
      if (finished_ || broken_error_ != 0) return;
      broken_cause_.text(cause);
      broken_error_ = error != 0 ? error : EPIPE;
    }
    readable_.notify();
  }

  void cancel(int error, std::string_view cause) noexcept override {
    {
      std::lock_guard lock(mutex_);
      if (cancel_error_ != 0) return;
      cancel_cause_.text(cause);
      cancel_error_ = error != 0 ? error : ECANCELED;
    }
    readable_.notify();
    writable_.notify();
  }

  bool await_room(std::uint64_t block, const std::atomic<bool>& given_up) noexcept override {
    return await(writable_, [&]() -> std::optional<bool> {
      if (given_up.load(std::memory_order_acquire)) return false;
      if (!stopped(writing_closed_).ok() || reader_left_ || has_room(block)) return true;
      return std::nullopt;
    });
  }
  void wake_writer() noexcept override { writable_.notify(); }

 private:
  friend class WritingEnd;
  friend class ReadingEnd;

  struct Slot {
    Block block;
    std::uint64_t index = 0;
    std::size_t bytes = 0;
  };
  Slot& slot_of(std::uint64_t index) noexcept { return slots_[index % slots_.size()]; }

  // Waits until `look`, which is called with the lock, finds what it looks for. The ticket is drawn
  // before: some of what it looks at is set without the lock.
  template <typename Look>
  typename std::invoke_result_t<Look>::value_type await(FutexEvent& event, Look look) {
    for (;;) {
      std::uint32_t ticket = 0;
      {
        std::lock_guard lock(mutex_);
        ticket = event.ticket();
        if (const auto found = look()) return *found;
      }
      event.await(ticket);
    }
  }

  // Why a call must not wait any more, if there is a reason; and whether the writer gave up.
  Status stopped(bool end_closed) const noexcept {
    if (cancel_error_ != 0) return {cancel_error_, cancel_cause_.c_str()};
    return end_closed ? kClosed : Status{};
  }
  Status broken() const noexcept { return {broken_error_, broken_cause_.c_str()}; }
  // How far the writer may go.
  bool has_room(std::uint64_t index) const noexcept {
    return index < reader_next_ + options_.read_ahead_blocks + options_.writer_comeback_blocks;
  }
  std::optional<std::uint64_t> length() const noexcept {
    const std::uint64_t length = length_.load(std::memory_order_acquire);
    return length == kUnknown ? std::nullopt : std::optional(length);
  }
  void set(bool& flag, FutexEvent& event) noexcept {
    if (pool_->inherited()) return;
    {
      std::lock_guard lock(mutex_);
      flag = true;
    }
    event.notify();
  }

  Sink::Taken take_empty(std::uint64_t index) noexcept;
  void put(std::uint64_t index, Block block, std::size_t bytes) noexcept;
  void put_back(Block block) noexcept {
    std::lock_guard lock(mutex_);
    if (pool_->lost(block)) {
      quota_.give_back(block);
    } else {
      empty_.push_back(block);
    }
  }
  Status finish(std::uint64_t length) noexcept;
  Source::Taken take_full(std::uint64_t index, std::uint64_t floor) noexcept;
  void move_reader(std::uint64_t index, std::uint64_t floor) noexcept;

  const std::shared_ptr<BlockPool> pool_;
  BlockQuota quota_;
  const PipelineOptions options_;
  std::atomic<std::uint64_t> length_;

  FutexMutex mutex_;  // guards what follows; held for moments, never while waiting
  // Blocks that were handed over and not yet taken; block `index` is in slot index % capacity, and
  // all indexes alive lie in [floor_, reader_next_ + N + L), which is as long as the vector.
  std::vector<Slot> slots_;
  std::vector<Block> empty_;       // drawn from the pool and free; never grows beyond its capacity
  std::uint64_t floor_ = 0;        // the reader never asks for blocks below
  std::uint64_t reader_next_ = 0;  // one more than the highest block that the reader touched
  bool finished_ = false;
  bool reader_left_ = false;
  bool writing_closed_ = false;  // that end's stream goes: its calls must not wait
  bool reading_closed_ = false;
  // Each is set once; the text before the error.
  int broken_error_ = 0;  // the writer gave up
  CauseText broken_cause_;
  int cancel_error_ = 0;
  CauseText cancel_cause_;

  FutexEvent readable_;  // a block was handed over, or the end came
  FutexEvent writable_;  // the reader moved on, or left
};

class WritingEnd final : public Sink {
 public:
  explicit WritingEnd(std::shared_ptr<BlockChannel> channel) : channel_(std::move(channel)) {}

  BlockPool& pool() noexcept override { return *channel_->pool_; }
  std::size_t blocks_for_stream() const noexcept override {
    return channel_->options_.writer_comeback_blocks + 1;
  }
  Taken take(std::uint64_t index) noexcept override { return channel_->take_empty(index); }
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override {
    channel_->put(index, block, bytes);
    return {};
  }
  void discard(Block block) noexcept override { channel_->put_back(block); }
  Status finish(std::uint64_t length) noexcept override { return channel_->finish(length); }
  void abandon() noexcept override {
    channel_->break_off(EPIPE, "the writer ended without finish()");
  }
  void cancel() noexcept override { channel_->set(channel_->writing_closed_, channel_->writable_); }

 private:
  const std::shared_ptr<BlockChannel> channel_;
};

class ReadingEnd final : public Source {
 public:
  explicit ReadingEnd(std::shared_ptr<BlockChannel> channel) : channel_(std::move(channel)) {}
  ~ReadingEnd() override { channel_->set(channel_->reader_left_, channel_->writable_); }
  ReadingEnd(const ReadingEnd&) = delete;
  ReadingEnd& operator=(const ReadingEnd&) = delete;

  BlockPool& pool() noexcept override { return *channel_->pool_; }
  std::size_t blocks_for_stream() const noexcept override {
    return channel_->options_.reader_comeback_blocks + 1;
  }
  Taken take(std::uint64_t index, std::uint64_t floor) noexcept override {
    return channel_->take_full(index, floor);
  }
  void release(std::uint64_t /*index*/, Block block) noexcept override {
    channel_->put_back(block);
  }
  std::optional<std::uint64_t> length() const noexcept override { return channel_->length(); }
  void cancel() noexcept override { channel_->set(channel_->reading_closed_, channel_->readable_); }

 private:
  const std::shared_ptr<BlockChannel> channel_;
};

Sink::Taken BlockChannel::take_empty(std::uint64_t index) noexcept {
  const auto found = await(writable_, [&]() -> std::optional<Sink::Taken> {
    if (const Status status = stopped(writing_closed_); !status.ok()) return {{{}, status}};
    if (reader_left_) return {{{}, kReaderLeft}};
    if (options_.length_bytes && index * pool_->block_bytes() >= *options_.length_bytes) {
      return {{{}, {ERANGE, "a touch beyond the length that was announced"}}};
    }
    if (!has_room(index)) return std::nullopt;
    if (empty_.empty()) return Sink::Taken{};
    // The block used last is the warmest in cache. But aliases that follow each other in memory as
    // they do in the stream share a map.
    const auto next = pool_->aliases() ? empty_.begin() : empty_.end() - 1;
    const Block block = *next;
    empty_.erase(next);
    return {{block, {}}};
  });
  if (found.block || !found.status.ok()) return found;
  // Only the writer draws, so what it may have is there: fewer blocks live than the quota holds.
  const auto [block, error] = quota_.try_take();
  if (error != 0) return {{}, {error, "the system has no memory for a block of the pool"}};
  return {block, {}};
}

void BlockChannel::put(std::uint64_t index, Block block, std::size_t bytes) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (index < floor_) {
      empty_.push_back(block);
    } else {
      slot_of(index) = {block, index, bytes};
    }
    // The last block alone is not whole. A reader that finds it may ask for the length before the
    // writer has come to finish().
    if (bytes < pool_->block_bytes() && !options_.length_bytes) {
      length_.store(index * pool_->block_bytes() + bytes, std::memory_order_release);
    }
  }
  readable_.notify();
}

Status BlockChannel::finish(std::uint64_t length) noexcept {
  if (options_.length_bytes && *options_.length_bytes != length) {
    constexpr Status kDisagrees = {EINVAL, "the length is not the one that was announced"};
    break_off(kDisagrees.error, kDisagrees.cause);
    return kDisagrees;
  }
  Status status;
  {
    std::lock_guard lock(mutex_);
    const bool all_read = reader_next_ >= units_for(length, pool_->block_bytes());
    status = stopped(false);
    if (status.ok() && reader_left_ && !all_read) status = kReaderLeft;
    finished_ = true;
    length_.store(length, std::memory_order_release);
  }
  readable_.notify();
  return status;
}

Source::Taken BlockChannel::take_full(std::uint64_t index, std::uint64_t floor) noexcept {
  move_reader(index, floor);
  return await(readable_, [&]() -> std::optional<Source::Taken> {
    if (const Status status = stopped(reading_closed_); !status.ok()) return {{{}, 0, status}};
    if (Slot& slot = slot_of(index); slot.block && slot.index == index) {
      return {{std::exchange(slot.block, Block{}), slot.bytes, {}}};
    }
    if (finished_) return Source::Taken{};
    if (const Status status = broken(); !status.ok()) return {{{}, 0, status}};
    return std::nullopt;
  });
}

void BlockChannel::move_reader(std::uint64_t index, std::uint64_t floor) noexcept {
  {
    std::lock_guard lock(mutex_);
    // A jump leaves blocks behind that were never asked for.
    const std::uint64_t passed_end = std::min(floor, floor_ + slots_.size());
    for (std::uint64_t passed = floor_; passed < passed_end; ++passed) {
      Slot& slot = slot_of(passed);
      if (slot.block) empty_.push_back(std::exchange(slot.block, Block{}));
    }
    floor_ = std::max(floor_, floor);
    if (index < reader_next_) return;
    reader_next_ = index + 1;
  }
  writable_.notify();
}

// N + L + M + 1.
std::size_t blocks_of(const PipelineOptions& options) {
  const std::string who = "pipeline '" + options.name + "'";
  expect_block_count(who, "read_ahead_blocks", options.read_ahead_blocks);
  expect_block_count(who, "writer_comeback_blocks", options.writer_comeback_blocks);
  expect_block_count(who, "reader_comeback_blocks", options.reader_comeback_blocks);
  const std::size_t windows =
      saturating_sum(options.writer_comeback_blocks, options.reader_comeback_blocks);
  const std::size_t blocks = saturating_sum(saturating_sum(windows, options.read_ahead_blocks), 1);
  expect_block_count(who, "its number of blocks", blocks);
  if (options.length_bytes != kUnknown) return blocks;
  throw Error(EINVAL, who + ": no address space holds " + std::to_string(kUnknown) + " bytes");
}

}  // namespace

OutputStreamOptions writer_options(const PipelineOptions& options) {
  OutputStreamOptions result{
      .name = options.name + " (writer)",
      .comeback_blocks = options.writer_comeback_blocks,
      .stale_blocks = options.stale_blocks,
      .reserve_bytes = options.reserve_bytes,
      .least_reserve_bytes = std::min(kMinReservation, options.reserve_bytes),
      .gaps = options.gaps};
  if (options.length_bytes) {
    // A block more than the data need, so that a write past the end is our error to report.
    result.reserve_bytes = saturating_sum(*options.length_bytes, 2 * kMaxBlockBytes);
    result.least_reserve_bytes = result.reserve_bytes;
  }
  return result;
}

InputStreamOptions reader_options(const PipelineOptions& options) {
  InputStreamOptions result{.name = options.name + " (reader)",
                            .comeback_blocks = options.reader_comeback_blocks,
                            .stale_blocks = options.stale_blocks};
  if (!options.length_bytes) {
    result.reserve_bytes = options.reserve_bytes;
    result.least_reserve_bytes = std::min(kMinReservation, options.reserve_bytes);
  }
  return result;
}

std::shared_ptr<Channel> make_channel(const PipelineOptions& options) {
  const std::size_t blocks = blocks_of(options);
  std::shared_ptr<BlockPool> pool = options.pool;
  if (!pool) {
    pool = std::make_shared<BlockPool>(
        BlockPoolOptions{.pool_bytes = saturating_product(blocks, options.block_bytes),
                         .block_bytes = options.block_bytes,
                         .kind = options.pool_kind,
                         .name = options.name});
  }
  return std::make_shared<BlockChannel>(options, std::move(pool), blocks);
}

std::unique_ptr<Sink> writing_end_of(const std::shared_ptr<Channel>& channel) {
  return std::make_unique<WritingEnd>(std::static_pointer_cast<BlockChannel>(channel));
}

std::unique_ptr<Source> reading_end_of(const std::shared_ptr<Channel>& channel) {
  return std::make_unique<ReadingEnd>(std::static_pointer_cast<BlockChannel>(channel));
}

}}}  // namespace vortex::v0::detail
