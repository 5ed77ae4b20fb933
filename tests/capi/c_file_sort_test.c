// External sorts of files: sorted, reported on, stopped.
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "tests/capi/check.h"

enum { kNumbers = 1 << 19 };  // 4 MiB, four times the memory

static const vtx_key number_key[] = {{.length = 8, .kind = VTX_KEY_UNSIGNED}};
static const vtx_record_format numbers_format = {8, number_key, 1};

static uint64_t make(const char* path, uint64_t count, uint64_t mask) {
  vtx_output* out = NULL;
  CHECK(vtx_output_create(path, NULL, &out) == 0);
  uint64_t* const data = vtx_output_data(out);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += data[i] = random_bits() & mask;
  CHECK(vtx_output_finish(out, count * 8) == 0);
  vtx_output_close(out);
  return sum;
}

static uint64_t sum_of_first;

static void expect_sorted(const char* path, uint64_t count, uint64_t sum, int unique) {
  vtx_input* in = NULL;
  CHECK(vtx_input_open(path, NULL, &in) == 0);
  uint64_t bytes = 0;
  CHECK(vtx_input_length(in, &bytes) == 0 && bytes == count * 8);
  const uint64_t* const data = vtx_input_data(in);
  for (uint64_t i = 0; i < count; ++i) {
    CHECK(i == 0 || data[i - 1] < data[i] || (!unique && data[i - 1] == data[i]));
    sum -= data[i];
  }
  CHECK(sum == 0);
  vtx_input_close(in);
}

typedef struct {
  unsigned calls;
  int phases;  // bits
  uint64_t last;
  unsigned end_after;
  int result;
  vtx_stop* stop;
} Watch;

static int watch(void* context, const vtx_sort_progress* progress) {
  Watch* const seen = context;
  ++seen->calls;
  seen->phases |= 1 << progress->phase;
  CHECK(progress->phase_bytes == 0 || progress->bytes <= progress->phase_bytes);
  if (seen->calls != seen->end_after) return 0;
  if (seen->stop != NULL) vtx_stop_request(seen->stop);
  return seen->result;
}

static const char* const folder[] = {"."};

static vtx_sort_resources little_memory(Watch* seen) {
  vtx_sort_resources resources = {0};
  resources.memory_bytes = 1 << 20;
  resources.folders = folder;
  resources.folder_count = 1;
  resources.progress = watch;
  resources.progress_context = seen;
  return resources;
}

static void sort_two_files(void) {
  sum_of_first = make("first", kNumbers / 2, UINT64_MAX);
  const uint64_t sum = sum_of_first + make("second", kNumbers / 2, ~0U);
  const char* const inputs[] = {"first", "second"};
  const vtx_file_sort files = {.inputs = inputs, .input_count = 2, .output = "sorted"};
  Watch seen = {0};
  const vtx_sort_resources resources = little_memory(&seen);
  vtx_sort_report report;
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, &report) == 0);
  expect_sorted("sorted", kNumbers, sum, 0);
  CHECK(report.records_in == kNumbers && report.records_out == kNumbers);
  CHECK(report.runs > 1 && report.merges >= 1 && report.passes >= 1);
  CHECK(report.run_bytes >= kNumbers * 8 && report.read_bytes >= kNumbers * 16);
  CHECK(report.seconds > 0 && report.cpu_seconds > 0);
  CHECK(report.input_bytes == kNumbers * 8 && report.output_bytes == kNumbers * 8);
  // Disks write whole sectors, and runs that fall whole blocks.
  CHECK(report.folder_count == 1 && report.folder_bytes[0] >= report.run_bytes);
  const uint64_t output_written = report.written_bytes - report.folder_bytes[0];
  CHECK(output_written >= report.output_bytes && output_written < report.output_bytes + 4096);
  CHECK(report.least_io_bytes == kNumbers * 32);
  CHECK(report.run_formation_seconds > 0 && report.merge_seconds > 0);
  const vtx_sort_overlap* const reading = &report.overlap[VTX_SORT_READING];
  CHECK(reading->seconds > 0 && reading->threads > 0 && reading->sum_of_threads > 0);
  CHECK(reading->both <= reading->disks && reading->disks <= reading->sum_of_disks + 1e-9);
  CHECK(report.overlap[VTX_SORT_WRITING].seconds > 0);
  CHECK(seen.calls >= 2 && (seen.phases & 1 << VTX_SORT_READING) &&
        (seen.phases & 1 << VTX_SORT_WRITING));
}

