// Rows of tables through the external sorts.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "module.h"
#include "row_sorters.h"
#include "sort_calls.h"
#include "table_columns.h"
#include "table_keys.h"

#include <nanobind/stl/vector.h>

namespace vortex_python {

namespace {

// What rows are made of: the columns of their keys, a number unless all have one length, and other
// columns.
class RowForm {
 public:
  RowForm(const nb::list& keys, const nb::list& columns)
      : keys_(key_columns_of(keys)), columns_(columns_of(columns)) {
    bool fixed = true, usual = true;
    RowLength length{0, 0};
    const auto add = [&](const auto& column, std::size_t& to) {
      const std::optional<std::size_t> bytes = column.usual_bytes();
      usual = usual && bytes.has_value();
      fixed = fixed && column.fixed_bytes().has_value();
      to += bytes.value_or(0);
    };
    for (const KeyColumn& one : keys_) add(one, length.key);
    length.row = length.key;
    for (const auto& one : columns_) add(*one, length.row);
    numbered_ = !fixed || length.key == 0 || length.row > kMostFixed;
    length.row += numbered_ ? kNumber : 0;
    if (usual && length.key > 0 && length.row <= kMostFixed) length_ = length;
  }

  // Of all rows, or if they have numbers of most.
  const std::optional<RowLength>& length() const noexcept { return length_; }
  bool numbered() const noexcept { return numbered_; }
  std::vector<std::unique_ptr<Column>>& columns() noexcept { return columns_; }

  // The lengths of `count` rows from `begin` on.
  std::vector<std::size_t> measure(const ArrowArray& keys, const ArrowArray& columns,
                                   std::size_t begin, std::size_t count) const {
    std::vector<std::size_t> lengths(count, numbered_ ? kNumber : length_->row);
    if (!numbered_) return lengths;
    const Each<std::size_t> each(lengths.data(), 1);
    for (std::size_t c = 0; c < keys_.size(); ++c)
      keys_[c].measure({*keys.children[c], begin, count}, each);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      columns_[c]->measure({*columns.children[c], begin, count}, each);
    return lengths;
  }

  // Makes rows of these lengths from `begin` on, as many as have about kBytesAtOnce; returns how
  // many, with their borders. `number` is the first one's.
  std::size_t write(const ArrowArray& keys, const ArrowArray& columns, std::size_t begin,
                    std::span<const std::size_t> lengths, std::uint64_t number, Rows& rows,
                    std::vector<std::size_t>& borders) const {
    borders.assign(1, 0);
    while (borders.size() <= lengths.size() && borders.back() < kBytesAtOnce)
      borders.push_back(borders.back() + lengths[borders.size() - 1]);
    const std::size_t some = borders.size() - 1;
    if (rows.size() < borders.back()) rows.resize(borders.back());
    std::vector<std::byte*> cursors(some);
    for (std::size_t i = 0; i < some; ++i) cursors[i] = rows.data() + borders[i];
    const WriteAt at(cursors.data(), 1);
    for (std::size_t c = 0; c < keys_.size(); ++c)
      keys_[c].write({*keys.children[c], begin, some}, at);
    if (numbered_) write_numbers(number, some, at);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      columns_[c]->write({*columns.children[c], begin, some}, at);
    return some;
  }

  // Takes rows apart. `restored` has a column for each key column whose values are wanted.
  void read(const std::byte* rows, const std::vector<std::size_t>& begins,
            const std::vector<Column*>& restored) {
    std::vector<const std::byte*> cursors(begins.size());
    for (std::size_t i = 0; i < begins.size(); ++i) cursors[i] = rows + begins[i];
    const ReadAt at(cursors.data(), 1);
    for (std::size_t c = 0; c < keys_.size(); ++c) keys_[c].read(begins.size(), at, restored[c]);
    if (numbered_) {
      for (const std::byte*& cursor : cursors) cursor += kNumber;
    }
    for (const auto& column : columns_) column->read(begins.size(), at);
  }

 private:
  static constexpr std::size_t kNumber = sizeof(std::uint64_t), kMostFixed = std::size_t{64} << 10;

  static void write_numbers(std::uint64_t number, std::size_t count, WriteAt at) noexcept {
    for (std::size_t i = 0; i < count; ++i, ++number) {
      for (std::size_t b = kNumber; b-- > 0;) *at[i]++ = static_cast<std::byte>(number >> 8 * b);
    }
  }

