#include "study/service_clock.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

std::uint64_t ServiceClock::serve(const Attempt& transfer, std::uint64_t now_ns) noexcept {
  std::uint64_t duration_ns = 0;
  if (transfer.file != head_file_ || transfer.offset != head_offset_) {
    duration_ns = model_.seek_ns;
    ++seeks_;
  }
  const std::uint64_t rate =
      transfer.operation == Operation::kRead ? model_.read_bytes_per_s : model_.write_bytes_per_s;
  if (rate != 0) {
    // Attempts are far below 16 GiB, so the product fits.
    duration_ns += (std::uint64_t{transfer.bytes} * 1'000'000'000 + rate / 2) / rate;
  }
  head_file_ = transfer.file;
  head_offset_ = transfer.offset + transfer.bytes;
  busy_ns_ += duration_ns;
  free_at_ns_ = std::max(free_at_ns_, now_ns) + duration_ns;
  return free_at_ns_;
}

}}  // namespace vortex::v0
