#include "sort/merge/merge_prefetcher.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <numeric>
#include <utility>

#include "vortex/os/steady_time.h"

namespace vortex::inline v0 {

MergePrefetcher::MergePrefetcher(RunStore& store, std::span<Run> runs,
                                 std::unique_ptr<PrefetchPolicy> policy, bool punch_holes)
    : store_(store),
      runs_(runs),
      punch_holes_(punch_holes),
      policy_(std::move(policy)),
      quota_(store.pool(), policy_->buffers(), policy_->buffers(), "merge of runs"),
      buffers_(policy_->buffers()),
      free_buffers_(policy_->buffers()) {
  std::iota(free_buffers_.rbegin(), free_buffers_.rend(), 0);
  under_way_.reserve(buffers_.size());
  std::uint64_t blocks = 0;
  for (const Run& run : runs_) {
    first_block_.push_back(blocks);
    blocks += run.blocks();
  }
  buffer_of_block_.assign(blocks, kNoBuffer);
}

MergePrefetcher::~MergePrefetcher() {
  if (store_.pool().inherited()) return;
  for (const std::uint32_t index : under_way_) {
    Buffer& buffer = buffers_[index];
    store_.disk(buffer.needed.disk).wait(buffer.request);
  }
  for (Buffer& buffer : buffers_) {
    if (buffer.block) quota_.give_back(std::exchange(buffer.block, Block{}));
  }
}

void MergePrefetcher::start() noexcept {
  std::lock_guard lock(mutex_);
  started_ = true;
  carry_out();
}

void MergePrefetcher::stop() noexcept {
  std::lock_guard lock(mutex_);
  stopped_ = true;
}

void MergePrefetcher::interrupt() noexcept {
  for (Disk* const disk : store_.disks()) disk->interrupt();
}

void MergePrefetcher::carry_out() noexcept {
  if (!started_ || stopped_ || !first_error_.ok()) return;
  const std::uint64_t reads_before = reads_;
  for (;;) {
    const PrefetchAction action = policy_->next();
    if (action.kind == PrefetchAction::Kind::kNothing) break;
    if (action.kind == PrefetchAction::Kind::kDrop) {
      free(buffer_of(action.block.run, action.block.index));
    } else if (!fetch(action)) {
      return;
    }
  }
  if (reads_ == reads_before) return;
  for (Disk* const disk : store_.disks()) disk->send();
}

bool MergePrefetcher::fetch(const PrefetchAction& action) noexcept {
  const BlockGrant taken = quota_.try_take();
  if (taken.error != 0) {
    first_error_ = {taken.error, "the system refuses memory for a block"};
    return false;
  }
  const std::uint32_t index = free_buffers_.back();
  free_buffers_.pop_back();
  buffer_of(action.block.run, action.block.index) = index;
  Buffer& buffer = buffers_[index];
  buffer.block = taken.block;
  buffer.position = action.position;
  buffer.needed = action.block;
  buffer.number = reads_++;
  buffer.under_way = static_cast<std::uint32_t>(under_way_.size());
  under_way_.push_back(index);
  const Run& run = runs_[action.block.run];
  const FileLayout::Place place = run.places.locate(action.block.index);
  aim(buffer.request, Operation::kRead, place, run.bytes_of_block(action.block.index), true);
  buffer.request.set_memory(store_.pool().home(taken.block), buffer.request.bytes);
  place.disk->submit(buffer.request, true);
  return true;
}

void MergePrefetcher::free(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  buffer_of(buffer.needed.run, buffer.needed.index) = kNoBuffer;
  quota_.give_back(std::exchange(buffer.block, Block{}));
  buffer.position = kNoPosition;
  free_buffers_.push_back(index);
}

// Tells the policy about a read that has ended.
void MergePrefetcher::settle(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  const std::uint32_t last = under_way_.back();
  under_way_[buffer.under_way] = last;
  buffers_[last].under_way = buffer.under_way;
  under_way_.pop_back();
  const Request& request = buffer.request;
  const bool cut_short = request.error == 0 && request.bytes_done < request.wanted_bytes();
  if (request.error != 0 || cut_short) {
    if (!first_error_.ok()) return;
    cause_.text(cut_short ? "a temporary file ends too early in '"
                          : "reading a temporary file in '");
    cause_.text(store_.folder(buffer.needed.disk));
    cause_.text("' at byte ").number(request.offset + request.bytes_done);
    first_error_ = {cut_short ? EIO : request.error, cause_.c_str()};
    return;
  }
  policy_->fetched(buffer.position);
}

void MergePrefetcher::settle_ended() noexcept {
  for (std::size_t i = under_way_.size(); i-- > 0;) {
    if (buffers_[under_way_[i]].request.done()) settle(under_way_[i]);
  }
}

std::optional<std::uint32_t> MergePrefetcher::oldest_under_way() const noexcept {
  if (under_way_.empty()) return std::nullopt;
  return *std::min_element(
      under_way_.begin(), under_way_.end(),
      [this](std::uint32_t a, std::uint32_t b) { return buffers_[a].number < buffers_[b].number; });
}

Source::Taken MergePrefetcher::take(std::uint32_t run, std::uint64_t index,
                                    const std::atomic<bool>& stopped) noexcept {
  std::uint64_t waiting_since = 0;
  for (;;) {
    std::uint32_t awaited = kNoBuffer;
    {
      std::lock_guard lock(mutex_);
      settle_ended();
      carry_out();
      if (!first_error_.ok()) return {.block = {}, .bytes = 0, .status = first_error_};
      const std::uint32_t own = buffer_of(run, index);
      if (own != kNoBuffer && policy_->ready(buffers_[own].position)) {
        if (waiting_since != 0) waited_ns_ += steady_now_ns() - waiting_since;
        policy_->taken(buffers_[own].position);
        runs_[run].free_block(index, punch_holes_);
        carry_out();
        return {
            .block = buffers_[own].block, .bytes = runs_[run].bytes_of_block(index), .status = {}};
      }
      // While the block has not even been granted a buffer, progress is any read that ends.
      const std::optional<std::uint32_t> oldest = oldest_under_way();
      if (!oldest) {
        first_error_ = {EDEADLK, "the merge needs a block that its prefetch policy did not fetch"};
        return {.block = {}, .bytes = 0, .status = first_error_};
      }
      awaited = own != kNoBuffer ? own : *oldest;
      if (waiting_since == 0) {
        waiting_since = steady_now_ns();
        ++waits_;
      }
    }
    Buffer& buffer = buffers_[awaited];
    if (!store_.disk(buffer.needed.disk).wait(buffer.request, &stopped)) {
      return {.block = {}, .bytes = 0, .status = {ECANCELED, "the stream was cancelled"}};
    }
  }
}

void MergePrefetcher::release(std::uint32_t run, std::uint64_t index, Block) noexcept {
  std::lock_guard lock(mutex_);
  const std::uint32_t buffer = buffer_of(run, index);
  const Position position = buffers_[buffer].position;
  free(buffer);
  if (!first_error_.ok() || stopped_) return;
  settle_ended();
  if (!first_error_.ok()) return;
  policy_->released(position);
  carry_out();
}

MergePrefetcherStatistics MergePrefetcher::statistics() const noexcept {
  std::lock_guard lock(mutex_);
  return {.policy = policy_->statistics(),
          .blocks_read = reads_,
          .waits = waits_,
          .waited_ns = waited_ns_};
}

}  // namespace vortex::inline v0
