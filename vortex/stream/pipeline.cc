#include "vortex/pipeline.h"

#include <algorithm>

#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

constexpr std::uint64_t kMinReservation = std::uint64_t{1} << 30;

}  // namespace

OutputStreamOptions writer_options(const PipelineOptions& options) {
  OutputStreamOptions result{
      .name = options.name + " (writer)",
      .comeback_blocks = options.writer_comeback_blocks,
      .stale_blocks = options.stale_blocks,
      .reserve_bytes = options.reserve_bytes,
      .least_reserve_bytes = std::min(kMinReservation, options.reserve_bytes),
      .gaps = options.gaps};
  if (options.length_bytes) {
    // A block more than the data need, so that a write past the end is our error to report.
    result.reserve_bytes = saturating_sum(*options.length_bytes, 2 * kMaxBlockBytes);
    result.least_reserve_bytes = result.reserve_bytes;
  }
  return result;
}

InputStreamOptions reader_options(const PipelineOptions& options) {
  InputStreamOptions result{.name = options.name + " (reader)",
                            .comeback_blocks = options.reader_comeback_blocks,
                            .stale_blocks = options.stale_blocks};
  if (!options.length_bytes) {
    result.reserve_bytes = options.reserve_bytes;
    result.least_reserve_bytes = std::min(kMinReservation, options.reserve_bytes);
  }
  return result;
}

}}}  // namespace vortex::v0::detail
