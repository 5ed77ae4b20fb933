#include "capi/sort/line_format.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "capi/sort/sort_fields.h"
#include "vortex/error.h"
#include "vortex/line_key.h"

namespace vortex { inline namespace v0 { namespace capi {

namespace {

std::optional<char> separator_of(const vtx_line_format& format) {
  if (format.separator == nullptr) return std::nullopt;
  if (std::strlen(format.separator) == 1) return format.separator[0];
  throw Error(EINVAL,
              "the separator '" + std::string(format.separator) + "' of fields is not one byte");
}

// Keys that a function of the program makes.
class FunctionKeys final : public RecordKeys {
 public:
  FunctionKeys(vtx_line_key_function key, void* context) : key_(key), context_(context) {}

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      std::size_t room = std::max<std::size_t>(record.size(), 64);
      if (keys.is_fixed()) room = std::min(room, keys.fixed_room().size());
      std::size_t bytes = key_of(record, keys.room(room), room);
      if (bytes > room && key_of(record, keys.room(bytes), bytes) != bytes) {
        throw Error(EIO, "the function of the keys gives a line keys of two lengths");
      }
      keys.used(bytes);
      keys.end_key();
    }
  }

 private:
  std::size_t key_of(std::string_view record, char* to, std::size_t room) const {
    std::int64_t bytes = 0;
    guarded([&] {
      bytes = key_(context_, record.data(), record.size(), to, room);
    }).throw_if_failed();
    if (bytes >= 0) return static_cast<std::size_t>(bytes);
    throw Error(errno_from(bytes, ECANCELED),
                "the function of the keys returned " + std::to_string(bytes));
  }

  const vtx_line_key_function key_;
  void* const context_;
};

LineOrder order_by_function(const vtx_line_format& format, bool unique) {
  if (format.key_count != 0 || format.letters != nullptr) {
    throw Error(EINVAL, "lines have keys in fields or by a function, not both");
  }
  return {.keys = std::make_shared<FunctionKeys>(format.key, format.key_context),
          .descending = format.key_descending != 0,
          .ties = format.stable != 0 ? Ties::kInputOrder : Ties::kRecordBytes,
          .unique = unique || format.unique != 0};
}

}  // namespace

LineOrder line_order_of(const vtx_line_format* format, bool unique) {
  if (format != nullptr && format->key != nullptr) return order_by_function(*format, unique);
  auto keys = options_of<LineKeyOptions>(format);
  keys.unique = keys.unique || unique;
  if (format == nullptr) return line_order(keys);
  keys.separator = separator_of(*format);
  if (format->random_seed != nullptr) {
    std::copy_n(format->random_seed, keys.random_seed.size(), keys.random_seed.begin());
  }
  return line_order(keys);
}

RecordFraming line_framing_of(const vtx_line_format* format) {
  if (format == nullptr) return RecordFraming::delimited();
  if ((format->csv != 0) + (format->length_prefixed != 0) + (format->length != nullptr) +
          (format->zero_terminated != 0 && format->csv == 0) >
      1) {
    throw Error(EINVAL,
                "lines end in one way: `csv`, `length_prefixed`, `length` or "
                "`zero_terminated`");
  }
  if (format->length_prefixed != 0) return RecordFraming::length_prefixed();
  if (format->length != nullptr) {
    return RecordFraming::by_function([given = *format](std::string_view text, bool ends) {
      return given.length(given.length_context, text.data(), text.size(), ends ? 1 : 0);
    });
  }
  const char delimiter = format->zero_terminated != 0 ? '\0' : '\n';
  if (format->csv == 0) return RecordFraming::delimited(delimiter);
  return RecordFraming::quoted(
      delimiter, separator_of(*format).value_or(','),
      format->refuse_quotes != 0 ? InvalidQuotes::kRefused : InvalidQuotes::kKept);
}

}}}  // namespace vortex::v0::capi
