#include "sort/merge/merge_prefetcher.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

MergePrefetcher::MergePrefetcher(RunStore& store, std::vector<RunSlice> slices,
                                 std::unique_ptr<PrefetchPolicy> policy, bool punch_holes)
    : store_(store),
      slices_(std::move(slices)),
      punch_holes_(punch_holes),
      reads_(Operation::kRead, store.pool(), Caching::kDirect),
      policy_(std::move(policy)),
      quota_(store.pool(), policy_->buffers(), policy_->buffers(), "merge of runs"),
      buffers_(policy_->buffers()),
      free_buffers_(policy_->buffers()),
      most_buffers_(policy_->buffers()) {
  std::iota(free_buffers_.rbegin(), free_buffers_.rend(), 0);
  const bool packed = std::ranges::any_of(
      slices_, [](const RunSlice& slice) { return slice.run->stored.saved_bytes() != 0; });
  if (packed) unpacker_.emplace(store.block_bytes());
  for (const RunSlice& slice : slices_) {
    layouts_.emplace_back(*slice.run, slice.first_block, slice.bytes,
                          packed ? &*unpacker_ : nullptr);
  }
  under_way_.reserve(buffers_.size());
  owed_.reserve(buffers_.size());
  std::uint64_t blocks = 0;
  for (const RunSlice& slice : slices_) {
    first_block_.push_back(static_cast<std::uint32_t>(blocks));
    blocks += slice.blocks();
  }
  if (blocks >= kNoBuffer) {
    throw Error(EFBIG, "merging runs of " + std::to_string(blocks) +
                           " blocks, where 32 bits number them: take larger blocks");
  }
  buffer_of_block_.assign(blocks, kNoBuffer);
  use_of_block_.assign(blocks, Use::kNone);
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

bool MergePrefetcher::keep_only(std::size_t keep) noexcept {
  std::lock_guard lock(mutex_);
  most_buffers_ = std::min(most_buffers_, keep);
  if (first_error_.ok()) settle_ended();
  retire_free();
  while (buffers_left() > most_buffers_ && make_room()) {  // what is freed leaves
  }
  // After an error nobody looks at what is under way any more.
  return first_error_.ok() && buffers_left() > most_buffers_ && !under_way_.empty();
}

// Free buffers that are too many, and a block of the pool with each.
void MergePrefetcher::retire_free() noexcept {
  const std::size_t many = buffers_left() - std::min(buffers_left(), most_buffers_);
  const std::size_t leaving = std::min(many, free_buffers_.size());
  if (leaving == 0) return;
  free_buffers_.resize(free_buffers_.size() - leaving);
  retired_ += leaving;
  quota_.lower_to(buffers_left());
  store_.pool().retire(leaving);
}

void MergePrefetcher::interrupt() noexcept {
  for (Disk* const disk : store_.disks()) disk->interrupt();
}

std::size_t MergePrefetcher::bytes_of(const NeededBlock& block) const noexcept {
  const std::uint64_t block_bytes = store_.block_bytes();
  return static_cast<std::size_t>(
      std::min(block_bytes, slices_[block.run].bytes - block.index * block_bytes));
}

void MergePrefetcher::carry_out() noexcept {
  if (!started_ || stopped_ || !first_error_.ok()) return;
  const std::uint64_t fetches_before = fetches_;
  while (first_error_.ok()) {
    const PrefetchAction action = policy_->next();
    if (action.kind == PrefetchAction::Kind::kNothing) break;
    if (action.kind == PrefetchAction::Kind::kDrop) {
      drop(action);
    } else {
      fetch(action);
    }
  }
  if (fetches_ != fetches_before) send();
}

void MergePrefetcher::send() noexcept {
  for (Disk* const disk : store_.disks()) disk->send();
}

void MergePrefetcher::fetch(const PrefetchAction& action) noexcept {
  const std::uint32_t number = number_of(action.block);
  const std::uint32_t own = buffer_of_block_[number];
  if (own != kNoBuffer) {
    // The merge came for it first.
    buffers_[own].position = action.position;
    buffers_[own].told = buffers_[own].state != State::kReading;
    if (!buffers_[own].told) return;
  } else if (use_of_block_[number] == Use::kNone) {
    const Owed owed{action.block, action.position, false};
    if (free_buffers_.empty()) {
      owed_.push_back(owed);
    } else {
      read(owed);
    }
    return;
  }
  policy_->fetched(action.position);
  tell_use(action.position, number);
}

// If the merge has taken the block since, the policy will be told again that it is fetched.
void MergePrefetcher::drop(const PrefetchAction& action) noexcept {
  const std::uint32_t number = number_of(action.block);
  if (use_of_block_[number] != Use::kNone) return;
  const std::uint32_t own = buffer_of_block_[number];
  if (own != kNoBuffer && buffers_[own].state == State::kReading) {
    // It had given its buffer away, and was about to be there again.
    buffers_[own].position = kNoPosition;
    buffers_[own].told = false;
  } else if (own != kNoBuffer) {
    free(own);
  } else {
    std::erase_if(owed_, [&](const Owed& owed) { return owed.position == action.position; });
  }
}

// Begins to read a block into a free buffer. False: that failed.
bool MergePrefetcher::read(const Owed& owed) noexcept {
  const BlockGrant taken = quota_.try_take();
  if (taken.error != 0) {
    first_error_ = {taken.error, "the system refuses memory for a block"};
    return false;
  }
  const std::uint32_t index = free_buffers_.back();
  free_buffers_.pop_back();
  buffer_of_block_[number_of(owed.needed)] = index;
  Buffer& buffer = buffers_[index];
  buffer.block = taken.block;
  buffer.position = owed.position;
  buffer.told = owed.told;
  buffer.needed = owed.needed;
  buffer.state = State::kReading;
  buffer.number = fetches_++;
  buffer.under_way = static_cast<std::uint32_t>(under_way_.size());
  under_way_.push_back(index);
  RunLayout& layout = layouts_[owed.needed.run];
  const std::uint64_t unit = owed.needed.index;
  reads_.start(buffer.read, layout,
               {.unit = unit,
                .unit_bytes = store_.block_bytes(),
                .begin = 0,
                .bytes = layout.packed_bytes(unit, bytes_of(owed.needed))},
               {&buffer.block, 1}, nullptr, true);
  return true;
}

// The merge waits for a block, which the policy has not fetched, or which gave its buffer away.
bool MergePrefetcher::read_at_once(const NeededBlock& block) noexcept {
  Owed wanted{block, kNoPosition, false};
  const std::uint32_t number = number_of(block);
  const auto own = std::find_if(owed_.begin(), owed_.end(),
                                [&](const Owed& owed) { return number_of(owed.needed) == number; });
  if (own != owed_.end()) {
    wanted = *own;
    owed_.erase(own);
  }
  while (free_buffers_.empty()) {  // what is freed may have been given back
    if (make_room()) continue;
    first_error_ = {EDEADLK, "the merge holds more blocks than its prefetch policy was told"};
    return false;
  }
  ++unforeseen_;
  if (!read(wanted)) return false;
  send();
  return true;
}

// Frees the buffer of the block that is needed last.
bool MergePrefetcher::make_room() noexcept {
  std::uint32_t last = kNoBuffer;
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].block || buffers_[i].state != State::kThere || i == awaited_) continue;
    if (last == kNoBuffer || buffers_[i].position > buffers_[last].position) last = i;
  }
  if (last == kNoBuffer) return false;
  const Buffer& buffer = buffers_[last];
  if (buffer.position != kNoPosition) {
    owed_.push_back({buffer.needed, buffer.position, buffer.told});
  }
  free(last);
  return true;
}

