// Every number of every struct and every call, with the least and the largest values, and NULL with
// a count: an errno value or what was asked for, never a signal.
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/capi/numbers.h"

enum { kWords = 40000, kBlock = 16 << 10 };

static void make_file(void) {
  FILE* const file = fopen("some", "wb");
  CHECK(file != NULL);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(fwrite(&i, sizeof i, 1, file) == 1);
  CHECK(fclose(file) == 0);
}

// ---- What is done with the options of each struct: 0, or the negative errno value.

static int use_file_options(const void* options) {
  vtx_input* in = NULL;
  const int error = vtx_input_open("some", options, &in);
  if (error != 0) return error;
  const uint64_t* const words = vtx_input_data(in);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(words[i] == i);
  vtx_input_close(in);
  return 0;
}

static int use_forward(const void* options) {
  vtx_file_options forward = *(const vtx_file_options*)options;
  forward.forward = 1;
  return use_file_options(&forward);
}

static int64_t fill(void* context, void* block, size_t block_bytes, uint64_t offset) {
  (void)context;
  (void)offset;
  memset(block, 1, block_bytes);
  return (int64_t)block_bytes;
}

static int drain(void* context, const void* block, size_t bytes, uint64_t offset) {
  (void)context;
  (void)block;
  (void)bytes;
  (void)offset;
  return 0;
}

// 0, or the error of the stream that begins there.
static int put_first(void* data) { return vtx_guarded(put, data); }

// Writes a byte to what was opened with this error, and closes it.
static int write_one(vtx_output* out, int error) {
  if (error == 0) error = put_first(vtx_output_data(out));
  if (error == 0) error = vtx_output_finish(out, 1);
  vtx_output_close(out);
  return error;
}

static int use_stream_options(const void* options) {
  vtx_input* in = NULL;
  int error = vtx_input_from_callback(fill, NULL, options, &in);
  if (error != 0) return error;
  vtx_guarded(touch_input, in);
  vtx_input_close(in);
  vtx_output* out = NULL;
  error = vtx_output_to_callback(drain, NULL, options, &out);
  return write_one(out, error);
}

static int use_new_file_options(const void* options) {
  vtx_output* out = NULL;
  const int error = vtx_output_create("made", options, &out);
  return write_one(out, error);
}

static int use_array_options(const void* options) {
  vtx_array* array = NULL;
  const int error = vtx_array_open("some", options, &array);
  if (error != 0) return error;
  CHECK(vtx_array_length(array) == kWords * sizeof(uint64_t));
  const uint64_t* const words = vtx_array_data(array);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(words[i] == i);
  vtx_array_close(array);
  return 0;
}

static int use_pipe_options(const void* options) {
  vtx_output* writer = NULL;
  vtx_input* reader = NULL;
  int error = vtx_pipe_create(options, &writer, &reader);
  if (error != 0) return error;
  error = put_first(vtx_output_data(writer));
  if (error == 0) error = vtx_output_finish(writer, 1);
  if (error == 0) CHECK(*(const char*)vtx_input_data(reader) == 5);
  vtx_output_close(writer);
  vtx_input_close(reader);
  return error;
}

static int use_pool_options(const void* given) {
  vtx_pool_options options = *(const vtx_pool_options*)given;
  if (options.pool_bytes == 0) options.pool_bytes = 1 << 20;
  if (options.block_bytes == 0) options.block_bytes = kBlock;
  vtx_pool* pool = NULL;
  const int error = vtx_pool_create(&options, &pool);
  if (error == 0) CHECK(vtx_pool_wait_until_warm(pool) == 0);
  vtx_pool_close(pool);
  return error;
}

static int use_disk_options(const void* options) {
  vtx_disk* disk = NULL;
  const int error = vtx_disk_open(options, &disk);
  vtx_disk_close(disk);
  return error;
}

static int use_disk_speed_options(const void* given) {
  vtx_disk_speed_options options = *(const vtx_disk_speed_options*)given;
  if (options.bytes == 0) options.bytes = 64 << 10;
  if (options.most_ns == 0) options.most_ns = 1000000;
  if (options.request_bytes == 0) options.request_bytes = 4096;
  if (options.depth == 0) options.depth = 1;
  vtx_disk* disk = NULL;
  vtx_disk_speed speed;
  CHECK(vtx_disk_open(NULL, &disk) == 0);
  const int error = vtx_measure_disk_speed(disk, ".", &options, &speed);
  vtx_disk_close(disk);
  return error;
}

static int use_striped_options(const void* given) {
  vtx_striped_options options = *(const vtx_striped_options*)given;
  const double weights[] = {1};
  if (options.weight_count != 0) options.weights = weights;
  const vtx_part part = {"made", NULL};
  vtx_striped* striped = NULL;
  vtx_output* out = NULL;
  int error = vtx_striped_create(&part, 1, &options, &striped);
  if (error == 0) error = vtx_striped_write(striped, NULL, &out);
  error = write_one(out, error);
  vtx_striped_close(striped);
  return error;
}

static int serve(void* context, vtx_stream* stream, int access, uint64_t offset) {
  (void)context;
  (void)access;
  uint32_t block = 0;
  const int error = vtx_stream_take(stream, &block);
  return error != 0 ? error : vtx_stream_place(stream, block, offset);
}

static int use_own_stream_options(const void* given) {
  vtx_own_stream_options options = *(const vtx_own_stream_options*)given;
  if (options.block_bytes == 0) options.block_bytes = kBlock;
  vtx_stream* stream = NULL;
  int error = vtx_stream_create(serve, NULL, &options, &stream);
  if (error == 0) error = put_first(vtx_stream_data(stream));
  vtx_stream_close(stream);
  return error;
}

// Blocks of a pool of their own.
static vtx_blocks* some_blocks(size_t count) {
  vtx_pool* pool = NULL;
  vtx_blocks* blocks = NULL;
  CHECK(make_pool(count * kBlock, kBlock, &pool) == 0);
  CHECK(vtx_blocks_create(pool, count, &blocks) == 0);
  vtx_pool_close(pool);
  return blocks;
}

