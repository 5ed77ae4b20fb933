#include "table_columns.h"

#include <vortex/error.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace vortex_python {

namespace nb = nanobind;

namespace {

using Bytes = std::vector<std::byte>;

void append_bit(std::vector<std::uint8_t>& bits, std::size_t place, bool value) {
  if (place % 8 == 0) bits.push_back(0);
  bits[place / 8] |= static_cast<std::uint8_t>(std::uint8_t{value} << place % 8);
}

template <std::size_t width>
struct Width {
  static constexpr std::size_t bytes() noexcept { return width; }
};
struct AnyWidth {
  std::size_t bytes() const noexcept { return width; }
  std::size_t width;
};

// Calls use() with a width that the compiler knows, where it does.
template <typename Use>
void with_width(std::size_t width, const Use& use) {
  switch (width) {
    case 1:
      return use(Width<1>());
    case 4:
      return use(Width<4>());
    case 8:
      return use(Width<8>());
    default:
      return use(AnyWidth{width});
  }
}

class FixedColumn final : public Column {
 public:
  FixedColumn(bool nullable, std::size_t width) : Column(nullable), width_(width) {}

 protected:
  std::optional<std::size_t> fixed_value_bytes() const override { return width_; }
  void write_values(const ArrowValues& values, WriteAt at) const override {
    if (width_ == 0) return;
    with_width(width_, [&](auto width) {
      const auto* from = values.buffer<std::byte>(1) + values.place() * width.bytes();
      for (std::size_t i = 0; i < values.count; ++i, from += width.bytes()) {
        std::memcpy(at[i], from, width.bytes());
        at[i] += width.bytes();
      }
    });
  }
  void read_values(std::size_t count, ReadAt at) override {
    if (width_ == 0) return;
    const std::size_t begin = data_.size();
    data_.resize(begin + count * width_);
    with_width(width_, [&](auto width) {
      auto* to = data_.data() + begin;
      for (std::size_t i = 0; i < count; ++i, to += width.bytes()) {
        std::memcpy(to, at[i], width.bytes());
        at[i] += width.bytes();
      }
    });
  }
  nb::list finish_buffers() override {
    nb::list buffers;
    buffers.append(taken(data_));
    return buffers;
  }

 private:
  const std::size_t width_;
  Bytes data_;
};

class BitColumn final : public Column {
 public:
  explicit BitColumn(bool nullable) : Column(nullable) {}

 protected:
  std::optional<std::size_t> fixed_value_bytes() const override { return 1; }
  void write_values(const ArrowValues& values, WriteAt at) const override {
    const auto* const bits = values.buffer<std::uint8_t>(1);
    for (std::size_t i = 0; i < values.count; ++i) {
      *at[i]++ = std::byte{bit_at(bits, values.place() + i)};
    }
  }
  void read_values(std::size_t count, ReadAt at) override {
    for (std::size_t i = 0; i < count; ++i) {
      append_bit(bits_, count_++, *at[i]++ != std::byte{0});
    }
  }
  nb::list finish_buffers() override {
    count_ = 0;
    nb::list buffers;
    buffers.append(taken(bits_));
    return buffers;
  }

 private:
  std::vector<std::uint8_t> bits_;
  std::size_t count_ = 0;
};

// Lengths in rows, of as many bytes as Arrow's offsets, and the offsets made from them.
template <typename Offset>
class Lengths {
 public:
  static void write(std::byte*& at, Offset length) noexcept {
    std::memcpy(at, &length, sizeof length);
    at += sizeof length;
  }
  // Returns the length of the next value.
  std::size_t read(const std::byte*& at) {
    Offset length;
    std::memcpy(&length, at, sizeof length);
    at += sizeof length;
    if (length > std::numeric_limits<Offset>::max() - offsets_.back()) {
      vortex::throw_error(EOVERFLOW, "a column has more bytes than an array of its type holds");
    }
    offsets_.push_back(offsets_.back() + length);
    return static_cast<std::size_t>(length);
  }
  nb::tuple finish() {
    const nb::tuple buffer = taken(offsets_);
    offsets_.push_back(0);
    return buffer;
  }

 private:
  std::vector<Offset> offsets_ = {0};
};

// A value takes `least` bytes behind its length, or more where it is longer.
template <typename Offset>
class BytesColumn final : public Column {
 public:
  BytesColumn(bool nullable, std::size_t least) : Column(nullable), least_(least) {}

