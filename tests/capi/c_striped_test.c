// One array over several files, compared with the files' bytes and read back; disks of one's own.
#include <errno.h>
#include <sys/stat.h>

#include "tests/capi/check.h"

enum { kUnit = 64 << 10, kUnits = 10, kNumbers = kUnits * kUnit / 8 - 5, kParts = 3 };

static void write_striped(vtx_striped* striped) {
  const vtx_new_file_options options = {.block_bytes = kUnit};
  vtx_output* out = NULL;
  CHECK(vtx_striped_write(striped, &options, &out) == 0);
  write_numbers(out, kNumbers);
  CHECK(access("a", F_OK) != 0);
  CHECK(vtx_output_finish(out, kNumbers * 8) == 0);
  vtx_stream_counts counts;
  CHECK(vtx_output_statistics(out, &counts) == 0);
  CHECK(counts.written.bytes >= kNumbers * 8 && counts.disk_count >= 1);
  vtx_output_close(out);
}

static void expect_numbers(vtx_striped* striped) {
  const vtx_file_options options = {.block_bytes = kUnit};
  vtx_input* in = NULL;
  CHECK(vtx_striped_read(striped, &options, &in) == 0);
  vtx_striped_close(striped);  // before what is read through it
  uint64_t bytes = 0;
  CHECK(vtx_input_length(in, &bytes) == 0 && bytes == kNumbers * 8);
  check_numbers(in, kNumbers);
  vtx_input_close(in);
}

static void expect_size(const char* path, uint64_t bytes) {
  struct stat file;
  CHECK(stat(path, &file) == 0 && (uint64_t)file.st_size == bytes);
}

static void there_and_back(const vtx_part* parts) {
  const vtx_striped_options options = {.unit_bytes = kUnit};
  vtx_striped* striped = NULL;
  CHECK(vtx_striped_create(parts, kParts, &options, &striped) == 0);
  write_striped(striped);
  CHECK(vtx_striped_length(striped) == kNumbers * 8);
  uint64_t units = 0;
  int left_out = 7;
  CHECK(vtx_striped_part(striped, 0, &units, &left_out) == 0 && units == 4 && left_out == 0);
  CHECK(vtx_striped_part(striped, 2, &units, &left_out) == 0 && units == 3);
  CHECK(vtx_striped_part(striped, kParts, &units, &left_out) == -ERANGE && units == 3);
  expect_numbers(striped);
  // Round robin: the last of ten units is the fourth of the first part.
  expect_size("a", 4 * kUnit - 5 * 8);
  expect_size("b", 3 * kUnit);
  expect_size("c", 3 * kUnit);
  CHECK(vtx_striped_open(parts, kParts, &options, kNumbers * 8, &striped) == 0);
  expect_numbers(striped);
  CHECK(vtx_striped_open(parts, kParts, &options, kNumbers * 80, &striped) == -EINVAL);
}

static void by_weights(const vtx_part* parts) {
  const double weights[] = {1, 0, 4};
  const vtx_striped_options options = {.strategy = VTX_RANDOM_CYCLIC,
                                       .weights = weights,
                                       .weight_count = kParts,
                                       .seed = 3,
                                       .unit_bytes = kUnit};
  vtx_striped* striped = NULL;
  uint64_t units[kParts] = {0}, sum = 0;
  int left_out = 0;
  CHECK(unlink("a") == 0 && unlink("b") == 0 && unlink("c") == 0);
  CHECK(vtx_striped_create(parts, kParts, &options, &striped) == 0);
  write_striped(striped);
  for (size_t i = 0; i < kParts; ++i) {
    CHECK(vtx_striped_part(striped, i, &units[i], &left_out) == 0);
    sum += units[i];
  }
  CHECK(sum == kUnits && units[1] == 0 && units[2] == 8);
  expect_numbers(striped);
  vtx_striped_options wrong = options;
  wrong.weight_count = 2;
  CHECK(vtx_striped_create(parts, kParts, &wrong, &striped) == -EINVAL);
  wrong = options;
  wrong.strategy = VTX_FULLY_RANDOM + 1;
  CHECK(vtx_striped_create(parts, kParts, &wrong, &striped) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "no strategy 4");
  wrong = options;
  wrong.keep_existing = 1;
  CHECK(vtx_striped_create(parts, kParts, &wrong, &striped) == -EEXIST);
  CHECK(vtx_striped_create(parts, 0, &options, &striped) == -EINVAL);
  const vtx_part none = {NULL, NULL};
  CHECK(vtx_striped_create(&none, 1, NULL, &striped) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "path of a part is NULL");
}