static int use_vanishing_options(const void* options) {
  vtx_blocks* const blocks = some_blocks(4);
  vtx_vanishing* array = NULL;
  vtx_bucket* bucket = NULL;
  int error = vtx_vanishing_create(blocks, 8, 100, options, &array);
  if (error == 0) error = put_first(vtx_vanishing_data(array));
  if (error == 0) error = vtx_bucket_create(blocks, options, &bucket);
  if (error == 0) error = put_first(vtx_bucket_data(bucket));
  vtx_bucket_close(bucket);
  vtx_vanishing_close(array);
  vtx_blocks_close(blocks);
  return error;
}

static int use_line(const void* given) {
  vtx_line line = *(const vtx_line*)given;
  line.text = "a";
  return vtx_sort_lines_in_memory(&line, 1, NULL, 1, NULL);
}

static int use_sort_options(const void* options) {
  uint64_t few[] = {3, 1, 2};
  const int error = vtx_sort_u64(few, 3, options);
  if (error == 0) CHECK(few[0] + few[2] == 4 && few[1] == 2);
  return error;
}

static int use_column(const void* column) {
  vtx_column given = *(const vtx_column*)column;
  char values[1] = {0};
  uint64_t keys[] = {2, 1};
  given.values = values;
  // One key has a value of one byte, and none have values of any length.
  return vtx_sort_by_key(keys, given.bytes <= 1 ? 1 : 0, VTX_U64, &given, 1, NULL);
}

static int use_chunk(const void* chunk) {
  vtx_chunk given = *(const vtx_chunk*)chunk;
  uint64_t number = 1;
  given.numbers = &number;
  return vtx_sort_chunks(&given, 1, VTX_U64, NULL);
}

static int use_string(const void* string) {
  vtx_string given = *(const vtx_string*)string;
  static const char text[1] = "a";
  given.bytes = text;
  return vtx_sort_strings(&given, 1, NULL);
}

static int use_format(const void* format) {
  char few[48] = {0};
  return vtx_sort_records(few, 1, format, NULL);
}

static int use_key(const void* given) {
  vtx_key key = *(const vtx_key*)given;
  if (key.length == 0 && key.offset == 0) key.length = 4;
  const vtx_record_format format = {.record_bytes = 16, .keys = &key, .key_count = 1};
  return use_format(&format);
}

static int use_file_sort(const void* given) {
  const char* const inputs[] = {"some"};
  vtx_file_sort files = *(const vtx_file_sort*)given;
  if (files.input_count == 0) files.inputs = inputs;
  if (files.input_count == 0) files.input_count = 1;
  files.output = "sorted";
  const vtx_record_format format = {.record_bytes = 8};
  const vtx_sort_resources resources = {.memory_bytes = 4 << 20, .threads = 1};
  return vtx_sort_files(&files, &format, &resources, NULL);
}

static int use_partition(const void* given) {
  const char* const inputs[] = {"some"};
  vtx_file_partition files = *(const vtx_file_partition*)given;
  if (files.input_count == 0) files.inputs = inputs;
  if (files.input_count == 0) files.input_count = 1;
  if (files.parts == 0 && files.splitter_bytes == 0) files.parts = 1;
  files.prefix = "sorted";
  const vtx_record_format format = {.record_bytes = 8};
  const vtx_sort_resources resources = {.memory_bytes = 4 << 20};
  const int error = vtx_partition_files(&files, &format, &resources, NULL);
  if (error == 0) {
    char name[64];
    for (size_t i = 0; i < (files.parts == 0 ? 2 : files.parts); ++i) {
      CHECK(snprintf(name, sizeof name, "sorted.%05zu", i) > 0 && unlink(name) == 0);
    }
  }
  return error;
}

static int use_line_format(const void* given) {
  const vtx_file_sort files = ONE_FILE("some", "sorted");
  const vtx_sort_resources resources = {.memory_bytes = 4 << 20, .threads = 1};
  return vtx_sort_lines(&files, given, &resources, NULL);
}

static int use_resources(const void* given) {
  vtx_sort_resources resources = *(const vtx_sort_resources*)given;
  if (resources.memory_bytes == 0) resources.memory_bytes = 4 << 20;
  const vtx_record_format format = {.record_bytes = 8};
  const vtx_file_sort files = ONE_FILE("some", "sorted");
  vtx_sort_report report;
  int error = vtx_sort_files(&files, &format, &resources, &report);
  if (error != 0) return error;
  const uint64_t first = resources.first_records;
  CHECK(report.records_out == (first == 0 || first > kWords ? kWords : first));
  vtx_sorter* sorter = NULL;
  error = vtx_sorter_create(&format, &resources, &sorter);
  if (error != 0) return error;
  CHECK(vtx_sorter_push(sorter, "bbbbbbbbaaaaaaaa", 2) == 0);
  vtx_input* sorted = NULL;
  CHECK(vtx_sorter_sort(sorter, &sorted) == 0);
  CHECK(memcmp(vtx_input_data(sorted), "aaaaaaaabbbbbbbb", first == 1 ? 8 : 16) == 0);
  vtx_sorter_close(sorter);
  return 0;
}

// ---- The table. A new number is a line.

enum { kServed = 1, kInvalid = 2, kRefused = 4 };  // kRefused: any other errno value

typedef struct {
  const char* name;
  size_t offset;
  size_t size;
  int endings;  // of the largest numbers
  int (*use)(const void* options);
  size_t struct_size;
} Number;

#define NUMBER(type, field, endings, use)                                                \
  {                                                                                      \
#type "." #field, offsetof(type, field), sizeof(((type*)NULL)->field), endings, use, \
        sizeof(type)                                                                     \
  }

