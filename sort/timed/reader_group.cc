#include "sort/timed/reader_group.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <new>
#include <utility>

#include "io/disk/disk.h"
#include "io/sequence/request_units.h"
#include "sort/runs/run_store.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// Of so many blocks of a file the disks tell where the others lie.
constexpr std::uint64_t kLookedAt = 4096;

BlockPoolOptions pool_of_readers(const TimedReadersOptions& options) {
  if (options.disks.empty()) throw Error(EINVAL, "readers at their rates: no disk is named");
  if (std::ranges::count(options.disks, nullptr, &TimedDisk::disk) != 0) {
    throw Error(EINVAL, "readers at their rates: a disk is none");
  }
  if (options.prefetch == PrefetchKind::kStriped ||
      options.prefetch == PrefetchKind::kForecastAndFlush) {
    throw Error(EINVAL, "readers at their rates: the policy \"" +
                            std::string(prefetch_kind_name(options.prefetch)) +
                            "\" keeps disks waiting for each other");
  }
  BlockPoolOptions result;
  result.pool_bytes = options.memory_bytes;
  result.block_bytes = options.block_bytes;
  result.warming = Warming::kOnDemand;
  result.name = "blocks of readers at their rates";
  result.most_placed = 1;  // they rest
  return result;
}

}  // namespace

ReaderGroup::ReaderGroup(const TimedReadersOptions& options)
    : block_bytes_(options.block_bytes),
      unit_bytes_(RequestUnits::group(options.block_bytes, options.request_bytes, 0) *
                  options.block_bytes),
      kind_(options.prefetch),
      caching_(options.caching),
      now_ns_(options.now_ns ? options.now_ns : steady_now_ns),
      pool_(pool_of_readers(options)),
      quota_(pool_, pool_.block_count(), pool_.block_count(), "readers"),
      reads_(Operation::kRead, pool_, options.caching),
      promises_(options, unit_bytes_) {
  std::vector<double> speeds;
  for (const TimedDisk& disk : options.disks) {
    disks_.push_back(disk.disk);
    speeds.push_back(disk.read_bytes_per_s);
  }
  if (std::ranges::count(speeds, 0.0) == 0) block_times_ = RunStore::block_times_of(speeds);
  statistics_.blocks = pool_.block_count();
}

ReaderGroup::~ReaderGroup() {
  if (pool_.inherited()) return;
  for (const std::uint32_t index : under_way_) {
    buffers_[index].read.place.disk->wait(buffers_[index].read.request);
  }
  for (Buffer& buffer : buffers_) {
    while (buffer.begin < buffer.end) quota_.give_back(buffer.blocks[buffer.begin++]);
  }
}

std::uint32_t ReaderGroup::disk_number(const Disk* disk) const {
  const auto found = std::ranges::find(disks_, disk);
  if (found != disks_.end()) return static_cast<std::uint32_t>(found - disks_.begin());
  throw Error(EINVAL, "disk '" + disk->name() + "' is none of those of the group of readers");
}

DiskShares ReaderGroup::shares_of(FileLayout& layout, std::uint64_t first,
                                  std::uint64_t end) const {
  DiskShares shares(disks_.size(), 0);
  const std::uint64_t looked_at = std::min(end - first, kLookedAt);
  for (std::uint64_t i = 0; i < looked_at; ++i) {
    shares[disk_number(layout.locate(first + i, unit_bytes_).disk)] +=
        1 / static_cast<double>(looked_at);
  }
  return shares;
}

DiskShares ReaderGroup::times(const DiskShares& shares, double bytes_per_s) {
  DiskShares result = shares;
  for (double& share : result) share *= bytes_per_s;
  return result;
}

