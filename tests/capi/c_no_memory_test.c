// Memory that runs out anywhere inside a call: an exception of C++ becomes -ENOMEM and never leaves
// the call, and what had begun is taken back. Every allocation of a few programs fails in turn,
// alone and with all that follow it, in a thread that calls for the first time.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "tests/capi/check.h"

#ifdef SANITIZED
int main(void) {
  puts("a sanitizer brings an allocator of its own, which cannot be told to fail: not tried");
  return 0;
}
#else

// The C library's own, under the names that it has for those who replace them.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

// Of all threads: how many allocations have been asked for while `armed`, and which of them fail.
static int armed;
static long asked;
static long first_refused;
static long last_refused;

static int refused(void) {
  if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE)) return 0;
  const long number = __atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
  return number >= first_refused && number <= last_refused;
}

void* malloc(size_t bytes) { return refused() ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return refused() ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) {
  return refused() ? NULL : __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return refused() ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (refused()) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

// Whether the file system has no files without names.
static int all_have_names;

static int open_in(int folder, const char* path, int flags, mode_t mode) {
  if (all_have_names && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return open_in(AT_FDCWD, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return open_in(folder, path, flags, mode);
}

enum { kBlock = 16 << 10, kNumbers = 3 * kBlock / 8 + 5, kMany = 1 << 17 };

// Each program returns 0 or what a call has returned, and has closed all handles by then.
typedef struct {
  vtx_input* in;
  uint64_t count;
} Reading;

static void expect_numbers(void* context) {
  const Reading* const reading = context;
  const uint64_t* const data = vtx_input_data(reading->in);
  for (uint64_t i = 0; i < reading->count; ++i) CHECK(data[i] == i);
}

typedef struct {
  vtx_output* out;
  uint64_t count;
  int descending;
} Writing;

static void write_in_order(void* context) {
  const Writing* const writing = context;
  uint64_t* const data = vtx_output_data(writing->out);
  for (uint64_t i = 0; i < writing->count; ++i)
    data[i] = writing->descending ? writing->count - 1 - i : i;
}

static int files(void) {
  const vtx_new_file_options writing = {.block_bytes = kBlock};
  const vtx_file_options reading = {.block_bytes = kBlock};
  Writing written = {NULL, kNumbers, 0};
  Reading read = {NULL, kNumbers};
  int error = vtx_output_create("numbers", &writing, &written.out);
  if (error == 0) error = vtx_guarded(write_in_order, &written);
  if (error == 0) error = vtx_output_finish(written.out, kNumbers * 8);
  vtx_output_close(written.out);
  if (error == 0) error = vtx_input_open("numbers", &reading, &read.in);
  if (error == 0) error = vtx_guarded(expect_numbers, &read);
  vtx_input_close(read.in);
  unlink("numbers");
  return error;
}

static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  (void)context;
  for (size_t i = 0; i < bytes / 8; ++i) ((uint64_t*)block)[i] = offset / 8 + i;
  return (int64_t)bytes;
}

static int drain(void* context, const void* block, size_t bytes, uint64_t offset) {
  (void)context;
  for (size_t i = 0; i < bytes / 8; ++i) CHECK(((const uint64_t*)block)[i] == offset / 8 + i);
  return 0;
}

static int callbacks(void) {
  vtx_pool* pool = NULL;
  Reading read = {NULL, kNumbers};
  Writing written = {NULL, kNumbers, 0};
  int error = make_pool(8 * kBlock, kBlock, &pool);
  const vtx_stream_options options = {.name = "a name too long for a string without memory",
                                      .pool = pool};
  if (error == 0) error = vtx_input_from_callback(fill, NULL, &options, &read.in);
  if (error == 0) error = vtx_guarded(expect_numbers, &read);
  if (error == 0) error = vtx_output_to_callback(drain, NULL, &options, &written.out);
  if (error == 0) error = vtx_guarded(write_in_order, &written);
  if (error == 0) error = vtx_output_finish(written.out, kNumbers * 8);
  vtx_output_close(written.out);
  vtx_input_close(read.in);
  vtx_pool_close(pool);
  return error;
}

// Both ends in one thread: what is written fits the blocks that the writer may be ahead.
static int pipes(void) {
  const vtx_pipe_options options = {.block_bytes = kBlock};
  Reading read = {NULL, 100};
  Writing written = {NULL, 100, 0};
  int error = vtx_pipe_create(&options, &written.out, &read.in);
  if (error == 0) error = vtx_guarded(write_in_order, &written);
  if (error == 0) error = vtx_output_finish(written.out, 100 * 8);
  if (error == 0) error = vtx_guarded(expect_numbers, &read);
  vtx_output_close(written.out);
  vtx_input_close(read.in);
  return error;
}

static void change_numbers(void* context) {
  uint64_t* const data = vtx_array_data(context);
  for (uint64_t i = 0; i < kNumbers; ++i) data[i] += i;
}

static int arrays(void) {
  const vtx_array_options options = {.block_bytes = kBlock, .make = 1};
  vtx_array* array = NULL;
  int error = vtx_array_open("numbers", &options, &array);
  if (error == 0) error = vtx_array_resize(array, kNumbers * 8);
  if (error == 0) error = vtx_guarded(change_numbers, array);
  if (error == 0) error = vtx_array_flush(array, 0, UINT64_MAX, 0);
  vtx_array_close(array);
  unlink("numbers");
  return error;
}

static uint64_t numbers[kMany];

static void make_numbers(void) {
  for (uint64_t i = 0; i < kMany; ++i) numbers[i] = i * 0x9E3779B97F4A7C15;
}

static uint64_t sum_of_numbers(void) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < kMany; ++i) sum += numbers[i];
  return sum;
}