static const Number kNumbers[] = {
    NUMBER(vtx_pool_options, pool_bytes, kRefused, use_pool_options),
    NUMBER(vtx_pool_options, block_bytes, kInvalid, use_pool_options),
    NUMBER(vtx_pool_options, most_placed, kServed, use_pool_options),
    NUMBER(vtx_disk_options, depth, kInvalid, use_disk_options),
    NUMBER(vtx_disk_speed_options, bytes, kInvalid | kRefused, use_disk_speed_options),
    NUMBER(vtx_disk_speed_options, most_ns, kServed, use_disk_speed_options),
    NUMBER(vtx_disk_speed_options, request_bytes, kInvalid, use_disk_speed_options),
    NUMBER(vtx_disk_speed_options, depth, kInvalid, use_disk_speed_options),
    NUMBER(vtx_file_options, request_bytes, kServed | kInvalid, use_file_options),
    NUMBER(vtx_file_options, unknown_length_bytes, kServed, use_file_options),
    NUMBER(vtx_new_file_options, request_bytes, kServed | kInvalid, use_new_file_options),
    NUMBER(vtx_new_file_options, least_reserve_bytes, kServed, use_new_file_options),
    NUMBER(vtx_array_options, request_bytes, kServed | kInvalid, use_array_options),
    NUMBER(vtx_stream_options, stale_blocks, kServed | kInvalid, use_stream_options),
    NUMBER(vtx_stream_options, reserve_bytes, kServed | kInvalid, use_stream_options),
    NUMBER(vtx_stream_options, least_reserve_bytes, kServed, use_stream_options),
    // Builds without optimisation, and sanitizers, keep none, whatever is asked for.
    NUMBER(vtx_pipe_options, stale_blocks, kRefused | kServed, use_pipe_options),
    NUMBER(vtx_pipe_options, reserve_bytes, kServed, use_pipe_options),
    NUMBER(vtx_striped_options, weight_count, kInvalid, use_striped_options),
    NUMBER(vtx_striped_options, seed, kServed, use_striped_options),
    NUMBER(vtx_striped_options, sequence, kServed, use_striped_options),
    NUMBER(vtx_striped_options, unit_bytes, kInvalid, use_striped_options),
    NUMBER(vtx_striped_options, most_bytes, kInvalid, use_striped_options),
    NUMBER(vtx_own_stream_options, block_bytes, kInvalid, use_own_stream_options),
    NUMBER(vtx_own_stream_options, blocks, kInvalid | kRefused, use_own_stream_options),
    NUMBER(vtx_own_stream_options, reserve_bytes, kInvalid, use_own_stream_options),
    NUMBER(vtx_own_stream_options, least_reserve_bytes, kServed, use_own_stream_options),
    NUMBER(vtx_vanishing_options, comeback_blocks, kServed | kInvalid, use_vanishing_options),
    NUMBER(vtx_vanishing_options, reserve_bytes, kInvalid, use_vanishing_options),
    NUMBER(vtx_line, bytes, kInvalid, use_line),
    NUMBER(vtx_file_sort, most_pipe_bytes, kServed | kInvalid, use_file_sort),
    NUMBER(vtx_file_partition, most_pipe_bytes, kServed, use_partition),
    NUMBER(vtx_file_partition, parts, kInvalid, use_partition),
    NUMBER(vtx_file_partition, splitter_bytes, kInvalid, use_partition),
    NUMBER(vtx_file_partition, divide_equal_keys, kServed, use_partition),
    NUMBER(vtx_sort_resources, request_cost_bytes, kServed | kInvalid, use_resources),
    NUMBER(vtx_sort_resources, first_records, kServed, use_resources),
    NUMBER(vtx_sort_resources, seed, kServed, use_resources),
    NUMBER(vtx_file_options, memory_bytes, kServed | kRefused, use_file_options),
    NUMBER(vtx_file_options, block_bytes, kInvalid, use_file_options),
    NUMBER(vtx_file_options, comeback_blocks, kInvalid, use_file_options),
    NUMBER(vtx_file_options, read_ahead, kInvalid, use_file_options),
    NUMBER(vtx_file_options, cursors, kInvalid, use_file_options),
    NUMBER(vtx_file_options, comeback_blocks, kInvalid, use_forward),
    NUMBER(vtx_file_options, read_ahead, kInvalid, use_forward),
    NUMBER(vtx_stream_options, block_bytes, kInvalid, use_stream_options),
    NUMBER(vtx_stream_options, comeback_blocks, kInvalid, use_stream_options),
    NUMBER(vtx_stream_options, length_bytes, kInvalid, use_stream_options),
    NUMBER(vtx_new_file_options, block_bytes, kInvalid, use_new_file_options),
    NUMBER(vtx_new_file_options, comeback_blocks, kInvalid, use_new_file_options),
    NUMBER(vtx_new_file_options, write_behind, kInvalid, use_new_file_options),
    NUMBER(vtx_new_file_options, expected_bytes, kRefused, use_new_file_options),
    NUMBER(vtx_new_file_options, reserve_bytes, kInvalid, use_new_file_options),
    NUMBER(vtx_array_options, memory_bytes, kServed | kRefused, use_array_options),
    NUMBER(vtx_array_options, block_bytes, kInvalid, use_array_options),
    NUMBER(vtx_array_options, comeback_blocks, kInvalid, use_array_options),
    NUMBER(vtx_array_options, read_ahead, kInvalid, use_array_options),
    NUMBER(vtx_array_options, cursors, kInvalid, use_array_options),
    NUMBER(vtx_array_options, write_behind, kInvalid, use_array_options),
    NUMBER(vtx_array_options, reserve_bytes, kServed, use_array_options),
    NUMBER(vtx_pipe_options, block_bytes, kInvalid, use_pipe_options),
    NUMBER(vtx_pipe_options, read_ahead_blocks, kInvalid, use_pipe_options),
    NUMBER(vtx_pipe_options, writer_comeback_blocks, kInvalid, use_pipe_options),
    NUMBER(vtx_pipe_options, reader_comeback_blocks, kInvalid, use_pipe_options),
    NUMBER(vtx_pipe_options, length_bytes, kInvalid, use_pipe_options),
    NUMBER(vtx_sort_options, threads, kServed, use_sort_options),
    NUMBER(vtx_column, bytes, kServed, use_column),
    NUMBER(vtx_chunk, count, kInvalid, use_chunk),
    NUMBER(vtx_string, length, kInvalid, use_string),
    NUMBER(vtx_key, offset, kInvalid, use_key),
    NUMBER(vtx_key, length, kInvalid, use_key),
    NUMBER(vtx_record_format, record_bytes, kInvalid, use_format),
    NUMBER(vtx_record_format, key_count, kInvalid, use_format),
    NUMBER(vtx_file_sort, input_count, kInvalid, use_file_sort),
    NUMBER(vtx_file_partition, input_count, kInvalid, use_partition),
    NUMBER(vtx_line_format, key_count, kInvalid, use_line_format),
    NUMBER(vtx_line_format, header_lines, kServed, use_line_format),
    NUMBER(vtx_sort_resources, memory_bytes, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, folder_count, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, block_bytes, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, threads, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, least_memory_bytes, kInvalid, use_resources),
    // Flags and choices.
    NUMBER(vtx_pool_options, warming, kInvalid, use_pool_options),
    NUMBER(vtx_pool_options, kind, kInvalid, use_pool_options),
    NUMBER(vtx_pool_options, no_huge_pages, kServed, use_pool_options),
    NUMBER(vtx_pool_options, in_core_dumps, kServed, use_pool_options),
    NUMBER(vtx_pool_options, checked_homes, kServed, use_pool_options),
    NUMBER(vtx_disk_options, backend, kInvalid, use_disk_options),
    NUMBER(vtx_stream_options, unspecified_gaps, kServed, use_stream_options),
    NUMBER(vtx_pipe_options, pool_kind, kInvalid, use_pipe_options),
    NUMBER(vtx_pipe_options, exact, kServed, use_pipe_options),
    NUMBER(vtx_striped_options, strategy, kInvalid, use_striped_options),
    NUMBER(vtx_striped_options, caching, kInvalid, use_striped_options),
    NUMBER(vtx_striped_options, keep_existing, kServed | kRefused, use_striped_options),
    NUMBER(vtx_sort_resources, prefetch, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, backend, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, compression, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, in_place, kInvalid, use_resources),
    NUMBER(vtx_sort_resources, no_sync, kServed, use_resources),
    NUMBER(vtx_line_format, refuse_quotes, kServed, use_line_format),
    NUMBER(vtx_line_format, length_prefixed, kServed | kInvalid, use_line_format),
    NUMBER(vtx_line_format, key_descending, kServed, use_line_format),
    NUMBER(vtx_line_format, unique, kServed, use_line_format),
    NUMBER(vtx_file_options, forward, kServed, use_file_options),
    NUMBER(vtx_file_options, caching, kInvalid, use_file_options),
    NUMBER(vtx_new_file_options, caching, kInvalid, use_new_file_options),
    NUMBER(vtx_new_file_options, sync, kServed, use_new_file_options),
    NUMBER(vtx_new_file_options, keep_existing, kServed | kRefused, use_new_file_options),
    NUMBER(vtx_new_file_options, unspecified_gaps, kServed, use_new_file_options),
    NUMBER(vtx_array_options, caching, kInvalid, use_array_options),
    NUMBER(vtx_array_options, make, kServed, use_array_options),
    NUMBER(vtx_pipe_options, zero_gaps, kServed, use_pipe_options),
    NUMBER(vtx_sort_options, descending, kServed, use_sort_options),
    NUMBER(vtx_sort_options, stable, kServed, use_sort_options),
    NUMBER(vtx_key, kind, kInvalid, use_key),
    NUMBER(vtx_key, big_endian, kServed, use_key),
    NUMBER(vtx_key, descending, kServed, use_key),
    NUMBER(vtx_sort_resources, caching, kInvalid, use_resources),
    NUMBER(vtx_file_sort, unique, kServed, use_file_sort),
    NUMBER(vtx_line_format, csv, kServed, use_line_format),
    NUMBER(vtx_line_format, zero_terminated, kServed, use_line_format),
    NUMBER(vtx_line_format, stable, kServed, use_line_format),
    NUMBER(vtx_file_sort, merge, kServed | kInvalid, use_file_sort),
};

