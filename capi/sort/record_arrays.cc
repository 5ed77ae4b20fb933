// Sorts, orders and selections of arrays of records, by a description of their keys, and of
// strings.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/sort/array_arguments.h"
#include "capi/sort/sort_fields.h"
#include "capi/sort/sort_options.h"
#include "capi/sort/tied_records.h"
#include "capi/stream/handle.h"
#include "sort/arrays/scratch.h"
#include "sort/memory/shares.h"
#include "vortex/array_calls.h"
#include "vortex/c.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/error.h"
#include "vortex/record_order.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

// The first bits of records' keys, as a number. `format` must live as long.
detail::SortKey leading_key(const RecordFormat& format) noexcept {
  return {
      .function = &format,
      .bits_of =
          [](const void* by, const void* record) noexcept {
            return static_cast<const RecordFormat*>(by)->leading_bits(
                static_cast<const std::byte*>(record));
          },
      .take_bits =
          [](const void* by, const void* records, std::size_t count, std::uint64_t* bits) noexcept {
            const auto& format = *static_cast<const RecordFormat*>(by);
            const auto* record = static_cast<const std::byte*>(records);
            for (std::size_t i = 0; i < count; ++i, record += format.record_bytes())
              bits[i] = format.leading_bits(record);
          }};
}

// The only key of records, where it is a number as this machine has them.
const vtx_key* only_number(const vtx_record_format* format) noexcept {
  if (format->key_count != 1) return nullptr;
  const vtx_key& key = format->keys[0];
  const bool here = (key.big_endian != 0) == (std::endian::native == std::endian::big);
  const bool word = key.length == 4 || key.length == 8;
  return key.kind != VTX_KEY_BYTES && here && word ? &key : nullptr;
}

// Whether records are moved with their keys: a number of records of a size that has code of its own
// takes a tenth of the time that one visit to each, in the order of their places, takes. Any other
// key would be made anew at every level, which takes two to three times as long as that visit.
bool are_carried(std::size_t record_bytes, const vtx_key* number) noexcept {
  return number != nullptr &&
         std::find(detail::kCompiledSizes.begin(), detail::kCompiledSizes.end(), record_bytes) !=
             detail::kCompiledSizes.end();
}

detail::SortKey sort_key_of(const vtx_key& number, bool descending) noexcept {
  const KeyKind kind = number.kind == VTX_KEY_UNSIGNED ? KeyKind::kUnsigned
                       : number.kind == VTX_KEY_SIGNED ? KeyKind::kSigned
                                                       : KeyKind::kFloat;
  detail::SortKey key;
  key.code = {kind, (number.descending != 0) != descending};
  key.place = {static_cast<int>(number.offset), static_cast<int>(number.length)};
  return key;
}

void sort_records_of(void* records, std::size_t count, const vtx_record_format* format,
                     RecordFormat by, const SortOptions& wanted) {
  const bool descending = wanted.order == Order::kDescending;
  if (descending) by = by.reversed();
  const vtx_key* const number = only_number(format);
  if (are_carried(by.record_bytes(), number)) {
    detail::sort_records(records, count, by.record_bytes(), sort_key_of(*number, descending),
                         wanted.threads);
    return;
  }
  const auto* const bytes = static_cast<const std::byte*>(records);
  // Places whose leading bits are equal are sorted by the keys, where the bits do not decide.
  detail::sort_by_places(
      records, by.record_bytes(), count, wanted.threads,
      [&](std::size_t i) { return by.leading_bits(bytes + i * by.record_bytes()); },
      [&](Pair64* places, detail::ThreadTeam& team) {
        if (by.leading_bits_decide()) return;
        sort_tied_places({places, count}, OrderOfPlaces(bytes, by), team);
      });
}

// The first bits of the keys of records, which may move.
class LeadingBits {
 public:
  LeadingBits(const void* records, const RecordFormat& format) noexcept
      : records_(static_cast<const std::byte*>(records)), format_(format) {}

