// Errors inside faults that come back to C, and control that never leaves frames of C++ by a jump.
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/capi/check.h"

enum { kBlock = 16 << 10, kBlocks = 8 };

// Blocks of their numbers, until `fails_at`.
typedef struct {
  uint64_t fails_at;
  vtx_input* beside;  // touched by the callback, where it is not null
} Script;

static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  const Script* script = context;
  if (script->beside != NULL) touch((char*)vtx_input_data(script->beside) + offset);
  if (offset / kBlock == script->fails_at) return -EDOM;
  memset(block, (int)(offset / kBlock), bytes);
  return (int64_t)bytes;
}

static vtx_input* stream_of(Script* script, const char* name) {
  const vtx_stream_options options = {
      .name = name, .block_bytes = kBlock, .length_bytes = kBlocks * kBlock};
  vtx_input* in = NULL;
  CHECK(vtx_input_from_callback(fill, script, &options, &in) == 0);
  return in;
}

typedef struct {
  vtx_input* in;
  unsigned touched;
} Walk;

static void walk(void* context) {
  Walk* const all = context;
  const volatile char* data = vtx_input_data(all->in);
  for (unsigned i = 0; i < kBlocks; ++i) {
    CHECK(data[(size_t)i * kBlock] == (char)i);
    ++all->touched;
  }
}

static void without_an_error(void) {
  Script script = {UINT64_MAX, NULL};
  Walk all = {stream_of(&script, "good"), 0};
  CHECK(vtx_guarded(walk, &all) == 0 && all.touched == kBlocks);
  vtx_input_close(all.in);
}

static void the_error_comes_back(void) {
  Script script = {3, NULL};
  Walk all = {stream_of(&script, "bad"), 0};
  CHECK(vtx_guarded(walk, &all) == -EDOM && all.touched == 3);
  CHECK_TEXT(vtx_strerror(NULL), "stream 'bad'");
  CHECK_TEXT(vtx_strerror(NULL), "it returned -33");
  CHECK_TEXT(vtx_strerror(NULL), "offset 49152, block 3");
  CHECK(strcmp(vtx_strerror(all.in), "") == 0);
  CHECK(vtx_input_failure(all.in) == -EDOM);
  CHECK(strcmp(vtx_strerror(all.in), vtx_strerror(NULL)) == 0);
  // Once more it is the same.
  all.touched = 0;
  script.fails_at = UINT64_MAX;
  CHECK(vtx_guarded(walk, &all) != 0);
  vtx_input_close(all.in);
}

static void nested(void* context) {
  Walk* const all = context;
  CHECK(vtx_guarded(walk, all) == -EDOM);
  all->touched = 100;
}

static void the_innermost_takes_it(void) {
  Script script = {2, NULL};
  Walk all = {stream_of(&script, "inner"), 0};
  CHECK(vtx_guarded(nested, &all) == 0 && all.touched == 100);
  vtx_input_close(all.in);
}

// The error of a stream that a callback reads ends the callback, and is the error of its stream.
static void through_a_callback(void) {
  Script first = {4, NULL};
  vtx_input* const beside = stream_of(&first, "beside");
  Script second = {UINT64_MAX, beside};
  Walk all = {stream_of(&second, "upper"), 0};
  CHECK(vtx_guarded(walk, &all) == -EDOM && all.touched == 4);
  CHECK_TEXT(vtx_strerror(NULL), "stream 'upper'");
  CHECK_TEXT(vtx_strerror(NULL), "stream 'beside'");
  CHECK(vtx_input_failure(beside) == -EDOM && vtx_input_failure(all.in) == -EDOM);
  vtx_input_close(all.in);
  vtx_input_close(beside);
}

// Outside a fault, too: a call returns what its callback met, also inside a guarded scope.
static void prefault_of_the_bad(void* context) {
  vtx_input* const in = context;
  CHECK(vtx_input_prefault(in, 4 * kBlock, 1) == -EDOM);
  CHECK_TEXT(vtx_strerror(in), "stream 'lower'");
}