// What cannot be sorted is left as it was.
static int expect_sorted(int error, uint64_t sum) {
  CHECK(sum_of_numbers() == sum);
  CHECK(error == 0 || strlen(vtx_strerror(NULL)) > 0);
  for (uint64_t i = 1; i < kMany; ++i) {
    CHECK(error == 0 ? numbers[i - 1] <= numbers[i] : numbers[i] == i * 0x9E3779B97F4A7C15);
  }
  return error;
}

static const vtx_key key[] = {{.length = 8, .kind = VTX_KEY_UNSIGNED}};
static const vtx_record_format format = {8, key, 1};

static int in_memory(int as_records) {
  make_numbers();
  const uint64_t sum = sum_of_numbers();
  vtx_release_sort_memory();
  return expect_sorted(as_records ? vtx_sort_records(numbers, kMany, &format, NULL)
                                  : vtx_sort_u64(numbers, kMany, NULL),
                       sum);
}
static int numbers_in_memory(void) { return in_memory(0); }
static int records_in_memory(void) { return in_memory(1); }

static const char* const folder[] = {"."};
static const vtx_sort_resources little_memory = {
    .memory_bytes = 512 << 10, .folders = folder, .folder_count = 1, .threads = 1};

// The output appears as a whole or not at all: memory may run out when it is there, for the report.
static void expect_whole(const char* path) {
  const int file = open(path, O_RDONLY);
  if (file < 0) return;
  CHECK(read(file, numbers, sizeof numbers) == sizeof numbers);
  for (uint64_t i = 0; i < kMany; ++i) CHECK(numbers[i] == i);
  close(file);
}

static int files_sorted(void) {
  Writing written = {NULL, kMany, 1};
  const vtx_file_sort names = ONE_FILE("unsorted", "sorted");
  vtx_sort_report report = {0};
  int error = vtx_output_create("unsorted", NULL, &written.out);
  if (error == 0) error = vtx_guarded(write_in_order, &written);
  if (error == 0) error = vtx_output_finish(written.out, kMany * 8);
  vtx_output_close(written.out);
  if (error == 0) error = vtx_sort_files(&names, &format, &little_memory, &report);
  CHECK(error != 0 || report.records_out == kMany);
  CHECK(error != 0 || access("sorted", F_OK) == 0);
  expect_whole("sorted");
  unlink("unsorted");
  unlink("sorted");
  return error;
}