static void weights_of_disks(void) {
  const double speeds[] = {100, 300};
  const uint64_t space[] = {UINT64_MAX, 50};
  double weights[2] = {0};
  CHECK(vtx_stripe_weights(speeds, space, 2, 100, weights) == 0);
  CHECK(weights[0] == weights[1] && weights[0] > 0);  // half of it does not fit on the second
  CHECK(vtx_stripe_weights(speeds, space, 2, 0, weights) == 0);
  CHECK(weights[1] == 3 * weights[0]);
  const uint64_t little[] = {10, 10};
  CHECK(vtx_stripe_weights(speeds, little, 2, 100, weights) == -ENOSPC);
}

static void speed_of_a_disk(void) {
  const vtx_disk_options by_threads = {.name = "slow", .backend = VTX_DISK_THREADS, .depth = 2};
  vtx_disk* disk = NULL;
  CHECK(vtx_disk_open(&by_threads, &disk) == 0);
  const vtx_disk_speed_options little = {
      .bytes = 256 << 10, .most_ns = 50000000, .request_bytes = 16 << 10, .depth = 2};
  vtx_disk_speed speed = {0};
  CHECK(vtx_measure_disk_speed(disk, ".", &little, &speed) == 0);
  CHECK(speed.read > 0 && speed.write > 0 && speed.copy > 0);
  double bytes = -1;
  CHECK(vtx_measure_request_cost(disk, ".", &little, &bytes) == 0 && bytes >= 0);
  CHECK(vtx_measure_disk_speed(disk, "nowhere", &little, &speed) == -ENOENT);
  CHECK(vtx_measure_disk_speed(disk, NULL, NULL, &speed) == -EINVAL);
  CHECK(vtx_measure_disk_speed(disk, ".", NULL, NULL) == -EINVAL);
  CHECK(vtx_measure_request_cost(disk, NULL, NULL, &bytes) == -EINVAL);
  CHECK(vtx_measure_request_cost(disk, ".", NULL, NULL) == -EINVAL);

  // What reads through a disk of one's own tells of it, also when its handle is closed.
  const vtx_file_options options = {.disk = disk, .caching = VTX_CACHING_DIRECT, .name = "named"};
  vtx_input* in = NULL;
  CHECK(vtx_input_open("a", &options, &in) == 0);
  vtx_disk_close(disk);
  CHECK(*(const uint64_t*)vtx_input_data(in) != 1);
  vtx_stream_counts counts;
  CHECK(vtx_input_statistics(in, &counts) == 0);
  CHECK(counts.faults >= 1 && counts.read.requests >= 1 && counts.pool_bytes > 0);
  CHECK(counts.disk_count == 1 && counts.disks[0].reads >= 1);
  CHECK(strcmp(counts.disks[0].backend, "threads") == 0 && strlen(counts.direct) > 0);
  CHECK(strcmp(counts.advice, "") == 0 && counts.written.bytes == 0);
  vtx_input_cancel(in, EIO, "pulled out");
  CHECK(vtx_input_failure(in) == -EIO);
  CHECK_TEXT(vtx_strerror(in), "'named'");
  vtx_input_close(in);
}

int main(void) {
  enter_folder();
  vtx_disk* disk = NULL;
  CHECK(vtx_disk_open(NULL, &disk) == 0);
  const vtx_part parts[kParts] = {{"a", disk}, {"b", NULL}, {"c", disk}};
  there_and_back(parts);
  by_weights(parts);
  weights_of_disks();
  speed_of_a_disk();
  vtx_disk_close(disk);
  vtx_disk_close(NULL);
  vtx_striped_close(NULL);
  CHECK(unlink("a") == 0 && unlink("b") == 0 && unlink("c") == 0);
  leave_folder();
  return 0;
}
