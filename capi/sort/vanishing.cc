// Vanishing arrays and buckets of the C interface: made, sorted, partitioned.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/sort/sort_fields.h"
#include "capi/stream/pool.h"
#include "capi/stream/stream_handle.h"
#include "vortex/c.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/radix_sort.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

// The pool of blocks, and the pool that it is a part of.
struct Blocks {
  Blocks(std::shared_ptr<BlockPool> from, std::size_t count)
      : whole(std::move(from)), part(*whole, count, "blocks of the C interface") {}

  const std::shared_ptr<BlockPool> whole;
  StreamPool part;
};

}  // namespace

}}}  // namespace vortex::v0::capi

struct vtx_blocks : vortex::capi::Handle {
  vtx_blocks(const vtx_pool& pool, std::size_t count)
      : blocks(std::make_shared<vortex::capi::Blocks>(pool.blocks, count)) {}

  // Arrays and buckets hold them as well.
  const std::shared_ptr<vortex::capi::Blocks> blocks;
};

struct vtx_vanishing : vortex::capi::StreamHandle {
  vtx_vanishing(const vtx_blocks& from, std::size_t bytes_each, std::uint64_t capacity,
                const vtx_vanishing_options* given)
      : blocks(from.blocks),
        record_bytes(bytes_each),
        array(blocks->part, vortex::detail::saturating_product(capacity, bytes_each),
              vortex::capi::options_of<vortex::VanishingArrayOptions>(given)) {}

  vortex::Stream& stream() noexcept override { return array; }

  std::uint64_t bytes_of(std::uint64_t records) const noexcept {
    return vortex::detail::saturating_product(records, std::uint64_t{record_bytes});
  }
  std::size_t count() const noexcept { return array.size() / record_bytes; }

  const std::shared_ptr<vortex::capi::Blocks> blocks;
  const std::size_t record_bytes;
  vortex::VanishingArray<std::byte> array;
};

struct vtx_bucket : vortex::capi::StreamHandle {
  vtx_bucket(const vtx_blocks& from, const vtx_vanishing_options* given)
      : blocks(from.blocks),
        bucket(blocks->part, vortex::capi::options_of<vortex::BucketStreamOptions>(given)) {}

  vortex::Stream& stream() noexcept override { return bucket; }

  const std::shared_ptr<vortex::capi::Blocks> blocks;
  vortex::BucketStream bucket;
};

namespace vortex { inline namespace v0 { namespace capi { namespace {

RadixSortReport sort_contents(vtx_vanishing& given, int number, const SortOptions& options) {
  const auto [key_bytes, code] = number_form_of(number, options.order == Order::kDescending);
  VanishingArrayBase& array = given.array;
  if (key_bytes < 4 || (given.record_bytes != key_bytes && given.record_bytes != 2 * key_bytes)) {
    throw Error(EINVAL, "records of " + std::to_string(given.record_bytes) +
                            " bytes are neither numbers of 4 or 8 bytes, as this type is, nor "
                            "pairs of them");
  }
  const detail::SortKey key{
      .code = code, .place = {0, static_cast<int>(key_bytes)}, .stable = options.stable};
  return detail::radix_sort_words(array, given.count(), given.record_bytes, key, {options.threads});
}

void require(int error, const char* what) {
  if (error != 0) throw Error(error, std::string("a partition: ") + what);
}

[[noreturn]] void throw_refused(int error, const char* verb) {
  throw Error(error, std::string("the kernel refuses to ") + verb + " a block");
}

void expect_buckets(const vtx_vanishing& array, vtx_bucket* const* buckets, std::size_t count) {
  if (count < 2 || count > kMaxPartitions) {
    throw Error(EINVAL, "a partition makes 2 to " + std::to_string(kMaxPartitions) +
                            " buckets, not " + std::to_string(count));
  }
  expect_array(buckets, count, sizeof(*buckets), "the buckets");
  for (std::size_t i = 0; i < count; ++i) {
    if (buckets[i] == nullptr || buckets[i]->blocks != array.blocks ||
        buckets[i]->bucket.held_blocks() != 0) {
      throw Error(EINVAL, "bucket " + std::to_string(i) +
                              " is NULL, not empty, or not on the blocks of the array");
    }
    if (std::find(buckets, buckets + i, buckets[i]) != buckets + i) {
      throw Error(EINVAL, "bucket " + std::to_string(i) + " is given twice");
    }
  }
}

// A partition of records whose length is told when the program runs.
class Partition {
 public:
  Partition(vtx_vanishing& array, vtx_bucket* const* buckets, std::size_t count)
      : array_(array),
        buckets_(buckets),
        places_(std::min(records_of_block(), array.count())),
        bytes_(count),
        opened_(count) {
    require(detail::BlockRanges::open(array.array, 0, array.array.size()),
            "its array cannot be opened");
  }

