#include "sort/merge/prefetch_policy.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "sort/merge/forecast_and_flush.h"
#include "sort/merge/in_order_prefetch.h"
#include "sort/merge/striped_prefetch.h"
#include "vortex/error.h"
#include "vortex/os/names.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::array kNames = {
    Named{PrefetchKind::kOptimal, "optimal"},
    Named{PrefetchKind::kForecastAndFlush, "srm"},
    Named{PrefetchKind::kAsynchronousForecastAndFlush, "srm-async"},
    Named{PrefetchKind::kNaive, "naive"},
    Named{PrefetchKind::kStriped, "striped"},
};

}  // namespace

std::string_view prefetch_kind_name(PrefetchKind kind) noexcept { return name_in(kNames, kind); }

PrefetchKind parse_prefetch_kind(std::string_view name) {
  return value_in(kNames, name, "prefetch policy");
}

std::size_t minimum_read_buffers(PrefetchKind kind, const PrefetchOptions& options,
                                 std::uint32_t runs) {
  switch (kind) {
    case PrefetchKind::kOptimal:
      return OptimalPrefetch::minimum_buffers(options, {.prefetch_blocks = 1});
    case PrefetchKind::kForecastAndFlush:
    case PrefetchKind::kAsynchronousForecastAndFlush:
      return ForecastAndFlush::minimum_buffers(options, runs);
    case PrefetchKind::kNaive:
      return NaivePrefetch::minimum_buffers(options);
    case PrefetchKind::kStriped:
      return StripedPrefetch::minimum_buffers(options, runs);
  }
  throw Error(EINVAL, "no such prefetch policy");
}

std::unique_ptr<PrefetchPolicy> make_prefetch_policy(
    PrefetchKind kind, std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
    std::uint32_t runs, const std::vector<unsigned>& block_times, unsigned reads_per_disk) {
  switch (kind) {
    case PrefetchKind::kOptimal:
      return std::make_unique<OptimalPrefetch>(
          std::move(order), options,
          OptimalPrefetch::Split{.prefetch_blocks = 0, .block_times = block_times});
    case PrefetchKind::kForecastAndFlush:
      return std::make_unique<ForecastAndFlush>(std::move(order), options, runs);
    case PrefetchKind::kAsynchronousForecastAndFlush:
      return std::make_unique<AsynchronousForecastAndFlush>(std::move(order), options, runs,
                                                            reads_per_disk);
    case PrefetchKind::kNaive:
      return std::make_unique<NaivePrefetch>(std::move(order), options);
    case PrefetchKind::kStriped:
      return std::make_unique<StripedPrefetch>(std::move(order), options, runs);
  }
  throw Error(EINVAL, "no such prefetch policy");
}

}}  // namespace vortex::v0
