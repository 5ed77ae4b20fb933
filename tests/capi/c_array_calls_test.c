// Orders, selections and sorts of arrays of numbers whose type is told, compared with qsort(3).
#include "tests/capi/check.h"

enum { kCount = 5000 };

#define DEFINE_ORDER(T, name)                             \
  static int order_##name(const void* a, const void* b) { \
    const T x = *(const T*)a, y = *(const T*)b;           \
    return (x > y) - (x < y);                             \
  }
DEFINE_ORDER(uint8_t, VTX_U8)
DEFINE_ORDER(uint16_t, VTX_U16)
DEFINE_ORDER(uint32_t, VTX_U32)
DEFINE_ORDER(uint64_t, VTX_U64)
DEFINE_ORDER(int8_t, VTX_I8)
DEFINE_ORDER(int16_t, VTX_I16)
DEFINE_ORDER(int32_t, VTX_I32)
DEFINE_ORDER(int64_t, VTX_I64)
DEFINE_ORDER(float, VTX_F32)
DEFINE_ORDER(double, VTX_F64)

typedef struct {
  int number;
  size_t bytes;
  int (*order)(const void* a, const void* b);
} Type;
static const Type kTypes[] = {{VTX_U8, 1, order_VTX_U8},   {VTX_U16, 2, order_VTX_U16},
                              {VTX_U32, 4, order_VTX_U32}, {VTX_U64, 8, order_VTX_U64},
                              {VTX_I8, 1, order_VTX_I8},   {VTX_I16, 2, order_VTX_I16},
                              {VTX_I32, 4, order_VTX_I32}, {VTX_I64, 8, order_VTX_I64},
                              {VTX_F32, 4, order_VTX_F32}, {VTX_F64, 8, order_VTX_F64}};

static _Alignas(8) unsigned char given[8 * kCount], sorted[8 * kCount], work[8 * kCount];

// Finite and not zero, where the order of bits is that of the numbers.
static void fill(const Type* type) {
  for (size_t i = 0; i < kCount; ++i) {
    uint64_t bits = random_bits() % 4096 * 0x0040100401004011;
    if (type->number == VTX_F32) {
      const float number = (float)(int32_t)bits + 0.5F;
      memcpy(&bits, &number, sizeof number);
    } else if (type->number == VTX_F64) {
      const double number = (double)(int64_t)bits + 0.5;
      memcpy(&bits, &number, sizeof number);
    }
    memcpy(given + i * type->bytes, &bits, type->bytes);
  }
  memcpy(sorted, given, sizeof given);
  qsort(sorted, kCount, type->bytes, type->order);
  memcpy(work, given, sizeof given);
}

static void orders(const Type* type) {
  static uint32_t narrow[kCount];
  static uint64_t wide[kCount];
  CHECK(vtx_argsort(given, kCount, type->number, narrow, 4, NULL) == 0);
  CHECK(vtx_argsort(given, kCount, type->number, wide, 8, NULL) == 0);
  for (size_t i = 0; i < kCount; ++i) {
    CHECK(narrow[i] == wide[i] && wide[i] < kCount);
    CHECK(memcmp(given + wide[i] * type->bytes, sorted + i * type->bytes, type->bytes) == 0);
    if (i == 0) continue;
    const void* const before = given + wide[i - 1] * type->bytes;
    CHECK(type->order(before, given + wide[i] * type->bytes) != 0 || wide[i - 1] < wide[i]);
  }

  // One column that is carried with its keys, and two that are not.
  static uint32_t first[kCount], second[kCount];
  static char third[kCount][9];
  for (size_t i = 0; i < kCount; ++i) {
    first[i] = second[i] = (uint32_t)i;
    memset(third[i], (int)(i % 101), 9);
  }
  const vtx_column carried = {first, 4};
  CHECK(vtx_sort_by_key(work, kCount, type->number, &carried, 1, NULL) == 0);
  CHECK(memcmp(work, sorted, kCount * type->bytes) == 0);
  memcpy(work, given, sizeof given);
  const vtx_column columns[] = {{second, 4}, {third, 9}};
  CHECK(vtx_sort_by_key(work, kCount, type->number, columns, 2, NULL) == 0);
  CHECK(memcmp(work, sorted, kCount * type->bytes) == 0);
  for (size_t i = 0; i < kCount; ++i) {
    CHECK(first[i] == narrow[i] && second[i] == narrow[i]);
    CHECK(third[i][0] == (char)(narrow[i] % 101) && third[i][8] == third[i][0]);
  }
}

static void selections(const Type* type) {
  const size_t places[] = {0, 10, kCount / 3, kCount - 1};
  for (size_t i = 0; i < 4; ++i) {
    const size_t k = places[i];
    memcpy(work, given, sizeof given);
    CHECK(vtx_select(work, kCount, type->number, k, NULL) == 0);
    CHECK(memcmp(work + k * type->bytes, sorted + k * type->bytes, type->bytes) == 0);
    for (size_t at = 0; at < kCount; ++at) {
      const int order = type->order(work + at * type->bytes, work + k * type->bytes);
      CHECK(at < k ? order <= 0 : order >= 0);
    }
    const vtx_sort_options descending = {.descending = 1, .threads = 1};
    CHECK(vtx_partial_sort(work, kCount, type->number, k, &descending) == 0);
    for (size_t at = 0; at < k; ++at) {
      const unsigned char* const expected = sorted + (kCount - 1 - at) * type->bytes;
      CHECK(memcmp(work + at * type->bytes, expected, type->bytes) == 0);
    }
  }
}

static void sorts(const Type* type) {
  memcpy(work, given, sizeof given);
  const vtx_chunk chunks[] = {{work, 1000}, {NULL, 0}, {work + 1000 * type->bytes, kCount - 1000}};
  CHECK(vtx_sort_chunks(chunks, 3, type->number, NULL) == 0);
  CHECK(memcmp(work, sorted, kCount * type->bytes) == 0);

  memcpy(work, given, sizeof given);
  size_t kept = 0;
  CHECK(vtx_sort_unique(work, kCount, type->number, &kept, NULL) == 0);
  size_t at = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const unsigned char* const number = sorted + i * type->bytes;
    if (i != 0 && memcmp(number - type->bytes, number, type->bytes) == 0) continue;
    CHECK(at < kept && memcmp(work + at * type->bytes, number, type->bytes) == 0);
    ++at;
  }
  CHECK(at == kept);
}

int main(void) {
  seed_random();
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; ++i) {
    fill(&kTypes[i]);
    orders(&kTypes[i]);
    selections(&kTypes[i]);
    sorts(&kTypes[i]);
  }
  vtx_release_sort_memory();
  return 0;
}