  // Passes the records on a block at a time, and gives their blocks back.
  void run(vtx_bucket_function bucket_of, void* context) {
    const std::size_t record = array_.record_bytes;
    const std::size_t count = array_.count();
    const std::size_t part = records_of_block();
    for (std::size_t at = 0; at < count; at += part) {
      const std::size_t here = std::min(part, count - at);
      const std::byte* const records = array_.array.bytes() + at * record;
      const int result =
          call_back([&] { return bucket_of(context, records, here, places_.data()); });
      if (result != 0) throw_returned("the function of the buckets", result, ECANCELED);
      for (std::size_t i = 0; i < here; ++i) put(records + i * record, places_[i]);
      require(detail::BlockRanges::give_back(array_.array, 0, (at + here) * record),
              "a block cannot be moved");
    }
  }

  std::uint64_t count(std::size_t bucket) const noexcept {
    return bytes_[bucket] / array_.record_bytes;
  }

 private:
  std::size_t block_bytes() const noexcept { return array_.array.pool().block_bytes(); }
  std::size_t records_of_block() const noexcept {
    return std::max<std::size_t>(block_bytes() / array_.record_bytes, 1);
  }

  void put(const std::byte* record, std::uint32_t place) {
    if (place >= bytes_.size()) {
      throw Error(EINVAL, "there is no bucket " + std::to_string(place) + " of " +
                              std::to_string(bytes_.size()));
    }
    BucketStream& bucket = buckets_[place]->bucket;
    const std::uint64_t end = bytes_[place] + array_.record_bytes;
    while (end > opened_[place]) {
      require(detail::BlockRanges::open(bucket, opened_[place], block_bytes()),
              "a bucket cannot get a block");
      opened_[place] += block_bytes();
    }
    std::memcpy(bucket.bytes() + bytes_[place], record, array_.record_bytes);
    bytes_[place] = end;
  }

  vtx_vanishing& array_;
  vtx_bucket* const* const buckets_;
  std::vector<std::uint32_t> places_;  // of the records of a block
  std::vector<std::uint64_t> bytes_;   // of each bucket
  std::vector<std::uint64_t> opened_;  // each can be written up to here
};

}  // namespace

}}}  // namespace vortex::v0::capi

using namespace vortex::capi;

int vtx_blocks_create(vtx_pool* pool, size_t count, vtx_blocks** blocks) {
  return answer_with(blocks, [&] {
    if (pool == nullptr) throw vortex::Error(EINVAL, "the pool is NULL");
    return std::make_unique<vtx_blocks>(*pool, count);
  });
}

size_t vtx_blocks_in_use(const vtx_blocks* blocks) { return blocks->blocks->part.blocks_in_use(); }

void vtx_blocks_close(vtx_blocks* blocks) { delete blocks; }

