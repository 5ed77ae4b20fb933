#include "table_keys.h"

#include <vortex/error.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vortex_python {

namespace nb = nanobind;

namespace {

template <typename Word>
constexpr Word kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));

// Of floats of 16, 32 and 64 bits.
template <typename Word>
Word ordered_float(Word bits) noexcept {
  constexpr int kFraction = sizeof(Word) == 2 ? 10 : sizeof(Word) == 4 ? 23 : 52;
  constexpr Word kInfinity = static_cast<Word>((kSign<Word> - 1) >> kFraction << kFraction);
  const auto magnitude = static_cast<Word>(bits & ~kSign<Word>);
  if (magnitude == 0) bits = 0;
  if (magnitude > kInfinity) bits = kInfinity | static_cast<Word>(Word{1} << (kFraction - 1));
  return (bits & kSign<Word>) != 0 ? static_cast<Word>(~bits)
                                   : static_cast<Word>(bits | kSign<Word>);
}

template <typename Word>
Word ordered(KeyForm form, Word bits) noexcept {
  if (form == KeyForm::kSigned) return static_cast<Word>(bits ^ kSign<Word>);
  if constexpr (sizeof(Word) > 1) {
    if (form == KeyForm::kFloat) return ordered_float(bits);
  }
  return bits;
}

// Calls use(Word{}) for numbers of so many bytes; false: there are none.
template <typename Use>
bool with_word(std::size_t width, const Use& use) {
  switch (width) {
    case 1:
      use(std::uint8_t{});
      return true;
    case 2:
      use(std::uint16_t{});
      return true;
    case 4:
      use(std::uint32_t{});
      return true;
    case 8:
      use(std::uint64_t{});
      return true;
    default:
      return false;
  }
}

bool is_number(KeyForm form) noexcept { return form <= KeyForm::kFloat; }

}  // namespace

KeyColumn::KeyColumn(nb::handle form)
    : form_(static_cast<KeyForm>(nb::cast<int>(form[0]))),
      width_(nb::cast<std::size_t>(form[1])),
      nullable_(nb::cast<bool>(form[2])),
      descending_(nb::cast<bool>(form[3])),
      nulls_last_(nb::cast<bool>(form[4])) {
  if (is_number(form_) && !with_word(width_, [](auto) {})) {
    vortex::throw_error(EINVAL, "there are no numbers of so many bytes");
  }
}

std::vector<KeyColumn> key_columns_of(const nb::list& forms) {
  std::vector<KeyColumn> keys;
  for (const nb::handle form : forms) keys.emplace_back(form);
  return keys;
}

std::optional<std::size_t> KeyColumn::fixed_bytes() const noexcept {
  return is_string() ? std::nullopt : usual_bytes();
}

std::optional<std::size_t> KeyColumn::usual_bytes() const noexcept {
  if (is_string() && width_ == 0) return std::nullopt;
  return width_ + (nullable_ ? 1 : 0);
}

void KeyColumn::measure(const ArrowValues& values, Each<std::size_t> lengths) const {
  for (std::size_t i = 0; i < values.count; ++i) lengths[i] += nullable_ ? 1 : 0;
  if (form_ == KeyForm::kString32) return measure_strings<std::int32_t>(values, lengths);
  if (form_ == KeyForm::kString64) return measure_strings<std::int64_t>(values, lengths);
  for (std::size_t i = 0; i < values.count; ++i) lengths[i] += width_;
}

template <typename Offset>
void KeyColumn::measure_strings(const ArrowValues& values, Each<std::size_t> lengths) const {
  const ArrowValidity there(values);
  const auto* const offsets = values.buffer<Offset>(1) + values.place();
  const auto* const bytes = values.buffer<char>(2);
  for (std::size_t i = 0; i < values.count; ++i) {
    std::size_t key = 2;
    const Offset length = there[i] ? offsets[i + 1] - offsets[i] : 0;
    if (length > 0) {
      const char* const begin = bytes + offsets[i];
      key += static_cast<std::size_t>(length + std::count(begin, begin + length, '\0'));
    }
    lengths[i] += std::max(key, width_);
  }
}

void KeyColumn::write_flag(std::byte*& at, bool there) const noexcept {
  if (nullable_) *at++ = std::byte{there != nulls_last_};
}

void KeyColumn::write(const ArrowValues& values, WriteAt at) const {
  const ArrowValidity there(values);
  for (std::size_t i = 0; i < values.count; ++i) {
    if (!nullable_ && !there[i]) {
      vortex::throw_error(EINVAL, "a column of which no value is missing lacks one");
    }
    write_flag(at[i], there[i]);
  }
  if (form_ == KeyForm::kString32) return write_strings<std::int32_t>(values, at);
  if (form_ == KeyForm::kString64) return write_strings<std::int64_t>(values, at);
  write_fixed(values, at);
}

