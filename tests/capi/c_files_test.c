// Files through the C interface: made by a pointer, read by a pointer, compared with pread(2).
#include <errno.h>
#include <fcntl.h>

#include "tests/capi/check.h"

enum { kBlock = 64 << 10, kNumbers = 100000 };

static void make(const char* path) {
  const vtx_new_file_options options = {.block_bytes = kBlock};
  vtx_output* out = NULL;
  CHECK(vtx_output_create(path, &options, &out) == 0);
  const uint64_t* const data = vtx_output_data(out);
  write_numbers(out, kNumbers);
  CHECK(*(const uint64_t*)vtx_output_home(out, data + kNumbers - 1) == number(kNumbers - 1));
  CHECK(access(path, F_OK) != 0);  // only the finish gives it its name
  CHECK(vtx_output_finish(out, kNumbers * sizeof *data) == 0);
  CHECK(vtx_output_finish(out, 1) == -EALREADY);
  CHECK_TEXT(vtx_strerror(out), "finish");
  CHECK(vtx_output_failure(out) == 0);
  vtx_output_close(out);
}

static void expect_numbers(const char* path) {
  const int file = open(path, O_RDONLY);
  CHECK(file >= 0);
  uint64_t* all = malloc(kNumbers * sizeof *all + 1);
  CHECK(all != NULL &&
        pread(file, all, kNumbers * sizeof *all + 1, 0) == (ssize_t)(kNumbers * sizeof *all));
  for (uint64_t i = 0; i < kNumbers; ++i) CHECK(all[i] == number(i));
  free(all);
  close(file);
}

static void read_in_any_order(const char* path) {
  const vtx_file_options options = {.block_bytes = kBlock};
  vtx_input* in = NULL;
  CHECK(vtx_input_open(path, &options, &in) == 0);
  uint64_t bytes = 0;
  CHECK(vtx_input_length(in, &bytes) == 0 && bytes == kNumbers * sizeof(uint64_t));
  bytes = 0;
  CHECK(vtx_input_wait_length(in, &bytes) == 0 && bytes == kNumbers * sizeof(uint64_t));
  const uint64_t* data = vtx_input_data(in);
  check_numbers(in, kNumbers);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t at = random_bits() % kNumbers;
    CHECK(data[at] == number(at));
  }
  CHECK(vtx_input_failure(in) == 0);
  CHECK(strcmp(vtx_strerror(in), "") == 0);
  vtx_input_close(in);
}

// A system call needs the memory to be there.
static void write_to_a_pipe(const char* path) {
  const vtx_file_options options = {.block_bytes = kBlock};
  vtx_input* in = NULL;
  CHECK(vtx_input_open(path, &options, &in) == 0);
  const uint64_t* data = vtx_input_data(in);
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(vtx_input_will_need(in, 2 * kBlock, 4 * kBlock) == 0);
  CHECK(vtx_input_will_need(in, UINT64_MAX, UINT64_MAX) == 0);  // there is nothing
  CHECK(vtx_input_prefault(in, 3 * kBlock, 4096) == 0);
  CHECK(*(const uint64_t*)vtx_input_home(in, data + 3 * kBlock / 8) == number(3 * kBlock / 8));
  CHECK(vtx_input_home(in, data + kNumbers - 1) == NULL);  // nobody has been there
  CHECK(write(ends[1], (const char*)data + 3 * kBlock, 4096) == 4096);
  uint64_t copy[512];
  CHECK(read(ends[0], copy, sizeof copy) == sizeof copy);
  for (uint64_t i = 0; i < 512; ++i) CHECK(copy[i] == number(3 * kBlock / 8 + i));
  CHECK(vtx_input_prefault(in, kNumbers * sizeof(uint64_t), 1) == -ERANGE);
  CHECK(strlen(vtx_strerror(in)) > 0);
  close(ends[0]);
  close(ends[1]);
  vtx_input_close(in);
}

// Descriptors without an offset: what one end writes, the other reads.
static void through_descriptors(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  vtx_output* out = NULL;
  CHECK(vtx_output_open_descriptor(ends[1], NULL, &out) == 0);
  memcpy(vtx_output_data(out), "through a pipe", 14);
  CHECK(vtx_output_finish(out, 14) == 0);
  vtx_output_close(out);
  close(ends[1]);
  vtx_input* in = NULL;
  CHECK(vtx_input_open_descriptor(ends[0], NULL, &in) == 0);
  uint64_t bytes = 7;
  CHECK(vtx_input_length(in, &bytes) == -EAGAIN && bytes == 7);
  CHECK(vtx_input_readable(in, 0, &bytes) == 0 && bytes == 14);
  CHECK(vtx_input_readable(in, 14, &bytes) == 0 && bytes == 14);
  CHECK(memcmp(vtx_input_data(in), "through a pipe", 15) == 0);  // and a zero
  CHECK(vtx_input_length(in, &bytes) == 0 && bytes == 14);
  vtx_input_close(in);
  close(ends[0]);
}

// A file that is not finished does not appear, and one that must stay stays.
static void unfinished_and_existing(const char* path) {
  vtx_output* out = NULL;
  CHECK(vtx_output_create("unfinished", NULL, &out) == 0);
  memcpy(vtx_output_data(out), "gone", 4);
  vtx_output_close(out);
  CHECK(access("unfinished", F_OK) != 0);

  const vtx_new_file_options options = {.keep_existing = 1, .block_bytes = kBlock};
  CHECK(vtx_output_create(path, &options, &out) == -EEXIST);
  CHECK_TEXT(vtx_strerror(NULL), path);
  expect_numbers(path);
}

// One pool for both streams; its handle goes first.
static void copy_within_a_pool(const char* from, const char* to) {
  vtx_pool* pool = NULL;
  CHECK(make_pool(160 * kBlock, kBlock, &pool) == 0);
  CHECK(vtx_pool_block_bytes(pool) == kBlock);
  const vtx_file_options reading = {.pool = pool, .forward = 1};
  const vtx_new_file_options writing = {.pool = pool, .caching = VTX_CACHING_BUFFERED};
  vtx_input* in = NULL;
  vtx_output* out = NULL;
  CHECK(vtx_input_open(from, &reading, &in) == 0);
  CHECK(vtx_output_create(to, &writing, &out) == 0);
  vtx_pool_close(pool);
  uint64_t bytes = 0;
  CHECK(vtx_input_length(in, &bytes) == 0);
  const unsigned char* source = vtx_input_data(in);
  unsigned char* target = vtx_output_data(out);
  for (uint64_t i = 0; i < bytes; ++i) target[i] = source[i];
  CHECK(vtx_output_finish(out, bytes) == 0);
  vtx_output_close(out);
  vtx_input_close(in);
  expect_numbers(to);
}

int main(void) {
  seed_random();
  enter_folder();
  make("numbers");
  expect_numbers("numbers");
  read_in_any_order("numbers");
  write_to_a_pipe("numbers");
  unfinished_and_existing("numbers");
  copy_within_a_pool("numbers", "copy");
  through_descriptors();
  CHECK(unlink("numbers") == 0 && unlink("copy") == 0);
  leave_folder();
  return 0;
}
