// Rows of tables through the external sorts: as records of one length where all have as many bytes,
// otherwise as records behind their length.
#include <vortex/error.h>
#include <vortex/line_sort.h>
#include <vortex/record_order.h>
#include <vortex/sorter.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "module.h"
#include "sort_calls.h"
#include "table_columns.h"
#include "table_keys.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

namespace {

// Rows that are turned into bytes, or back, at a time, and about how many bytes they may have.
constexpr std::size_t kRowsAtOnce = 4096;
constexpr std::size_t kBytesAtOnce = std::size_t{256} << 10;

using Rows = std::vector<std::byte>;

// A sort of rows, each a string of bytes that begins with its key.
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

// Of one length. A key of four or eight bytes is a number, which is faster.
class FixedRows final : public RowSorter {
 public:
  FixedRows(const vortex::SortResources& resources, std::size_t key, std::size_t row)
      : row_(row),
        number_bytes_(key == 4 || key == 8 ? key : 0),
        sorter_(resources, format_of(row, {{0, key, number_bytes_ != 0 ? 1 : 0, false, false}})) {}

  void push(Rows& rows, std::span<const std::size_t> borders) override {
    const std::span<std::byte> some(rows.data(), borders.back());
    turn_keys(some);
    sorter_.push(std::span<const std::byte>(some));
  }
  void sort() override { sorter_.sort(); }
  std::span<const std::byte> next(std::size_t most, std::vector<std::size_t>& begins) override {
    const std::size_t left = sorter_.size() - done_;
    const std::size_t count = std::min({left, most, std::max(kBytesAtOnce / row_, std::size_t{1})});
    some_.resize(count * row_);
    copy_sorted(sorter_.data(), done_ * row_, count * row_, some_.data());
    turn_keys(some_);
    for (std::size_t i = 0; i < count; ++i) begins.push_back(i * row_);
    done_ += count;
    return some_;
  }
  vortex::RunCounts counts() const override { return sorter_.counts(); }

 private:
  // Between bytes of which the first counts most and numbers of this machine.
  void turn_keys(std::span<std::byte> rows) const noexcept {
    if (std::endian::native == std::endian::big || number_bytes_ == 0) return;
    for (auto at = rows.begin(); at != rows.end(); at += static_cast<std::ptrdiff_t>(row_)) {
      std::reverse(at, at + static_cast<std::ptrdiff_t>(number_bytes_));
    }
  }

  const std::size_t row_;
  const std::size_t number_bytes_;
  vortex::RecordSorter sorter_;
  Rows some_;
  std::uint64_t done_ = 0;
};

// Of any length: whole rows are compared, and behind their keys stand their numbers, which decide
// between equal ones.
class FramedRows final : public RowSorter {
 public:
  explicit FramedRows(const vortex::SortResources& resources) : sorter_({}, resources) {}

  void push(Rows& rows, std::span<const std::size_t> borders) override {
    const auto* const bytes = reinterpret_cast<const char*>(rows.data());
    views_.clear();
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      views_.emplace_back(bytes + borders[i], borders[i + 1] - borders[i]);
    }
    sorter_.push(views_);
  }
  // None has room in nothing, but all are sorted.
  void sort() override { sorter_.next({}, {}); }
  std::span<const std::byte> next(std::size_t most, std::vector<std::size_t>& begins) override {
    some_.resize(kBytesAtOnce);
    lengths_.resize(std::min(most, kRowsAtOnce));
    const std::size_t count =
        sorter_.next({reinterpret_cast<char*>(some_.data()), some_.size()}, lengths_);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; bytes += lengths_[i++]) begins.push_back(bytes);
    std::string_view row;
    if (count > 0 || !sorter_.next(row)) return std::span(some_).first(bytes);
    // A long one.
    begins.push_back(0);
    return std::as_bytes(std::span(row));
  }
  vortex::RunCounts counts() const override { return sorter_.counts(); }

 private:
  vortex::LineSorter sorter_;
  std::vector<std::string_view> views_;
  Rows some_;
  std::vector<std::size_t> lengths_;
};

// What rows are made of: the columns of their keys, a number where they have several lengths, and
// other columns.
class RowForm {
 public:
  RowForm(const nb::list& keys, const nb::list& columns)
      : keys_(key_columns_of(keys)), columns_(columns_of(columns)) {
    std::size_t key = 0, row = 0;
    bool fixed = true;
    const auto add = [&](std::optional<std::size_t> bytes, std::size_t& to) {
      fixed = fixed && bytes.has_value();
      to += bytes.value_or(0);
    };
    for (const KeyColumn& one : keys_) add(one.fixed_bytes(), key);
    for (const auto& one : columns_) add(one->fixed_bytes(), row);
    if (fixed && key > 0 && key + row <= kMostFixed) fixed_.emplace(key, key + row);
  }

  // Bytes of a key, and of a row, where all have as many, and not many.
  const std::optional<std::pair<std::size_t, std::size_t>>& fixed() const noexcept {
    return fixed_;
  }
  std::vector<std::unique_ptr<Column>>& columns() noexcept { return columns_; }

  // The lengths of `count` rows from `begin` on.
  std::vector<std::size_t> measure(const ArrowArray& keys, const ArrowArray& columns,
                                   std::size_t begin, std::size_t count) const {
    std::vector<std::size_t> lengths(count, fixed_ ? fixed_->second : kNumber);
    if (fixed_) return lengths;
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
    if (!fixed_) write_numbers(number, some, at);
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
    if (!fixed_) {
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
  std::optional<std::pair<std::size_t, std::size_t>> fixed_;
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
    watch_.run([&] {
      if (const auto& fixed = form_.fixed()) {
        sorter_ = std::make_unique<FixedRows>(resources, fixed->first, fixed->second);
      } else {
        sorter_ = std::make_unique<FramedRows>(resources);
      }
    });
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
