// The types of numbers, for the tests in C that try all of them: their order and their sorts.
#pragma once

#include "tests/capi/check.h"

typedef int (*Sort)(void* array, size_t count, const vtx_sort_options* options);
typedef struct {
  int number;  // a vtx_number
  size_t bytes;
  int (*order)(const void* a, const void* b);
  Sort sort;  // NULL where there is none for the type alone
  Sort sort_pairs;
} NumberType;

#define ORDER_OF_NUMBERS(T, number)                                \
  static inline int order_##number(const void* a, const void* b) { \
    const T x = *(const T*)a, y = *(const T*)b;                    \
    return (x > y) - (x < y);                                      \
  }
#define SORTS_OF_NUMBERS(T, number, name)                                                    \
  ORDER_OF_NUMBERS(T, number)                                                                \
  static inline int sort_##number(void* keys, size_t count, const vtx_sort_options* how) {   \
    return vtx_sort_##name(keys, count, how);                                                \
  }                                                                                          \
  static inline int pairs_##number(void* pairs, size_t count, const vtx_sort_options* how) { \
    return vtx_sort_pairs_##name(pairs, count, how);                                         \
  }
ORDER_OF_NUMBERS(uint8_t, VTX_U8)
ORDER_OF_NUMBERS(uint16_t, VTX_U16)
ORDER_OF_NUMBERS(int8_t, VTX_I8)
ORDER_OF_NUMBERS(int16_t, VTX_I16)
SORTS_OF_NUMBERS(uint32_t, VTX_U32, u32)
SORTS_OF_NUMBERS(uint64_t, VTX_U64, u64)
SORTS_OF_NUMBERS(int32_t, VTX_I32, i32)
SORTS_OF_NUMBERS(int64_t, VTX_I64, i64)
SORTS_OF_NUMBERS(float, VTX_F32, f32)
SORTS_OF_NUMBERS(double, VTX_F64, f64)

#define NARROW(number, bytes) \
  { number, bytes, order_##number, NULL, NULL }
#define WIDE(number, bytes) \
  { number, bytes, order_##number, sort_##number, pairs_##number }
static const NumberType kNumberTypes[] = {
    NARROW(VTX_U8, 1), NARROW(VTX_U16, 2), NARROW(VTX_I8, 1), NARROW(VTX_I16, 2), WIDE(VTX_U32, 4),
    WIDE(VTX_U64, 8),  WIDE(VTX_I32, 4),   WIDE(VTX_I64, 8),  WIDE(VTX_F32, 4),   WIDE(VTX_F64, 8)};
#define FOR_NUMBER_TYPES(type) \
  for (const NumberType* type = kNumberTypes; type < kNumberTypes + 10; ++type)

// A number of the type, finite and not zero where it has a fraction: the order of bits is that of
// the numbers then. One of `kinds`; 0: of all magnitudes.
static inline void put_random(const NumberType* type, uint64_t kinds, void* to) {
  uint64_t bits = kinds != 0 ? random_bits() % kinds * 0x0040100401004011
                             : (uint64_t)((int64_t)random_bits() >> random_bits() % 64);
  if (type->number == VTX_F32) {
    const float number = (float)(int32_t)bits + 0.5F;
    memcpy(&bits, &number, sizeof number);
  } else if (type->number == VTX_F64) {
    const double number = (double)(int64_t)bits + 0.5;
    memcpy(&bits, &number, sizeof number);
  }
  memcpy(to, &bits, type->bytes);
}
