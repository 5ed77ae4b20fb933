#include "sort/runs/run_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

std::unique_ptr<Disk> open_disk_of(const std::string& folder) {
  DiskOptions options;
  options.name = "runs in " + folder;
  return open_disk(options);
}

}  // namespace

RunStore::RunStore(BlockPool& pool, RunStoreOptions options)
    : pool_(&pool), options_(std::move(options)) {
  const std::size_t count = options_.folders.size();
  if (count == 0) throw Error(EINVAL, "a store of runs needs a folder for its temporary files");
  if (options_.weights.empty()) options_.weights.assign(count, 1.0);
  if (options_.weights.size() != count) {
    throw Error(EINVAL, "a store of runs in " + std::to_string(count) + " folders was given " +
                            std::to_string(options_.weights.size()) + " weights");
  }
  // Says what is wrong with the weights before anything is opened.
  BlockAllocation(options_.strategy, options_.weights, options_.seed, 0);
  for (std::size_t i = 0; i < count; ++i) {
    auto part = std::make_unique<Part>();
    part->file = options_.open_file ? options_.open_file(i)
                                    : BlockFile::temporary(options_.folders[i], options_.direct);
    if (!options_.direct || pool_->block_bytes() % part->file.alignment() != 0) {
      part->file.use_page_cache();
    }
    struct stat status {};
    if (fstat(part->file.descriptor(), &status) == 0) part->file_system = status.st_dev;
    part->disk = options_.open_disk ? options_.open_disk(i) : open_disk_of(options_.folders[i]);
    const bool copies = part->file.in_memory() || part->file.direct_descriptor() < 0;
    if (copies && options_.copiers != 0) part->disk->copy_with(options_.copiers);
    disks_.push_back(part->disk.get());
    parts_.push_back(std::move(part));
  }
}

RunStore::~RunStore() = default;

SpreadSequence RunStore::next_sequence(std::uint64_t most_bytes, std::uint64_t expected_bytes) {
  const std::vector<double> weights = weights_with_room(std::min(most_bytes, expected_bytes));
  std::lock_guard lock(mutex_);
  return SpreadSequence(*this, {options_.strategy, weights, options_.seed, runs_++},
                        blocks_of(most_bytes));
}

void RunStore::promise_slots(std::uint64_t slots) {
  {
    std::lock_guard lock(mutex_);
    promised_ += slots;
  }
  for (const auto& part : parts_) {
    {
      const std::lock_guard punching(part->punching);
      const std::lock_guard lock(mutex_);
      make_room_for_slots(*part);
    }
    std::unique_lock lock(mutex_);
    if (!part->wants_rest()) continue;
    lock.unlock();
    punch_holes(*part);
  }
}

void RunStore::take_promise_back(std::uint64_t slots) noexcept {
  std::lock_guard lock(mutex_);
  promised_ -= slots;
}

// Slots are taken and freed inside faults, where there must be room for all of them in the lists.
void RunStore::make_room_for_slots(Part& part) {
  const std::uint64_t most = part.slots + promised_;
  for (auto* list : {&part.free_slots, &part.to_punch, &part.holes}) {
    if (list->capacity() < most) list->reserve(std::max<std::uint64_t>(most, 2 * list->capacity()));
  }
}

// Free slots, and what the folder's file system has for each of the folders in it.
std::uint64_t RunStore::room(const Part& part) const {
  const auto sharing = std::count_if(parts_.begin(), parts_.end(), [&](const auto& other) {
    return other->file_system == part.file_system;
  });
  const std::optional<std::uint64_t> free = part.file.free_bytes();
  if (!free) return std::numeric_limits<std::uint64_t>::max();  // writes will tell
  return (part.slots_allocated - part.in_use()) * block_bytes() +
         *free / static_cast<std::uint64_t>(sharing);
}

bool RunStore::punching_pays() const {
  std::lock_guard lock(mutex_);
  const std::uint64_t in_use = in_use_ * block_bytes();
  return std::ranges::any_of(parts_, [&](const auto& part) {
    const std::optional<std::uint64_t> free = part->file.free_bytes();
    return part->file.direct_descriptor() < 0 || !free || in_use > *free / kSmallPartOfFree;
  });
}

std::vector<double> RunStore::weights_with_room(std::uint64_t bytes) const {
  std::vector<std::uint64_t> rooms;
  {
    std::lock_guard lock(mutex_);
    for (const auto& part : parts_) {
      const std::uint64_t room = this->room(*part);
      rooms.push_back(room < block_bytes() ? 0 : room);
    }
  }
  std::vector<double> weights = shares_that_fit(options_.weights, rooms, bytes);
  // Where there is no room anywhere, writes will tell.
  return std::accumulate(weights.begin(), weights.end(), 0.0) > 0 ? weights : options_.weights;
}

std::vector<unsigned> RunStore::block_times_of(const std::vector<double>& speeds) {
  // kMinTime is the time of the fastest disk. A larger one would tell speeds apart more exactly,
  // and take longer to plan with.
  constexpr double kMinTime = 4;
  constexpr double kMaxTime = 400;
  const double fastest = *std::max_element(speeds.begin(), speeds.end());
  if (fastest == *std::min_element(speeds.begin(), speeds.end())) return {};
  std::vector<unsigned> times;
  for (const double speed : speeds) {
    const double time = speed > 0 ? kMinTime * fastest / speed : kMaxTime;
    times.push_back(static_cast<unsigned>(std::min(time, kMaxTime) + 0.5));
  }
  return times;
}