  const std::byte* record(std::size_t place) const noexcept {
    return records_ + place * format_.record_bytes();
  }
  detail::KeySource source() const noexcept {
    return {this, [](const void* context, std::size_t begin, std::size_t count,
                     std::uint64_t* bits) noexcept {
              const auto& keys = *static_cast<const LeadingBits*>(context);
              for (std::size_t i = 0; i < count; ++i)
                bits[i] = keys.format_.leading_bits(keys.record(begin + i));
            }};
  }

 private:
  const std::byte* records_;
  const RecordFormat& format_;
};

// Calls use(selection) with the records, whose keys have to fit in 64 bits.
template <typename Use>
int with_selection(void* records, std::size_t count, const vtx_record_format* format,
                   const vtx_sort_options* options, const Use& use) noexcept {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<SortOptions>(options);
    RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records");
    if (!by.leading_bits_decide()) {
      throw Error(EINVAL,
                  "records are selected by keys of at most 8 bytes together; sort them by longer "
                  "ones");
    }
    if (wanted.order == Order::kDescending) by = by.reversed();
    const LeadingBits keys(records, by);
    use(detail::Selection{records, by.record_bytes(), count, keys.source(), nullptr,
                          wanted.threads});
  });
}

std::string_view view_of(const vtx_string& string) noexcept {
  return {static_cast<const char*>(string.bytes), string.length};
}

// Strings in front of which one thread works on an array of them.
constexpr std::size_t kMinShareOfStrings = std::size_t{1} << 17;

// Looks at all strings and hands them to use(i).
template <typename Use>
void expect_strings(const vtx_string* strings, std::size_t count, unsigned threads,
                    const Use& use) {
  expect_array(strings, count, sizeof *strings, "the strings");
  std::atomic<std::size_t> wrong = count;
  detail::Shares shares(count, threads, kMinShareOfStrings);
  shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i != end; ++i) {
      const bool is_there = strings[i].bytes != nullptr || strings[i].length == 0;
      if (!is_there || strings[i].length > std::size_t{PTRDIFF_MAX}) wrong = i;
      use(i);
    }
  });
  if (wrong != count)
    expect_array(strings[wrong].bytes, strings[wrong].length, 1, "the bytes of a string");
}

// Sorts strings; with `unique` one of equal ones is kept. Returns how many are left.
std::size_t sort_views(vtx_string* strings, std::size_t count, const vtx_sort_options* options,
                       bool unique) {
  const auto wanted = options_of<SortOptions>(options);
  expect_array(strings, count, sizeof *strings, "the strings");
  const detail::Scratch<std::string_view> memory(count);
  const std::span views(memory.get(), count);
  expect_strings(strings, count, wanted.threads,
                 [&](std::size_t i) { views[i] = view_of(strings[i]); });
  const std::size_t kept = detail::sort_strings(views, wanted, unique);
  detail::Shares shares(kept, wanted.threads, kMinShareOfStrings);
  shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i != end; ++i) strings[i] = {views[i].data(), views[i].size()};
  });
  return kept;
}

}}}}  // namespace vortex::v0::capi::

using namespace vortex::capi;

int vtx_sort_records(void* records, size_t count, const vtx_record_format* format,
                     const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    const vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records to sort");
    sort_records_of(records, count, format, by, wanted);
  });
}

int vtx_sort_records_into(const void* records, size_t count, const vtx_record_format* format,
                          void* sorted, const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records to sort");
    expect_array(sorted, count, by.record_bytes(), "the room for sorted records");
    const bool descending = wanted.order == vortex::Order::kDescending;
    if (descending) by = by.reversed();
    const vtx_key* const number = only_number(format);
    vortex::detail::sort_records_into(
        records, count, by.record_bytes(),
        number != nullptr ? sort_key_of(*number, descending) : leading_key(by), sorted,
        wanted.threads);
    if (number != nullptr || by.leading_bits_decide()) return;
    vortex::detail::ThreadTeam team(threads_for_ties(count, wanted.threads));
    sort_tied_records(static_cast<std::byte*>(sorted), count, by, team);
  });
}