static void try_number(const Number* number, uint64_t value, bool is_extreme) {
  _Alignas(max_align_t) unsigned char options[256] = {0};
  CHECK(number->struct_size <= sizeof options);
  if (number->size == 8) {
    memcpy(options + number->offset, &value, 8);
  } else {
    const uint32_t narrow = (uint32_t)value;
    memcpy(options + number->offset, &narrow, 4);
  }
  const int result = number->use(options);
  const int ending = result == 0 ? kServed : result == -EINVAL ? kInvalid : kRefused;
  if (is_extreme && (number->endings & ending) == 0) {
    fprintf(stderr, "%s = %llu ended with %d: %s\n", number->name, (unsigned long long)value,
            result, vtx_strerror(NULL));
    exit(1);
  }
  CHECK(result <= 0);
}

static void numbers_of_structs(void) {
  for (size_t i = 0; i < sizeof kNumbers / sizeof *kNumbers; ++i) {
    const Number* const number = &kNumbers[i];
    CHECK(number->size == 8 || number->size == 4);
    const uint64_t most = number->size == 8 ? UINT64_MAX : UINT32_MAX;
    try_number(number, 0, false);
    try_number(number, 1, false);
    try_number(number, most - 1, true);
    try_number(number, most, true);
  }
}

// ---- Calls.

static const uint64_t kExtremes[] = {0, 1, UINT64_MAX - 1, UINT64_MAX};
#define FOR_EXTREMES(n)             \
  for (size_t i_ = 0; i_ < 4; ++i_) \
    for (uint64_t n = kExtremes[i_], once_ = 1; once_ != 0; once_ = 0)

// At the extremes the call ends like that; with 0 and 1 in any way.
#define CHECK_EXTREME(n, condition) CHECK(n <= 1 || (condition))

