#include "sort/runs/run_sink.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace vortex::inline v0 {

RunSink::RunSink(Run& run, std::size_t blocks_for_stream, std::size_t write_behind)
    : run_(run),
      blocks_for_stream_(blocks_for_stream),
      quota_(run.store->pool(), blocks_for_stream + std::max<std::size_t>(write_behind, 1),
             blocks_for_stream + std::max<std::size_t>(write_behind, 1), "writer of a run"),
      slots_(std::max<std::size_t>(write_behind, 1)) {}

RunSink::~RunSink() {
  if (pool().inherited()) return;
  for (Slot& slot : slots_) {
    if (!slot.block) continue;
    run_.store->disk(slot.disk).wait(slot.request);
    quota_.give_back(std::exchange(slot.block, Block{}));
  }
}

void RunSink::cancel() noexcept {
  stopped_.store(true, std::memory_order_release);
  for (unsigned disk = 0; disk < run_.store->disks(); ++disk) run_.store->disk(disk).interrupt();
}

Status RunSink::stopped_or(Status status) const noexcept {
  if (stopped_.load(std::memory_order_acquire)) return {ECANCELED, "the stream was cancelled"};
  return status;
}

void RunSink::settle(Slot& slot) noexcept {
  const Request& request = slot.request;
  if (request.error != 0 && first_error_.ok()) {
    cause_.text("writing a temporary file in '").text(run_.store->folder(slot.disk));
    cause_.text("' at byte ").number(request.offset + request.bytes_done);
    if (request.error == ENOSPC)
      cause_.text("; keep runs in a folder with more room, or in several");
    first_error_ = {request.error, cause_.c_str()};
  }
  quota_.give_back(std::exchange(slot.block, Block{}));
}

void RunSink::settle_ended() noexcept {
  for (Slot& slot : slots_) {
    if (slot.block && slot.request.done()) settle(slot);
  }
}

// False: nothing is under way, or the stream was cancelled.
bool RunSink::wait_for_oldest() noexcept {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.block && (oldest == nullptr || slot.index < oldest->index)) oldest = &slot;
  }
  if (oldest == nullptr) return false;
  if (!run_.store->disk(oldest->disk).wait(oldest->request, &stopped_)) return false;
  settle_ended();
  return true;
}

RunSink::Slot* RunSink::free_slot() noexcept {
  for (;;) {
    for (Slot& slot : slots_) {
      if (!slot.block) return &slot;
    }
    if (!wait_for_oldest()) return nullptr;
  }
}

Sink::Taken RunSink::take(std::uint64_t) noexcept {
  settle_ended();
  for (;;) {
    if (!first_error_.ok()) return {.block = {}, .status = first_error_};
    const BlockGrant taken = quota_.try_take();
    if (taken.error == 0) return {.block = taken.block, .status = {}};
    if (taken.error != EAGAIN || !wait_for_oldest()) {
      return {.block = {}, .status = stopped_or({ENOMEM, "the system refuses memory for a block"})};
    }
  }
}

Status RunSink::complete(std::uint64_t index, Block block, std::size_t bytes) noexcept {
  settle_ended();
  Slot* const slot = first_error_.ok() ? free_slot() : nullptr;
  if (slot == nullptr || !first_error_.ok()) {
    quota_.give_back(block);
    return stopped_or(first_error_);
  }
  slot->block = block;
  slot->index = index;
  slot->disk = run_.allocation.disk(index);
  run_.store->submit(slot->request, Operation::kWrite, slot->disk, run_.slots[index],
                     pool().home(block), bytes, false);
  return {};
}

Status RunSink::finish(std::uint64_t) noexcept {
  while (wait_for_oldest()) {
  }
  return first_error_.ok() ? stopped_or({}) : first_error_;
}

}  // namespace vortex::inline v0
