#include "sort/runs/partitioners.h"

#include <algorithm>

#include "vortex/detail/array/streaming_copy.h"
#include "vortex/error.h"
#include "vortex/thread/askers.h"

namespace vortex { inline namespace v0 {

Partitioners::Stripe::Stripe(unsigned buckets, std::size_t record_bytes)
    : OpenBuckets(buckets),
      record_bytes_(record_bytes),
      counts_(buckets),
      before_(buckets),
      places_(buckets) {
  if (BucketBuffer::suits(record_bytes)) {
    buffers_ = std::make_unique_for_overwrite<BucketBuffer[]>(buckets);
  }
}

void Partitioners::Stripe::come_behind(std::span<std::uint32_t> records) noexcept {
  for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    before_[bucket] = records[bucket];
    records[bucket] += counts_[bucket];
  }
}

void Partitioners::Stripe::begin(std::span<std::byte* const> rooms) noexcept {
  for (std::size_t bucket = 0; bucket < rooms.size(); ++bucket) {
    places_[bucket] = rooms[bucket] + before_[bucket] * record_bytes_;
    open(bucket);
  }
}

// A buffer that does not begin where a cache line does is filled up to the next one.
void Partitioners::Stripe::open(std::size_t bucket) noexcept {
  std::byte* const place = places_[bucket];
  if (!buffers_) {
    end(bucket) = {place, place + counts_[bucket] * record_bytes_};
    return;
  }
  std::byte* const buffer = buffers_[bucket].bytes;
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(place) % detail::kStreamedBytes;
  const std::size_t ahead = (sizeof(BucketBuffer) - behind) / record_bytes_ * record_bytes_;
  end(bucket) = {buffer, buffer + ahead};
}

void Partitioners::Stripe::flush(std::size_t bucket) noexcept {
  const std::byte* const buffer = buffers_[bucket].bytes;
  const auto held = static_cast<std::size_t>(end(bucket).cursor - buffer);
  buffers_[bucket].write(places_[bucket], held);
  places_[bucket] += held;
}

// What was counted has room: only a full buffer ends here.
bool Partitioners::Stripe::extend(std::size_t bucket) noexcept {
  if (!buffers_) return false;
  flush(bucket);
  open(bucket);
  return true;
}

void Partitioners::Stripe::finish() noexcept {
  if (!buffers_) return;
  for (std::size_t bucket = 0; bucket < size(); ++bucket) flush(bucket);
  detail::finish_streaming();
}

void Partitioners::start() {
  team_.emplace(threads_);
  records_.resize(buckets_);
  rooms_.resize(buckets_);
  for (unsigned i = 0; i < team_->threads(); ++i) {
    stripes_.push_back(std::make_unique<Stripe>(buckets_, order_.record_bytes()));
  }
}

std::size_t Partitioners::bytes(std::size_t record_bytes, unsigned buckets,
                                unsigned threads) noexcept {
  const std::size_t each = sizeof(OpenBuckets::End) + 2 * sizeof(std::uint32_t) +
                           sizeof(std::byte*) +
                           (BucketBuffer::suits(record_bytes) ? sizeof(BucketBuffer) : 0);
  return threads * (sizeof(Stripe) + buckets * each) +
         buckets * (sizeof(std::uint32_t) + sizeof(std::byte*));
}

bool Partitioners::put(const std::byte* records, std::size_t count,
                       const detail::BucketSplitters& splitters, RunBuckets& buckets, bool beside) {
  if (!team_) start();
  const std::size_t record_bytes = order_.record_bytes();
  const Stripes stripes =
      Stripes(stripes_).first(std::min<std::size_t>(stripes_.size(), beside ? beside_ : threads_));
  const auto first_of = [&](std::size_t stripe) { return count * stripe / stripes.size(); };
  const auto each_stripe = [&, askers = Asking::askers()](const auto& work) {
    team_->run(stripes.size(), [&](std::size_t i) {
      const Asking asking(askers);
      work(*stripes[i], records + first_of(i) * record_bytes, first_of(i + 1) - first_of(i));
    });
  };
  each_stripe([&](Stripe& stripe, const std::byte* from, std::size_t some) {
    std::ranges::fill(stripe.counts(), 0);
    order_.count_for_buckets(from, some, splitters, stripe.counts());
  });
  if (!make_room(stripes, buckets)) return false;
  each_stripe([&](Stripe& stripe, const std::byte* from, std::size_t some) {
    // A store that fails leaves a guarded scope of its own thread.
    guarded([&] {
      stripe.begin(rooms_);
      order_.scatter(from, some, splitters, stripe);
      stripe.finish();
    }).throw_if_failed();
  });
  return true;
}

bool Partitioners::make_room(Stripes stripes, RunBuckets& buckets) {
  std::ranges::fill(records_, 0);
  for (const auto& stripe : stripes) stripe->come_behind(records_);
  const auto bytes_for = [&](std::size_t bucket) {
    return records_[bucket] * order_.record_bytes();
  };
  // Whether all of it fits does not depend on what is free.
  std::size_t blocks = 0;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    blocks += buckets.blocks_for(bucket, bytes_for(bucket));
  }
  if (blocks > buckets.blocks_left()) return false;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    rooms_[bucket] = buckets.room_for(bucket, bytes_for(bucket));
    if (rooms_[bucket] == nullptr) return false;
  }
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    buckets.added(bucket, bytes_for(bucket));
  }
  return true;
}

}}  // namespace vortex::v0