static void numbers_of_pools_and_budgets(void) {
  FOR_EXTREMES(n) {
    vtx_pool* pool = NULL;
    int error = make_pool(n, kBlock, &pool);
    CHECK_EXTREME(n, error == -ENOMEM);
    error = make_pool(1 << 20, n, &pool);
    CHECK_EXTREME(n, error == -EINVAL);
    if (error == 0) CHECK(vtx_pool_block_bytes(pool) >= kBlock);
    if (error == 0) vtx_pool_close(pool);
    vtx_budget* budget = NULL;
    CHECK(vtx_budget_create(n, &budget) == 0 && vtx_budget_free_bytes(budget) == n);
    vtx_budget_close(budget);
  }
  CHECK(vtx_pool_create(NULL, NULL) == -EINVAL);
  vtx_pool* pool = NULL;
  CHECK(vtx_pool_create(NULL, &pool) == -EINVAL);
  CHECK(make_pool(4 * kBlock, kBlock, &pool) == 0 && vtx_pool_wait_until_warm(pool) == 0);
  size_t retired = 7;
  CHECK(vtx_pool_retire(pool, 0, &retired) == 0 && retired == 0);
  CHECK(vtx_pool_retire(pool, SIZE_MAX, &retired) == 0 && retired <= 4);
  CHECK(vtx_pool_retire(pool, 1, NULL) == -EINVAL);
  CHECK(vtx_pool_statistics(pool, NULL) == -EINVAL);
  vtx_pool_close(pool);
  CHECK(vtx_disk_open(NULL, NULL) == -EINVAL);
  CHECK(vtx_fault_statistics(NULL) == -EINVAL && vtx_process_memory(NULL) == -EINVAL);
  CHECK(vtx_receive_faults(INT32_MAX) == -EINVAL);
  CHECK(vtx_receive_faults(INT32_MIN) == -EINVAL);
  CHECK(vtx_budget_create(1, NULL) == -EINVAL);
  CHECK(vtx_stop_create(NULL) == -EINVAL);
}

static void numbers_of_inputs(void) {
  vtx_input* file = NULL;
  vtx_input* endless = NULL;
  CHECK(vtx_input_open("some", NULL, &file) == 0);
  const vtx_stream_options options = {.block_bytes = kBlock};
  CHECK(vtx_input_from_callback(fill, NULL, &options, &endless) == 0);
  FOR_EXTREMES(n) {
    uint64_t end = 0;
    CHECK(vtx_input_readable(file, n, &end) == 0 && end == kWords * 8);
    CHECK_EXTREME(n, vtx_input_readable(endless, n, &end) == -ERANGE);
    CHECK_EXTREME(n, vtx_input_prefault(file, n, 1) == -ERANGE);
    CHECK_EXTREME(n, vtx_input_prefault(file, 1, n) == -ERANGE);
    CHECK_EXTREME(n, vtx_input_prefault(endless, n, n) < 0);
    CHECK_EXTREME(n, vtx_input_prefault(endless, 0, n) < 0);
    CHECK(vtx_input_will_need(file, n, n) == 0);
    CHECK(vtx_input_will_need(file, 0, n) == 0);
    CHECK(vtx_input_will_need(endless, n, n) == 0);
  }
  CHECK(vtx_input_readable(file, 0, NULL) == -EINVAL);
  CHECK(vtx_input_length(file, NULL) == -EINVAL);
  CHECK(vtx_input_wait_length(file, NULL) == -EINVAL);
  CHECK(vtx_input_failure(file) == 0 && vtx_input_failure(endless) == 0);
  vtx_input_cancel(endless, INT32_MIN, NULL);
  CHECK(vtx_input_failure(endless) == -ECANCELED);
  vtx_input_close(file);
  vtx_input_close(endless);
  CHECK(vtx_input_open("some", NULL, NULL) == -EINVAL);
  CHECK(vtx_input_open_descriptor(0, NULL, NULL) == -EINVAL);
  CHECK(vtx_input_open_descriptor(INT32_MIN, NULL, &file) == -EBADF);
  CHECK(vtx_input_from_callback(fill, NULL, NULL, NULL) == -EINVAL);
}

static void numbers_of_outputs(void) {
  FOR_EXTREMES(n) {
    vtx_output* out = NULL;
    CHECK(vtx_output_create("made", NULL, &out) == 0);
    CHECK_EXTREME(n, vtx_output_prefault(out, n, 1) == -ERANGE);
    CHECK_EXTREME(n, vtx_output_prefault(out, 0, n) < 0);
    CHECK_EXTREME(n, vtx_output_finish(out, n) == -EINVAL);
    CHECK(n > 1 || vtx_output_failure(out) == 0);
    vtx_output_cancel(out, INT32_MIN, NULL);
    vtx_output_close(out);
  }
  vtx_output* out = NULL;
  vtx_input* in = NULL;
  CHECK(vtx_output_create("made", NULL, NULL) == -EINVAL);
  CHECK(vtx_output_open_descriptor(1, NULL, NULL) == -EINVAL);
  CHECK(vtx_output_open_descriptor(INT32_MIN, NULL, &out) == -EBADF);
  CHECK(vtx_output_to_callback(drain, NULL, NULL, NULL) == -EINVAL);
  CHECK(vtx_pipe_create(NULL, NULL, &in) == -EINVAL);
  CHECK(vtx_pipe_create(NULL, &out, NULL) == -EINVAL);
}

static void numbers_of_arrays(void) {
  vtx_array* array = NULL;
  CHECK(vtx_array_open("some", NULL, NULL) == -EINVAL);
  CHECK(vtx_array_open("some", NULL, &array) == 0);
  FOR_EXTREMES(n) {
    if (n > 1) CHECK(vtx_array_resize(array, n) == -EFBIG);
    CHECK(vtx_array_flush(array, n, n, 0) == 0);
    CHECK(vtx_array_flush(array, 0, n, 0) == 0);
    CHECK_EXTREME(n, vtx_array_prefault(array, n, 1, 0) == -ERANGE);
    CHECK_EXTREME(n, vtx_array_prefault(array, 1, n, 1) == -ERANGE);
    CHECK(vtx_array_will_need(array, n, n) == 0);
    CHECK(vtx_array_will_need(array, 0, n) == 0);
    CHECK(vtx_array_length(array) == kWords * 8);
  }
  CHECK(vtx_array_failure(array) == 0);
  CHECK(vtx_array_allocate(array, 0) == 0 && vtx_array_allocate(array, UINT64_MAX) == -EFBIG);
  vtx_array_cancel(array, INT32_MIN, NULL);
  CHECK(vtx_array_failure(array) == -ECANCELED);
  vtx_array_close(array);
}

