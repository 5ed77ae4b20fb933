// Streams over functions: what is read is what was computed, and what is written arrives in order.
#include <errno.h>

#include "tests/capi/check.h"

enum { kBlock = 16 << 10 };

static uint64_t square(uint64_t i) { return i * i; }

static int64_t fill_squares(void* context, void* block, size_t bytes, uint64_t offset) {
  const uint64_t* const count = context;  // of numbers; 0: no end
  uint64_t* const numbers = block;
  for (size_t i = 0; i < bytes / 8; ++i) {
    if (*count != 0 && offset / 8 + i == *count) return (int64_t)(i * 8);
    numbers[i] = square(offset / 8 + i);
  }
  return (int64_t)bytes;
}

static void an_endless_array(void) {
  vtx_pool* pool = NULL;
  CHECK(make_pool(4 * kBlock, kBlock, &pool) == 0);
  const vtx_stream_options options = {.name = "squares", .pool = pool, .comeback_blocks = 2};
  uint64_t count = 0;
  vtx_input* in = NULL;
  CHECK(vtx_input_from_callback(fill_squares, &count, &options, &in) == 0);
  const uint64_t* squares = vtx_input_data(in);
  for (uint64_t i = 0; i < 100 * kBlock / 8; ++i) CHECK(squares[i] == square(i));
  CHECK(squares[123456789012] == square(123456789012));
  uint64_t bytes = 0;
  CHECK(vtx_input_length(in, &bytes) == -EAGAIN);
  CHECK_TEXT(vtx_strerror(in), "end");
  // A range whose end is no number any more.
  CHECK(vtx_input_prefault(in, 123456789012 * 8, SIZE_MAX - 4096) == -ERANGE);
  CHECK(vtx_input_prefault(in, UINT64_MAX, 2) == -ERANGE);

  // The pool has one block left, and another stream wants two.
  vtx_input* second = NULL;
  const vtx_stream_options two = {.pool = pool};
  CHECK(vtx_input_from_callback(fill_squares, &count, &two, &second) == -ENOMEM);
  CHECK(second == NULL);
  CHECK_TEXT(vtx_strerror(NULL), "pool");
  vtx_pool_close(pool);
  vtx_input_close(in);
}

static void an_end(uint64_t count, uint64_t length_bytes) {
  const vtx_stream_options options = {.block_bytes = kBlock, .length_bytes = length_bytes};
  uint64_t end = count;
  vtx_input* in = NULL;
  CHECK(vtx_input_from_callback(fill_squares, &end, &options, &in) == 0);
  const uint64_t* squares = vtx_input_data(in);
  for (uint64_t i = 0; i < count; ++i) CHECK(squares[i] == square(i));
  CHECK(squares[count] == 0);  // what comes behind the end
  uint64_t bytes = 0;
  CHECK(vtx_input_length(in, &bytes) == 0 && bytes == count * 8);
  vtx_input_close(in);
}

static int64_t fill_nonsense(void* context, void* block, size_t bytes, uint64_t offset) {
  const int64_t* const returned = context;
  memset(block, 0, bytes);
  return offset == 0 ? (int64_t)bytes : *returned;
}

static void what_a_function_returns(int64_t returned, const char* text) {
  const vtx_stream_options options = {.block_bytes = kBlock};
  vtx_input* in = NULL;
  CHECK(vtx_input_from_callback(fill_nonsense, &returned, &options, &in) == 0);
  const char* const data = vtx_input_data(in);
  CHECK(data[kBlock - 1] == 0);
  CHECK(vtx_guarded(touch, (void*)(data + kBlock)) == -EIO);
  CHECK_TEXT(vtx_strerror(NULL), text);
  vtx_input_close(in);
}

// A function that lies, and windows that no machine has.
static void nonsense(void) {
  what_a_function_returns(INT64_MIN, "returned -9223372036854775808");
  what_a_function_returns(kBlock + 1, "more than a block holds");
  what_a_function_returns(INT64_MAX, "more than a block holds");
  int64_t returned = 0;
  vtx_stream_options options = {.block_bytes = kBlock};
  vtx_input* in = NULL;
  options.comeback_blocks = SIZE_MAX;
  CHECK(vtx_input_from_callback(fill_nonsense, &returned, &options, &in) < 0);
  options.comeback_blocks = SIZE_MAX >> 20;
  CHECK(vtx_input_from_callback(fill_nonsense, &returned, &options, &in) == -ENOMEM);
}

typedef struct {
  uint64_t bytes;  // so far
  uint64_t fails_at;
} Drained;

static int drain_squares(void* context, const void* block, size_t bytes, uint64_t offset) {
  Drained* const drained = context;
  if (offset != drained->bytes) return -ERANGE;
  if (offset >= drained->fails_at) return -ENOSPC;
  for (size_t i = 0; i < bytes / 8; ++i) {
    if (((const uint64_t*)block)[i] != square(offset / 8 + i)) return -EILSEQ;
  }
  drained->bytes += bytes;
  return 0;
}

static void to_a_function(void) {
  const uint64_t count = 10 * kBlock / 8 + 5;
  const vtx_stream_options options = {.block_bytes = kBlock};
  Drained drained = {0, UINT64_MAX};
  vtx_output* out = NULL;
  CHECK(vtx_output_to_callback(drain_squares, &drained, &options, &out) == 0);
  uint64_t* squares = vtx_output_data(out);
  CHECK(vtx_output_prefault(out, 8, SIZE_MAX - 4) == -ERANGE);
  for (uint64_t i = 0; i < count; ++i) squares[i] = square(i);
  CHECK(vtx_output_finish(out, count * 8) == 0);
  CHECK(drained.bytes == count * 8);
  vtx_output_close(out);

  drained = (Drained){0, kBlock};
  CHECK(vtx_output_to_callback(drain_squares, &drained, &options, &out) == 0);
  squares = vtx_output_data(out);
  for (uint64_t i = 0; i < 2 * kBlock / 8; ++i) squares[i] = square(i);
  CHECK(vtx_output_finish(out, 2 * kBlock) == -ENOSPC);
  CHECK_TEXT(vtx_strerror(out), "stream 'output'");
  CHECK(vtx_output_failure(out) == -ENOSPC);
  vtx_output_close(out);
}

int main(void) {
  an_endless_array();
  an_end(3 * kBlock / 8, 0);
  an_end(3 * kBlock / 8 + 7, 0);
  an_end(3 * kBlock / 8 + 7, (3 * kBlock / 8 + 7) * 8);
  nonsense();
  to_a_function();
  return 0;
}
