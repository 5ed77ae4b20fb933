#include "capi/sort/sort_options.h"

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
#include <utility>
#include <vector>

#include "capi/sort/sort_fields.h"
#include "capi/stream/stream_fields.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

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
    const std::int64_t bytes =
        call_back([&] { return key_(context_, record.data(), record.size(), to, room); });
    if (bytes < 0) throw_returned("the function of the keys", bytes, ECANCELED);
    return static_cast<std::size_t>(bytes);
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

namespace {

void expect_zero(const char* what, int result) {
  if (result != 0) throw_returned(what, result, ECANCELED);
}

SortProgressFunction progress_function(vtx_progress_function progress, void* context) {
  return [=](const SortProgress& made) {
    vtx_sort_progress shown;
    tell_fields(made, shown);
    expect_zero("the progress function", call_back([&] { return progress(context, &shown); }));
  };
}

SortDiskFunction disk_function(vtx_disk_function disk, void* context) {
  return [=](const std::string& folder) {
    vtx_disk_options options = {};
    expect_zero("the function of the disks",
                call_back([&] { return disk(context, folder.c_str(), &options); }));
    return open_disk_of(&options);
  };
}

}  // namespace

SortResources sort_resources_of(const vtx_sort_resources* given) {
  auto resources = options_of<SortResources>(given);
  if (given == nullptr) return resources;
  if (given->folder_speeds != nullptr) {
    resources.folder_speeds.assign(given->folder_speeds,
                                   given->folder_speeds + given->folder_count);
  }
  if (given->progress != nullptr) {
    resources.progress = progress_function(given->progress, given->progress_context);
  }
  if (given->disk != nullptr) {
    resources.open_disk = disk_function(given->disk, given->disk_context);
  }
  return resources;
}

}}}  // namespace vortex::v0::capi

int vtx_stop_create(vtx_stop** stop) {
  return vortex::capi::answer_with(stop, [] { return std::make_unique<vtx_stop>(); });
}

void vtx_stop_request(vtx_stop* stop) { stop->source.request_stop(); }

void vtx_stop_close(vtx_stop* stop) { delete stop; }

int vtx_budget_create(uint64_t bytes, vtx_budget** budget) {
  return vortex::capi::answer_with(budget, [&] { return std::make_unique<vtx_budget>(bytes); });
}

uint64_t vtx_budget_free_bytes(const vtx_budget* budget) { return budget->shared->free_bytes(); }

void vtx_budget_close(vtx_budget* budget) { delete budget; }
