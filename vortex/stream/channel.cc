#include "vortex/stream/channel.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr Status kClosed = {ECANCELED, "this end of the channel is closed"};
constexpr Status kReaderLeft = {EPIPE, "the reader has left"};

}  // namespace

class Channel::WritingEnd final : public Sink {
 public:
  explicit WritingEnd(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  BlockPool& pool() noexcept override { return *channel_->pool_; }
  std::size_t blocks_for_stream() const noexcept override {
    return channel_->options_.writer_comeback_blocks + 1;
  }
  Taken take(std::uint64_t index) noexcept override { return channel_->take_empty(index); }
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override {
    return channel_->put(index, block, bytes);
  }
  void discard(Block block) noexcept override { channel_->put_back(block); }
  Status finish(std::uint64_t length) noexcept override { return channel_->finish(length); }
  void abandon() noexcept override {
    channel_->break_off(EPIPE, "the writer ended without finish()");
  }
  InPlaceHandover* in_place() noexcept override { return channel_->in_place(); }
  void cancel() noexcept override { channel_->close_writing(); }

 private:
  const std::shared_ptr<Channel> channel_;
};

class Channel::ReadingEnd final : public Source {
 public:
  explicit ReadingEnd(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  ~ReadingEnd() override { channel_->leave_reading(); }
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
  InPlaceHandover* in_place() noexcept override { return channel_->in_place(); }
  void cancel() noexcept override { channel_->close_reading(); }

 private:
  const std::shared_ptr<Channel> channel_;
};

Channel::Channel(std::shared_ptr<BlockPool> pool, ChannelOptions options)
    : pool_(std::move(pool)),
      quota_(*pool_,
             options.read_ahead_blocks + options.writer_comeback_blocks +
                 options.reader_comeback_blocks + 1,
             options.read_ahead_blocks + options.writer_comeback_blocks +
                 options.reader_comeback_blocks + 1,
             "channel '" + options.name + "'"),
      options_(std::move(options)),
      length_(options_.length_bytes.value_or(kUnknown)),
      slots_(quota_.minimum()) {
  empty_.reserve(slots_.size());
  drawn_.reserve(slots_.size());
}

Channel::~Channel() {
  for (const Block block : empty_) quota_.give_back(block);
  for (const Slot& slot : slots_) {
    if (slot.block) quota_.give_back(slot.block);
  }
}

int Channel::place(Block block, std::byte* address) noexcept {
  std::lock_guard lock(move_mutex_);
  return pool_->place(block, address);
}

std::byte* Channel::lowest_placed(std::byte* begin, std::byte* end) noexcept {
  std::lock_guard lock(move_mutex_);
  std::byte* lowest = end;
  for (const Block block : drawn_) {
    std::byte* const at = pool_->where(block);
    if (at >= begin && at < lowest) lowest = at;
  }
  return lowest;
}

void Channel::recall(std::byte* begin, std::byte* end) noexcept {
  std::lock_guard lock(move_mutex_);
  for (const Block block : drawn_) {
    std::byte* const at = pool_->where(block);
    if (at >= begin && at < end && pool_->withdraw(block) != 0) pool_->give_up(block);
  }
}

std::unique_ptr<Sink> Channel::writing_end(std::shared_ptr<Channel> channel) {
  return std::make_unique<WritingEnd>(std::move(channel));
}

std::unique_ptr<Source> Channel::reading_end(std::shared_ptr<Channel> channel) {
  return std::make_unique<ReadingEnd>(std::move(channel));
}

std::optional<std::uint64_t> Channel::length() const noexcept {
  const std::uint64_t length = length_.load(std::memory_order_acquire);
  return length == kUnknown ? std::nullopt : std::optional(length);
}

std::uint64_t Channel::wait_length() {
  for (;;) {
    std::uint32_t ticket = 0;
    {
      std::lock_guard lock(mutex_);
      if (const auto known = length()) return *known;
      const std::string who = "channel '" + options_.name + "': ";
      const Status status = stopped(reading_closed_);
      if (!status.ok()) throw Error(status.error, who + status.cause);
      if (broken_error_ != 0) throw Error(broken_error_, who + broken_cause_.c_str());
      ticket = readable_.ticket();
    }
    readable_.await(ticket);
  }
}

Sink::Taken Channel::take_empty(std::uint64_t index) noexcept {
  for (;;) {
    std::uint32_t ticket = 0;
    {
      std::lock_guard lock(mutex_);
      if (const Status status = stopped(writing_closed_); !status.ok()) return {{}, status};
      if (reader_left_) return {{}, kReaderLeft};
      if (options_.length_bytes && index * pool_->block_bytes() >= *options_.length_bytes) {
        return {{}, {ERANGE, "a touch beyond the length that was announced"}};
      }
      if (has_room(index)) {
        if (empty_.empty()) break;
        // The block used last is the warmest in cache. But aliases that follow each other in memory
        // as they do in the stream share a map.
        const auto next = pool_->aliases() ? empty_.begin() : empty_.end() - 1;
        const Block block = *next;
        empty_.erase(next);
        return {block, {}};
      }
      ticket = writable_.ticket();
    }
    writable_.await(ticket);
  }
  // Only the writer draws, so what it may have is there: fewer blocks live than the quota holds.
  const auto [block, error] = quota_.try_take();
  if (error != 0) return {{}, {error, "the system has no memory for a block of the pool"}};
  std::lock_guard lock(move_mutex_);
  drawn_.push_back(block);
  return {block, {}};
}

bool Channel::await_room(std::uint64_t block, const std::atomic<bool>& given_up) noexcept {
  for (;;) {
    std::uint32_t ticket = 0;
    {
      std::lock_guard lock(mutex_);
      ticket = writable_.ticket();  // before the look at `given_up`, which is set without the lock
      if (given_up.load(std::memory_order_acquire)) return false;
      if (!stopped(writing_closed_).ok() || reader_left_ || has_room(block)) return true;
    }
    writable_.await(ticket);
  }
}

Status Channel::put(std::uint64_t index, Block block, std::size_t bytes) noexcept {
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
  return {};
}

void Channel::put_back(Block block) noexcept {
  std::lock_guard lock(mutex_);
  if (pool_->lost(block)) {
    quota_.give_back(block);
  } else {
    empty_.push_back(block);
  }
}

Status Channel::finish(std::uint64_t length) noexcept {
  if (options_.length_bytes && *options_.length_bytes != length) {
    constexpr Status kDisagrees = {EINVAL, "the length is not the one that was announced"};
    break_off(kDisagrees.error, kDisagrees.cause);
    return kDisagrees;
  }
  Status status;
  {
    std::lock_guard lock(mutex_);
    const std::size_t block_bytes = pool_->block_bytes();
    const bool all_read = reader_next_ >= detail::units_for(length, block_bytes);
    status = stopped(false);
    if (status.ok() && reader_left_ && !all_read) status = kReaderLeft;
    finished_ = true;
    length_.store(length, std::memory_order_release);
  }
  readable_.notify();
  return status;
}

Source::Taken Channel::take_full(std::uint64_t index, std::uint64_t floor) noexcept {
  move_reader(index, floor);
  for (;;) {
    std::uint32_t ticket = 0;
    {
      std::lock_guard lock(mutex_);
      if (const Status status = stopped(reading_closed_); !status.ok()) return {{}, 0, status};
      if (Slot& slot = slot_of(index); slot.block && slot.index == index) {
        return {std::exchange(slot.block, Block{}), slot.bytes, {}};
      }
      if (finished_) return {};
      if (broken_error_ != 0) return {{}, 0, {broken_error_, broken_cause_.c_str()}};
      ticket = readable_.ticket();
    }
    readable_.await(ticket);
  }
}

void Channel::move_reader(std::uint64_t index, std::uint64_t floor) noexcept {
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

void Channel::leave_reading() noexcept {
  if (pool_->inherited()) return;  // a forked child has a copy of a lock that others may hold
  {
    std::lock_guard lock(mutex_);
    reader_left_ = true;
  }
  writable_.notify();
}

void Channel::break_off(int error, std::string_view cause) noexcept {
  if (pool_->inherited()) return;
  {
    std::lock_guard lock(mutex_);
    if (finished_ || broken_error_ != 0) return;
    broken_cause_.text(cause);
    broken_error_ = error != 0 ? error : EPIPE;
  }
  readable_.notify();
}

void Channel::cancel(int error, std::string_view cause) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (cancel_error_ != 0) return;
    cancel_cause_.text(cause);
    cancel_error_ = error != 0 ? error : ECANCELED;
  }
  readable_.notify();
  writable_.notify();
}

void Channel::close_writing() noexcept {
  {
    std::lock_guard lock(mutex_);
    writing_closed_ = true;
  }
  writable_.notify();
}

void Channel::close_reading() noexcept {
  {
    std::lock_guard lock(mutex_);
    reading_closed_ = true;
  }
  readable_.notify();
}

Status Channel::stopped(bool end_closed) const noexcept {
  if (cancel_error_ != 0) return {cancel_error_, cancel_cause_.c_str()};
  if (end_closed) return kClosed;
  return {};
}

}}  // namespace vortex::v0