// Free buffers go to those that are owed one, first to the block that is needed first.
void MergePrefetcher::read_owed() noexcept {
  const std::uint64_t fetches_before = fetches_;
  while (!owed_.empty() && !free_buffers_.empty()) {
    const auto first =
        std::min_element(owed_.begin(), owed_.end(),
                         [](const Owed& a, const Owed& b) { return a.position < b.position; });
    const Owed owed = *first;
    owed_.erase(first);
    if (!read(owed)) return;
  }
  if (fetches_ != fetches_before) send();
}

void MergePrefetcher::free(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  buffer_of_block_[number_of(buffer.needed)] = kNoBuffer;
  quota_.give_back(std::exchange(buffer.block, Block{}));
  buffer.position = kNoPosition;
  free_buffers_.push_back(index);
  retire_free();
}

// Tells the policy about a read that has ended.
void MergePrefetcher::settle(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  const std::uint32_t last = under_way_.back();
  under_way_[buffer.under_way] = last;
  buffers_[last].under_way = buffer.under_way;
  under_way_.pop_back();
  const Request& request = buffer.read.request;
  if (const int error = BlockTransfers::error_before(request, request.bytes)) {
    if (!first_error_.ok()) return;
    first_error_ = reads_.failed(layouts_[buffer.needed.run], buffer.read.place,
                                 buffer.read.stopped_at(), error);
    return;
  }
  buffer.state = State::kThere;
  if (buffer.position == kNoPosition || std::exchange(buffer.told, true)) return;
  policy_->fetched(buffer.position);
}

