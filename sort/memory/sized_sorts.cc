#include "sort/memory/sized_sorts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "vortex/detail/array/sized_records.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

using SortSized = void (*)(void* records, std::size_t count, const SortKey& key, unsigned threads);

template <std::size_t... places>
constexpr std::array<SortSized, sizeof...(places)> sized_sorts(std::index_sequence<places...>) {
  return {&sort_sized<kCompiledSizes[places]>...};
}

}  // namespace

void sort_compiled_size(void* records, std::size_t count, std::size_t record_bytes,
                        const SortKey& key, unsigned threads) {
  static constexpr auto kSorts = sized_sorts(std::make_index_sequence<kCompiledSizes.size()>{});
  const auto size = std::find(kCompiledSizes.begin(), kCompiledSizes.end(), record_bytes);
  kSorts[static_cast<std::size_t>(size - kCompiledSizes.begin())](records, count, key, threads);
}

}}}  // namespace vortex::v0::detail
