// Lines: their orders and their ends, files and pushed ones, in order or not.
#include <errno.h>

#include "tests/capi/check.h"

static void put_file(const char* path, const char* text, size_t bytes) {
  FILE* const file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
}

// Sorts one file, and compares the output, which goes away.
static void expect_lines(const char* input, const vtx_line_format* format, int unique,
                         const char* expected, size_t bytes) {
  vtx_file_sort files = ONE_FILE(input, "ordered");
  files.unique = unique;
  CHECK(vtx_sort_lines(&files, format, NULL, NULL) == 0);
  char text[100];
  FILE* const file = fopen("ordered", "rb");
  CHECK(file != NULL && fread(text, 1, sizeof text, file) == bytes && fclose(file) == 0);
  CHECK(memcmp(text, expected, bytes) == 0);
  CHECK(unlink("ordered") == 0);
}
#define EXPECT_LINES(input, format, unique, expected) \
  expect_lines(input, format, unique, expected, sizeof(expected) - 1)
#define PUT(path, text) put_file(path, text, sizeof(text) - 1)

static void orders_of_lines(void) {
  PUT("lines", "name,99\nb,10\na,9\nc,9\n");
  EXPECT_LINES("lines", NULL, 0, "a,9\nb,10\nc,9\nname,99\n");
  const char* const numbers[] = {"2,2n"};
  vtx_line_format format = {.keys = numbers, .key_count = 1, .separator = ",", .header_lines = 1};
  EXPECT_LINES("lines", &format, 0, "name,99\na,9\nc,9\nb,10\n");
  EXPECT_LINES("lines", &format, 1, "name,99\na,9\nb,10\n");
  format = (vtx_line_format){.letters = "r", .locale = "C"};
  EXPECT_LINES("lines", &format, 0, "name,99\nc,9\nb,10\na,9\n");
  PUT("lines", "b 1\na 1\n");
  format = (vtx_line_format){.keys = numbers, .key_count = 1, .stable = 1};
  EXPECT_LINES("lines", &format, 0, "b 1\na 1\n");
  PUT("lines", "b\n\0a\n\0");
  format = (vtx_line_format){.zero_terminated = 1};
  EXPECT_LINES("lines", &format, 0, "a\n\0b\n\0");
  PUT("lines", "\"b\n\",2\na,10\n");
  const char* const column[] = {"2n"};
  format = (vtx_line_format){.keys = column, .key_count = 1, .csv = 1};
  EXPECT_LINES("lines", &format, 0, "\"b\n\",2\na,10\n");
  PUT("lines", "b;2\na;10\n");
  format.separator = ";";
  EXPECT_LINES("lines", &format, 0, "b;2\na;10\n");
}

// Every way in which a record can end.
static size_t of_three(void* context, const char* text, size_t bytes, int ends) {
  (void)text, (void)ends;
  ++*(unsigned*)context;
  return bytes >= 3 ? 3 : 0;
}

