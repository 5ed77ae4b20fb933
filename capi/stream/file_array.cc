// Files that a C program changes in place.
#include <cstddef>
#include <memory>
#include <utility>

#include "capi/stream/file_options.h"
#include "capi/stream/handle.h"
#include "capi/stream/pool.h"
#include "capi/stream/stream_error.h"
#include "vortex/c.h"
#include "vortex/file_array.h"

struct vtx_array : vortex::capi::Handle {
  vtx_array(std::shared_ptr<vortex::BlockPool> blocks, const std::string& path,
            const vortex::FileArrayOptions& options)
      : pool(std::move(blocks)), file(path, options) {}

  const std::shared_ptr<vortex::BlockPool> pool;
  vortex::FileArrayBase file;
};

using vortex::capi::answer;

int vtx_array_open(const char* path, const vtx_array_options* given, vtx_array** array) {
  using namespace vortex::capi;
  return answer_with(array, [&] {
    const vtx_array_options wanted = given != nullptr ? *given : vtx_array_options{};
    const std::shared_ptr<vortex::BlockPool> pool = blocks_of(wanted.pool);
    vortex::FileArrayOptions options;
    set_reading_options(options, wanted, pool.get());
    set_unless_zero(options.write_behind, wanted.write_behind);
    options.make = wanted.make != 0;
    set_unless_zero(options.reserve_bytes, wanted.reserve_bytes);
    return std::make_unique<vtx_array>(pool, required(path, "the path"), options);
  });
}

void* vtx_array_data(const vtx_array* array) { return array->file.bytes(); }

uint64_t vtx_array_length(const vtx_array* array) { return array->file.length_bytes(); }

int vtx_array_resize(vtx_array* array, uint64_t bytes) {
  return answer(*array, [&] { array->file.resize_bytes(bytes); });
}

int vtx_array_flush(vtx_array* array, uint64_t offset, uint64_t bytes, int sync) {
  return answer(*array, [&] {
    array->file.flush_bytes(offset, bytes,
                            sync != 0 ? vortex::Flush::kSynced : vortex::Flush::kWritten);
  });
}

int vtx_array_prefault(vtx_array* array, uint64_t offset, size_t bytes, int to_write) {
  return answer(*array, [&] {
    array->file.prefault(offset, bytes,
                         to_write != 0 ? vortex::Access::kWrite : vortex::Access::kRead);
  });
}

int vtx_array_will_need(vtx_array* array, uint64_t offset, uint64_t bytes) {
  return answer(*array, [&] { array->file.will_need_bytes(offset, bytes); });
}

int vtx_array_failure(vtx_array* array) {
  return vortex::capi::failure_of(*array, array->file.stream());
}

void vtx_array_cancel(vtx_array* array, int error, const char* cause) {
  vortex::capi::cancel(array->file.stream(), error, cause);
}

void vtx_array_close(vtx_array* array) { delete array; }
