// A file changed in place, compared with an array in memory and read back by pread(2).
#include <errno.h>
#include <fcntl.h>

#include "tests/capi/check.h"

enum { kBlock = 16 << 10, kNumbers = 40 * kBlock / 8 + 5 };

static uint64_t model[2 * kNumbers];

static void expect_file(const char* path, uint64_t count) {
  static uint64_t all[2 * kNumbers + 1];
  const int file = open(path, O_RDONLY);
  CHECK(file >= 0);
  CHECK(pread(file, all, (count + 1) * 8, 0) == (ssize_t)(count * 8));
  CHECK(memcmp(all, model, count * 8) == 0);
  close(file);
}

static void change_at_random(uint64_t* data, uint64_t count) {
  for (int i = 0; i < 3000; ++i) {
    const uint64_t at = random_bits() % count;
    CHECK(data[at] == model[at]);
    data[at] = model[at] = random_bits();
  }
}

static void count(void* context, int error, const char* line) {
  CHECK(error == -EBADF);
  CHECK_TEXT(line, "closed");
  ++*(int*)context;
}

static void touch_beyond(void* context) {
  volatile uint64_t* const data = vtx_array_data(context);
  data[kNumbers * 4] = 1;
}

static void make_and_change(vtx_array_options options) {
  vtx_array* array = NULL;
  CHECK(vtx_array_open("numbers", &options, &array) == -ENOENT && array == NULL);
  CHECK_TEXT(vtx_strerror(NULL), "numbers");
  CHECK(vtx_array_open(NULL, &options, &array) == -EINVAL);
  options.make = 1;
  CHECK(vtx_array_open("numbers", &options, &array) == 0);
  CHECK(vtx_array_length(array) == 0);
  CHECK(vtx_array_resize(array, kNumbers * 8) == 0);
  CHECK(vtx_array_length(array) == kNumbers * 8);
  uint64_t* data = vtx_array_data(array);
  change_at_random(data, kNumbers);
  CHECK(vtx_array_flush(array, 0, kNumbers * 8, 1) == 0);
  expect_file("numbers", kNumbers);

  CHECK(vtx_array_resize(array, 2 * kNumbers * 8) == 0 && vtx_array_data(array) == data);
  CHECK(vtx_array_will_need(array, 5 * kBlock, UINT64_MAX) == 0);  // all that follows
  change_at_random(data, 2 * kNumbers);
  CHECK(vtx_array_resize(array, kNumbers * 8) == 0);
  CHECK(vtx_array_resize(array, UINT64_MAX - 1) == -EFBIG);
  CHECK(vtx_array_length(array) == kNumbers * 8);
  CHECK(vtx_array_flush(array, 3 * kBlock, UINT64_MAX, 0) == 0);  // all that follows
  CHECK(vtx_array_prefault(array, 3 * kBlock, SIZE_MAX, 0) == -ERANGE);
  CHECK(vtx_array_failure(array) == 0);
  vtx_stream_counts counts;
  CHECK(vtx_array_statistics(array, &counts) == 0 && counts.disk_count == 1);
  CHECK(counts.faults > 40 && counts.written.bytes >= kNumbers * 8 && counts.read.bytes > 0);
  CHECK(counts.disks[0].written_bytes == counts.written.bytes);
  CHECK(vtx_array_statistics(array, NULL) == -EINVAL);
  CHECK(vtx_array_allocate(array, kNumbers * 8) == 0 && vtx_array_length(array) == kNumbers * 8);
  CHECK(vtx_array_allocate(array, UINT64_MAX - 1) == -EFBIG);
  vtx_array_close(array);  // writes what was changed
  expect_file("numbers", kNumbers);
}

// Sorted where it is, by the pointer, with a system call in between; then it fails.
static void sort_and_fail(vtx_array_options options) {
  vtx_array* array = NULL;
  CHECK(vtx_array_open("numbers", &options, &array) == 0);
  uint64_t* const data = vtx_array_data(array);
  CHECK(vtx_sort_u64(data, kNumbers, NULL) == 0);
  CHECK(vtx_sort_u64(model, kNumbers, NULL) == 0);
  int ends[2];
  CHECK(pipe(ends) == 0 && write(ends[1], "12345678", 8) == 8);
  CHECK(vtx_array_prefault(array, 30 * kBlock, 8, 1) == 0);
  CHECK(vtx_array_home(array, data + 30 * kBlock / 8) != NULL);
  CHECK(read(ends[0], data + 30 * kBlock / 8, 8) == 8);
  memcpy(model + 30 * kBlock / 8, "12345678", 8);
  close(ends[0]);
  close(ends[1]);
  CHECK(vtx_array_flush(array, 0, kNumbers * 8, 0) == 0);
  expect_file("numbers", kNumbers);

  // A write behind the end fails, and what was changed before can still be written.
  data[0] = model[0] = 17;
  CHECK(vtx_guarded(touch_beyond, array) == -ERANGE);
  CHECK(vtx_array_failure(array) == -ERANGE);
  CHECK(strcmp(vtx_strerror(array), vtx_strerror(NULL)) == 0);
  CHECK(vtx_array_flush(array, 0, kNumbers * 8, 0) == 0);
  vtx_array_close(array);
  expect_file("numbers", kNumbers);
}

// Touches that go on with zeros.
static void fill_on_failure(vtx_array_options options) {
  vtx_array* array = NULL;
  int told = 0;
  CHECK(vtx_array_open("numbers", &options, &array) == 0);
  CHECK(vtx_array_fill_on_failure(array, count, &told) == 0);
  vtx_array_cancel(array, EBADF, "it was closed");
  volatile uint64_t* const closed = vtx_array_data(array);
  closed[kNumbers / 2] = 1;
  CHECK(closed[kNumbers / 2 + 1] == 0 && told == 1);
  CHECK(vtx_array_clear_filler(array) == 0);
  CHECK(closed[kNumbers / 2] == 0 && told == 2);
  vtx_array_close(array);
  expect_file("numbers", kNumbers);
}

int main(void) {
  seed_random();
  enter_folder();
  vtx_array_options options = {.block_bytes = kBlock};
  make_and_change(options);
  options.make = 1;
  options.memory_bytes = 2 << 20;
  sort_and_fail(options);
  fill_on_failure(options);
  CHECK(unlink("numbers") == 0);
  leave_folder();
  return 0;
}
