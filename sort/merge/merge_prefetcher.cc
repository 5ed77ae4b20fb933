#include "sort/merge/merge_prefetcher.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <numeric>
#include <utility>

namespace vortex::inline v0 {

MergePrefetcher::MergePrefetcher(RunStore& store, std::span<Run> runs,
                                 std::unique_ptr<PrefetchPolicy> policy, bool punch_holes)
    : store_(store),
      runs_(runs),
      punch_holes_(punch_holes),
      reads_(store.pool(), Caching::kDirect),
      policy_(std::move(policy)),
      quota_(store.pool(), policy_->buffers(), policy_->buffers(), "merge of runs"),
      buffers_(policy_->buffers()),
      free_buffers_(policy_->buffers()) {
  std::iota(free_buffers_.rbegin(), free_buffers_.rend(), 0);
  under_way_.reserve(buffers_.size());
  std::uint64_t blocks = 0;
  layouts_.reserve(runs_.size());
  for (Run& run : runs_) {
    layouts_.emplace_back(run);
    first_block_.push_back(blocks);
    blocks += run.blocks();
  }
  buffer_of_block_.assign(blocks, kNoBuffer);
}

MergePrefetcher::~MergePrefetcher() {
  if (store_.pool().inherited()) return;
  for (const std::uint32_t index : under_way_) {
    PlacedRequest& read = buffers_[index].read;
    read.place.disk->wait(read.request);
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
  const std::uint64_t fetches_before = fetches_;
  for (;;) {
    const PrefetchAction action = policy_->next();
    if (action.kind == PrefetchAction::Kind::kNothing) break;
    if (action.kind == PrefetchAction::Kind::kDrop) {
      free(buffer_of(action.block.run, action.block.index));
    } else if (!fetch(action)) {
      return;
    }
  }
  if (fetches_ == fetches_before) return;
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
  buffer.number = fetches_++;
  buffer.under_way = static_cast<std::uint32_t>(under_way_.size());
  under_way_.push_back(index);
  reads_.start(buffer.read, layouts_[action.block.run],
               {.unit = action.block.index,
                .unit_bytes = store_.block_bytes(),
                .begin = 0,
                .bytes = runs_[action.block.run].bytes_of_block(action.block.index)},
               {&buffer.block, 1}, nullptr, true);
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
  const Request& request = buffer.read.request;
  if (const int error = BlockReads::error_before(request, request.bytes)) {
    if (!first_error_.ok()) return;
    first_error_ = reads_.failed(layouts_[buffer.needed.run], buffer.read.place,
                                 buffer.read.stopped_at(), error);
    return;
  }
  policy_->fetched(buffer.position);
}

void MergePrefetcher::settle_ended() noexcept {
  for (std::size_t i = under_way_.size(); i-- > 0;) {
    if (buffers_[under_way_[i]].read.request.done()) settle(under_way_[i]);
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
  for (;;) {
    std::uint32_t awaited = kNoBuffer;
    {
      std::lock_guard lock(mutex_);
      settle_ended();
      carry_out();
      if (!first_error_.ok()) return {.block = {}, .bytes = 0, .status = first_error_};
      const std::uint32_t own = buffer_of(run, index);
      if (own != kNoBuffer && policy_->ready(buffers_[own].position)) {
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
    }
    if (!reads_.await(buffers_[awaited].read, stopped)) {
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
  return {.policy = policy_->statistics(), .reads = reads_.statistics()};
}

}  // namespace vortex::inline v0