static void unique_and_merge(void) {
  make("few", 100000, 0xff);
  vtx_file_sort files = ONE_FILE("few", "few");
  files.unique = 1;
  vtx_sort_report report;
  CHECK(vtx_sort_files(&files, &numbers_format, NULL, &report) == 0);
  CHECK(report.records_out == 256);
  expect_sorted("few", 256, 255 * 128, 1);

  const char* const both[] = {"few", "few"};
  files = (vtx_file_sort){.inputs = both, .input_count = 2, .output = "twice", .merge = 1};
  CHECK(vtx_sort_files(&files, &numbers_format, NULL, NULL) == 0);
  expect_sorted("twice", 512, 2 * 255 * 128, 0);
  CHECK(unlink("twice") == 0);
}

// A sort that is ended leaves the old output, and nothing else.
static void ended(int result, int by_stop, int expected) {
  const char* const inputs[] = {"first", "second"};
  const vtx_file_sort files = {.inputs = inputs, .input_count = 2, .output = "few"};
  Watch seen = {.end_after = 2, .result = result};
  if (by_stop) CHECK(vtx_stop_create(&seen.stop) == 0);
  vtx_sort_resources resources = little_memory(&seen);
  resources.stop = seen.stop;
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, NULL) == expected);
  CHECK(strlen(vtx_strerror(NULL)) > 0);
  vtx_stop_close(seen.stop);
  expect_sorted("few", 256, 255 * 128, 1);
}

// The folders and the names that a function of disks was asked for.
typedef struct {
  int result;
  int backend;
  char folders[8];  // the first bytes
  size_t count;
} Disks;
static int disk_of(void* context, const char* folder, vtx_disk_options* options) {
  Disks* const disks = context;
  if (disks->count < sizeof disks->folders) disks->folders[disks->count++] = folder[0];
  options->backend = disks->backend;
  options->depth = 2;
  return disks->result;
}

// Every choice that a sort has, and a trace and a plan of it.
static void choices(void) {
  vtx_file_sort files = ONE_FILE("first", "chosen");
  files.trace = "trace";
  Disks disks = {.backend = VTX_DISK_THREADS};
  Watch seen = {0};
  const double speeds[] = {3};
  vtx_sort_resources resources = little_memory(&seen);
  resources.folder_speeds = speeds;
  resources.request_cost_bytes = 1;
  resources.seed = 7;
  resources.prefetch = VTX_PREFETCH_NAIVE;
  resources.compression = VTX_COMPRESSION_NEVER;
  resources.in_place = VTX_IN_PLACE_ALWAYS;
  resources.no_sync = 1;
  resources.disk = disk_of;
  resources.disk_context = &disks;
  const char* text = NULL;
  CHECK(vtx_plan_files(&files, &numbers_format, &resources, &text) == 0);
  CHECK_TEXT(text, "naive");
  CHECK(access("chosen", F_OK) != 0);
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, NULL) == 0);
  CHECK(memchr(disks.folders, '.', disks.count) != NULL);
  CHECK(memchr(disks.folders, '\0', disks.count) != NULL);
  expect_sorted("chosen", kNumbers / 2, sum_of_first, 0);
  CHECK(unlink("chosen") == 0);
  CHECK(access("trace", F_OK) == 0 && unlink("trace") == 0);
  disks.result = -EMFILE;
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, NULL) == -EMFILE);
  disks = (Disks){.backend = VTX_DISK_THREADS + 1};
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "no backend of disks 3");
  CHECK(vtx_plan_files(&files, NULL, &resources, &text) == -EINVAL);
  CHECK(vtx_plan_files(&files, &numbers_format, &resources, NULL) == -EINVAL);
  CHECK(access("chosen", F_OK) != 0);
  unlink("trace");  // one that fails leaves it, too
}

static void wrong_options(void) {
  vtx_file_sort files = ONE_FILE("first", NULL);
  CHECK(vtx_sort_files(&files, &numbers_format, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "output is NULL");
  files.output = "none";
  const vtx_record_format of_seven = {.record_bytes = 7};
  CHECK(vtx_sort_files(&files, &of_seven, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "'first'");
  vtx_sort_resources resources = {.memory_bytes = 1000};
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, NULL) == -ENOMEM);
  resources = (vtx_sort_resources){.caching = 7};
  CHECK(vtx_sort_files(&files, &numbers_format, &resources, NULL) == -EINVAL);
  CHECK(access("none", F_OK) != 0);
}

