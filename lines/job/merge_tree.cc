#include "lines/job/merge_tree.h"

#include <utility>

#include "sort/job/output_parts.h"
#include "vortex/error.h"
#include "vortex/stream.h"

namespace vortex { inline namespace v0 {

MergeBranch::MergeBranch(std::unique_ptr<RunMerge> merge, std::vector<std::span<char>> rooms,
                         bool has_keys)
    : merge_(std::move(merge)),
      has_keys_(has_keys),
      free_(static_cast<std::uint32_t>(rooms.size())),
      record_(has_keys) {
  for (const std::span<char> memory : rooms) rooms_.push_back({.memory = memory});
}

void MergeBranch::start() {
  alone_ = !task_.start(
      "merging runs", [this] { merge_ahead(); }, [this] { full_.release(); });
  if (alone_) read_first();
}

void MergeBranch::read_first() {
  guarded([this] {
    merge_->start();
    more_ = merge_->next();
  }).throw_if_failed();
}

namespace {

bool acquired(FutexSemaphore& semaphore) {
  if (semaphore.try_acquire()) return true;
  const Waiting waiting;
  return semaphore.acquire();
}

}  // namespace

void MergeBranch::merge_ahead() {
  read_first();
  while (more_ && acquired(free_)) {
    fill(rooms_[filled_.load(std::memory_order_relaxed) % rooms_.size()]);
    filled_.fetch_add(1, std::memory_order_release);
    full_.release();
  }
}

void MergeBranch::fill(Room& room) {
  const WorkSpan span(RunMerge::kWork);
  room.bytes = 0;
  guarded([&] {
    char* const begin = room.memory.data();
    char* to = begin;
    do {
      const StoredRecord& stored = merge_->stored();
      const RunRecordHead head{merge_->in_common(), merge_->count(), false};
      const std::size_t left = room.memory.size() - static_cast<std::size_t>(to - begin);
      // Lengths are what a disk returned.
      if (stored.key.size() > left || stored.record.size() > left) break;
      if (head.bytes() + stored_bytes(stored.key, stored.record, has_keys_) > left) break;
      to = copy_text(head.write_with_lengths(to, stored, has_keys_), stored.key);
      if (has_keys_) to = copy_text(to, stored.record);
    } while ((more_ = merge_->next()));
    room.bytes = static_cast<std::size_t>(to - begin);
  }).throw_if_failed();
  if (room.bytes == 0) OutputParts::refuse();
}

// Goes on with the records that have been merged behind those of the room that ends here.
bool MergeBranch::next_room() {
  if (alone_) return fill_alone();
  if (ended_) return false;
  if (std::exchange(begun_, true)) free_.release();
  acquired(full_);
  if (read_ == filled_.load(std::memory_order_acquire)) {
    ended_ = true;
    task_.finish();
    return false;
  }
  const Room& room = rooms_[read_++ % rooms_.size()];
  at_ = room.memory.data();
  end_ = at_ + room.bytes;
  return true;
}

bool MergeBranch::fill_alone() {
  if (!more_) return false;
  Room& room = rooms_.front();
  fill(room);
  at_ = room.memory.data();
  end_ = at_ + room.bytes;
  return true;
}

MergeTree::MergeTree(std::vector<std::unique_ptr<RunMerge>> branches, BlockPool& pool,
                     const StoredOrder& order)
    : blocks_(pool, blocks_of_branch(pool.block_bytes()) * branches.size(), "rooms of a merge") {
  const std::size_t bytes = room_bytes(pool.block_bytes());
  std::vector<MergeBranch*> players;
  for (auto& merge : branches) {
    std::vector<std::span<char>> rooms;
    while (rooms.size() < kRoomsOfBranch) {
      const std::span<std::byte> block = blocks_.take();
      const std::span<char> text(reinterpret_cast<char*>(block.data()), block.size());
      for (std::size_t at = 0; rooms.size() < kRoomsOfBranch && at + bytes <= text.size();
           at += bytes) {
        rooms.push_back(text.subspan(at, bytes));
      }
    }
    branches_.push_back(
        std::make_unique<MergeBranch>(std::move(merge), std::move(rooms), order.has_keys));
    players.push_back(branches_.back().get());
  }
  root_.emplace(players, order);
}

void MergeTree::start() {
  for (const auto& branch : branches_) branch->start();
  root_->start();
}

}}  // namespace vortex::v0
