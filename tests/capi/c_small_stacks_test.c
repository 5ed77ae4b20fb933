// Threads with the smallest stacks that the system allows, and alternate signal stacks: streams
// work, and their callbacks have the room that they have elsewhere.
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "tests/capi/check.h"

enum { kBlockBytes = 16 << 10, kBlocks = 8, kThreads = 8, kSignalStackBytes = 16 << 10 };

// More than such a thread's stack has.
static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  volatile char much[100 << 10];
  for (size_t i = 0; i < sizeof much; i += 512) much[i] = 1;
  if (context != NULL && offset >= kBlocks / 2 * bytes) return -EDOM;
  memset(block, (int)(offset / bytes) + much[512], bytes);
  return (int64_t)bytes;
}

// The bytes of another stream.
static int64_t copy(void* context, void* block, size_t bytes, uint64_t offset) {
  memcpy(block, (const char*)context + offset, bytes);
  return (int64_t)bytes;
}

static int drain(void* context, const void* block, size_t bytes, uint64_t offset) {
  volatile char much[100 << 10];
  for (size_t i = 0; i < sizeof much; i += 512) much[i] = 1;
  for (size_t i = 0; i < bytes; ++i) *(long*)context += ((const char*)block)[i];
  return offset == UINT64_MAX ? much[512] : 0;
}

static vtx_input* input_of(vtx_fill_function function, void* context) {
  const vtx_stream_options options = {.block_bytes = kBlockBytes};
  vtx_input* input = NULL;
  CHECK(vtx_input_from_callback(function, context, &options, &input) == 0);
  return input;
}

static void read_all(void* data) {
  const volatile char* const bytes = data;
  for (long i = 0; i < kBlocks; ++i) CHECK(bytes[i * kBlockBytes] == i + 1);
}

// What a thread touches. Made elsewhere, since it takes more than a small stack.
struct streams {
  vtx_input* input;
  vtx_input* source;  // of `nested`
  vtx_input* nested;
  vtx_input* broken;
  vtx_output* output;
  long drained;
};

static void* touch_streams(void* argument) {
  struct streams* const streams = argument;
  const stack_t stack = {.ss_sp = malloc(kSignalStackBytes), .ss_size = kSignalStackBytes};
  CHECK(stack.ss_sp != NULL && sigaltstack(&stack, NULL) == 0);

  read_all((void*)vtx_input_data(streams->input));
  read_all((void*)vtx_input_data(streams->nested));
  char* const out = vtx_output_data(streams->output);
  for (long i = 0; i < kBlocks * (long)kBlockBytes; ++i) ((volatile char*)out)[i] = 1;
  for (int round = 0; round < 10; ++round) {
    CHECK(vtx_guarded(read_all, (void*)vtx_input_data(streams->broken)) == -EDOM);
  }

  stack_t now;
  CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack.ss_sp && now.ss_size == stack.ss_size);
  const stack_t none = {.ss_flags = SS_DISABLE};
  CHECK(sigaltstack(&none, NULL) == 0);
  free(stack.ss_sp);
  return NULL;
}

static void run_threads(void) {
  pthread_attr_t small;
  CHECK(pthread_attr_init(&small) == 0);
#ifndef SANITIZED
  CHECK(pthread_attr_setstacksize(&small, 16 << 10) == 0);
#endif
  pthread_t threads[kThreads];
  struct streams streams[kThreads] = {0};
  const vtx_stream_options options = {.block_bytes = kBlockBytes};
  for (int i = 0; i < kThreads; ++i) {
    streams[i].input = input_of(fill, NULL);
    streams[i].source = input_of(fill, NULL);
    streams[i].nested = input_of(copy, (void*)vtx_input_data(streams[i].source));
    streams[i].broken = input_of(fill, &small);
    CHECK(vtx_output_to_callback(drain, &streams[i].drained, &options, &streams[i].output) == 0);
    CHECK(pthread_create(&threads[i], &small, touch_streams, &streams[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(vtx_output_finish(streams[i].output, kBlocks * (uint64_t)kBlockBytes) == 0);
    CHECK(streams[i].drained == kBlocks * (long)kBlockBytes);
    vtx_output_close(streams[i].output);
    vtx_input_close(streams[i].broken);
    vtx_input_close(streams[i].nested);
    vtx_input_close(streams[i].source);
    vtx_input_close(streams[i].input);
  }
  CHECK(pthread_attr_destroy(&small) == 0);
}

int main(void) {
#ifdef THREAD_SANITIZER
  puts(
      "the thread sanitizer forgets where guarded() began when a callback on a stack above calls "
      "it");
  return 77;
#endif
  CHECK(vtx_receive_faults(99) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "99");
  CHECK(vtx_receive_faults(VTX_ENGINE_SIGNAL) == 0);
  CHECK(vtx_receive_faults(VTX_ENGINE_SIGNAL) == 0);
  CHECK(vtx_receive_faults(VTX_ENGINE_USERFAULTFD) == -EBUSY);
  CHECK(vtx_reclaim_faults() == 0);
  run_threads();
  run_threads();
  return 0;
}