// Parts and their report are there together, or neither.
static int file_divided(void) {
  static const char* const inputs[] = {"whole"};
  static const uint64_t splitters[] = {kNumbers / 3, kNumbers / 2};
  const vtx_file_partition files = {.inputs = inputs,
                                    .input_count = 1,
                                    .prefix = "part",
                                    .splitters = splitters,
                                    .splitter_bytes = sizeof splitters};
  const vtx_sort_resources resources = {.memory_bytes = 2 << 20, .threads = 1};
  Writing written = {NULL, kNumbers, 1};
  vtx_partition_report report = {0};
  int error = vtx_output_create("whole", NULL, &written.out);
  if (error == 0) error = vtx_guarded(write_in_order, &written);
  if (error == 0) error = vtx_output_finish(written.out, kNumbers * 8);
  vtx_output_close(written.out);
  if (error == 0) error = vtx_partition_files(&files, &format, &resources, &report);
  CHECK(error != 0 || (report.part_count == 3 && report.parts[1].records > 0));
  for (int i = 0; i < 3; ++i) {
    char path[] = "part.00000";
    path[strlen(path) - 1] = (char)('0' + i);
    CHECK((access(path, F_OK) == 0) == (error == 0));
    unlink(path);
  }
  unlink("whole");
  return error;
}

static int records_pushed(void) {
  vtx_sorter* sorter = NULL;
  Reading read = {NULL, kMany};
  int error = vtx_sorter_create(&format, &little_memory, &sorter);
  for (uint64_t i = kMany; error == 0 && i > 0; i -= 1024) {
    uint64_t batch[1024];
    for (uint64_t j = 0; j < 1024; ++j) batch[j] = i - 1 - j;
    error = vtx_sorter_push(sorter, batch, 1024);
  }
  if (error == 0) error = vtx_sorter_sort(sorter, &read.in);
  if (error == 0) error = vtx_guarded(expect_numbers, &read);
  vtx_sorter_close(sorter);
  return error;
}

static int lines_pushed(void) {
  vtx_line_sorter* sorter = NULL;
  const char* text = NULL;
  size_t bytes = 0;
  const vtx_sort_resources resources = {.memory_bytes = 2 << 20, .threads = 1};
  int error = vtx_line_sorter_create(NULL, &resources, &sorter);
  for (char line[] = "c"; error == 0 && *line >= 'a'; --*line) {
    error = vtx_line_sorter_push(sorter, line, 1);
  }
  if (error == 0) error = vtx_line_sorter_next(sorter, &text, &bytes);
  CHECK(error != 0 || (bytes == 1 && *text == 'a'));
  vtx_line_sorter_close(sorter);
  return error;
}

static int striped(void) {
  const vtx_part parts[] = {{"numbers", NULL}, {"more", NULL}};
  const vtx_striped_options options = {.unit_bytes = kBlock};
  const vtx_new_file_options writing = {.block_bytes = kBlock};
  const vtx_file_options reading = {.block_bytes = kBlock};
  vtx_striped* file = NULL;
  Writing written = {NULL, kNumbers, 0};
  Reading read = {NULL, kNumbers};
  vtx_stream_counts counts;
  int error = vtx_striped_create(parts, 2, &options, &file);
  if (error == 0) error = vtx_striped_write(file, &writing, &written.out);
  if (error == 0) error = vtx_guarded(write_in_order, &written);
  if (error == 0) error = vtx_output_finish(written.out, kNumbers * 8);
  if (error == 0) error = vtx_striped_read(file, &reading, &read.in);
  if (error == 0) error = vtx_guarded(expect_numbers, &read);
  if (error == 0) error = vtx_input_statistics(read.in, &counts);
  vtx_input_close(read.in);
  vtx_output_close(written.out);
  vtx_striped_close(file);
  unlink("numbers");
  unlink("more");
  return error;
}

static int serve(void* context, vtx_stream* stream, int access, uint64_t offset) {
  (void)context;
  (void)access;
  uint32_t block = 0;
  const int error = vtx_stream_take(stream, &block);
  if (error != 0) return error;
  memset(vtx_stream_home(stream, block), 0, kBlock);
  return vtx_stream_place(stream, block, offset);
}
static void expect_zero(void* at) { CHECK(*(volatile char*)at == 0); }

static int bucket_of(void* context, const void* records, size_t count, uint32_t* buckets) {
  (void)context;
  for (size_t i = 0; i < count; ++i) buckets[i] = ((const uint64_t*)records)[i] % 2;
  return 0;
}