 protected:
  std::optional<std::size_t> usual_value_bytes() const override {
    return least_ > 0 ? std::optional(sizeof(Offset) + least_) : std::nullopt;
  }
  void measure_values(const ArrowValues& values, Each<std::size_t> lengths) const override {
    const auto* const offsets = values.buffer<Offset>(1) + values.place();
    for (std::size_t i = 0; i < values.count; ++i) {
      const auto length = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
      lengths[i] += sizeof(Offset) + std::max(least_, length);
    }
  }
  void write_values(const ArrowValues& values, WriteAt at) const override {
    const auto* const offsets = values.buffer<Offset>(1) + values.place();
    const auto* const bytes = values.buffer<std::byte>(2);
    for (std::size_t i = 0; i < values.count; ++i) {
      const Offset length = offsets[i + 1] - offsets[i];
      Lengths<Offset>::write(at[i], length);
      const auto some = static_cast<std::size_t>(length);
      if (some > 0) std::memcpy(at[i], bytes + offsets[i], some);
      if (some < least_) std::memset(at[i] + some, 0, least_ - some);
      at[i] += std::max(least_, some);
    }
  }
  void read_values(std::size_t count, ReadAt at) override {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t length = lengths_.read(at[i]);
      data_.insert(data_.end(), at[i], at[i] + length);
      at[i] += std::max(least_, length);
    }
  }
  nb::list finish_buffers() override {
    nb::list buffers;
    buffers.append(lengths_.finish());
    buffers.append(taken(data_));
    return buffers;
  }

 private:
  const std::size_t least_;
  Lengths<Offset> lengths_;
  Bytes data_;
};

template <typename Offset>
class ListColumn final : public Column {
 public:
  ListColumn(bool nullable, std::unique_ptr<Column> inside)
      : Column(nullable), inside_(std::move(inside)) {}

 protected:
  void measure_values(const ArrowValues& values, Each<std::size_t> lengths) const override {
    for (std::size_t i = 0; i < values.count; ++i) {
      lengths[i] += sizeof(Offset);
      inside_->measure(inner(values, i), lengths.one(i));
    }
  }
  void write_values(const ArrowValues& values, WriteAt at) const override {
    for (std::size_t i = 0; i < values.count; ++i) {
      const ArrowValues some = inner(values, i);
      Lengths<Offset>::write(at[i], static_cast<Offset>(some.count));
      inside_->write(some, at.one(i));
    }
  }
  void read_values(std::size_t count, ReadAt at) override {
    for (std::size_t i = 0; i < count; ++i) inside_->read(lengths_.read(at[i]), at.one(i));
  }
  nb::list finish_buffers() override {
    nb::list buffers;
    buffers.append(lengths_.finish());
    return buffers;
  }
  nb::list finish_children() override {
    nb::list children;
    children.append(inside_->finish());
    return children;
  }

 private:
  static ArrowValues inner(const ArrowValues& values, std::size_t i) noexcept {
    const auto* const offsets = values.buffer<Offset>(1) + values.place() + i;
    return {*values.array.children[0], static_cast<std::size_t>(offsets[0]),
            static_cast<std::size_t>(offsets[1] - offsets[0])};
  }

  const std::unique_ptr<Column> inside_;
  Lengths<Offset> lengths_;
};

// So many values each of one column, or a value each of several.
class GroupColumn final : public Column {
 public:
  GroupColumn(bool nullable, std::size_t times, std::vector<std::unique_ptr<Column>> inside)
      : Column(nullable), times_(times), inside_(std::move(inside)) {}

 protected:
  std::optional<std::size_t> fixed_value_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& column : inside_) {
      const std::optional<std::size_t> own = column->fixed_bytes();
      if (!own) return std::nullopt;
      bytes += *own * times_;
    }
    return bytes;
  }
  void measure_values(const ArrowValues& values, Each<std::size_t> lengths) const override {
    for_each(values, [&](const Column& column, const ArrowValues& inner, std::size_t i) {
      column.measure(inner, times_ == 1 ? lengths : lengths.one(i));
    });
  }
  void write_values(const ArrowValues& values, WriteAt at) const override {
    for_each(values, [&](const Column& column, const ArrowValues& inner, std::size_t i) {
      column.write(inner, times_ == 1 ? at : at.one(i));
    });
  }
  void read_values(std::size_t count, ReadAt at) override {
    for (const auto& column : inside_) {
      if (times_ == 1) {
        column->read(count, at);
      } else {
        for (std::size_t i = 0; i < count; ++i) column->read(times_, at.one(i));
      }
    }
  }
  nb::list finish_buffers() override { return {}; }
  nb::list finish_children() override {
    nb::list children;
    for (const auto& column : inside_) children.append(column->finish());
    return children;
  }

 private:
  // Calls use(column, values, i) with the values of each column inside: all where there is one for
  // each of ours, else those of our value i. Offsets of ours count for them, too.
  template <typename Use>
  void for_each(const ArrowValues& values, const Use& use) const {
    for (std::size_t c = 0; c < inside_.size(); ++c) {
      const ArrowArray& array = *values.array.children[c];
      if (times_ == 1) {
        use(*inside_[c], {array, values.place(), values.count}, 0);
        continue;
      }
      for (std::size_t i = 0; i < values.count; ++i) {
        use(*inside_[c], {array, (values.place() + i) * times_, times_}, i);
      }
    }
  }

  const std::size_t times_;
  const std::vector<std::unique_ptr<Column>> inside_;
};

}  // namespace