void KeyColumn::write_fixed(const ArrowValues& values, WriteAt at) const {
  if (width_ == 0) return;
  const ArrowValidity there(values);
  const std::byte inversion = this->inversion();
  // What lies under a missing value does not count.
  const auto finish = [&](std::size_t i) {
    if (!there[i]) std::memset(at[i], static_cast<int>(inversion), width_);
    at[i] += width_;
  };
  if (is_number(form_)) {
    with_word(width_, [&]<typename Word>(Word) {
      const auto* const from = values.buffer<Word>(1) + values.place();
      const auto flip = static_cast<Word>(descending_ ? ~Word{0} : Word{0});
      for (std::size_t i = 0; i < values.count; ++i) {
        const auto bits = highest_first(static_cast<Word>(ordered(form_, from[i]) ^ flip));
        std::memcpy(at[i], &bits, sizeof bits);
        finish(i);
      }
    });
    return;
  }
  const auto* const from = values.buffer<std::byte>(1);
  for (std::size_t i = 0; i < values.count; ++i) {
    const std::size_t place = values.place() + i;
    std::byte* const to = at[i];
    if (form_ == KeyForm::kBits) {
      *to = std::byte{bit_at(values.buffer<std::uint8_t>(1), place)};
    } else if (form_ == KeyForm::kDecimal) {
      std::reverse_copy(from + place * width_, from + (place + 1) * width_, to);
      *to ^= std::byte{0x80};
    } else {
      std::memcpy(to, from + place * width_, width_);
    }
    for (std::size_t b = 0; descending_ && b < width_; ++b) to[b] ^= inversion;
    finish(i);
  }
}

template <typename Offset>
void KeyColumn::write_strings(const ArrowValues& values, WriteAt at) const {
  const ArrowValidity there(values);
  const auto* const offsets = values.buffer<Offset>(1) + values.place();
  const auto* const bytes = values.buffer<std::byte>(2);
  for (std::size_t i = 0; i < values.count; ++i) {
    std::byte* const begin = at[i];
    std::byte* to = begin;
    const Offset length = there[i] ? offsets[i + 1] - offsets[i] : 0;
    const std::byte* from = length == 0 ? nullptr : bytes + offsets[i];
    for (const std::byte* const end = from + length; from != end;) {
      const void* const zero = std::memchr(from, 0, static_cast<std::size_t>(end - from));
      const auto* const stop = zero == nullptr ? end : static_cast<const std::byte*>(zero) + 1;
      to = std::copy(from, stop, to);
      if (zero != nullptr) *to++ = std::byte{1};
      from = stop;
    }
    *to++ = std::byte{0};
    *to++ = std::byte{0};
    for (std::byte* const least = begin + width_; to < least; ++to) *to = std::byte{0};
    if (descending_) {
      for (std::byte* b = begin; b != to; ++b) *b = ~*b;
    }
    at[i] = to;
  }
}

void KeyColumn::read_string(const std::byte*& at, std::vector<std::byte>& to) const {
  const std::byte inversion = this->inversion();
  const std::byte* const least = at + width_;
  const std::size_t head = to.size();
  const std::size_t offset_bytes = form_ == KeyForm::kString32 ? 4 : 8;
  to.resize(head + offset_bytes);
  for (;;) {
    const std::byte byte = *at++ ^ inversion;
    if (byte == std::byte{0} && (*at++ ^ inversion) == std::byte{0}) break;
    to.push_back(byte);
  }
  at = std::max(at, least);
  const std::uint64_t length = to.size() - head - offset_bytes;
  if (offset_bytes == 4) {
    const auto short_length = static_cast<std::uint32_t>(length);
    std::memcpy(&to[head], &short_length, sizeof short_length);
  } else {
    std::memcpy(&to[head], &length, sizeof length);
  }
}

std::byte KeyColumn::read_flag(std::byte flag) const noexcept {
  return std::byte{(flag != std::byte{0}) != nulls_last_};
}

void KeyColumn::read_fixed(std::size_t count, ReadAt at, std::vector<std::byte>& to) const {
  const std::size_t flag = nullable_ ? 1 : 0;
  to.resize(count * (flag + width_));
  std::byte* next = to.data();
  for (std::size_t i = 0; i < count; ++i) {
    if (nullable_) *next++ = read_flag(*at[i]++);
    if (width_ > 0) std::memcpy(next, at[i], width_);
    at[i] += width_;
    next += width_;
  }
  if (form_ == KeyForm::kBytes && !descending_) return;
  for (std::byte* value = to.data() + flag; value < next; value += width_ + flag) {
    for (std::size_t b = 0; descending_ && b < width_; ++b) value[b] ^= inversion();
    if (form_ == KeyForm::kDecimal) {
      *value ^= std::byte{0x80};
      std::reverse(value, value + width_);
    }
  }
  if (!is_number(form_)) return;
  with_word(width_, [&]<typename Word>(Word bits) {
    for (std::byte* value = to.data() + flag; value < next; value += sizeof bits + flag) {
      std::memcpy(&bits, value, sizeof bits);
      bits = ordered(form_, highest_first(bits));
      std::memcpy(value, &bits, sizeof bits);
    }
  });
}

void KeyColumn::read(std::size_t count, ReadAt at, Column* column) const {
  std::vector<std::byte> values;
  if (!is_string()) {
    read_fixed(count, at, values);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      if (nullable_) values.push_back(read_flag(*at[i]++));
      read_string(at[i], values);
    }
  }
  const std::byte* from = values.data();
  if (column != nullptr) column->read(count, {&from, 0});
}

}  // namespace vortex_python
