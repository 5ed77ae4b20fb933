// How many blocks some streams hold, and held at most.
#pragma once

#include <atomic>
#include <cstddef>

namespace vortex::inline v0 {

// Counts the blocks of the streams that are told to (PooledStream::count_with()), whoever else uses
// their pool. add() and remove() may be called inside a fault; everything from any thread.
class BlockMeter {
 public:
  std::size_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  // The most at once since the beginning or the last restart().
  std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  // Starts a new peak from what is held now.
  void restart() noexcept { peak_.store(held(), std::memory_order_relaxed); }

  void add(std::size_t blocks) noexcept {
    const std::size_t held = held_.fetch_add(blocks, std::memory_order_relaxed) + blocks;
    std::size_t peak = this->peak();
    while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }
  void remove(std::size_t blocks) noexcept { held_.fetch_sub(blocks, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
};

}  // namespace vortex::inline v0
