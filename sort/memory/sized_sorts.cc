#include "sort/memory/compiled_sorts.h"

#include <cstddef>
#include <type_traits>
#include <utility>

#include "vortex/detail/array/sized_records.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Calls use(size) for the one of kCompiledSizes that a record has, as an integral_constant.
template <typename Use, std::size_t... places>
void with_size(std::size_t record_bytes, const Use& use, std::index_sequence<places...>) {
  const auto use_if = [&](auto size) {
    if (size == record_bytes) use(size);
  };
  (use_if(std::integral_constant<std::size_t, kCompiledSizes[places]>{}), ...);
}
template <typename Use>
void with_size(std::size_t record_bytes, const Use& use) {
  with_size(record_bytes, use, std::make_index_sequence<kCompiledSizes.size()>{});
}

}  // namespace

void sort_compiled_size(void* records, std::size_t count, std::size_t record_bytes,
                        const SortKey& key, unsigned threads) {
  with_size(record_bytes, [&](auto bytes) { sort_sized<bytes>(records, count, key, threads); });
}

std::size_t sort_size_in_place(void* records, std::size_t count, std::size_t record_bytes,
                               const SortKey& key, unsigned threads) {
  std::size_t taken = 0;
  with_size(record_bytes, [&](auto bytes) {
    using Record = SizedRecord<bytes>;
    taken = sort_in_place(static_cast<Record*>(records), count,
                          SortRules<Record, KeyOfSized<bytes>>{KeyOfSized<bytes>(key)},
                          NoCodec<Record>{}, threads);
  });
  return taken;
}

}}}  // namespace vortex::v0::detail
