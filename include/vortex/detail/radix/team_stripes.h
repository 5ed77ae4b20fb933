// Which chunks of an array each thread of a team distributes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// A stripe for each thread, all of one length, taken a few chunks at a time. A thread that has
// ended its own takes the rear of what is left of another's: so nobody waits for a thread that
// shares its processor with others, or that has woken late. What it takes is a stripe again, which
// lies behind that of the other: lists that are joined in the order of the array are those that one
// thread would make (docs/decisions/0095-rear-of-a-stripe.md).
//
// Threads may call begin(), take() and help() at the same time, for stripes of their own.
class TeamStripes {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};
  // Chunks that are taken at once: some 64 KiB.
  static constexpr std::size_t kStep = 16;

  struct Chunks {
    std::size_t begin;
    std::size_t end;
  };

  // So many stripes have numbers, of which some may never be made. Each has lists of its own, which
  // end with chunks that are not full. One to three are enough to help those that are
  // late.
  static std::size_t most(unsigned threads) noexcept {
    return threads == 1 ? 1 : threads + std::min(threads / 8 + 1, 3U);
  }

  // Throws std::bad_alloc.
  explicit TeamStripes(unsigned threads)
      : threads_(threads), most_(most(threads)), stripes_(std::make_unique<Stripe[]>(most_)) {}

  // Divides an array of so many chunks, fewer than 2^32. Nobody calls anything else meanwhile.
  void start(std::size_t chunks) noexcept {
    chunks_ = chunks;
    begun_ = 0;
    made_ = threads_;
    for (std::size_t i = 0; i < most_; ++i) stripes_[i].left = 0;
  }

  // The stripe of one of the threads, before it is divided.
  Chunks whole(std::size_t thread) const noexcept {
    return {chunks_ * thread / threads_, chunks_ * (thread + 1) / threads_};
  }
  // Lets it be taken. `shift` is added to the number of a chunk for that of its node.
  void begin(std::size_t thread, std::uint32_t shift) noexcept {
    const Chunks chunks = whole(thread);
    Stripe& stripe = stripes_[thread];
    stripe.first = chunks.begin;
    stripe.shift = shift;
    stripe.left.store(packed(chunks.begin, chunks.end), std::memory_order_release);
    begun_.fetch_add(1, std::memory_order_release);
  }

  // The next chunks of a stripe; none, where it has ended.
  Chunks take(std::size_t index) noexcept {
    std::atomic<std::uint64_t>& left = stripes_[index].left;
    std::uint64_t seen = left.load(std::memory_order_relaxed);
    for (;;) {
      const Chunks chunks = unpacked(seen);
      const std::size_t end = std::min(chunks.begin + kStep, chunks.end);
      if (end == chunks.begin ||
          left.compare_exchange_weak(seen, packed(end, chunks.end), std::memory_order_relaxed)) {
        return {chunks.begin, end};
      }
    }
  }

  // For the thread that has ended its own stripe, and all that it has taken since: makes a stripe
  // of the rear of the one that has most left, and returns its number; kNone where that would have
  // less than `least` chunks, where all numbers are taken, or while the stripe of some thread has
  // not begun: a free thread begins that one instead.
  std::size_t help(std::size_t thread, std::size_t least) noexcept {
    if (begun_.load(std::memory_order_acquire) < threads_) return kNone;
    for (std::size_t made = kNone;;) {
      Stripe& from = stripes_[slowest()];
      std::uint64_t seen = from.left.load(std::memory_order_acquire);
      const Chunks left = unpacked(seen);
      const std::size_t rear = rear_of(from, left, thread);
      if (rear < std::max<std::size_t>(least, 1)) return kNone;
      if (made == kNone && (made = made_.fetch_add(1, std::memory_order_relaxed)) >= most_) {
        return kNone;
      }
      Stripe& to = stripes_[made];
      to.first = left.end - rear;
      to.shift = from.shift;
      if (!from.left.compare_exchange_strong(seen, packed(left.begin, to.first),
                                             std::memory_order_acq_rel)) {
        continue;
      }
      to.left.store(packed(to.first, left.end), std::memory_order_release);
      return made;
    }
  }

  // Calls body(number of a stripe) for all that have had chunks, in the order of the array.
  template <typename Body>
  void for_each_made(const Body& body) const {
    for (std::size_t before = kNone;;) {
      std::size_t next = kNone;
      for (std::size_t i = 0; i < made(); ++i) {
        const Stripe& stripe = stripes_[i];
        if (unpacked(stripe.left).end <= stripe.first) continue;
        if (before != kNone && stripe.first <= stripes_[before].first) continue;
        if (next == kNone || stripe.first < stripes_[next].first) next = i;
      }
      if (next == kNone) return;
      body(next);
      before = next;
    }
  }
  std::uint32_t shift(std::size_t index) const noexcept { return stripes_[index].shift; }
  // Whether a stripe that has ended has the last chunk of the array.
  bool is_last(std::size_t index) const noexcept {
    return unpacked(stripes_[index].left.load(std::memory_order_relaxed)).end == chunks_;
  }

 private:
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> left{0};  // the next chunk and the end, packed; 0: not made
    std::size_t first = 0;
    std::uint32_t shift = 0;
  };

  static std::uint64_t packed(std::size_t begin, std::size_t end) noexcept {
    return std::uint64_t{begin} << 32 | end;
  }
  static Chunks unpacked(std::uint64_t left) noexcept { return {left >> 32, left & 0xffffffff}; }

  // How many numbers have been given.
  std::size_t made() const noexcept { return std::min<std::size_t>(made_, most_); }
  std::size_t slowest() const noexcept {
    std::size_t slowest = 0, most_left = 0;
    for (std::size_t i = 0; i < made(); ++i) {
      const Chunks left = unpacked(stripes_[i].left.load(std::memory_order_relaxed));
      if (left.end - left.begin <= most_left) continue;
      most_left = left.end - left.begin;
      slowest = i;
    }
    return slowest;
  }
  // A half to three quarters: for a stripe of a thread's own so that both end together, if they go
  // on as fast as they have been.
  std::size_t rear_of(const Stripe& from, const Chunks& left, std::size_t thread) const noexcept {
    const std::size_t all = left.end - left.begin;
    const Chunks own = whole(thread);
    const std::size_t mine = own.end - own.begin, its = left.begin - from.first;
    return std::clamp(all * mine / std::max<std::size_t>(mine + its, 1), all / 2, all * 3 / 4);
  }

  const unsigned threads_;
  const std::size_t most_;
  const std::unique_ptr<Stripe[]> stripes_;
  std::size_t chunks_ = 0;
  std::atomic<std::size_t> begun_{0};
  std::atomic<std::size_t> made_{0};
};

}}}  // namespace vortex::v0::detail
