// A stream whose faults a function of the program serves: a cache of a computed table, in which the
// block that was placed longest ago makes room for the next.
#include <errno.h>
#include <pthread.h>

#include "tests/capi/check.h"

enum { kBlock = 16 << 10, kBlocks = 3, kNumbers = kBlock / 8 };

typedef struct {
  uint32_t held[kBlocks];
  unsigned count;
  unsigned served;
  uint64_t fails_at;  // a part of the stream
} Cache;

static int serve(void* context, vtx_stream* stream, int access, uint64_t offset) {
  Cache* const cache = context;
  const uint64_t part = offset / kBlock;
  if (access == VTX_ACCESS_WRITE) return -EACCES;
  if (part == cache->fails_at) return -EDOM;
  const unsigned slot = cache->served++ % kBlocks;
  int error = 0;
  if (cache->count < kBlocks) {
    error = vtx_stream_take(stream, &cache->held[slot]);
    ++cache->count;
  } else {
    error = vtx_stream_withdraw(stream, cache->held[slot]);
  }
  if (error != 0) return error;
  uint64_t* const numbers = vtx_stream_home(stream, cache->held[slot]);
  for (uint64_t i = 0; i < kNumbers; ++i) numbers[i] = (part * kNumbers + i) * 3;
  return vtx_stream_place(stream, cache->held[slot], offset);
}

static vtx_stream* stream_of(Cache* cache, vtx_pool* pool) {
  const vtx_own_stream_options options = {
      .name = "table", .pool = pool, .block_bytes = kBlock, .blocks = kBlocks};
  vtx_stream* stream = NULL;
  CHECK(vtx_stream_create(serve, cache, &options, &stream) == 0);
  return stream;
}

static void* read_at_random(void* data) {
  const volatile uint64_t* const numbers = data;
  for (unsigned i = 0; i < 200; ++i) {
    const uint64_t at = (uint64_t)i * 0x9E3779B97F4A7C15 % ((uint64_t)1 << 30);
    CHECK(numbers[at] == at * 3);
  }
  return NULL;
}

static void any_order(void) {
  Cache cache = {.fails_at = UINT64_MAX};
  vtx_pool* pool = NULL;
  CHECK(make_pool(kBlocks * kBlock, kBlock, &pool) == 0);
  vtx_stream* const stream = stream_of(&cache, pool);
  CHECK(vtx_stream_block_bytes(stream) == kBlock);
  CHECK(vtx_stream_reserved_bytes(stream) == (uint64_t)1 << 40);
  pthread_t other;
  CHECK(pthread_create(&other, NULL, read_at_random, vtx_stream_data(stream)) == 0);
  read_at_random(vtx_stream_data(stream));
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(vtx_stream_failure(stream) == 0);
  vtx_stream_counts counts;
  CHECK(vtx_stream_statistics(stream, &counts) == 0);
  CHECK(counts.faults >= cache.served && cache.served >= 200 && counts.disk_count == 0);
  vtx_pool_counts blocks;
  CHECK(vtx_pool_statistics(pool, &blocks) == 0 && blocks.blocks_in_use == kBlocks);
  vtx_stream_close(stream);
  CHECK(vtx_pool_statistics(pool, &blocks) == 0 && blocks.blocks_in_use == 0);
  vtx_pool_close(pool);
}

// What `touching` a part of the stream ends with, for a function that returns errors or does wrong.
static void ends_with(vtx_serve_function function, void* context, void (*touching)(void*),
                      uint64_t part, int expected, const char* text) {
  const vtx_own_stream_options options = {.block_bytes = kBlock, .reserve_bytes = 9 * kBlock - 1};
  vtx_stream* stream = NULL;
  CHECK(vtx_stream_create(function, context, &options, &stream) == 0);
  CHECK(vtx_stream_reserved_bytes(stream) == 9 * kBlock);
  char* const data = vtx_stream_data(stream);
  CHECK(vtx_guarded(touching, data + part * kBlock) == expected);
  CHECK(vtx_stream_failure(stream) == expected);
  CHECK_TEXT(vtx_strerror(stream), text);
  vtx_stream_close(stream);
}

static int serve_nothing(void* context, vtx_stream* stream, int access, uint64_t offset) {
  (void)context, (void)stream, (void)access, (void)offset;
  return 0;
}

// Every mistake that a function can make with blocks.
static int serve_wrongly(void* context, vtx_stream* stream, int access, uint64_t offset) {
  (void)context, (void)access;
  uint32_t block = 0, none = 0;
  CHECK(vtx_stream_take(stream, NULL) == -EINVAL);
  CHECK(vtx_stream_take(stream, &block) == 0 && vtx_stream_take(stream, &none) == -EAGAIN);
  CHECK(vtx_stream_home(stream, block + 1) == NULL);
  CHECK(vtx_stream_place(stream, block + 1, offset) == -EINVAL);
  CHECK(vtx_stream_place(stream, block, 9 * kBlock) == -ERANGE);
  CHECK(vtx_stream_place(stream, block, UINT64_MAX) == -ERANGE);
  CHECK(vtx_stream_withdraw(stream, block + 1) == -EINVAL);
  CHECK(vtx_stream_withdraw(stream, block) == 0);  // it rests
  CHECK(vtx_stream_give_back(stream, block + 1) == -EINVAL);
  CHECK(vtx_stream_give_back(stream, block) == 0 && vtx_stream_give_back(stream, block) == -EINVAL);
  CHECK(vtx_stream_take(stream, &block) == 0);
  memset(vtx_stream_home(stream, block), 7, kBlock);
  CHECK(vtx_stream_place(stream, block, 0) == 0);
  CHECK(vtx_stream_place(stream, block, 0) == -EINVAL && vtx_stream_home(stream, block) == NULL);
  CHECK(vtx_stream_give_back(stream, block) == -EBUSY);
  return 0;
}

int main(void) {
  any_order();
  Cache cache = {.fails_at = 2};
  ends_with(serve, &cache, touch, 2, -EDOM, "stream 'stream'");
  ends_with(serve, &cache, touch, 9, -ENOSPC, "the reservation ends");
  ends_with(serve_nothing, NULL, touch, 0, -EFAULT, "has placed no block");
  ends_with(serve_wrongly, NULL, touch, 1, -EFAULT, "has placed no block");
#ifdef __x86_64__
  ends_with(serve, &cache, put, 0, -EACCES, "has returned an error");  // it tells writes
#endif
  vtx_stream* stream = stream_of(&cache, NULL);
  vtx_stream_cancel(stream, ECANCELED, "nobody wants it");
  CHECK(vtx_guarded(touch, vtx_stream_data(stream)) == -ECANCELED);
  vtx_stream_close(stream);
  vtx_stream_close(NULL);
  CHECK(vtx_stream_create(NULL, NULL, NULL, &stream) == -EINVAL);
  return 0;
}
