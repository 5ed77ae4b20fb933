// Shared by the tests in C: checks that end the program, random numbers, a folder.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/capi/sanitizer_options.h"
#include "vortex/c.h"

#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      fprintf(stderr, "%s:%d: not so: %s (thread's error: %s)\n", __FILE__, __LINE__, #condition, \
              vtx_strerror(NULL));                                                                \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

#define CHECK_TEXT(text, part)                                                            \
  do {                                                                                    \
    if (strstr((text), (part)) == NULL) {                                                 \
      fprintf(stderr, "%s:%d: '%s' is not in: %s\n", __FILE__, __LINE__, (part), (text)); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

static uint64_t random_state;

// VORTEX_TEST_SEED repeats a run.
static inline void seed_random(void) {
  const char* seed = getenv("VORTEX_TEST_SEED");
  random_state = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)getpid() * 2654435761U + 1;
  printf("VORTEX_TEST_SEED=%llu\n", (unsigned long long)random_state);
}

// splitmix64.
static inline uint64_t random_bits(void) {
  uint64_t bits = random_state += 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

static inline int make_pool(size_t pool_bytes, size_t block_bytes, vtx_pool** pool) {
  const vtx_pool_options options = {.pool_bytes = pool_bytes, .block_bytes = block_bytes};
  return vtx_pool_create(&options, pool);
}

// One of the numbers of which arrays are made, and what writes and reads them; in guarded calls,
// too.
static inline uint64_t number(uint64_t i) { return i * 0x9E3779B97F4A7C15; }
static inline void write_numbers(vtx_output* out, uint64_t count) {
  uint64_t* const data = vtx_output_data(out);
  for (uint64_t i = 0; i < count; ++i) data[i] = number(i);
}
static inline void check_numbers(vtx_input* in, uint64_t count) {
  const uint64_t* const data = vtx_input_data(in);
  for (uint64_t i = 0; i < count; ++i) CHECK(data[i] == number(i));
}
static inline void touch(void* at) { (void)*(volatile char*)at; }
static inline void touch_input(void* in) { touch((void*)vtx_input_data(in)); }
static inline void put(void* at) { *(volatile char*)at = 5; }

// The sort of one file, in the block that it stands in.
#define ONE_FILE(input, to) \
  ((vtx_file_sort){.inputs = (const char* const[]){input}, .input_count = 1, .output = (to)})

static char test_folder[] = "/tmp/vortex-c-XXXXXX";

// Makes the program's folder and goes there; it and its files go with leave_folder().
static inline void enter_folder(void) {
  CHECK(mkdtemp(test_folder) != NULL);
  CHECK(chdir(test_folder) == 0);
}

// Every file must have been removed: whatever is left is a leak of the library.
static inline void leave_folder(void) {
  CHECK(chdir("/") == 0);
  CHECK(rmdir(test_folder) == 0);
}