int vtx_vanishing_create(vtx_blocks* blocks, size_t record_bytes, uint64_t capacity,
                         const vtx_vanishing_options* options, vtx_vanishing** array) {
  return answer_with(array, [&] {
    if (blocks == nullptr) throw vortex::Error(EINVAL, "the blocks are NULL");
    if (record_bytes == 0 || record_bytes > vortex::kMaxRecordBytes) {
      throw vortex::Error(
          EINVAL, "records have 1 byte to 1 MiB, not " + vortex::format_bytes(record_bytes));
    }
    return std::make_unique<vtx_vanishing>(*blocks, record_bytes, capacity, options);
  });
}

void* vtx_vanishing_data(vtx_vanishing* array) { return array->array.data(); }

uint64_t vtx_vanishing_size(const vtx_vanishing* array) { return array->count(); }

int vtx_vanishing_resize(vtx_vanishing* array, uint64_t count) {
  return answer(*array, [&] { array->array.resize(array->bytes_of(count)); });
}

int vtx_vanishing_load(vtx_vanishing* array, const void* records, uint64_t count) {
  return answer(*array, [&] {
    expect_array(records, count, array->record_bytes, "the records to load");
    array->array.load({static_cast<const std::byte*>(records), array->bytes_of(count)});
  });
}

int vtx_vanishing_seal(vtx_vanishing* array) {
  return answer(*array, [&] { array->array.seal(); });
}

int vtx_vanishing_finish_reading(vtx_vanishing* array) {
  return answer(*array, [&] { array->array.finish_reading(); });
}

int vtx_vanishing_clear(vtx_vanishing* array) {
  return answer(*array, [&] {
    array->array.clear();
    array->array.resize(0);
  });
}

size_t vtx_vanishing_held_blocks(const vtx_vanishing* array) { return array->array.held_blocks(); }

DEFINE_STREAM_CALLS(vanishing)

int vtx_vanishing_sort(vtx_vanishing* array, int number, const vtx_sort_options* options,
                       vtx_radix_report* report) {
  return answer(*array, [&] {
    const auto made = sort_contents(*array, number, options_of<vortex::SortOptions>(options));
    if (report != nullptr) tell_fields(made, *report);
  });
}

int vtx_bucket_create(vtx_blocks* blocks, const vtx_vanishing_options* options,
                      vtx_bucket** bucket) {
  return answer_with(bucket, [&] {
    if (blocks == nullptr) throw vortex::Error(EINVAL, "the blocks are NULL");
    return std::make_unique<vtx_bucket>(*blocks, options);
  });
}

void* vtx_bucket_data(vtx_bucket* bucket) { return bucket->bucket.bytes(); }

int vtx_bucket_seal(vtx_bucket* bucket) {
  return answer(*bucket, [&] {
    if (const int error = bucket->bucket.seal()) throw_refused(error, "guard");
  });
}

int vtx_bucket_truncate(vtx_bucket* bucket, uint64_t bytes) {
  return answer(*bucket, [&] {
    if (const int error = bucket->bucket.truncate(bytes)) throw_refused(error, "move");
  });
}

int vtx_bucket_clear(vtx_bucket* bucket) {
  return answer(*bucket, [&] {
    if (const int error = bucket->bucket.clear()) throw_refused(error, "move");
  });
}

size_t vtx_bucket_held_blocks(const vtx_bucket* bucket) { return bucket->bucket.held_blocks(); }

DEFINE_STREAM_CALLS(bucket)

int vtx_partition(vtx_vanishing* array, vtx_bucket* const* buckets, size_t bucket_count,
                  vtx_bucket_function bucket_of, void* context, uint64_t* counts) {
  return answer(*array, [&] {
    expect_buckets(*array, buckets, bucket_count);
    if (bucket_of == nullptr) throw vortex::Error(EINVAL, "the function of the buckets is NULL");
    Partition partition(*array, buckets, bucket_count);
    const auto empty = [&] {
      array->array.clear();
      array->array.resize(0);
    };
    try {
      partition.run(bucket_of, context);
    } catch (...) {
      empty();
      throw;
    }
    empty();
    for (std::size_t i = 0; counts != nullptr && i < bucket_count; ++i) {
      counts[i] = partition.count(i);
    }
  });
}
