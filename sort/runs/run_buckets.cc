#include "sort/runs/run_buckets.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

void require(int error) {
  if (error == 0) return;
  throw Error(error, error == EAGAIN
                         ? "run formation: its pool is used by others, too"
                         : "run formation: the system refuses to move a block of a bucket");
}

}  // namespace

RunBuckets::RunBuckets(StreamPool& pool, const Most& most, std::size_t record_bytes,
                       BucketBuffer* buffers)
    : OpenBuckets(most.open),
      pool_(pool),
      most_(most),
      record_bytes_(record_bytes),
      buffers_(buffers),
      written_(most.open) {
  const std::uint64_t reserve_bytes = (pool_.block_count() + 1) * pool_.block_bytes();
  const unsigned count = most.open + most.closed;
  spare_.reserve(count);
  for (unsigned bucket = 0; bucket < count; ++bucket) {
    try {
      // Copies come back a block where they straddle two.
      spare_.push_back(
          std::make_unique<BucketStream>(pool_, BucketStreamOptions{.name = "bucket of a run",
                                                                    .reserve_bytes = reserve_bytes,
                                                                    .comeback_blocks = 1,
                                                                    .guarded_by_seal = true}));
    } catch (const Error& error) {
      throw Error(error.code().value(),
                  "each of " + std::to_string(count) +
                      " buckets reserves as much address space as there is memory, " +
                      format_bytes(reserve_bytes) + "; less memory or fewer buckets take less");
    }
  }
  for (unsigned bucket = 0; bucket < most.open; ++bucket) {
    streams_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    end(bucket) = {front(bucket), front(bucket)};
  }
}

bool RunBuckets::set_aside(std::size_t bucket, std::size_t bytes) {
  Written& written = written_[bucket];
  while (written.room < bytes) {
    if (blocks_ >= most_.blocks) return false;
    const int error =
        streams_[bucket]->set_aside(written.bytes + written.room, pool_.block_bytes());
    if (error == EAGAIN) return false;
    require(error);
    written.room += pool_.block_bytes();
    ++blocks_;
  }
  return true;
}

bool RunBuckets::extend(std::size_t bucket) {
  flush(bucket);
  if (!set_aside(bucket, record_bytes_)) return false;
  const std::size_t room = written_[bucket].room;
  End& open = end(bucket);
  open.limit = open.cursor + (buffers_ != nullptr ? std::min(sizeof(BucketBuffer), room) : room);
  return true;
}

void RunBuckets::flush(std::size_t bucket) noexcept {
  Written& written = written_[bucket];
  const std::byte* const from = front(bucket);
  const auto bytes = static_cast<std::size_t>(end(bucket).cursor - from);
  if (buffers_ != nullptr && bytes != 0) {
    buffers_[bucket].write(begin(bucket) + written.bytes, bytes);
  }
  written.bytes += bytes;
  written.room -= bytes;
  end(bucket) = {front(bucket), front(bucket)};
}

std::byte* RunBuckets::room_for(std::size_t bucket, std::size_t bytes) {
  flush(bucket);
  if (!set_aside(bucket, bytes)) return nullptr;
  return begin(bucket) + written_[bucket].bytes;
}

std::size_t RunBuckets::blocks_for(std::size_t bucket, std::size_t bytes) const noexcept {
  const auto buffered = static_cast<std::size_t>(end(bucket).cursor - front(bucket));
  const std::size_t room = written_[bucket].room - buffered;
  return detail::units_for(bytes - std::min(bytes, room), pool_.block_bytes());
}

void RunBuckets::added(std::size_t bucket, std::size_t bytes) noexcept {
  written_[bucket].bytes += bytes;
  written_[bucket].room -= bytes;
  end(bucket) = {front(bucket), front(bucket)};
}

std::array<std::span<const std::byte>, 2> RunBuckets::parts(std::size_t bucket) const noexcept {
  const std::byte* const from = front(bucket);
  return {std::span<const std::byte>(begin(bucket), written_[bucket].bytes),
          std::span<const std::byte>(from, end(bucket).cursor)};
}

// What a bucket had, which has nothing now.
RunBuckets::Written RunBuckets::forget(std::size_t bucket) noexcept {
  const Written had = std::exchange(written_[bucket], {});
  blocks_ -= (had.bytes + had.room) / pool_.block_bytes();
  return had;
}

void RunBuckets::clear(std::size_t bucket) {
  if (written_[bucket].room == 0) return;
  require(streams_[bucket]->clear());
  forget(bucket);
  end(bucket) = {front(bucket), front(bucket)};
}

// Where the buffers hold the open ends, what they hold goes with the buckets.
void RunBuckets::move(std::size_t from, std::size_t to) noexcept {
  const std::byte* const begin = front(from);
  const auto held = static_cast<std::size_t>(end(from).cursor - begin);
  const std::size_t room = end(from).room();
  std::swap(streams_[from], streams_[to]);
  std::swap(written_[from], written_[to]);
  if (buffers_ != nullptr) std::memcpy(buffers_[to].bytes, begin, held);
  std::byte* const cursor = front(to) + held;
  end(to) = {cursor, cursor + room};
  end(from) = {front(from), front(from)};
}

void RunBuckets::insert(std::size_t bucket, std::size_t used) noexcept {
  for (std::size_t to = used; to > bucket; --to) move(to - 1, to);
}

void RunBuckets::remove(std::size_t bucket, std::size_t used) noexcept {
  for (std::size_t to = bucket; to + 1 < used; ++to) move(to + 1, to);
}

std::size_t RunBuckets::spares() const noexcept {
  const std::lock_guard lock(mutex_);
  return spare_.size();
}

ClosedBucket RunBuckets::close(std::size_t bucket) {
  guarded([&] { flush(bucket); }).throw_if_failed();
  detail::finish_streaming();
  ClosedBucket closed{std::move(streams_[bucket]), forget(bucket).bytes};
  {
    const std::lock_guard lock(mutex_);
    streams_[bucket] = std::move(spare_.back());
    spare_.pop_back();
  }
  end(bucket) = {front(bucket), front(bucket)};
  return closed;
}

void RunBuckets::seal(const ClosedBucket& bucket) { require(bucket.stream->seal()); }

void RunBuckets::take_back(ClosedBucket bucket) {
  require(bucket.stream->clear());
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(bucket.stream));
}

std::unique_ptr<BucketStream> RunBuckets::take_spare() noexcept {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<BucketStream> spare = std::move(spare_.back());
  spare_.pop_back();
  return spare;
}

std::span<std::byte> KeptRecords::room(std::size_t most_bytes) {
  require(stream_->set_aside(bytes_, most_bytes));
  return {stream_->bytes() + bytes_, most_bytes};
}

void KeptRecords::end() { require(stream_->truncate(bytes_)); }

}}  // namespace vortex::v0