int vtx_sort_unique_records(void* records, size_t count, const vtx_record_format* format,
                            size_t* kept, const vtx_sort_options* options) {
  int error = 0;
  const int refused = answer(thread_error(), [&] {
    expect_place(kept);
    // Before the sort: behind it nothing may fail.
    const vortex::RecordFormat by = record_format_of(format);
    const auto wanted = options_of<vortex::SortOptions>(options);
    error = vtx_sort_records(records, count, format, options);
    if (error != 0) return;
    const std::size_t bytes = by.record_bytes();
    const auto* const first = static_cast<const std::byte*>(records);
    const auto copy = [&](std::size_t begin, std::size_t end, void* room) {
      auto* to = static_cast<std::byte*>(room);
      const auto put = [&](const std::byte* record) {
        if (to != record) std::memcpy(to, record, bytes);
        to += bytes;
      };
      put(first + begin * bytes);
      for (std::size_t i = begin + 1; i < end; ++i) {
        const std::byte* const record = first + i * bytes;
        if (by.compare(record - bytes, record) != 0) put(record);
      }
      return static_cast<std::size_t>(to - static_cast<std::byte*>(room)) / bytes;
    };
    *kept =
        vortex::detail::keep_first_of_each(records, bytes, count, std::cref(copy), wanted.threads);
  });
  return refused != 0 ? refused : error;
}

int vtx_argsort_records(const void* records, size_t count, const vtx_record_format* format,
                        void* places, size_t place_bytes, const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records");
    if (wanted.order == vortex::Order::kDescending) by = by.reversed();
    const LeadingBits keys(records, by);
    with_places(places, place_bytes, count, [&](auto* to) {
      argsort_to(keys.source(), count, to, wanted.threads);
      if (by.leading_bits_decide()) return;
      vortex::detail::ThreadTeam team(threads_for_ties(count, wanted.threads));
      sort_tied_places(to, count, keys.source(), OrderOfPlaces(keys.record(0), by), team);
    });
  });
}

int vtx_select_records(void* records, size_t count, const vtx_record_format* format, size_t k,
                       const vtx_sort_options* options) {
  return with_selection(records, count, format, options,
                        [&](const auto& all) { vortex::detail::select(all, k); });
}

int vtx_partial_sort_records(void* records, size_t count, const vtx_record_format* format, size_t k,
                             const vtx_sort_options* options) {
  return with_selection(records, count, format, options,
                        [&](const auto& all) { vortex::detail::partial_sort(all, k); });
}

int vtx_sort_record_chunks(const vtx_chunk* chunks, size_t chunk_count,
                           const vtx_record_format* format, const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    const vortex::RecordFormat by = record_format_of(format);
    std::size_t count = 0;
    const auto pieces = pieces_of(chunks, chunk_count, by.record_bytes(), "records", count);
    vortex::detail::sort_joined(pieces, wanted.threads, [&](void* together) {
      sort_records_of(together, count, format, by, wanted);
    });
  });
}

int vtx_sort_strings(vtx_string* strings, size_t count, const vtx_sort_options* options) {
  return answer(thread_error(), [&] { sort_views(strings, count, options, false); });
}

int vtx_sort_unique_strings(vtx_string* strings, size_t count, size_t* kept,
                            const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    expect_place(kept);
    *kept = sort_views(strings, count, options, true);
  });
}

int vtx_argsort_strings(const vtx_string* strings, size_t count, void* places, size_t place_bytes,
                        const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    expect_strings(strings, count, wanted.threads, [](std::size_t) {});
    const vortex::detail::StringSource source{
        strings, [](const void* all, std::size_t place) noexcept {
          return view_of(static_cast<const vtx_string*>(all)[place]);
        }};
    with_places(places, place_bytes, count, [&](auto* to) {
      if constexpr (sizeof *to == 4) {
        vortex::detail::argsort_strings_32(source, count, to, wanted);
      } else {
        vortex::detail::argsort_strings_64(source, count, to, wanted);
      }
    });
  });
}
