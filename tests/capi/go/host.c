// A program that has a stream, and then loads a library written in Go: host LIBRARY.
#include <dlfcn.h>

#include "tests/capi/check.h"

enum { kBlockBytes = 16 << 10, kBlocks = 64 };

static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  (void)context;
  memset(block, (int)(offset / bytes) + 1, bytes);
  return (int64_t)bytes;
}

static const volatile char* make_stream(vtx_input** input) {
  const vtx_stream_options options = {.block_bytes = kBlockBytes};
  CHECK(vtx_input_from_callback(fill, NULL, &options, input) == 0);
  return vtx_input_data(*input);
}

static long sum_in_c(void) {
  vtx_input* input = NULL;
  const volatile char* const data = make_stream(&input);
  long sum = 0;
  for (long i = 0; i < kBlocks; ++i) sum += data[i * kBlockBytes];
  vtx_input_close(input);
  return sum;
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  const long expected = (long)kBlocks * (kBlocks + 1) / 2;
  CHECK(sum_in_c() == expected);
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  long (*sum_in_goroutine)(const volatile char*, long, long);
  int (*recover_nil)(void);
  *(void**)&sum_in_goroutine = dlsym(library, "SumInGoroutine");
  *(void**)&recover_nil = dlsym(library, "RecoverNil");
  CHECK(recover_nil() == 1);
  // Go passes the faults of C on, and takes those of goroutines for its own.
  CHECK(sum_in_c() == expected);
  CHECK(vtx_reclaim_faults() == 0);
  for (int round = 0; round < 10; ++round) {
    vtx_input* input = NULL;
    CHECK(sum_in_goroutine(make_stream(&input), kBlocks, kBlockBytes) == expected);
    vtx_input_close(input);
    CHECK(recover_nil() == 1);
    CHECK(sum_in_c() == expected);
  }
  puts("done");
  return 0;
}