std::uint32_t ReaderGroup::add(std::unique_ptr<FileLayout> layout,
                               const TimedReaderOptions& options) {
  const std::string& name = layout->name();
  const auto length = layout->length();
  if (!length || layout->sequential()) {
    throw Error(ESPIPE, "'" + name + "' cannot be read at offsets");
  }
  if (layout->unit_bytes() != 0 && layout->unit_bytes() != unit_bytes_) {
    throw Error(EINVAL, "'" + name + "' is striped in units of " +
                            format_bytes(layout->unit_bytes()) + ", and read in requests of " +
                            format_bytes(unit_bytes_) + ": they must be equal");
  }
  if (!(options.bytes_per_s >= 0 && std::isfinite(options.bytes_per_s))) {
    throw Error(EINVAL, "'" + name + "' is to be read at a rate that is no number from 0 on");
  }
  const std::uint64_t end = std::min(*length, detail::saturating_sum(options.begin, options.bytes));
  const std::uint64_t begin = std::min(options.begin, end);
  const std::uint64_t first = begin / unit_bytes_;
  const std::uint64_t end_unit = begin == end ? first : detail::units_for(end, unit_bytes_);
  DiskShares shares = shares_of(*layout, first, end_unit);
  DiskShares promised = times(shares, options.bytes_per_s);
  auto reader = std::make_unique<Reader>(Reader{.layout = std::move(layout),
                                                .pace = Pace(options),
                                                .begin = begin,
                                                .end = end,
                                                .end_unit = end_unit,
                                                .shares = std::move(shares),
                                                .promised = std::move(promised),
                                                .next = first});

  const std::lock_guard lock(mutex_);
  const std::size_t units = pool_.block_count() / blocks_of_unit();
  const std::size_t least = (disks_.size() + 1) * blocks_of_unit();
  const std::size_t most = pool_.block_count() - std::min(pool_.block_count(), least);
  if (open_ >= most) {
    throw Error(ENOBUFS,
                "'" + name + "' is one reader too many: " + format_bytes(pool_.pool_bytes()) +
                    " for requests of " + format_bytes(unit_bytes_) + " to " +
                    std::to_string(disks_.size()) + " disks are enough for " +
                    std::to_string(most) + ": give them more memory, or make smaller requests");
  }
  const auto slot = static_cast<std::uint32_t>(
      std::ranges::find_if(readers_, std::logical_not<>()) - readers_.begin());
  if (slot == readers_.size()) readers_.emplace_back();
  const std::size_t wanted = std::max(buffers_.size(), units + open_ + 1);
  free_.reserve(wanted);
  under_way_.reserve(wanted);
  unreleased_.reserve(wanted);
  owed_.reserve(wanted);
  while (buffers_.size() < wanted) {
    buffers_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(buffers_.size() - 1));
  }
  promises_.change(name, {}, reader->promised);
  readers_[slot] = std::move(reader);
  ++open_;
  stale_ = true;
  return slot;
}

void ReaderGroup::remove(std::uint32_t slot) noexcept {
  if (pool_.inherited()) return;
  Lock lock(mutex_);
  Reader& reader = *readers_[slot];
  forget(slot);
  if (reader.held != kNone) free(reader.held);
  const auto its_own = [&](std::uint32_t buffer) { return buffers_[buffer].reader == slot; };
  // Nothing more is read for it; what has ended is taken from the list by whoever comes first.
  reader.failed_unit = 0;
  stale_ = true;
  for (auto own = std::ranges::find_if(under_way_, its_own); own != under_way_.end();
       own = std::ranges::find_if(under_way_, its_own)) {
    if (buffers_[*own].read.request.done()) {
      free(*own);
      under_way_.erase(own);
    } else {
      await(lock, *own);
    }
  }
  promises_.take_back(reader.promised);
  const std::unique_ptr<Reader> gone = std::move(readers_[slot]);
  --open_;
}

std::uint64_t ReaderGroup::offset(std::uint32_t slot) const noexcept {
  const std::lock_guard lock(mutex_);
  const Reader& reader = *readers_[slot];
  if (reader.held == kNone) return offset_of(reader, reader.next);
  const Buffer& buffer = buffers_[reader.held];
  return offset_of(reader, buffer.unit, buffer.begin + 1);
}

void ReaderGroup::lacks_memory(const Reader& reader) const {
  throw Error(refused_, "'" + reader.layout->name() + "', byte " +
                            std::to_string(offset_of(reader, reader.next)) +
                            ": the system refuses memory for a block");
}

void ReaderGroup::set_rate(std::uint32_t slot, double bytes_per_s) {
  const std::lock_guard lock(mutex_);
  Reader& reader = *readers_[slot];
  if (!(bytes_per_s >= 0 && std::isfinite(bytes_per_s))) {
    throw Error(EINVAL, "'" + reader.layout->name() + "': a rate is a number from 0 on");
  }
  DiskShares promised = times(reader.shares, bytes_per_s);
  promises_.change(reader.layout->name(), reader.promised, promised);
  reader.promised = std::move(promised);
  reader.pace.set(bytes_per_s);
  stale_ = true;
}

double ReaderGroup::rate(std::uint32_t slot) const noexcept {
  const std::lock_guard lock(mutex_);
  return readers_[slot]->pace.rate();
}

TimedReaderStatistics ReaderGroup::statistics(std::uint32_t slot) const noexcept {
  const std::lock_guard lock(mutex_);
  return readers_[slot]->statistics;
}

TimedReadersStatistics ReaderGroup::statistics() const {
  const std::lock_guard lock(mutex_);
  TimedReadersStatistics result = statistics_;
  result.carried = promises_.carried();
  result.promised = promises_.promised();
  return result;
}

}}  // namespace vortex::v0
