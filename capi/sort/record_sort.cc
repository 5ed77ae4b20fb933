// Records of the C interface: their format, and sorts of them in memory, where they are.
#include "capi/sort/record_sort.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "capi/sort/sort_fields.h"
#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/detail/array/large_record_sort.h"
#include "vortex/error.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 { namespace capi {

RecordFormat record_format_of(const vtx_record_format* format) {
  if (format == nullptr) throw Error(EINVAL, "the format of the records is NULL");
  expect_array(format->keys, format->key_count, sizeof(vtx_key), "the keys of the format");
  std::vector<RecordKey> keys(format->key_count);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    take_fields(format->keys[i], keys[i]);
    take_fields(format->keys[i], keys[i].type);
    if (keys[i].type.kind != KeyKind::kBytes) keys[i].type.bytes = keys[i].length;
  }
  return RecordFormat(format->record_bytes, std::move(keys));
}

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

// Stable. The leading bits of the keys are sorted with the places that they come from, by up to
// `threads` threads as sort() does it; places with equal bits are sorted by the keys, where the
// bits do not decide; then each record moves once. Takes 16 bytes a record, what sorting those
// takes, and a record. Throws std::bad_alloc with nothing moved.
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

}  // namespace

}}}  // namespace vortex::v0::capi

int vtx_sort_records(void* records, size_t count, const vtx_record_format* format,
                     const vtx_sort_options* options) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    const vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records to sort");
    sort_by_places(static_cast<std::byte*>(records), count,
                   wanted.order == vortex::Order::kDescending ? by.reversed() : by, wanted.threads);
  });
}