static void numbers_of_striped_files(void) {
  const vtx_part part = {"made", NULL};
  const double speed = 1;
  double weight = 0;
  FOR_EXTREMES(n) {
    vtx_striped* striped = NULL;
    CHECK_EXTREME(n, vtx_striped_create(&part, n, NULL, &striped) == -EINVAL);
    CHECK(vtx_striped_create(NULL, n, NULL, &striped) == -EINVAL);
    CHECK_EXTREME(n, vtx_striped_open(&part, n, NULL, 1, &striped) == -EINVAL);
    CHECK_EXTREME(n, vtx_striped_open(&part, 1, NULL, n, &striped) < 0);
    CHECK_EXTREME(n, vtx_stripe_weights(&speed, &n, n, 1, &weight) == -EINVAL);
    const int error = vtx_stripe_weights(&speed, &n, 1, n, &weight);
    CHECK_EXTREME(n, error == 0);
    CHECK(vtx_stripe_weights(NULL, &n, 1, 1, &weight) == -EINVAL);
    CHECK(vtx_stripe_weights(&speed, NULL, 1, 1, &weight) == -EINVAL);
    CHECK(vtx_stripe_weights(&speed, &n, 1, 1, NULL) == -EINVAL);
  }
  vtx_striped* striped = NULL;
  CHECK(vtx_striped_create(&part, 1, NULL, NULL) == -EINVAL);
  CHECK(vtx_striped_create(&part, 1, NULL, &striped) == 0);
  uint64_t units = 0;
  int left_out = 0;
  CHECK(vtx_striped_part(striped, SIZE_MAX, &units, &left_out) == -ERANGE);
  CHECK(vtx_striped_part(striped, 0, NULL, &left_out) == -EINVAL);
  CHECK(vtx_striped_part(striped, 0, &units, NULL) == -EINVAL);
  CHECK(vtx_striped_write(striped, NULL, NULL) == -EINVAL);
  CHECK(vtx_striped_read(striped, NULL, NULL) == -EINVAL);
  vtx_striped_close(striped);
}

// Blocks are given to functions alone: c_own_stream_test has the errors of those calls.
static void numbers_of_own_streams(void) {
  vtx_stream* stream = NULL;
  CHECK(vtx_stream_create(serve, NULL, NULL, NULL) == -EINVAL);
  CHECK(vtx_stream_create(serve, NULL, NULL, &stream) == 0);
  CHECK(vtx_stream_place(stream, 0, UINT64_MAX) == -EINVAL);
  CHECK(vtx_stream_place(stream, UINT32_MAX, 0) == -EINVAL);
  vtx_stream_cancel(stream, INT32_MIN, NULL);
  CHECK(vtx_stream_failure(stream) == -ECANCELED);
  vtx_stream_close(stream);
}

static int no_bucket(void* context, const void* records, size_t count, uint32_t* buckets) {
  (void)context;
  (void)records;
  memset(buckets, 0xff, count * sizeof *buckets);
  return 0;
}