std::optional<std::size_t> Column::with_flag(std::optional<std::size_t> bytes) const {
  return bytes ? std::optional(*bytes + (nullable_ ? 1 : 0)) : std::nullopt;
}

void Column::measure(const ArrowValues& values, Each<std::size_t> lengths) const {
  const std::optional<std::size_t> fixed = fixed_value_bytes();
  const std::size_t known = fixed.value_or(0) + (nullable_ ? 1 : 0);
  for (std::size_t i = 0; i < values.count; ++i) lengths[i] += known;
  if (!fixed) measure_values(values, lengths);
}

// The byte of each value comes right in front of it, so where several use one place they are
// written one by one.
void Column::write(const ArrowValues& values, WriteAt at) const {
  const ArrowValidity there(values);
  if (!nullable_) {
    for (std::size_t i = 0; i < values.count; ++i) {
      if (!there[i]) {
        vortex::throw_error(EINVAL, "a column of which no value is missing lacks one");
      }
    }
    return write_values(values, at);
  }
  if (!at.is_one_thing()) {
    for (std::size_t i = 0; i < values.count; ++i) *at[i]++ = std::byte{there[i]};
    return write_values(values, at);
  }
  for (std::size_t i = 0; i < values.count; ++i) {
    *at[i]++ = std::byte{there[i]};
    write_values(values.some(i, 1), at);
  }
}

void Column::read(std::size_t count, ReadAt at) {
  const auto read_flag = [&](std::size_t i) {
    const bool is_there = *at[i]++ != std::byte{0};
    missing_ += is_there ? 0 : 1;
    append_bit(there_, count_++, is_there);
  };
  if (!nullable_) {
    count_ += count;
    return read_values(count, at);
  }
  if (!at.is_one_thing()) {
    for (std::size_t i = 0; i < count; ++i) read_flag(i);
    return read_values(count, at);
  }
  for (std::size_t i = 0; i < count; ++i) {
    read_flag(i);
    read_values(1, at);
  }
}

nb::tuple Column::finish() {
  const std::size_t count = std::exchange(count_, 0);
  const bool some_missing = std::exchange(missing_, 0) > 0;
  nb::object there = taken(there_);
  if (!some_missing) there = nb::none();
  return nb::make_tuple(count, there, finish_buffers(), finish_children());
}

std::vector<std::unique_ptr<Column>> columns_of(const nb::list& forms) {
  std::vector<std::unique_ptr<Column>> columns;
  for (const nb::handle form : forms) columns.push_back(column_of(form));
  return columns;
}

std::unique_ptr<Column> column_of(nb::handle form) {
  const auto layout = static_cast<Layout>(nb::cast<int>(form[0]));
  const auto width = nb::cast<std::size_t>(form[1]);
  const bool nullable = nb::cast<bool>(form[2]);
  std::vector<std::unique_ptr<Column>> inside = columns_of(nb::cast<nb::list>(form[3]));
  switch (layout) {
    case Layout::kFixed:
      return std::make_unique<FixedColumn>(nullable, width);
    case Layout::kBits:
      return std::make_unique<BitColumn>(nullable);
    case Layout::kBytes32:
      return std::make_unique<BytesColumn<std::int32_t>>(nullable, width);
    case Layout::kBytes64:
      return std::make_unique<BytesColumn<std::int64_t>>(nullable, width);
    case Layout::kList32:
      return std::make_unique<ListColumn<std::int32_t>>(nullable, std::move(inside.at(0)));
    case Layout::kList64:
      return std::make_unique<ListColumn<std::int64_t>>(nullable, std::move(inside.at(0)));
    case Layout::kTuple:
      return std::make_unique<GroupColumn>(nullable, width, std::move(inside));
    case Layout::kStruct:
      return std::make_unique<GroupColumn>(nullable, 1, std::move(inside));
  }
  vortex::throw_error(EINVAL, "a column has no layout that there is");
}

}  // namespace vortex_python
