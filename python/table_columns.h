// Columns of a table as parts of rows: of Arrow's arrays to bytes, and back.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "arrow_array.h"

namespace vortex_python {

// Places in rows that are written, or read, and move on with that.
using WriteAt = Each<std::byte*>;
using ReadAt = Each<const std::byte*>;

// A column, or one inside of others. A value lies in a row behind a byte that tells whether it is
// there, if it may be missing. What has been read is kept until finish().
class Column {
 public:
  virtual ~Column() = default;

  // The bytes of each value, where all have as many.
  std::optional<std::size_t> fixed_bytes() const { return with_flag(fixed_value_bytes()); }
  // The bytes of each value that is not longer than those of most, where it is known how long these
  // are.
  std::optional<std::size_t> usual_bytes() const { return with_flag(usual_value_bytes()); }
  // Adds the bytes that each value takes.
  void measure(const ArrowValues& values, Each<std::size_t> lengths) const;
  // Throws vortex::Error (EINVAL) where a value is missing that may not.
  void write(const ArrowValues& values, WriteAt at) const;
  // Reads `count` values. Throws vortex::Error (EOVERFLOW) where an array has no offset for them.
  void read(std::size_t count, ReadAt at);
  // What pyarrow makes an array from: the number of values, the bits that tell which are there or
  // None, further buffers, and the same of columns inside. A buffer is its address, its bytes, and
  // what owns it.
  nanobind::tuple finish();

 protected:
  explicit Column(bool nullable) : nullable_(nullable) {}

  virtual std::optional<std::size_t> fixed_value_bytes() const { return std::nullopt; }
  virtual std::optional<std::size_t> usual_value_bytes() const { return fixed_value_bytes(); }
  // Only where values differ in length.
  virtual void measure_values(const ArrowValues&, Each<std::size_t>) const {}
  virtual void write_values(const ArrowValues& values, WriteAt at) const = 0;
  virtual void read_values(std::size_t count, ReadAt at) = 0;
  virtual nanobind::list finish_buffers() = 0;
  virtual nanobind::list finish_children() { return {}; }

 private:
  std::optional<std::size_t> with_flag(std::optional<std::size_t> bytes) const;

  const bool nullable_;
  std::vector<std::uint8_t> there_;  // bits
  std::size_t count_ = 0;
  std::size_t missing_ = 0;
};

// How a column lies in Arrow's buffers.
enum class Layout : int {
  kFixed,    // width bytes each
  kBits,     // one bit each
  kBytes32,  // offsets of 32 bits, and bytes: in rows width of them or more
  kBytes64,
  kList32,  // offsets of 32 bits, and a column inside
  kList64,
  kTuple,   // width values each of a column inside
  kStruct,  // a value each of columns inside
};

// Layout, width, whether values may be missing, and of the columns inside the same: a list of such
// tuples.
std::unique_ptr<Column> column_of(nanobind::handle form);

// An empty list of columns for forms.
std::vector<std::unique_ptr<Column>> columns_of(const nanobind::list& forms);

}  // namespace vortex_python
