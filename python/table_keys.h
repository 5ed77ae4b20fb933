// Columns that order the rows of a table, as bytes whose order is that of the rows.
#pragma once

#include <nanobind/nanobind.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arrow_array.h"
#include "table_columns.h"

namespace vortex_python {

// Numbers of this machine to bytes whose order is theirs, or back.
template <typename Word>
Word highest_first(Word bits) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    if constexpr (sizeof(Word) == 2) return __builtin_bswap16(bits);
    if constexpr (sizeof(Word) == 4) return __builtin_bswap32(bits);
    if constexpr (sizeof(Word) == 8) return __builtin_bswap64(bits);
  }
  return bits;
}

// What the values of a key column are.
enum class KeyForm : int {
  kUnsigned,
  kSigned,
  kFloat,    // -0.0 equals 0.0, and NaN comes behind all numbers
  kBits,     // as Layout::kBits
  kBytes,    // of a fixed width, as memcmp(3) orders them
  kDecimal,  // two's complement, the last byte first
  kString32,
  kString64,
};

// A column of the order. In a key each value has, where it may be missing, a byte that tells it;
// then its bytes, all inverted where the order is descending. Numbers have their highest byte in
// front. In a string a zero is followed by a one, and behind it come two zeros, so none is the
// beginning of another; a key that has less than `width` bytes with them is filled up with zeros.
class KeyColumn {
 public:
  // A tuple: form, width, whether values may be missing, descending, whether missing ones come
  // last.
  explicit KeyColumn(nanobind::handle form);

  // The bytes of each key, where all have as many.
  std::optional<std::size_t> fixed_bytes() const noexcept;
  // As Column::usual_bytes().
  std::optional<std::size_t> usual_bytes() const noexcept;
  void measure(const ArrowValues& values, Each<std::size_t> lengths) const;
  // Throws vortex::Error (EINVAL) where a value is missing that may not.
  void write(const ArrowValues& values, WriteAt at) const;
  // Goes past `count` keys, and gives their values to `column`, if any, which is not for floats:
  // those that are equal may differ.
  void read(std::size_t count, ReadAt at, Column* column) const;

 private:
  bool is_string() const noexcept { return form_ >= KeyForm::kString32; }
  std::byte inversion() const noexcept { return descending_ ? std::byte{0xff} : std::byte{0}; }
  void write_flag(std::byte*& at, bool there) const noexcept;
  void write_fixed(const ArrowValues& values, WriteAt at) const;
  template <typename Offset>
  void write_strings(const ArrowValues& values, WriteAt at) const;
  template <typename Offset>
  void measure_strings(const ArrowValues& values, Each<std::size_t> lengths) const;
  // What these write is what Column::write() would have written.
  std::byte read_flag(std::byte flag) const noexcept;
  void read_fixed(std::size_t count, ReadAt at, std::vector<std::byte>& to) const;
  void read_string(const std::byte*& at, std::vector<std::byte>& to) const;

  KeyForm form_;
  std::size_t width_;
  bool nullable_;
  bool descending_;
  bool nulls_last_;
};

std::vector<KeyColumn> key_columns_of(const nanobind::list& forms);

}  // namespace vortex_python