static void through_a_call(void) {
  Script first = {4, NULL};
  vtx_input* const beside = stream_of(&first, "lower");
  Script second = {UINT64_MAX, beside};
  vtx_input* const in = stream_of(&second, "upper");
  CHECK(vtx_guarded(prefault_of_the_bad, in) == 0);
  vtx_input_close(in);
  vtx_input_close(beside);
}

// A sort keeps its state on the stack and the heap: control must not leave it for a scope around
// it.
static void sort_what_cannot_be_read(void* context) {
  const vtx_sort_options options = {.threads = 1};
  vtx_sort_u64((uint64_t*)(uintptr_t)vtx_input_data(context), 3 * kBlock / 8, &options);
}

static void no_jump_leaves_a_call(void) {
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    Script script = {0, NULL};
    vtx_input* const in = stream_of(&script, "bad");
    (void)vtx_guarded(sort_what_cannot_be_read, in);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

// Records that are pushed may lie in a stream that fails.
typedef struct {
  vtx_sorter* sorter;
  vtx_input* in;
  size_t at_once;
  int error;
} Push;

static void push_from_stream(void* context) {
  Push* const push = context;
  const uint64_t* records = vtx_input_data(push->in);
  for (size_t i = 0; i < kBlocks * kBlock / 8 && push->error == 0; i += push->at_once) {
    push->error = vtx_sorter_push(push->sorter, records + i, push->at_once);
  }
}

static void a_sorter_returns_the_error(size_t at_once) {
  Script script = {5, NULL};
  Push push = {NULL, stream_of(&script, "records"), at_once, 0};
  const vtx_record_format format = {.record_bytes = 8};
  const vtx_sort_resources resources = {.memory_bytes = 4 << 20, .threads = 1};
  CHECK(vtx_sorter_create(&format, &resources, &push.sorter) == 0);
  CHECK(vtx_guarded(push_from_stream, &push) == 0);
  CHECK(push.error == -EDOM);
  CHECK_TEXT(vtx_strerror(push.sorter), "stream 'records'");
  vtx_sorter_close(push.sorter);
  vtx_input_close(push.in);
}

// A call that touches returns the error of the touch.
static void how_far_it_can_be_read(void) {
  Script script = {2, NULL};
  const vtx_stream_options options = {.block_bytes = kBlock};
  vtx_input* in = NULL;
  CHECK(vtx_input_from_callback(fill, &script, &options, &in) == 0);
  uint64_t end = 7;
  CHECK(vtx_input_readable(in, 0, &end) == 0 && end == kBlock);
  CHECK(vtx_input_readable(in, end, &end) == 0 && end == 2 * kBlock);
  CHECK(vtx_input_readable(in, end, &end) == -EDOM && end == 2 * kBlock);
  CHECK_TEXT(vtx_strerror(in), "returned -33");
  vtx_input_close(in);
}

static void cancel(void) {
  Script script = {UINT64_MAX, NULL};
  Walk all = {stream_of(&script, "cancelled"), 0};
  vtx_input_cancel(all.in, ECANCELED, "nobody wants it");
  CHECK(vtx_guarded(walk, &all) == -ECANCELED && all.touched == 0);
  CHECK_TEXT(vtx_strerror(NULL), "nobody wants it");
  vtx_input_close(all.in);

  // As the interface itself gives errors, and without a word.
  all.in = stream_of(&script, "cancelled");
  vtx_input_cancel(all.in, -EPIPE, "nobody wants it");
  CHECK(vtx_input_failure(all.in) == -EPIPE);
  vtx_input_close(all.in);
  all.in = stream_of(&script, "cancelled");
  vtx_input_cancel(all.in, 0, NULL);
  CHECK(vtx_input_failure(all.in) == -ECANCELED);
  CHECK_TEXT(vtx_strerror(all.in), "it was cancelled");
  vtx_input_close(all.in);
}

// Where nothing leaves by a jump, touches find zeros and are told.
typedef struct {
  int calls;
  int error;
  char line[256];
} Told;

static void tell(void* context, int error, const char* line) {
  Told* const told = context;
  ++told->calls;
  told->error = error;
  strncpy(told->line, line, sizeof told->line - 1);
}

static void zeros_are_read(void) {
  Script script = {3, NULL};
  vtx_input* const in = stream_of(&script, "cut");
  Told told = {0};
  CHECK(vtx_input_fill_on_failure(in, tell, &told) == 0);
  const volatile char* const data = vtx_input_data(in);
  for (unsigned i = 0; i < kBlocks; ++i) CHECK(data[(size_t)i * kBlock] == (i < 3 ? (char)i : 0));
  CHECK(told.calls == kBlocks - 3 && told.error == -EDOM);
  CHECK_TEXT(told.line, "stream 'cut'");
  CHECK_TEXT(told.line, "it returned -33");
  CHECK(data[5 * kBlock] == 0 && told.calls == kBlocks - 3);
  CHECK(vtx_input_clear_filler(in) == 0);
  CHECK(data[5 * kBlock] == 0 && told.calls == kBlocks - 2);
  CHECK(vtx_input_fill_on_failure(in, NULL, &told) == 0);
  vtx_input_close(in);
}

static int drain(void* context, const void* block, size_t bytes, uint64_t offset) {
  (void)block, (void)bytes, (void)context;
  return offset < 2 * kBlock ? 0 : -ENOSPC;
}

static void what_is_stored_there_is_lost(void) {
  const vtx_stream_options options = {.name = "full", .block_bytes = kBlock};
  vtx_output* out = NULL;
  CHECK(vtx_output_to_callback(drain, NULL, &options, &out) == 0);
  Told told = {0};
  CHECK(vtx_output_fill_on_failure(out, tell, &told) == 0);
  volatile char* const data = vtx_output_data(out);
  for (unsigned i = 0; i < 3 * kBlocks; ++i) data[(size_t)i * kBlock] = 1;
  CHECK(told.calls > 0 && told.error == -ENOSPC);
  CHECK(vtx_output_clear_filler(out) == 0);
  CHECK(vtx_output_finish(out, 3 * kBlocks * kBlock) == -ENOSPC);
  vtx_output_close(out);
}

// Of the process: counted, given back, and received again.
static void the_handler_of_the_process(void) {
  vtx_fault_counts before, after;
  CHECK(vtx_fault_statistics(&before) == 0 && before.served > 0 && before.failed > 0);
  Script script = {3, NULL};
  Walk all = {stream_of(&script, "counted"), 0};
  CHECK(vtx_release_faults() == -EBUSY && strlen(vtx_strerror(NULL)) > 0);
  CHECK(vtx_guarded(walk, &all) == -EDOM);
  CHECK(vtx_fault_statistics(&after) == 0);
  CHECK(after.served == before.served + 3 && after.failed == before.failed + 1);
  vtx_input_close(all.in);
  CHECK(vtx_release_faults() == 0);
  without_an_error();
  vtx_memory_counts memory;
  CHECK(vtx_process_memory(&memory) == 0 && memory.page_table_bytes > 0);
  CHECK(memory.resident_bytes > 0 && memory.peak_resident_bytes >= memory.resident_bytes);
}

int main(void) {
  without_an_error();
  the_error_comes_back();
  the_innermost_takes_it();
  through_a_callback();
  through_a_call();
  no_jump_leaves_a_call();
  a_sorter_returns_the_error(1);
  a_sorter_returns_the_error(kBlock / 8);
  how_far_it_can_be_read();
  cancel();
  zeros_are_read();
  what_is_stored_there_is_lost();
  the_handler_of_the_process();
  return 0;
}
