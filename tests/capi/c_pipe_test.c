// Two threads, one array.
#include <errno.h>
#include <pthread.h>

#include "tests/capi/check.h"

enum { kBlock = 16 << 10, kNumbers = 50 * kBlock / 8 + 3 };

static void* write_all(void* context) {
  vtx_output* const out = context;
  write_numbers(out, kNumbers);
  CHECK(vtx_output_finish(out, kNumbers * sizeof(uint64_t)) == 0);
  vtx_output_close(out);
  return NULL;
}

static void all_arrives(const vtx_pipe_options* options) {
  vtx_output* out = NULL;
  vtx_input* in = NULL;
  CHECK(vtx_pipe_create(options, &out, &in) == 0);
  pthread_t writer;
  CHECK(pthread_create(&writer, NULL, write_all, out) == 0);
  check_numbers(in, kNumbers);
  uint64_t bytes = 0;
  CHECK(vtx_input_wait_length(in, &bytes) == 0 && bytes == kNumbers * sizeof(uint64_t));
  CHECK(pthread_join(writer, NULL) == 0);
  CHECK(vtx_input_length(in, &bytes) == 0 && bytes == kNumbers * sizeof(uint64_t));
  vtx_input_close(in);
}

// Declares both ends of a pipe.
#define OPEN_PIPE(out, in)                                  \
  const vtx_pipe_options options = {.block_bytes = kBlock}; \
  vtx_output* out = NULL;                                   \
  vtx_input* in = NULL;                                     \
  CHECK(vtx_pipe_create(&options, &out, &in) == 0)

// A writer that leaves without a word, and one that says why.
static void the_writer_gives_up(int with_reason) {
  OPEN_PIPE(out, in);
  if (with_reason) vtx_output_cancel(out, EOVERFLOW, "too many numbers");
  vtx_output_close(out);
  const int error = vtx_guarded(touch_input, in);
  CHECK(error < 0);
  if (with_reason) {
    CHECK(error == -EOVERFLOW);
    CHECK_TEXT(vtx_strerror(NULL), "too many numbers");
  }
  uint64_t bytes = 0;
  CHECK(vtx_input_wait_length(in, &bytes) == error);
  vtx_input_close(in);
}

static void* write_until_refused(void* context) {
  uint64_t* const data = vtx_output_data(context);
  for (uint64_t i = 0; i < kNumbers; ++i) data[i] = i;
  return NULL;
}

static void write_guarded(void* context) { write_until_refused(context); }

static void the_reader_leaves(void) {
  OPEN_PIPE(out, in);
  vtx_input_close(in);
  CHECK(vtx_guarded(write_guarded, out) == -EPIPE);
  CHECK(vtx_output_finish(out, 8) == -EPIPE);
  CHECK(strlen(vtx_strerror(out)) > 0);
  vtx_output_close(out);
}

// Another thread ends the wait for a writer that never comes.
static void* wait_for_data(void* context) {
  return (void*)(intptr_t)vtx_guarded(touch_input, context);
}

static void cancelled_while_it_waits(void) {
  OPEN_PIPE(out, in);
  pthread_t reader;
  CHECK(pthread_create(&reader, NULL, wait_for_data, in) == 0);
  vtx_input_cancel(in, ECANCELED, "enough");
  void* result = NULL;
  CHECK(pthread_join(reader, &result) == 0);
  CHECK((intptr_t)result == -ECANCELED);
  vtx_input_close(in);
  vtx_output_close(out);
}

int main(void) {
  vtx_pipe_options options = {.block_bytes = kBlock};
  all_arrives(&options);
  options = (vtx_pipe_options){.block_bytes = kBlock, .length_bytes = kNumbers * 8, .zero_gaps = 1};
  all_arrives(&options);
  vtx_pool* pool = NULL;
  CHECK(make_pool(8 * kBlock, kBlock, &pool) == 0);
  options = (vtx_pipe_options){.name = "pooled", .pool = pool, .read_ahead_blocks = 3};
  all_arrives(&options);
  vtx_pool_close(pool);
  the_writer_gives_up(0);
  the_writer_gives_up(1);
  the_reader_leaves();
  cancelled_while_it_waits();
  return 0;
}
