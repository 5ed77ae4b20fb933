// What a sort of lines gives to others that share a budget with it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lines/job/line_job.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

// Gives the whole pages of [begin, end) back. Returns their bytes.
std::uint64_t give_pages_back(const char* begin, const char* end) noexcept {
  const std::uintptr_t page = os::page_bytes();
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(end) / page * page;
  if (first >= last) return 0;
  os::discard(reinterpret_cast<std::byte*>(first), last - first);
  return last - first;
}

}  // namespace

// What records in memory, which are sorted, have left.
void LineJob::give_back_free_room() noexcept {
  if (!context_.shares_memory()) return;
  const std::span<const char> room = arenas_[filling_]->free_room();
  context_.release(give_pages_back(room.data(), room.data() + room.size()));
}

void LineJob::lend_read_ahead() {
  context_.lend([this](std::uint64_t) { return context_.give_back_read_ahead(); },
                [this] { context_.give_back_unused(); });
}

std::unique_ptr<RunMerge> LineJob::spilled(const ArenaCursor& rest) {
  write_run(arena(), rest, false);
  std::unique_ptr<RunMerge> merge = std::move(merge_all().front());
  context_.running().give_back();
  guarded([&] { merge->start(); }).throw_if_failed();
  return merge;
}

void LineJob::give_arena_back(std::string_view kept) noexcept {
  char* const begin = memory_->data();
  char* const end = begin + memory_->size();
  std::uint64_t given = 0;
  if (kept.data() >= begin && kept.data() < end) {
    given = give_pages_back(begin, kept.data());
    given += give_pages_back(kept.data() + kept.size(), end);
  } else {
    given = give_pages_back(begin, end);
  }
  // What has been free before has been given back already.
  const std::span<const char> room = arena().free_room();
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t before = room.size() < 2 * page ? 0 : room.size() - 2 * page;
  context_.release(given - std::min(given, before + 2 * page));
  context_.forget_unused();
  arenas_.clear();
}

void LineJob::forget_arena() noexcept { memory_.reset(); }

}}  // namespace vortex::v0