  const std::vector<KeyColumn> keys_;
  std::vector<std::unique_ptr<Column>> columns_;
  std::optional<RowLength> length_;
  bool numbered_ = true;
};

// One sort of a table. Arrays of key columns and of other columns are pushed together, as records;
// what is read are the columns that keys restore, and the others.
class TableSorter {
 public:
  // `restored`: for each key column the form of a column that its keys give, or None.
  TableSorter(const nb::list& keys, const nb::list& restored, const nb::list& columns,
              std::uint64_t first, std::uint64_t memory, std::vector<std::string> folders,
              unsigned threads)
      : watch_(nb::none()), form_(keys, columns) {
    for (const nb::handle form : restored) {
      restored_.push_back(form.is_none() ? nullptr : column_of(form));
    }
    const vortex::SortResources resources =
        resources_of(first, memory, std::move(folders), threads, watch_);
    watch_.run([&] { sorter_ = row_sorter_of(form_.length(), form_.numbered(), resources); });
  }

  void push(nb::handle keys, nb::handle columns) {
    const ArrowArray& key_array = array_in(keys);
    const ArrowArray& column_array = array_in(columns);
    watch_.run([&] {
      const auto count = static_cast<std::size_t>(key_array.length);
      for (std::size_t begin = 0; begin < count; begin += kRowsAtOnce) {
        const std::vector<std::size_t> lengths =
            form_.measure(key_array, column_array, begin, std::min(count - begin, kRowsAtOnce));
        for (std::size_t done = 0; done < lengths.size();) {
          const std::size_t some =
              form_.write(key_array, column_array, begin + done, std::span(lengths).subspan(done),
                          pushed_, rows_, borders_);
          sorter_->push(rows_, borders_);
          done += some;
          pushed_ += some;
        }
      }
    });
  }

  void sort() {
    watch_.run([&] { sorter_->sort(); });
  }

  // The next rows, at most so many, in about so many bytes: how many there are, the columns that
  // keys restore, and the others.
  nb::tuple read(std::size_t most, std::size_t bytes) {
    std::size_t count = 0;
    watch_.run([&] {
      std::vector<Column*> restored;
      for (const auto& column : restored_) restored.push_back(column.get());
      for (std::size_t done = 0; count < most && done < bytes;) {
        std::vector<std::size_t> begins;
        const std::span<const std::byte> rows = sorter_->next(most - count, begins);
        if (begins.empty()) break;
        form_.read(rows.data(), begins, restored);
        count += begins.size();
        done += rows.size();
      }
    });
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    nb::list keys, columns;
    for (const auto& column : restored_) {
      if (column != nullptr) keys.append(column->finish());
    }
    for (const auto& column : form_.columns()) columns.append(column->finish());
    return nb::make_tuple(count, keys, columns);
  }

  // Runs and passes.
  nb::tuple counts() {
    vortex::RunCounts counts;
    watch_.run([&] { counts = sorter_->counts(); });
    return nb::make_tuple(counts.runs, counts.passes);
  }

 private:
  Watch watch_;
  RowForm form_;
  std::vector<std::unique_ptr<Column>> restored_;
  std::unique_ptr<RowSorter> sorter_;
  std::uint64_t pushed_ = 0;
  Rows rows_;
  std::vector<std::size_t> borders_;
};

// The keys of rows, one behind the other: where they begin, as numbers of 64 bits and one more,
// and their bytes.
nb::tuple table_keys(const nb::list& forms, nb::handle capsule) {
  const ArrowArray& array = array_in(capsule);
  const std::vector<KeyColumn> keys = key_columns_of(forms);
  const auto count = static_cast<std::size_t>(array.length);
  std::vector<std::size_t> begins(count + 1);
  Rows rows;
  {
    const nb::gil_scoped_release released;
    for (std::size_t c = 0; c < keys.size(); ++c)
      keys[c].measure({*array.children[c], 0, count}, {begins.data() + 1, 1});
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    rows.resize(begins.back());
    std::vector<std::byte*> cursors(count);
    for (std::size_t i = 0; i < count; ++i) cursors[i] = rows.data() + begins[i];
    for (std::size_t c = 0; c < keys.size(); ++c)
      keys[c].write({*array.children[c], 0, count}, {cursors.data(), 1});
  }
  return nb::make_tuple(nb::bytes(begins.data(), begins.size() * sizeof begins[0]),
                        nb::bytes(rows.data(), rows.size()));
}

}  // namespace

void bind_tables(nb::module_& module) {
  module.def("table_keys", &table_keys);
  nb::class_<TableSorter>(module, "TableSorter")
      .def(nb::init<const nb::list&, const nb::list&, const nb::list&, std::uint64_t, std::uint64_t,
                    std::vector<std::string>, unsigned>())
      .def("push", &TableSorter::push)
      .def("sort", &TableSorter::sort)
      .def("read", &TableSorter::read)
      .def("counts", &TableSorter::counts);
}

}  // namespace vortex_python
