// The library as a plug-in: loaded by name, used through its symbols, and unloaded.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/capi/sanitizer_options.h"
#include "vortex/c.h"

// That of check.h asks the library, which is not linked here.
#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

// A function of the library, by its name and the version of its symbol.
#define LOAD(library, name)                                            \
  __typeof__(&name) name##_in_plugin;                                  \
  *(void**)&name##_in_plugin = dlvsym(library, #name, "VORTEX_C_0.1"); \
  CHECK(name##_in_plugin != NULL)

static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  if (offset >= *(uint64_t*)context) return -EDOM;
  memset(block, 'v', bytes);
  return (int64_t)bytes;
}

static const char* array;

static void read_beyond(void* context) {
  const volatile char* const from = array;
  for (size_t i = 0; i < *(uint64_t*)context + 1; i += 4096) (void)from[i];
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  LOAD(library, vtx_version);
  LOAD(library, vtx_strerror);
  LOAD(library, vtx_guarded);
  LOAD(library, vtx_input_from_callback);
  LOAD(library, vtx_input_data);
  LOAD(library, vtx_input_close);
  LOAD(library, vtx_sort_u32);

  printf("version %s\n", vtx_version_in_plugin());
  uint32_t numbers[] = {3, 1, 2};
  CHECK(vtx_sort_u32_in_plugin(numbers, 3, NULL) == 0 && numbers[0] == 1 && numbers[2] == 3);

  uint64_t length = 256 << 10;
  const vtx_stream_options options = {.block_bytes = 16 << 10};
  vtx_input* in = NULL;
  CHECK(vtx_input_from_callback_in_plugin(fill, &length, &options, &in) == 0);
  array = vtx_input_data_in_plugin(in);
  CHECK(array[0] == 'v' && array[12345] == 'v');
  CHECK(vtx_guarded_in_plugin(read_beyond, &length) == -EDOM);
  CHECK(strstr(vtx_strerror_in_plugin(NULL), "returned -33") != NULL);
  vtx_input_close_in_plugin(in);
  CHECK(dlclose(library) == 0);
  return 0;
}