// A stream of one's own, and an array that is sorted and partitioned, on one pool.
static int own_and_vanishing(void) {
  vtx_pool* pool = NULL;
  vtx_stream* stream = NULL;
  vtx_blocks* blocks = NULL;
  vtx_vanishing* array = NULL;
  vtx_bucket* buckets[2] = {NULL, NULL};
  make_numbers();
  int error = make_pool(20 * kBlock, kBlock, &pool);
  const vtx_own_stream_options options = {.pool = pool, .blocks = 2};
  if (error == 0) error = vtx_stream_create(serve, NULL, &options, &stream);
  if (error == 0) error = vtx_guarded(expect_zero, vtx_stream_data(stream));
  if (error == 0) error = vtx_blocks_create(pool, 10, &blocks);
  if (error == 0) error = vtx_vanishing_create(blocks, 8, kNumbers, NULL, &array);
  if (error == 0) error = vtx_vanishing_load(array, numbers, kNumbers);
  if (error == 0) error = vtx_vanishing_sort(array, VTX_U64, NULL, NULL);
  for (int i = 0; error == 0 && i < 2; ++i) error = vtx_bucket_create(blocks, NULL, &buckets[i]);
  if (error == 0) error = vtx_partition(array, buckets, 2, bucket_of, NULL, NULL);
  for (int i = 0; i < 2; ++i) vtx_bucket_close(buckets[i]);
  vtx_vanishing_close(array);
  vtx_blocks_close(blocks);
  vtx_stream_close(stream);
  vtx_pool_close(pool);
  return error;
}

typedef struct {
  const char* name;
  int (*program)(void);
  int error;
} Attempt;

static void* attempt(void* at) {
  Attempt* const made = at;
  __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&armed, 1, __ATOMIC_RELEASE);
  made->error = made->program();
  __atomic_store_n(&armed, 0, __ATOMIC_RELEASE);
  // Some allocations are of what can be done without.
  if (made->error != 0 && made->error != -ENOMEM) {
    fprintf(stderr, "%s, allocation %ld: %d: %s\n", made->name, first_refused, made->error,
            vtx_strerror(NULL));
    exit(1);
  }
  return NULL;
}

// Lets allocation after allocation fail, or every `step`th on average, until the program needs no
// more of them.
static void refuse_each(const char* name, int (*program)(void), long most, uint64_t step) {
  long tried = 0;
  for (long number = 0;; number += 1 + (long)(random_bits() % (2 * step - 1))) {
    first_refused = number;
    last_refused = number + most - 1;
    Attempt made = {name, program, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, attempt, &made) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    ++tried;
    if (__atomic_load_n(&asked, __ATOMIC_RELAXED) <= number) {
      CHECK(made.error == 0);
      break;
    }
  }
  printf("%s: %ld runs\n", name, tried);
}

int main(void) {
  seed_random();
  enter_folder();
  const int all = getenv("VORTEX_LONG_TESTS") != NULL;
  const uint64_t some = all ? 1 : 12;
  const uint64_t many = all ? 1 : 4;
  const struct {
    const char* name;
    int (*program)(void);
    uint64_t step;
  } programs[] = {{"files", files, 1},
                  {"callbacks", callbacks, 1},
                  {"pipes", pipes, 1},
                  {"arrays", arrays, 1},
                  {"numbers in memory", numbers_in_memory, 1},
                  {"records in memory", records_in_memory, 1},
                  {"striped", striped, 1},
                  {"own and vanishing", own_and_vanishing, 1},
                  {"lines pushed", lines_pushed, 1},
                  {"files sorted", files_sorted, some},
                  {"file divided", file_divided, many},
                  {"records pushed", records_pushed, some}};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) {
    CHECK(programs[i].program() == 0);
    refuse_each(programs[i].name, programs[i].program, 1, programs[i].step);
    refuse_each(programs[i].name, programs[i].program, LONG_MAX / 2, programs[i].step);
    all_have_names = 1;
    refuse_each(programs[i].name, programs[i].program, 1, programs[i].step);
    all_have_names = 0;
  }
  leave_folder();  // no part of a file is left
  return 0;
}
#endif
