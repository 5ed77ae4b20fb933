#include "vortex/detail/array/cpu.h"

#include <array>
#include <atomic>

#include "vortex/os/names.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// 0: not chosen yet; otherwise the value plus one.
std::atomic<int> chosen_isa{0};

}  // namespace

Isa best_isa() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2")) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

Isa isa_in_use() noexcept {
  const int chosen = chosen_isa.load(std::memory_order_relaxed);
  return chosen == 0 ? best_isa() : static_cast<Isa>(chosen - 1);
}

bool use_isa(Isa isa) noexcept {
  if (static_cast<int>(isa) > static_cast<int>(best_isa())) return false;
  chosen_isa.store(static_cast<int>(isa) + 1, std::memory_order_relaxed);
  return true;
}

const char* isa_name(Isa isa) noexcept {
  constexpr std::array kNames = {Named{Isa::kPortable, "portable"}, Named{Isa::kAvx2, "AVX2"},
                                 Named{Isa::kAvx512, "AVX-512"}};
  return name_in(kNames, isa);
}

}}}  // namespace vortex::v0::detail