// Each number is in the part whose range it belongs to, and those of a part in their order.
static void partition(void) {
  enum { kParts = 4 };
  const char* const inputs[] = {"first", "second"};
  const uint64_t splitters[kParts - 1] = {1000, (uint64_t)1 << 32, (uint64_t)3 << 62};
  vtx_file_partition files = {.inputs = inputs, .input_count = 2, .prefix = "part"};
  files.splitters = splitters;
  files.splitter_bytes = sizeof splitters;
  vtx_sort_resources resources = {.memory_bytes = 1 << 20};
  vtx_partition_report report;
  CHECK(vtx_partition_files(&files, &numbers_format, &resources, &report) == 0);
  CHECK(report.part_count == kParts && report.records == kNumbers && report.bytes == kNumbers * 8);
  CHECK(report.read_bytes >= report.bytes && report.written_bytes >= report.bytes);
  CHECK(report.sampled_records == 0 && report.faults > 0 && report.seconds > 0);
  CHECK(report.block_bytes * report.pool_blocks <= resources.memory_bytes);
  uint64_t records = 0;
  for (size_t i = 0; i < kParts; ++i) {
    const vtx_part_report* const part = &report.parts[i];
    FILE* const file = fopen(part->path, "rb");
    CHECK(file != NULL);
    uint64_t number = 0, count = 0;
    while (fread(&number, sizeof number, 1, file) == 1) {
      CHECK((i == 0 || number >= splitters[i - 1]) && (i == kParts - 1 || number < splitters[i]));
      ++count;
    }
    CHECK(fclose(file) == 0 && count == part->records && part->bytes == count * 8);
    records += count;
    CHECK(unlink(part->path) == 0);
  }
  CHECK(records == kNumbers);

  files = (vtx_file_partition){.inputs = inputs, .input_count = 2, .prefix = "part", .parts = 2};
  files.divide_equal_keys = 1;
  CHECK(vtx_partition_files(&files, &numbers_format, NULL, NULL) == 0);
  CHECK(unlink("part.00000") == 0 && unlink("part.00001") == 0);
  files.prefix = NULL;
  CHECK(vtx_partition_files(&files, &numbers_format, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "needs a name");
  CHECK(vtx_partition_files(NULL, &numbers_format, NULL, NULL) == -EINVAL);
}

// Lines that do not fit in the memory.
static void sort_many_lines(void) {
  enum { kLines = 200000, kLineBytes = 17 };
  FILE* const made = fopen("lines", "wb");
  uint64_t sum = 0;
  for (int i = 0; i < kLines; ++i) {
    const uint64_t number = random_bits();
    sum += number;
    CHECK(fprintf(made, "%016llx\n", (unsigned long long)number) == kLineBytes);
  }
  CHECK(fclose(made) == 0);
  const vtx_file_sort files = ONE_FILE("lines", "lines");
  Watch seen = {0};
  const vtx_sort_resources resources = little_memory(&seen);
  vtx_sort_report report;
  CHECK(vtx_sort_lines(&files, NULL, &resources, &report) == 0);
  CHECK(report.records_in == kLines && report.records_out == kLines && report.runs > 1);
  CHECK(report.read_bytes >= kLines * kLineBytes && report.written_bytes >= report.run_bytes);
  CHECK((seen.phases & 1 << VTX_SORT_READING) && (seen.phases & 1 << VTX_SORT_WRITING));
  FILE* const sorted = fopen("lines", "rb");
  char line[kLineBytes + 1], before[kLineBytes + 1] = "";
  for (int i = 0; i < kLines; ++i) {
    CHECK(fgets(line, sizeof line, sorted) != NULL && strcmp(before, line) <= 0);
    sum -= strtoull(line, NULL, 16);
    memcpy(before, line, sizeof line);
  }
  CHECK(sum == 0 && fgetc(sorted) == EOF && fclose(sorted) == 0);
}

int main(void) {
  seed_random();
  enter_folder();
  sort_two_files();
  unique_and_merge();
  ended(-EDQUOT, 0, -EDQUOT);
  ended(1, 0, -ECANCELED);
  ended(INT_MIN, 0, -ECANCELED);
  ended(0, 1, -ECANCELED);
  choices();
  wrong_options();
  partition();
  sort_many_lines();
  CHECK(unlink("lines") == 0);
  CHECK(unlink("first") == 0 && unlink("second") == 0 && unlink("sorted") == 0);
  CHECK(unlink("few") == 0);
  leave_folder();
  return 0;
}
