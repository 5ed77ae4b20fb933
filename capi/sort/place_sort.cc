#include "capi/sort/place_sort.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "vortex/detail/array/large_record_sort.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace {

// Sorts each range of places whose leading bits are equal.
void sort_ties(std::span<Pair64> places, const std::byte* records, const RecordFormat& format) {
  const auto before = [&](const Pair64& a, const Pair64& b) {
    const int order = format.compare(records + a.value * format.record_bytes(),
                                     records + b.value * format.record_bytes());
    return order != 0 ? order < 0 : a.value < b.value;
  };
  for (auto begin = places.begin(); begin != places.end();) {
    const auto end = std::find_if(begin, places.end(),
                                  [&](const Pair64& place) { return place.key != begin->key; });
    if (end - begin > 1) std::sort(begin, end, before);
    begin = end;
  }
}

}  // namespace

void sort_by_places(std::byte* records, std::size_t count, const RecordFormat& format,
                    unsigned threads) {
  const std::size_t record_bytes = format.record_bytes();
  const std::unique_ptr<Pair64[]> places(new Pair64[count]);
  const std::unique_ptr<std::byte[]> held(new std::byte[record_bytes]);
  for (std::size_t i = 0; i < count; ++i) {
    places[i] = {format.leading_bits(records + i * record_bytes), i};
  }
  const std::span<Pair64> all(places.get(), count);
  sort(all, {.stable = true, .threads = threads});
  if (!format.leading_bits_decide()) sort_ties(all, records, format);
  detail::move_to_places(records, record_bytes, all.data(), count, held.get());
}

}}  // namespace vortex::v0
