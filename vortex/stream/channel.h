// The channel that joins an output stream and an input stream of two threads: Vortex-C.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"
#include "vortex/stream/in_place_handover.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

struct ChannelOptions {
  std::string name = "channel";
  std::size_t read_ahead_blocks = 1;       // N
  std::size_t writer_comeback_blocks = 1;  // L
  std::size_t reader_comeback_blocks = 1;  // M
  Handover handover = Handover::kAtHome;
  // The length of the data when it is known before they are written; finish() must agree with it.
  std::optional<std::uint64_t> length_bytes = std::nullopt;
};

// A bounded channel that moves blocks, never bytes, from one writer to one reader (section 4.3 of
// the Vortex paper; Algorithm 7 with remapping instead of commit and decommit, and no guards). It
// draws N + L + M + 1 blocks from the pool and no more: with the reader in block c, the writer may
// be as far as block c + N + L, and blocks from c - M on are kept.
//
// The two ends are a Sink for an OutputStream and a Source for an InputStream; each keeps the
// channel alive. When an end goes, the other one learns of it: a reader gets everything that was
// handed over before the writer gave up, and then the error; a writer gets EPIPE at the next block
// it needs.
//
// The members are for whoever joins the streams. Thread-safe; none may be called inside a fault.
class Channel final : private InPlaceHandover {
 public:
  // Throws Error(ENOMEM) when the pool cannot guarantee the blocks.
  Channel(std::shared_ptr<BlockPool> pool, ChannelOptions options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // The ends. Each is made once.
  static std::unique_ptr<Sink> writing_end(std::shared_ptr<Channel> channel);
  static std::unique_ptr<Source> reading_end(std::shared_ptr<Channel> channel);

  // N + L + M + 1.
  std::size_t capacity_blocks() const noexcept { return slots_.size(); }

  // The length in bytes once it is known.
  std::optional<std::uint64_t> length() const noexcept;
  // Waits for it. Throws Error when the writer gave up or the channel was cancelled before.
  std::uint64_t wait_length();

  // The writer gives up: the reader gets what was handed over, then this error. The first one
  // stays, and after finish() nothing happens.
  void break_off(int error, std::string_view cause) noexcept;

  // Wakes both ends; everything they want from now on fails with this error. The first one stays.
  void cancel(int error, std::string_view cause) noexcept;

  // See detail::await_channel_room().
  bool await_room(std::uint64_t block, const std::atomic<bool>& given_up) noexcept;
  void wake_writer() noexcept { writable_.notify(); }

  // How often an end had to sleep, for tests and tuning.
  std::uint64_t sleeps() const noexcept { return readable_.sleeps() + writable_.sleeps(); }

 private:
  class WritingEnd;
  class ReadingEnd;

  struct Slot {
    Block block;
    std::uint64_t index = 0;
    std::size_t bytes = 0;
  };
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  Slot& slot_of(std::uint64_t index) noexcept { return slots_[index % slots_.size()]; }

  // Why a call must not wait any more, if there is a reason.
  Status stopped(bool end_closed) const noexcept;
  // How far the writer may go.
  bool has_room(std::uint64_t index) const noexcept {
    return index < reader_next_ + options_.read_ahead_blocks + options_.writer_comeback_blocks;
  }

  InPlaceHandover* in_place() noexcept {
    return options_.handover == Handover::kInPlace && !pool_->aliases() ? this : nullptr;
  }
  int place(Block block, std::byte* address) noexcept override;
  std::byte* lowest_placed(std::byte* begin, std::byte* end) noexcept override;
  void recall(std::byte* begin, std::byte* end) noexcept override;

  // The writer's side.
  Sink::Taken take_empty(std::uint64_t index) noexcept;
  Status put(std::uint64_t index, Block block, std::size_t bytes) noexcept;
  void put_back(Block block) noexcept;
  Status finish(std::uint64_t length) noexcept;
  void close_writing() noexcept;

  // The reader's side.
  Source::Taken take_full(std::uint64_t index, std::uint64_t floor) noexcept;
  void move_reader(std::uint64_t index, std::uint64_t floor) noexcept;
  void close_reading() noexcept;
  void leave_reading() noexcept;

  const std::shared_ptr<BlockPool> pool_;
  BlockQuota quota_;
  const ChannelOptions options_;
  std::atomic<std::uint64_t> length_{kUnknown};

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

  // Held while a block moves, so that recall() finds none half-way. The kernel lets one thread of
  // the process move memory at a time anyway.
  FutexMutex move_mutex_;
  std::vector<Block> drawn_;  // all blocks drawn from the pool; guarded by move_mutex_

  FutexEvent readable_;  // a block was handed over, or the end came
  FutexEvent writable_;  // the reader moved on, or left
};

}}  // namespace vortex::v0