FileLayout::Place RunStore::locate(UnitPlace place) const noexcept {
  const Part& part = *parts_[place.file];
  return {part.disk.get(), &part.file, std::uint64_t{place.slot} * block_bytes()};
}

std::uint32_t RunStore::take_slot(unsigned file) noexcept {
  std::lock_guard lock(mutex_);
  Part& part = *parts_[file];
  std::uint32_t slot = 0;
  if (auto* const free = part.free_slots.empty() ? &part.to_punch : &part.free_slots;
      !free->empty()) {
    slot = free->back();
    free->pop_back();
  } else {
    if (part.slots == kNoSlot) return kNoSlot;
    if (part.slots == part.slots_allocated && !options_.sparse) allocate_more(part);
    slot = part.slots++;
    part.slots_allocated = std::max<std::uint64_t>(part.slots_allocated, part.slots);
  }
  part.peak_in_use = std::max(part.peak_in_use, part.in_use());
  peak_in_use_ = std::max(peak_in_use_, ++in_use_);
  return slot;
}

void RunStore::free_slot(unsigned disk, std::uint32_t slot, bool punch_hole) noexcept {
  Part& part = *parts_[disk];
  {
    std::lock_guard lock(mutex_);
    (punch_hole ? part.to_punch : part.free_slots).push_back(slot);
    --in_use_;
    if (punch_hole) trim(part);
    if (!part.wants_holes()) return;
  }
  punch_holes(part);
}

// An eighth more than there is. Writes that let a file grow go one at a time; those to space that
// it has do not.
void RunStore::allocate_more(Part& part) noexcept {
  constexpr std::uint64_t kMinBytes = std::uint64_t{1} << 20;
  std::uint64_t more =
      std::max<std::uint64_t>(part.slots / 8, (kMinBytes + block_bytes() - 1) / block_bytes());
  // Where there is no room for an eighth more, there may be some for less. If not, writes will
  // tell.
  for (; more > 0; more /= 2) {
    const std::uint64_t end = (part.slots + more) * block_bytes();
    if (part.file.try_to_grow(part.slots * block_bytes(), end)) break;
  }
  part.slots_allocated = part.slots + std::max<std::uint64_t>(more, 1);
}

// Gives back what was allocated ahead.
void RunStore::trim(Part& part) noexcept {
  if (part.slots_allocated <= part.slots) return;
  part.file.punch_hole(part.slots * block_bytes(),
                       (part.slots_allocated - part.slots) * block_bytes());
  part.slots_allocated = part.slots;
}

// Whoever has locked it looks again for those who could not and after whom nobody frees a slot.
// More is for whoever frees the next one: no fault punches for ever.
void RunStore::punch_holes(Part& part) noexcept {
  for (bool again = true; again;) {
    {
      std::unique_lock punching(part.punching, std::try_to_lock);
      if (!punching) return;
      {
        std::lock_guard lock(mutex_);
        part.holes.swap(part.to_punch);
      }
      {
        const WorkSpan span(SpanKind::kFree);
        punch(part.file, part.holes);
      }
      std::lock_guard lock(mutex_);
      part.free_slots.insert(part.free_slots.end(), part.holes.begin(), part.holes.end());
      part.holes.clear();
    }
    std::lock_guard lock(mutex_);
    again = part.wants_rest();
  }
}

// Neighbouring slots are one hole.
void RunStore::punch(BlockFile& file, std::vector<std::uint32_t>& slots) const noexcept {
  std::sort(slots.begin(), slots.end());
  for (auto begin = slots.begin(); begin != slots.end();) {
    auto end = begin + 1;
    while (end != slots.end() && *end == *(end - 1) + 1) ++end;
    file.punch_hole(std::uint64_t{*begin} * block_bytes(),
                    static_cast<std::uint64_t>(end - begin) * block_bytes());
    begin = end;
  }
}

int RunStore::read(UnitPlace place, std::size_t from, std::byte* to,
                   std::size_t bytes) const noexcept {
  const int file = parts_[place.file]->file.descriptor();
  auto offset = static_cast<off_t>(std::uint64_t{place.slot} * block_bytes() + from);
  while (bytes > 0) {
    const ssize_t copied = pread(file, to, bytes, offset);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return copied < 0 ? errno : ENODATA;
    to += copied;
    offset += copied;
    bytes -= static_cast<std::size_t>(copied);
  }
  return 0;
}

std::uint64_t RunStore::bytes_in_use() const noexcept {
  std::lock_guard lock(mutex_);
  return in_use_ * pool_->block_bytes();
}

std::uint64_t RunStore::peak_bytes_in_use() const noexcept {
  std::lock_guard lock(mutex_);
  return peak_in_use_ * pool_->block_bytes();
}

std::vector<RunStoreDiskStatistics> RunStore::statistics() const {
  std::vector<RunStoreDiskStatistics> result;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = *parts_[i];
    RunStoreDiskStatistics one;
    one.folder = options_.folders[i];
    one.direct = part.file.direct_descriptor() >= 0;
    one.disk = part.disk->statistics();
    std::lock_guard lock(mutex_);
    one.slots = part.slots;
    one.slots_in_use = part.in_use();
    one.peak_slots_in_use = part.peak_in_use;
    result.push_back(std::move(one));
  }
  return result;
}

}}  // namespace vortex::v0
