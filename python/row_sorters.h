// Sorts of rows of tables, each row a string of bytes that begins with its key.
#pragma once

#include <vortex/sort_resources.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vortex_python {

// Rows that are turned into bytes, or back, at a time, and about how many bytes they may have.
constexpr std::size_t kRowsAtOnce = 4096;
constexpr std::size_t kBytesAtOnce = std::size_t{256} << 10;

using Rows = std::vector<std::byte>;

// The bytes of a key, and of a row with it.
struct RowLength {
  std::size_t key;
  std::size_t row;
};

// Errors are those of the sorters of the library.
class RowSorter {
 public:
  virtual ~RowSorter() = default;
  // `rows` are those between the borders, which may be changed.
  virtual void push(Rows& rows, std::span<const std::size_t> borders) = 0;
  virtual void sort() = 0;
  // The next rows, about kBytesAtOnce, at most `most`; appends where each begins. They are valid
  // until the following call.
  virtual std::span<const std::byte> next(std::size_t most, std::vector<std::size_t>& begins) = 0;
  virtual vortex::RunCounts counts() const = 0;
};

// Rows of one length are records of it. Those that are numbered behind their keys have that length
// mostly, and no key is the beginning of a longer one: the others are records behind their length,
// which get a third of the memory, and both are merged. None has a length that is known: all are
// such records.
std::unique_ptr<RowSorter> row_sorter_of(const std::optional<RowLength>& length, bool numbered,
                                         const vortex::SortResources& resources);

}  // namespace vortex_python
