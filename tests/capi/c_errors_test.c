// Errors, as every call promises them: numbers, texts, threads, and memory that is refused.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "tests/capi/check.h"

static void numbers_and_texts(void) {
  CHECK(strcmp(vtx_strerror(NULL), "") == 0);
  vtx_input* in = NULL;
  CHECK(vtx_input_open("/nowhere/at/all", NULL, &in) == -ENOENT);
  CHECK(in == NULL);
  CHECK_TEXT(vtx_strerror(NULL), "/nowhere/at/all");
  CHECK_TEXT(vtx_strerror(NULL), "No such file or directory");
  CHECK(vtx_input_open(NULL, NULL, &in) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "path is NULL");
  vtx_output* out = NULL;
  CHECK(vtx_output_create("/nowhere/at/all", NULL, &out) == -ENOENT);
  CHECK(vtx_output_create(NULL, NULL, &out) == -EINVAL);
  CHECK(vtx_output_open_descriptor(-1, NULL, &out) == -EBADF);
  CHECK(vtx_input_open_descriptor(-1, NULL, &in) == -EBADF);
  CHECK(vtx_input_from_callback(NULL, NULL, NULL, &in) == -EINVAL);
  CHECK(vtx_output_to_callback(NULL, NULL, NULL, &out) == -EINVAL);
  vtx_pool* pool = NULL;
  CHECK(make_pool(1 << 20, 12345, &pool) == -EINVAL && pool == NULL);
  CHECK_TEXT(vtx_strerror(NULL), "from 16 KiB to 64 MiB");
}

// A device that is always full, and descriptors that are open for the other direction.
static void full_disks_and_wrong_descriptors(void) {
  vtx_output* out = NULL;
  const int full = open("/dev/full", O_WRONLY), empty = open("/dev/null", O_RDONLY);
  CHECK(full >= 0 && empty >= 0);
  const struct {
    int descriptor;
    int error;
  } ends[] = {{full, -ENOSPC}, {empty, -EBADF}};
  for (int i = 0; i < 2; ++i) {
    int error = vtx_output_open_descriptor(ends[i].descriptor, NULL, &out);
    if (error == 0) {
      memcpy(vtx_output_data(out), "text", 4);
      error = vtx_output_finish(out, 4);
      CHECK(vtx_output_failure(out) == error && strlen(vtx_strerror(out)) > 0);
      vtx_output_close(out);
    }
    CHECK(error == ends[i].error);
  }
  vtx_input* in = NULL;
  uint64_t end = 0;
  int error = vtx_input_open_descriptor(full, NULL, &in);
  if (error == 0) error = vtx_input_readable(in, 0, &end);
  CHECK(error == -EBADF);
  vtx_input_close(in);

  const vtx_record_format format = {.record_bytes = 1};
  const vtx_file_sort files = ONE_FILE("/proc/self/status", "/dev/full");
  const vtx_sort_resources little = {.memory_bytes = 8 << 20, .threads = 1};
  CHECK(vtx_sort_files(&files, &format, &little, NULL) == -ENOSPC);
  CHECK(vtx_sort_lines(&files, NULL, &little, NULL) == -ENOSPC);
  CHECK_TEXT(vtx_strerror(NULL), "/dev/full");
  close(full);
  close(empty);
}

static void nothing_to_close(void) {
  vtx_pool_close(NULL);
  vtx_input_close(NULL);
  vtx_output_close(NULL);
  vtx_stop_close(NULL);
  vtx_sorter_close(NULL);
}

// The errors of calls without a handle belong to their thread.
static void* fail_elsewhere(void* context) {
  CHECK(strcmp(vtx_strerror(NULL), "") == 0);
  vtx_input* in = NULL;
  CHECK(vtx_input_open("/elsewhere", NULL, &in) == -ENOENT);
  CHECK_TEXT(vtx_strerror(NULL), "/elsewhere");
  return context;
}

static void threads(void) {
  vtx_input* in = NULL;
  CHECK(vtx_input_open("/here", NULL, &in) == -ENOENT);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_TEXT(vtx_strerror(NULL), "/here");
}

// Memory that the system refuses is -ENOMEM, in the C++ library's own errors and in operator new.
static void refused_memory(void) {
  vtx_pool* pool = NULL;
  CHECK(make_pool((size_t)1 << 60, 0, &pool) == -ENOMEM);
  CHECK(strlen(vtx_strerror(NULL)) > 0);
#ifdef SANITIZED
  puts("a sanitizer ends the process where memory is refused: that is not tried");
#else
  // The places of so many records take more than any address space has, and 128 MiB, which is more
  // than malloc has set aside.
  const vtx_record_format format = {.record_bytes = 1};
  char few[] = "cba";
  CHECK(vtx_sort_records(few, SIZE_MAX / 4, &format, NULL) == -ENOMEM);
  CHECK(strcmp(few, "cba") == 0);

  const size_t count = (size_t)8 << 20;
  unsigned char* const records = malloc(count);
  CHECK(records != NULL);
  for (size_t i = 0; i < count; ++i) records[i] = (unsigned char)~i;
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  const struct rlimit none = {1 << 20, before.rlim_max};
  CHECK(setrlimit(RLIMIT_AS, &none) == 0);
  const int error = vtx_sort_records(records, count, &format, NULL);
  CHECK(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(error == -ENOMEM);
  CHECK_TEXT(vtx_strerror(NULL), "memory");
  for (size_t i = 0; i < count; ++i) CHECK(records[i] == (unsigned char)~i);
  free(records);
#endif
}

int main(void) {
  CHECK(strcmp(vtx_version(), "0.1.0") == 0);
  numbers_and_texts();
  full_disks_and_wrong_descriptors();
  nothing_to_close();
  threads();
  refused_memory();
  return 0;
}
