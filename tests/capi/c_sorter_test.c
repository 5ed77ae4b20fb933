// Records pushed, read back in order.
#include <errno.h>
#include <pthread.h>

#include "tests/capi/check.h"

typedef struct {
  uint32_t key;
  uint32_t index;
} Record;

static const vtx_key keys[] = {{.length = 4, .kind = VTX_KEY_UNSIGNED, .descending = 1}};
static const vtx_record_format format = {sizeof(Record), keys, 1};

// `at_once` records a call; with less memory than they take, runs go to the folder.
static void sort_records(uint32_t count, uint32_t at_once, uint64_t memory_bytes) {
  const char* const folder[] = {"."};
  const vtx_sort_resources resources = {
      .memory_bytes = memory_bytes, .folders = folder, .folder_count = 1};
  vtx_sorter* sorter = NULL;
  CHECK(vtx_sorter_create(&format, &resources, &sorter) == 0);
  uint32_t* const pushed = malloc((count + 1) * sizeof *pushed);
  Record* const batch = malloc(at_once * sizeof *batch);
  CHECK(pushed != NULL && batch != NULL);
  for (uint32_t i = 0; i < count;) {
    uint32_t n = 0;
    for (; n < at_once && i < count; ++n, ++i) {
      batch[n] = (Record){(uint32_t)random_bits() % 1000, i};
      pushed[i] = batch[n].key;
    }
    CHECK(vtx_sorter_push(sorter, batch, n) == 0);
    CHECK(vtx_sorter_size(sorter) == i);
  }
  vtx_input* sorted = NULL;
  CHECK(vtx_sorter_sort(sorter, &sorted) == 0);
  uint64_t bytes = 0;
  CHECK(vtx_input_length(sorted, &bytes) == 0 && bytes == count * sizeof(Record));
  const Record* const records = vtx_input_data(sorted);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Record record = records[i];
    CHECK(record.index < count && pushed[record.index] == record.key);
    sum += record.index;
    if (i == 0) continue;
    const Record before = records[i - 1];
    CHECK(before.key > record.key || (before.key == record.key && before.index < record.index));
  }
  CHECK(count == 0 || sum == (uint64_t)count * (count - 1) / 2);

  vtx_run_counts counts;
  CHECK(vtx_sorter_statistics(sorter, &counts) == 0);
  const int to_folder = count * sizeof(Record) > memory_bytes;
  CHECK((counts.runs > 1) == to_folder && (counts.bytes >= count * sizeof(Record)) >= to_folder);
  CHECK(vtx_sorter_statistics(sorter, NULL) == -EINVAL);
  CHECK(vtx_sorter_push(sorter, batch, 1) == -EINVAL);
  CHECK_TEXT(vtx_strerror(sorter), "after its sort()");
  CHECK(strcmp(vtx_strerror(sorted), "") == 0);
  vtx_sorter_close(sorter);
  free(pushed);
  free(batch);
}

static int refuse(void* context, const vtx_sort_progress* progress) {
  (void)context;
  return progress->phase == VTX_SORT_WRITING && progress->bytes > 1 << 20 ? -EDQUOT : 0;
}

static void touch_all(void* context) {
  const volatile Record* const records = vtx_input_data(context);
  for (uint32_t i = 0; i < 1 << 19; ++i) (void)records[i].key;
}

// The last merge runs while the result is read: its error is the error of that array.
static void a_merge_that_is_refused(void) {
  const vtx_sort_resources resources = {.memory_bytes = 16 << 20, .progress = refuse};
  vtx_sorter* sorter = NULL;
  CHECK(vtx_sorter_create(&format, &resources, &sorter) == 0);
  for (uint32_t i = 0; i < 1 << 19; ++i) {
    const Record record = {i, i};
    CHECK(vtx_sorter_push(sorter, &record, 1) == 0);
  }
  vtx_input* sorted = NULL;
  CHECK(vtx_sorter_sort(sorter, &sorted) == 0);
  CHECK(vtx_guarded(touch_all, sorted) == -EDQUOT);
  CHECK(vtx_input_failure(sorted) == -EDQUOT);
  CHECK_TEXT(vtx_strerror(sorted), "-122");
  vtx_sorter_close(sorter);
}

static vtx_sorter* sorter_of(vtx_budget* budget, uint64_t most, vtx_stop* stop) {
  const vtx_sort_resources resources = {
      .memory_bytes = most, .stop = stop, .budget = budget, .least_memory_bytes = 4 << 20};
  vtx_sorter* sorter = NULL;
  CHECK(vtx_sorter_create(&format, &resources, &sorter) == 0);
  return sorter;
}

static void* a_sorter_that_waits(void* budget) {
  vtx_sorter_close(sorter_of(budget, 8 << 20, NULL));
  return NULL;
}

// Sorters get what is free, wait where that is too little, and give it back.
static void a_budget_of_several(void) {
  const uint64_t all = 24 << 20;
  vtx_budget* budget = NULL;
  CHECK(vtx_budget_create(all, &budget) == 0);
  CHECK(vtx_budget_free_bytes(budget) == all);
  vtx_sorter* const first = sorter_of(budget, 16 << 20, NULL);
  CHECK(vtx_budget_free_bytes(budget) == 8 << 20);
  vtx_sorter* const second = sorter_of(budget, 16 << 20, NULL);
  CHECK(vtx_budget_free_bytes(budget) == 0);

  vtx_stop* stop = NULL;
  CHECK(vtx_stop_create(&stop) == 0);
  vtx_stop_request(stop);
  const vtx_sort_resources stopped = {
      .memory_bytes = 8 << 20, .stop = stop, .budget = budget, .least_memory_bytes = 4 << 20};
  vtx_sorter* none = NULL;
  CHECK(vtx_sorter_create(&format, &stopped, &none) == -ECANCELED && none == NULL);
  vtx_stop_close(stop);
  const vtx_sort_resources too_much = {
      .memory_bytes = 64 << 20, .budget = budget, .least_memory_bytes = 32 << 20};
  CHECK(vtx_sorter_create(&format, &too_much, &none) == -ENOMEM && none == NULL);

  pthread_t waiting;
  CHECK(pthread_create(&waiting, NULL, a_sorter_that_waits, budget) == 0);
  vtx_sorter_close(first);
  CHECK(pthread_join(waiting, NULL) == 0);
  CHECK(vtx_budget_free_bytes(budget) == 16 << 20);

  // What is left goes on without the handle.
  vtx_budget_close(budget);
  const Record record = {1, 0};
  CHECK(vtx_sorter_push(second, &record, 1) == 0);
  vtx_input* sorted = NULL;
  CHECK(vtx_sorter_sort(second, &sorted) == 0);
  CHECK(((const Record*)vtx_input_data(sorted))->key == 1);
  vtx_sorter_close(second);
}

int main(void) {
  seed_random();
  enter_folder();
  sort_records(0, 1, 4 << 20);
  sort_records(1, 1, 4 << 20);
  sort_records(30000, 1, 4 << 20);
  sort_records(30000, 1000, 4 << 20);
  sort_records(300000, 777, 1 << 20);
  a_merge_that_is_refused();
  a_budget_of_several();
  vtx_sorter* none = NULL;
  const vtx_sort_resources little = {.memory_bytes = 1};
  CHECK(vtx_sorter_create(&format, &little, &none) == -ENOMEM && none == NULL);
  vtx_sorter_close(none);
  leave_folder();
  return 0;
}
