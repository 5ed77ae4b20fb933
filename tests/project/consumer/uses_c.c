/* A program in C: a file larger than its memory is made, sorted, and read back. */
#include <stdio.h>
#include <string.h>

#include <vortex/c.h>
#include <vortex/version.h>

enum { kNumbers = 300000 };

static int failed(const char* call) {
  printf("%s: %s\n", call, vtx_strerror(NULL));
  return 1;
}

int main(int count, char** arguments) {
  const char* const path = count > 1 ? arguments[1] : "numbers";
  vtx_output* out;
  if (vtx_output_create(path, NULL, &out) != 0) return failed("vtx_output_create");
  uint64_t* const made = vtx_output_data(out);
  for (uint64_t i = 0; i < kNumbers; ++i) made[i] = i * 0x9E3779B97F4A7C15;
  if (vtx_output_finish(out, kNumbers * sizeof *made) != 0) return 1;
  vtx_output_close(out);

  const vtx_key key = {.length = 8, .kind = VTX_KEY_UNSIGNED};
  const vtx_record_format format = {8, &key, 1};
  const vtx_file_sort files = {.inputs = &path, .input_count = 1, .output = path};
  const vtx_sort_resources resources = {.memory_bytes = 1 << 20};
  vtx_sort_report report;
  if (vtx_sort_files(&files, &format, &resources, &report) != 0) return failed("vtx_sort_files");

  vtx_input* in;
  if (vtx_input_open(path, NULL, &in) != 0) return failed("vtx_input_open");
  const uint64_t* const sorted = vtx_input_data(in);
  int good = report.runs > 1 && strcmp(vtx_version(), VORTEX_VERSION_STRING) == 0;
  for (uint64_t i = 1; i < kNumbers; ++i) good = good && sorted[i - 1] < sorted[i];
  vtx_input_close(in);
  remove(path);
  puts(good ? "the file is sorted" : "the file is not sorted");
  return good ? 0 : 1;
}
