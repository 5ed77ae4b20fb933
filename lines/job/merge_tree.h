// The last merge of runs by several threads, where its records must come one behind the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lines/job/line_runs.h"
#include "lines/record/stored_record.h"
#include "lines/runs/line_merge.h"
#include "lines/runs/run_record.h"
#include "vortex/block_pool.h"
#include "vortex/pool/plain_blocks.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/background_task.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// The merge of some runs in a thread of its own, ahead of whoever asks for the records. They lie in
// rooms, as a run has them but with whole keys, and come from there; a room is filled again when
// its last record has been left.
class MergeBranch {
 public:
  // Each room holds the longest record, see fits().
  MergeBranch(std::unique_ptr<RunMerge> merge, std::vector<std::span<char>> rooms, bool has_keys);
  // Waits until the thread has filled the room that it is at.
  ~MergeBranch() { free_.close(); }
  MergeBranch(const MergeBranch&) = delete;
  MergeBranch& operator=(const MergeBranch&) = delete;

  // Whether a room of so many bytes holds a stored record of `longest`.
  static constexpr bool fits(std::uint64_t longest, std::size_t room_bytes) noexcept {
    return longest + kRunPrefixBytes <= room_bytes;
  }

  // Begins to merge. Where the system refuses a thread, whoever asks for records merges.
  void start();
  // As those of RunCursor; advance() waits for the thread, and throws what it met.
  bool advance() {
    while (at_ == end_) {
      if (!next_room()) return false;
    }
    record_.read(at_);
    return true;
  }
  const StoredRecord& stored() const noexcept { return record_.stored(); }
  std::uint64_t in_common() const noexcept { return record_.in_common(); }
  std::uint64_t count() const noexcept { return record_.count(); }

 private:
  struct Room {
    std::span<char> memory;
    std::size_t bytes = 0;  // of records
  };

  void merge_ahead();
  void read_first();
  void fill(Room& room);
  bool next_room();
  bool fill_alone();

  const std::unique_ptr<RunMerge> merge_;
  const bool has_keys_;
  std::vector<Room> rooms_;
  bool more_ = false;  // the merge stands at a record that is in no room
  bool alone_ = false;
  bool begun_ = false;  // rooms have been read from
  bool ended_ = false;
  std::uint64_t read_ = 0;  // rooms, again and again
  std::atomic<std::uint64_t> filled_{0};
  FutexSemaphore free_;
  FutexSemaphore full_;  // and once more when the thread has ended
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  RunRecordReader record_;
  BackgroundTask task_;  // destroyed first
};

// A merge of branches, each of which has neighbours of the runs, so that equal records keep their
// order. What it gives is what one merge of all runs gives; the caller compares and copies a record
// once, whatever the number of runs is.
class MergeTree {
 public:
  // More than so many branches have records sooner than the caller can take them.
  static constexpr unsigned kMostBranches = 6;
  // The bytes of a room: what the second-level cache still has when it is read soon.
  static constexpr std::size_t room_bytes(std::size_t block_bytes) noexcept {
    constexpr std::size_t kMost = std::size_t{128} << 10;
    return block_bytes < kMost ? block_bytes : kMost;
  }
  // The blocks of the pool that hold the rooms of a branch.
  static constexpr std::size_t blocks_of_branch(std::size_t block_bytes) noexcept {
    const std::size_t in_block = block_bytes / room_bytes(block_bytes);
    return (kRoomsOfBranch + in_block - 1) / in_block;
  }

  // Takes blocks_of_branch() for each branch. Throws Error(ENOMEM).
  MergeTree(std::vector<std::unique_ptr<RunMerge>> branches, BlockPool& pool,
            const StoredOrder& order);

  // As those of RunMerge.
  void start();
  static constexpr SpanKind kWork = SpanKind::kMerge;
  bool next() { return root_->next(); }
  const StoredRecord& stored() const noexcept { return root_->stored(); }
  std::uint64_t in_common() const noexcept { return root_->in_common(); }
  std::uint64_t count() const noexcept { return root_->count(); }

 private:
  static constexpr std::size_t kRoomsOfBranch = 4;

  PlainBlocks blocks_;
  std::vector<std::unique_ptr<MergeBranch>> branches_;
  std::optional<LineMerge<MergeBranch>> root_;
};

}}  // namespace vortex::v0
