#include "row_sorters.h"

#include <vortex/line_sort.h>
#include <vortex/record_order.h>
#include <vortex/sorter.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "module.h"
#include "sort_calls.h"
#include "table_keys.h"

namespace vortex_python {

namespace {

// Of one length. A key of four or eight bytes is a number, which is faster.
class FixedRows final : public RowSorter {
 public:
  FixedRows(const vortex::SortResources& resources, RowLength length)
      : row_(length.row),
        number_bytes_(length.key == 4 || length.key == 8 ? length.key : 0),
        sorter_(resources,
                format_of(row_, {{0, length.key, number_bytes_ != 0 ? 1 : 0, false, false}})) {}

  void push(Rows& rows, std::span<const std::size_t> borders) override {
    const std::span<std::byte> some(rows.data() + borders.front(),
                                    borders.back() - borders.front());
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
    if (number_bytes_ == 4) turn<std::uint32_t>(rows);
    if (number_bytes_ == 8) turn<std::uint64_t>(rows);
  }
  template <typename Number>
  void turn(std::span<std::byte> rows) const noexcept {
    for (std::size_t at = 0; at < rows.size(); at += row_) {
      Number number;
      std::memcpy(&number, &rows[at], sizeof number);
      number = highest_first(number);
      std::memcpy(&rows[at], &number, sizeof number);
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

// Rows of a sorter that are looked at before they are taken.
class RowQueue {
 public:
  // Looks for more, where there are none; false: the sorter has no more.
  bool fill(RowSorter& sorter) {
    if (at_ < begins_.size()) return true;
    begins_.clear();
    at_ = 0;
    rows_ = sorter.next(std::numeric_limits<std::size_t>::max(), begins_);
    return !begins_.empty();
  }
  std::size_t size() const noexcept { return begins_.size() - at_; }
  std::span<const std::byte> row(std::size_t i) const noexcept {
    return rows_.subspan(begins_[at_ + i], end(i) - begins_[at_ + i]);
  }
  // How many of the first `most` stand before a row: few of them are compared.
  std::size_t before(std::span<const std::byte> row, std::size_t most) const noexcept {
    std::size_t low = 0, high = 1;
    for (; high < most && is_before(this->row(high - 1), row); high *= 2) low = high;
    for (high = std::min(high, most); low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (is_before(this->row(middle), row)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  std::span<const std::byte> take(std::size_t count, std::vector<std::size_t>& begins) {
    if (count == 0) return {};
    const std::size_t begin = begins_[at_];
    const std::span<const std::byte> taken = rows_.subspan(begin, end(count - 1) - begin);
    for (std::size_t i = 0; i < count; ++i) begins.push_back(begins_[at_ + i] - begin);
    at_ += count;
    return taken;
  }

  // Of rows that differ where the shorter has bytes, as those with numbers do.
  static bool is_before(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
    return std::memcmp(a.data(), b.data(), std::min(a.size(), b.size())) < 0;
  }

 private:
  std::size_t end(std::size_t i) const noexcept {
    return at_ + i + 1 < begins_.size() ? begins_[at_ + i + 1] : rows_.size();
  }

  std::span<const std::byte> rows_;
  std::vector<std::size_t> begins_;
  std::size_t at_ = 0;
};

// Mostly of one length, and numbered.
class MostlyFixedRows final : public RowSorter {
 public:
  MostlyFixedRows(const vortex::SortResources& resources, RowLength length)
      : others_resources_(with_third(resources, 1)),
        row_(length.row),
        left_(resources.first_records > 0 ? resources.first_records
                                          : std::numeric_limits<std::uint64_t>::max()),
        usual_(with_third(resources, 2), length) {}

  void push(Rows& rows, std::span<const std::size_t> borders) override {
    const auto is_long = [&](std::size_t i) { return borders[i + 1] - borders[i] > row_; };
    const std::size_t count = borders.size() - 1;
    for (std::size_t begin = 0; begin < count;) {
      const bool long_ones = is_long(begin);
      std::size_t end = begin + 1;
      while (end < count && is_long(end) == long_ones) ++end;
      if (long_ones && !others_) others_ = std::make_unique<FramedRows>(others_resources_);
      RowSorter& sorter = long_ones ? *others_ : static_cast<RowSorter&>(usual_);
      sorter.push(rows, borders.subspan(begin, end - begin + 1));
      begin = end;
    }
  }
  void sort() override {
    usual_.sort();
    if (others_) others_->sort();
  }
  std::span<const std::byte> next(std::size_t most, std::vector<std::size_t>& begins) override {
    if (!others_) return usual_.next(most, begins);
    most = static_cast<std::size_t>(std::min<std::uint64_t>(most, left_));
    const bool some_usual = usual_queue_.fill(usual_);
    const bool some_others = other_queue_.fill(*others_);
    const bool usual_first =
        some_usual &&
        (!some_others || RowQueue::is_before(usual_queue_.row(0), other_queue_.row(0)));
    RowQueue& from = usual_first ? usual_queue_ : other_queue_;
    const RowQueue& with = usual_first ? other_queue_ : usual_queue_;
    std::size_t count = std::min(most, from.size());
    if (some_usual && some_others) count = from.before(with.row(0), count);
    left_ -= count;
    return from.take(count, begins);
  }
  vortex::RunCounts counts() const override {
    vortex::RunCounts counts = usual_.counts();
    if (others_) {
      const vortex::RunCounts more = others_->counts();
      counts.runs += more.runs;
      counts.merges += more.merges;
      counts.passes = std::max(counts.passes, more.passes);
      counts.bytes += more.bytes;
    }
    return counts;
  }

 private:
  static vortex::SortResources with_third(vortex::SortResources resources, unsigned times) {
    resources.memory_bytes = resources.memory_bytes / 3 * times;
    return resources;
  }

  const vortex::SortResources others_resources_;
  const std::size_t row_;
  std::uint64_t left_;
  FixedRows usual_;
  std::unique_ptr<FramedRows> others_;
  RowQueue usual_queue_, other_queue_;
};

}  // namespace

std::unique_ptr<RowSorter> row_sorter_of(const std::optional<RowLength>& length, bool numbered,
                                         const vortex::SortResources& resources) {
  if (!length) return std::make_unique<FramedRows>(resources);
  if (numbered) return std::make_unique<MostlyFixedRows>(resources, *length);
  return std::make_unique<FixedRows>(resources, *length);
}

}  // namespace vortex_python