static void numbers_of_vanishing_arrays(void) {
  vtx_blocks* const blocks = some_blocks(8);
  vtx_vanishing* array = NULL;
  vtx_bucket* buckets[2] = {NULL, NULL};
  CHECK(vtx_blocks_create(NULL, 1, NULL) == -EINVAL);
  CHECK(vtx_vanishing_create(blocks, 8, 1, NULL, NULL) == -EINVAL);
  CHECK(vtx_vanishing_create(NULL, 8, 1, NULL, &array) == -EINVAL);
  CHECK(vtx_bucket_create(blocks, NULL, NULL) == -EINVAL);
  CHECK(vtx_bucket_create(NULL, NULL, &buckets[0]) == -EINVAL);
  FOR_EXTREMES(n) {
    CHECK(n == 1 || vtx_vanishing_create(blocks, n, 1, NULL, &array) == -EINVAL);
    CHECK_EXTREME(n, vtx_vanishing_create(blocks, 8, n, NULL, &array) == -EINVAL);
  }
  CHECK(vtx_vanishing_create(blocks, 8, 1, NULL, &array) == 0);
  for (int i = 0; i < 2; ++i) CHECK(vtx_bucket_create(blocks, NULL, &buckets[i]) == 0);
  FOR_EXTREMES(n) {
    const int error = n <= 1 ? 0 : -EINVAL;
    CHECK(vtx_vanishing_resize(array, n) == error);
    CHECK(vtx_vanishing_load(array, NULL, n) == (n == 0 ? 0 : -EINVAL));
    CHECK(vtx_vanishing_load(array, &n, n) == error);
    CHECK(vtx_vanishing_sort(array, (int)n, NULL, NULL) == -EINVAL);
    CHECK(vtx_bucket_truncate(buckets[0], n) == 0);
    CHECK(vtx_partition(array, buckets, n, no_bucket, NULL, NULL) == -EINVAL);
  }
  CHECK(vtx_partition(array, buckets, 2, NULL, NULL, NULL) == -EINVAL);
  CHECK(vtx_vanishing_load(array, "one word", 1) == 0);
  CHECK(vtx_partition(array, buckets, 2, no_bucket, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(array), "no bucket 4294967295");
  vtx_bucket_cancel(buckets[0], INT32_MIN, NULL);
  CHECK(vtx_bucket_failure(buckets[0]) == -ECANCELED);
  vtx_vanishing_cancel(array, INT32_MIN, NULL);
  CHECK(vtx_vanishing_failure(array) == -ECANCELED);
  for (int i = 0; i < 2; ++i) vtx_bucket_close(buckets[i]);
  vtx_vanishing_close(array);
  vtx_blocks_close(blocks);
}

static void numbers_of_line_sorters(void) {
  const vtx_sort_resources little = {.memory_bytes = 4 << 20, .threads = 1};
  vtx_line_sorter* sorter = NULL;
  CHECK(vtx_line_sorter_create(NULL, &little, NULL) == -EINVAL);
  const char* text = NULL;
  size_t bytes = 0;
  FOR_EXTREMES(n) {
    CHECK(vtx_line_sorter_create(NULL, &little, &sorter) == 0);
    CHECK(vtx_line_sorter_push(sorter, NULL, n) == (n == 0 ? 0 : -EINVAL));
    CHECK(vtx_line_sorter_push(sorter, "a", n) == (n <= 1 ? 0 : -EINVAL));
    CHECK(vtx_line_sorter_size(sorter) == (n == 0 ? 2 : n == 1 ? 1 : 0));
    CHECK(vtx_line_sorter_next(sorter, NULL, &bytes) == -EINVAL);
    CHECK(vtx_line_sorter_next(sorter, &text, NULL) == -EINVAL);
    CHECK(vtx_line_sorter_statistics(sorter, NULL) == -EINVAL);
    vtx_line_sorter_close(sorter);
    vtx_line line = {"a", 1};
    CHECK(vtx_sort_lines_in_memory(&line, n, NULL, 1, NULL) == (n <= 1 ? 0 : -EINVAL));
    CHECK(vtx_sort_lines_in_memory(NULL, n, NULL, 1, NULL) == (n == 0 ? 0 : -EINVAL));
  }
  const vtx_record_format format = {.record_bytes = 8};
  CHECK(vtx_plan_files(NULL, &format, &little, &text) == -EINVAL);
  CHECK(vtx_plan_lines(NULL, NULL, &little, &text) == -EINVAL);
}

static void numbers_of_sorts(void) {
  const vtx_record_format format = {.record_bytes = 8};
  const vtx_key key = {.length = 4};
  FOR_EXTREMES(n) {
    FOR_NUMBER_TYPES(type) {
      for (size_t pairs = 0; type->sort != NULL && pairs < 2; ++pairs) {
        const Sort sort = pairs ? type->sort_pairs : type->sort;
        // No byte more, so that the address sanitizer sees one that is read behind it.
        void* one = calloc(pairs + 1, type->bytes);
        CHECK(sort(NULL, 0, NULL) == 0);
        CHECK(sort(NULL, n, NULL) == (n == 0 ? 0 : -EINVAL));
        CHECK(sort(one, n, NULL) == (n <= 1 ? 0 : -EINVAL));
        free(one);
      }
    }
    char record[8] = {0};
    size_t kept = 0;
    CHECK(vtx_sort_records(NULL, n, &format, NULL) == (n == 0 ? 0 : -EINVAL));
    CHECK(vtx_sort_records(record, n, &format, NULL) == (n <= 1 ? 0 : -EINVAL));
    char sorted[8] = {0};
    CHECK(vtx_sort_records_into(NULL, n, &format, sorted, NULL) == (n == 0 ? 0 : -EINVAL));
    CHECK(vtx_sort_records_into(record, n, &format, NULL, NULL) == (n == 0 ? 0 : -EINVAL));
    CHECK(vtx_sort_records_into(record, n, &format, sorted, NULL) == (n <= 1 ? 0 : -EINVAL));
    CHECK(vtx_sort_unique_records(record, n, &format, &kept, NULL) == (n <= 1 ? 0 : -EINVAL));
    CHECK(n > 1 || kept == n);
    CHECK(vtx_sort_unique_records(record, 1, &format, NULL, NULL) == -EINVAL);
    const vtx_record_format no_keys = {.record_bytes = 8, .key_count = n};
    CHECK(vtx_sort_records(record, 1, &no_keys, NULL) == (n == 0 ? 0 : -EINVAL));
    const vtx_record_format many_keys = {.record_bytes = 8, .keys = &key, .key_count = n};
    CHECK(vtx_sort_records(record, 1, &many_keys, NULL) == (n <= 1 ? 0 : -EINVAL));
  }
  CHECK(vtx_sort_records(NULL, 0, NULL, NULL) == -EINVAL);
  vtx_release_sort_memory();
}

static void numbers_of_record_calls(void) {
  char record[8] = {0};
  const vtx_record_format format = {.record_bytes = 8};
  uint64_t place = 9;
  vtx_string string = {record, 8};
  const vtx_chunk chunk = {record, 1};
  size_t kept = 0;
  FOR_EXTREMES(n) {
    const int counted = n <= 1 ? 0 : -EINVAL, absent = n == 0 ? 0 : -EINVAL;
    CHECK(vtx_argsort_records(record, n, &format, &place, 8, NULL) == counted);
    CHECK(vtx_argsort_records(NULL, n, &format, &place, 8, NULL) == absent);
    CHECK(vtx_argsort_records(record, n <= 1 ? n : 1, &format, NULL, 8, NULL) == absent);
    CHECK(vtx_argsort_records(record, 1, &format, &place, n, NULL) == -EINVAL);
    CHECK(vtx_select_records(record, n, &format, 0, NULL) == counted);
    CHECK(vtx_select_records(record, 1, &format, n, NULL) == 0);
    CHECK(vtx_partial_sort_records(record, n, &format, 1, NULL) == counted);
    CHECK(vtx_partial_sort_records(record, 1, &format, n, NULL) == 0);
    CHECK(vtx_sort_record_chunks(&chunk, n, &format, NULL) == counted);
    CHECK(vtx_sort_record_chunks(NULL, n, &format, NULL) == absent);
    CHECK(vtx_sort_strings(NULL, n, NULL) == absent);
    CHECK(vtx_sort_unique_strings(NULL, n, &kept, NULL) == absent);
    CHECK(vtx_argsort_strings(NULL, n, &place, 8, NULL) == absent);
    CHECK(vtx_argsort_strings(&string, 1, &place, n, NULL) == -EINVAL);
    const vtx_string none = {.length = n};
    CHECK(vtx_argsort_strings(&none, 1, &place, 8, NULL) == absent);
  }
  CHECK(vtx_argsort_records(record, 1, NULL, &place, 8, NULL) == -EINVAL);
  CHECK(vtx_select_records(record, 1, NULL, 0, NULL) == -EINVAL);
  CHECK(vtx_sort_record_chunks(&chunk, 1, NULL, NULL) == -EINVAL);
  const vtx_chunk nothing = {NULL, 1};
  CHECK(vtx_sort_record_chunks(&nothing, 1, &format, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "the records of a chunk are NULL");
  CHECK(vtx_sort_unique_strings(&string, 1, NULL, NULL) == -EINVAL);
  CHECK(string.bytes == record && string.length == 8);
}

static void numbers_of_array_calls(void) {
  uint64_t one[1] = {7}, place = 9;
  vtx_column column = {&place, sizeof place};
  const vtx_chunk chunk = {one, 1};
  size_t kept = 0;
  FOR_EXTREMES(n) {
    const int counted = n <= 1 ? 0 : -EINVAL, absent = n == 0 ? 0 : -EINVAL;
    CHECK(vtx_argsort(one, n, VTX_U64, &place, 8, NULL) == counted);
    CHECK(vtx_argsort(NULL, n, VTX_U64, &place, 8, NULL) == absent);
    CHECK(vtx_argsort(one, n <= 1 ? n : 1, VTX_U64, NULL, 8, NULL) == absent);
    CHECK(vtx_argsort(one, 1, VTX_U64, &place, n, NULL) == -EINVAL);
    CHECK(vtx_sort_by_key(one, n, VTX_U64, &column, 1, NULL) == counted);
    CHECK(vtx_sort_by_key(one, 1, VTX_U64, &column, n, NULL) == counted);
    CHECK(vtx_sort_by_key(one, 1, VTX_U64, NULL, n, NULL) == absent);
    CHECK(vtx_select(one, n, VTX_U64, 0, NULL) == counted);
    CHECK(vtx_select(one, 1, VTX_U64, n, NULL) == 0);
    CHECK(vtx_partial_sort(one, n, VTX_U64, 1, NULL) == counted);
    CHECK(vtx_partial_sort(one, 1, VTX_U64, n, NULL) == 0);
    CHECK(vtx_sort_unique(one, n, VTX_U64, &kept, NULL) == counted);
    CHECK_EXTREME(n, kept == 1);
    CHECK(vtx_sort_chunks(&chunk, n, VTX_U64, NULL) == counted);
    CHECK(vtx_sort_chunks(NULL, n, VTX_U64, NULL) == absent);
  }
  CHECK(vtx_sort_unique(one, 1, VTX_U64, NULL, NULL) == -EINVAL);
  const int wrong[] = {INT32_MIN, -1, VTX_F64 + 1, INT32_MAX};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(vtx_argsort(one, 1, wrong[i], &place, 8, NULL) == -EINVAL);
    CHECK(vtx_sort_by_key(one, 1, wrong[i], &column, 1, NULL) == -EINVAL);
    CHECK(vtx_select(one, 1, wrong[i], 0, NULL) == -EINVAL);
    CHECK(vtx_partial_sort(one, 1, wrong[i], 1, NULL) == -EINVAL);
    CHECK(vtx_sort_unique(one, 1, wrong[i], &kept, NULL) == -EINVAL);
    CHECK(vtx_sort_chunks(&chunk, 1, wrong[i], NULL) == -EINVAL);
  }
  column.bytes = 0;
  CHECK(vtx_sort_by_key(one, 1, VTX_U64, &column, 1, NULL) == -EINVAL);
  // Chunks that are larger together than any array.
  const vtx_chunk half = {one, (size_t)1 << 61};
  const vtx_chunk halves[] = {half, half, half, half, half, half, half, half};
  CHECK(vtx_sort_chunks(halves, 8, VTX_U8, NULL) == -EINVAL);
  CHECK(one[0] == 7);
}

static void numbers_of_sorters(void) {
  const vtx_record_format format = {.record_bytes = 8};
  const vtx_sort_resources little = {.memory_bytes = 4 << 20, .threads = 1};
  FOR_EXTREMES(n) {
    vtx_sorter* sorter = NULL;
    CHECK(vtx_sorter_create(&format, &little, &sorter) == 0);
    CHECK(vtx_sorter_push(sorter, NULL, n) == (n == 0 ? 0 : -EINVAL));
    CHECK(vtx_sorter_push(sorter, "one word", n) == (n <= 1 ? 0 : -EINVAL));
    CHECK(vtx_sorter_size(sorter) == (n == 1 ? 1 : 0));
    CHECK(vtx_sorter_sort(sorter, NULL) == -EINVAL);
    vtx_sorter_close(sorter);
    const vtx_file_sort no_inputs = {.input_count = n, .output = "sorted"};
    CHECK(vtx_sort_files(&no_inputs, &format, &little, NULL) == -EINVAL);
    const vtx_file_sort files = ONE_FILE("some", "sorted");
    vtx_sort_resources no_folders = little;
    no_folders.folder_count = n;
    CHECK(vtx_sort_files(&files, &format, &no_folders, NULL) == (n == 0 ? 0 : -EINVAL));
  }
  vtx_sorter* sorter = NULL;
  CHECK(vtx_sorter_create(&format, &little, NULL) == -EINVAL);
  CHECK(vtx_sorter_create(NULL, &little, &sorter) == -EINVAL);
  CHECK(vtx_sort_files(NULL, &format, &little, NULL) == -EINVAL);
}

// Asked with too little, a sorter names a number; given that, it sorts.
static void least_memory_is_enough(void) {
  for (uint64_t memory = 1; memory < (1 << 20); memory = memory * 3 + 1000) {
    const vtx_record_format format = {.record_bytes = 8};
    vtx_sort_resources resources = {.memory_bytes = memory, .threads = 1};
    vtx_sorter* sorter = NULL;
    const int error = vtx_sorter_create(&format, &resources, &sorter);
    if (error == 0) {
      vtx_sorter_close(sorter);
      continue;
    }
    CHECK(error == -ENOMEM);
    const char* const named = strstr(vtx_strerror(NULL), "at least ");
    CHECK(named != NULL);
    char unit[16];
    double number = 0;
    CHECK(sscanf(named, "at least %lf %15s", &number, unit) == 2);
    CHECK(strcmp(unit, "KiB") == 0 || strcmp(unit, "MiB") == 0);
    resources.memory_bytes = (uint64_t)(number * (unit[0] == 'K' ? 1 << 10 : 1 << 20));
    CHECK(use_resources(&resources) == 0);
  }
}

int main(void) {
  enter_folder();
  make_file();
  numbers_of_structs();
  numbers_of_pools_and_budgets();
  numbers_of_inputs();
  numbers_of_outputs();
  numbers_of_arrays();
  numbers_of_striped_files();
  numbers_of_own_streams();
  numbers_of_vanishing_arrays();
  numbers_of_sorts();
  numbers_of_array_calls();
  numbers_of_record_calls();
  numbers_of_sorters();
  numbers_of_line_sorters();
  least_memory_is_enough();
  unlink("made");
  unlink("sorted");
  unlink("some");
  leave_folder();
  return 0;
}
