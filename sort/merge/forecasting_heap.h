// An incremental merge of one key a block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace vortex { inline namespace v0 {

// The forecasting heap (Barve and Vitter, section 4.1.1): merges the runs' forecasting data, kept
// apart from the runs, one key at a time. Equal keys come in the order of their runs.
//
// The keys stay where they are and must outlive the heap. next() does not allocate; Less must not
// throw.
template <typename Key, typename Less = std::less<Key>>
class ForecastingHeap {
 public:
  struct Forecast {
    std::uint32_t run = 0;
    std::uint64_t index = 0;  // of the key in its run
  };

  explicit ForecastingHeap(std::vector<std::span<const Key>> runs, Less less = {})
      : runs_(std::move(runs)), less_(std::move(less)) {
    for (std::uint32_t run = 0; run < runs_.size(); ++run) {
      if (!runs_[run].empty()) enter({run, 0});
    }
  }

  // The smallest key not yet told; false when there is none.
  bool next(Forecast& forecast) noexcept {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), Later{this});
    forecast = heap_.back();
    heap_.pop_back();
    if (forecast.index + 1 < runs_[forecast.run].size()) {
      enter({forecast.run, forecast.index + 1});
    }
    return true;
  }

 private:
  struct Later {
    const ForecastingHeap* heap;
    bool operator()(const Forecast& a, const Forecast& b) const noexcept {
      const Key& key_a = heap->runs_[a.run][a.index];
      const Key& key_b = heap->runs_[b.run][b.index];
      if (heap->less_(key_b, key_a)) return true;
      if (heap->less_(key_a, key_b)) return false;
      return b.run < a.run;
    }
  };

  void enter(Forecast forecast) {
    heap_.push_back(forecast);
    std::push_heap(heap_.begin(), heap_.end(), Later{this});
  }

  std::vector<std::span<const Key>> runs_;
  Less less_;
  std::vector<Forecast> heap_;  // one entry a run, so it stops growing in the constructor
};

}}  // namespace vortex::v0