// Tells the policy that the merge has taken a block that is there for it, and has given it back.
void MergePrefetcher::tell_use(Position position, std::uint32_t number) noexcept {
  if (use_of_block_[number] == Use::kNone) return;
  policy_->taken(position);
  if (use_of_block_[number] == Use::kReleased) policy_->released(position);
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
  const NeededBlock needed{run, 0, index};
  const std::uint32_t number = number_of(needed);
  for (;;) {
    std::uint32_t awaited = kNoBuffer;
    {
      std::lock_guard lock(mutex_);
      awaited_ = kNoBuffer;
      settle_ended();
      carry_out();
      // While the block has not even been granted a buffer, progress is any read that ends.
      if (first_error_.ok() && buffer_of_block_[number] == kNoBuffer && under_way_.empty()) {
        read_at_once(needed);
      }
      if (!first_error_.ok()) return {.block = {}, .bytes = 0, .status = first_error_};
      const std::uint32_t own = buffer_of_block_[number];
      if (own != kNoBuffer && buffers_[own].state == State::kThere) return hand_out(own);
      awaited = awaited_ = own != kNoBuffer ? own : *oldest_under_way();
    }
    if (!reads_.await(buffers_[awaited].read, stopped)) {
      return {.block = {}, .bytes = 0, .status = {ECANCELED, "the stream was cancelled"}};
    }
  }
}

Source::Taken MergePrefetcher::hand_out(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  const NeededBlock& needed = buffer.needed;
  const RunSlice& slice = slices_[needed.run];
  RunLayout& layout = layouts_[needed.run];
  const Request& request = buffer.read.request;
  const std::size_t bytes = layout.unpack(needed.index, store_.pool().home(buffer.block),
                                          std::min(request.bytes_done, request.wanted_bytes()));
  if (bytes == 0) {
    first_error_ = reads_.failed(layout, buffer.read.place,
                                 buffer.read.stopped_at() - request.bytes_done, EBADMSG);
    return {.block = {}, .bytes = 0, .status = first_error_};
  }
  buffer.state = State::kTaken;
  use_of_block_[number_of(needed)] = Use::kTaken;
  if (buffer.position != kNoPosition) tell_use(buffer.position, number_of(needed));
  const std::uint64_t of_run = slice.first_block + needed.index;
  if (of_run >= slice.freed_begin && of_run < slice.freed_end) {
    slice.run->free_block(of_run, punch_holes_);
  }
  carry_out();
  // Bytes behind the end of what is read may have come with the others.
  return {.block = buffer.block, .bytes = std::min(bytes, bytes_of(needed)), .status = {}};
}

void MergePrefetcher::release(std::uint32_t run, std::uint64_t index, Block) noexcept {
  std::lock_guard lock(mutex_);
  const std::uint32_t number = number_of({run, 0, index});
  const std::uint32_t buffer = buffer_of_block_[number];
  const Position position = buffers_[buffer].position;
  free(buffer);
  use_of_block_[number] = Use::kReleased;
  if (!first_error_.ok() || stopped_) return;
  settle_ended();
  if (!first_error_.ok()) return;
  if (position != kNoPosition) policy_->released(position);
  read_owed();
  carry_out();
}

MergePrefetcherStatistics MergePrefetcher::statistics() const noexcept {
  std::lock_guard lock(mutex_);
  return {.policy = policy_->statistics(), .unforeseen = unforeseen_, .reads = reads_.statistics()};
}

}}  // namespace vortex::v0
