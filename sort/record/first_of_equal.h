// Of records with equal keys, only the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sort/record/record_order.h"

namespace vortex::inline v0 {

// Passes records on that come in order; with `unique`, of those with equal keys only the first.
template <RecordOrder O, RecordOutput Output>
class FirstOfEqual {
 public:
  FirstOfEqual(const O& order, bool unique, Output& out)
      : order_(order), out_(out), last_(unique ? order.record_bytes() : 0) {}

  void append(const std::byte* record) {
    if (!last_.empty()) {
      if (appended_ != 0 && !order_.less(last_.data(), record)) return;
      std::memcpy(last_.data(), record, last_.size());
    }
    out_.append(record);
    ++appended_;
  }
  // Records that were passed on.
  std::uint64_t appended() const noexcept { return appended_; }

 private:
  const O& order_;
  Output& out_;
  std::vector<std::byte> last_;  // empty: all are passed on
  std::uint64_t appended_ = 0;
};

}  // namespace vortex::inline v0
