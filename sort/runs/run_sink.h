// Writes the blocks of a run behind an output stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sort/runs/run_store.h"
#include "vortex/block_quota.h"
#include "vortex/line_buffer.h"
#include "vortex/sink.h"

namespace vortex::inline v0 {

// Block i goes to slot run.slots[i], which must be there before block i is complete; `write_behind`
// blocks are on their way to the disks at once. Needs blocks_for_stream + write_behind blocks of
// the pool, for good. The first error ends the stream.
class RunSink final : public Sink {
 public:
  // Throws Error(ENOMEM) when the pool cannot guarantee the blocks. The run must outlive the sink.
  RunSink(Run& run, std::size_t blocks_for_stream, std::size_t write_behind);
  // Waits for the requests under way.
  ~RunSink() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return blocks_for_stream_; }
  Taken take(std::uint64_t index) noexcept override;
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override;
  void discard(Block block) noexcept override { quota_.give_back(block); }
  Status finish(std::uint64_t length) noexcept override;
  void cancel() noexcept override;

 private:
  struct Slot {
    Request request;
    Block block;  // none: the slot is free
    unsigned disk = 0;
    std::uint64_t index = 0;
  };

  Slot* free_slot() noexcept;
  void settle(Slot& slot) noexcept;
  void settle_ended() noexcept;
  bool wait_for_oldest() noexcept;
  Status stopped_or(Status status) const noexcept;

  Run& run_;
  std::size_t blocks_for_stream_;
  BlockQuota quota_;
  std::vector<Slot> slots_;
  std::atomic<bool> stopped_{false};
  Status first_error_;
  CauseText cause_;
};

}  // namespace vortex::inline v0
