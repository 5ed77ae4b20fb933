// The prefetch policies by name.
#pragma once

#include <string_view>

namespace vortex::inline v0 {

enum class PrefetchKind {
  kOptimal,
  kForecastAndFlush,              // SRM, synchronous parallel reads
  kAsynchronousForecastAndFlush,  // SRM, each disk on its own
  kNaive,
  kStriped,  // DSM
};

inline constexpr PrefetchKind kAllPrefetchKinds[] = {
    PrefetchKind::kOptimal, PrefetchKind::kForecastAndFlush,
    PrefetchKind::kAsynchronousForecastAndFlush, PrefetchKind::kNaive, PrefetchKind::kStriped};

// "optimal", "srm", "srm-async", "naive", "striped".
std::string_view prefetch_kind_name(PrefetchKind kind) noexcept;

// Throws Error (EINVAL) with the names there are.
PrefetchKind parse_prefetch_kind(std::string_view name);

}  // namespace vortex::inline v0