static void ends_of_records(void) {
  PUT("lines", "\2\0\0\0bb\1\0\0\0a");
  vtx_line_format format = {.length_prefixed = 1};
  EXPECT_LINES("lines", &format, 0, "\1\0\0\0a\2\0\0\0bb");
  PUT("lines", "cccaaabbb");
  unsigned calls = 0;
  format = (vtx_line_format){.length = of_three, .length_context = &calls};
  EXPECT_LINES("lines", &format, 0, "aaabbbccc");
  CHECK(calls >= 3);
  PUT("lines", "b,1\na,1\nb,2\n");
  const char* const first[] = {"1,1"};
  format = (vtx_line_format){.keys = first, .key_count = 1, .separator = ",", .unique = 1};
  EXPECT_LINES("lines", &format, 0, "a,1\nb,1\n");

  const vtx_file_sort files = ONE_FILE("lines", "none");
  PUT("lines", "a\"b\n\"c");
  format = (vtx_line_format){.csv = 1};
  vtx_sort_report report;
  CHECK(vtx_sort_lines(&files, &format, NULL, &report) == 0 && unlink("none") == 0);
  CHECK(report.invalid_records == 2 && report.unclosed_records == 1 && report.merge_parts >= 1);
  format.refuse_quotes = 1;
  CHECK(vtx_sort_lines(&files, &format, NULL, NULL) == -EINVAL);
  format.length_prefixed = 1;
  CHECK(vtx_sort_lines(&files, &format, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "lines end in one way");
  CHECK(access("none", F_OK) != 0);
}

// Two seeds, two orders; a seed, one order.
static void random_orders(void) {
  vtx_line lines[3][50], *const first = lines[0];
  char texts[50][3];
  const char* const random[] = {"1R"};
  const char* const seeds[] = {"0123456789abcdef", "fedcba9876543210", "0123456789abcdef"};
  for (int i = 0; i < 50; ++i) snprintf(texts[i], 3, "%02d", i);
  for (int k = 0; k < 3; ++k) {
    const vtx_line_format format = {.keys = random, .key_count = 1, .random_seed = seeds[k]};
    for (int i = 0; i < 50; ++i) lines[k][i] = (vtx_line){texts[i], 2};
    CHECK(vtx_sort_lines_in_memory(lines[k], 50, &format, 1, NULL) == 0);
  }
  CHECK(memcmp(first, lines[1], sizeof lines[1]) != 0);
  CHECK(memcmp(first, lines[2], sizeof lines[2]) == 0);
}

static void lines_in_memory(void) {
  vtx_line lines[] = {{"b", 1}, {"ab", 2}, {"a", 1}, {NULL, 0}, {"ab", 2}};
  size_t kept = 0;
  CHECK(vtx_sort_lines_in_memory(lines, 5, NULL, 0, &kept) == 0 && kept == 5);
  CHECK(lines[0].bytes == 0 && lines[1].bytes == 1 && lines[4].text[0] == 'b');
  const vtx_line_format unique = {.unique = 1};
  CHECK(vtx_sort_lines_in_memory(lines, 5, &unique, 1, &kept) == 0 && kept == 4);
  CHECK(memcmp(lines[2].text, "ab", 2) == 0 && lines[3].text[0] == 'b');
}

// The key of a line is what is behind its last blank, and then what is in front of it.
typedef struct {
  unsigned calls;
  int64_t result;  // of every call; 0: the key's length
} Keys;
static int64_t turned_round(void* context, const char* text, size_t bytes, char* key, size_t room) {
  Keys* const keys = context;
  ++keys->calls;
  if (keys->result != 0) return keys->result;
  size_t at = bytes;
  while (at > 0 && text[at - 1] != ' ') --at;
  const size_t wanted = 2 * bytes;  // more room than there is at first, of long lines
  if (wanted > room) return (int64_t)wanted;
  memset(key, 0, wanted);
  memcpy(key, text + at, bytes - at);
  memcpy(key + bytes, text, at);
  return (int64_t)wanted;
}

static void keys_by_a_function(void) {
  Keys keys = {0};
  vtx_line_format format = {.key = turned_round, .key_context = &keys};
  PUT("lines", "a c\nb b\nc a\na b\n");
  EXPECT_LINES("lines", &format, 0, "c a\na b\nb b\na c\n");
  CHECK(keys.calls >= 4);
  format.key_descending = 1;
  EXPECT_LINES("lines", &format, 0, "a c\nb b\na b\nc a\n");
  char longer[2][200];
  memset(longer, 'x', sizeof longer);
  memcpy(longer[0] + 197, " bb", 3);
  memcpy(longer[1] + 197, " aa", 3);
  vtx_line lines[] = {{longer[0], 200}, {longer[1], 200}, {"z a", 3}};
  format.key_descending = 0;
  CHECK(vtx_sort_lines_in_memory(lines, 3, &format, 1, NULL) == 0);
  CHECK(lines[0].bytes == 3 && lines[1].text == longer[1] && lines[2].text == longer[0]);
  keys.result = -EDOM;
  CHECK(vtx_sort_lines_in_memory(lines, 3, &format, 1, NULL) == -EDOM);
  CHECK_TEXT(vtx_strerror(NULL), "returned -33");
  format.letters = "n";
  CHECK(vtx_sort_lines_in_memory(lines, 3, &format, 1, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "not both");
}

static void checks(void) {
  const vtx_file_sort files = ONE_FILE("lines", NULL);
  vtx_line_disorder found;
  PUT("lines", "a\nc\nb\nd\n");
  CHECK(vtx_check_lines(&files, NULL, NULL, &found) == 0);
  CHECK(found.record == 3 && found.offset == 4 && found.bytes == 1);
  CHECK(strcmp(found.text, "b") == 0 && strcmp(found.input, "lines") == 0);
  PUT("lines", "a\nb\n");
  CHECK(vtx_check_lines(&files, NULL, NULL, &found) == 0 && found.record == 0);
  CHECK(vtx_check_lines(&files, NULL, NULL, NULL) == -EINVAL);
  const char* text = NULL;
  CHECK(vtx_plan_lines(&files, NULL, NULL, &text) == -EINVAL && text == NULL);
  const vtx_file_sort with_output = ONE_FILE("lines", "none");
  const vtx_sort_resources memory = {.memory_bytes = 32 << 20};
  CHECK(vtx_plan_lines(&with_output, NULL, &memory, &text) == 0);
  CHECK_TEXT(text, "32 MiB");
  CHECK(access("none", F_OK) != 0);
}

static void pushed(uint32_t count, uint64_t memory_bytes, int to_folder) {
  const char* const folder[] = {"."};
  const vtx_sort_resources resources = {
      .memory_bytes = memory_bytes, .folders = folder, .folder_count = 1};
  const char* const numeric[] = {"1nr"};
  const vtx_line_format format = {.keys = numeric, .key_count = 1};
  vtx_line_sorter* sorter = NULL;
  CHECK(vtx_line_sorter_create(&format, &resources, &sorter) == 0);
  char line[32];
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = i * 0x9E3779B1U % count;  // every one once, for odd factors
    CHECK(vtx_line_sorter_push(sorter, line, (size_t)snprintf(line, 32, "%u", number)) == 0);
  }
  CHECK(vtx_line_sorter_size(sorter) == count);
  const char* text = NULL;
  size_t bytes = 0;
  for (uint32_t i = count; i > 0; --i) {
    CHECK(vtx_line_sorter_next(sorter, &text, &bytes) == 0 && text != NULL);
    const size_t wanted = (size_t)snprintf(line, 32, "%u", i - 1);
    CHECK(bytes == wanted && memcmp(text, line, bytes) == 0);
  }
  CHECK(vtx_line_sorter_next(sorter, &text, &bytes) == 0 && text == NULL && bytes == 0);
  vtx_run_counts counts;
  CHECK(vtx_line_sorter_statistics(sorter, &counts) == 0);
  CHECK((counts.runs > 0) == to_folder && (counts.bytes > 0) == to_folder);
  CHECK(vtx_line_sorter_push(sorter, "a", 1) == -EINVAL);
  CHECK(strlen(vtx_strerror(sorter)) > 0);
  vtx_line_sorter_close(sorter);
}

static void wrong_options_of_lines(void) {
  vtx_file_sort files = ONE_FILE("lines", NULL);
  CHECK(vtx_sort_lines(NULL, NULL, NULL, NULL) == -EINVAL);
  CHECK(vtx_sort_lines(&files, NULL, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "output is NULL");
  files.output = "none";
  const char* const keys[] = {"0", NULL};
  vtx_line_format format = {.keys = keys, .key_count = 1};
  CHECK(vtx_sort_lines(&files, &format, NULL, NULL) == -EINVAL);
  format.keys = keys + 1;
  CHECK(vtx_sort_lines(&files, &format, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "a key is NULL");
  format = (vtx_line_format){.separator = ",,"};
  CHECK(vtx_sort_lines(&files, &format, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "',,'");
  format = (vtx_line_format){.locale = "no such place"};
  CHECK(vtx_sort_lines(&files, &format, NULL, NULL) == -ENOENT);
  const char* const missing[] = {"not there"};
  files.inputs = missing;
  CHECK(vtx_sort_lines(&files, NULL, NULL, NULL) == -ENOENT);
  CHECK_TEXT(vtx_strerror(NULL), "'not there'");
  CHECK(access("none", F_OK) != 0);
}

int main(void) {
  enter_folder();
  orders_of_lines();
  ends_of_records();
  random_orders();
  lines_in_memory();
  keys_by_a_function();
  checks();
  pushed(0, 4 << 20, 0);
  pushed(1 << 10, 4 << 20, 0);
  pushed(1 << 17, 1 << 20, 1);
  vtx_line_sorter_close(NULL);
  wrong_options_of_lines();
  CHECK(unlink("lines") == 0);
  leave_folder();
  return 0;
}
