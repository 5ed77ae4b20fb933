// Going once through an array whose end may show only when it is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace vortex { inline namespace v0 { namespace detail {

// Hides from the compiler where a pointer comes from. A loop that copies what it points to would
// else become a call of memcpy(), which reads the end of a long array first.
template <typename T>
const T* in_its_turn(const T* at) noexcept {
  asm("" : "+r"(at));
  return at;
}

// An input iterator over the whole elements of a stream; the end is std::default_sentinel. Where
// the length is not known, it asks the stream once a block how far the data go.
template <typename T, typename Stream>
class OnePassIterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  OnePassIterator(const Stream& stream, const T* begin) noexcept
      : stream_(&stream), begin_(begin), at_(begin), readable_end_(begin) {}

  const T& operator*() const noexcept { return *at_; }
  const T* operator->() const noexcept { return at_; }
  OnePassIterator& operator++() noexcept {
    at_ = in_its_turn(at_ + 1);
    return *this;
  }
  void operator++(int) noexcept { ++*this; }
  bool operator==(std::default_sentinel_t) const { return at_ == readable_end_ && !look_ahead(); }

 private:
  // Whether there is an element at at_. The end of one may lie blocks behind its beginning.
  bool look_ahead() const {
    const auto begin = static_cast<std::uint64_t>(at_ - begin_) * sizeof(T);
    std::uint64_t end = stream_->readable_bytes(begin);
    while (end > begin && end - begin < sizeof(T) && !stream_->length_bytes()) {
      end = stream_->readable_bytes(end);
    }
    readable_end_ = begin_ + end / sizeof(T);
    return readable_end_ > at_;
  }

  const Stream* stream_;
  const T* begin_;
  const T* at_;
  mutable const T* readable_end_;
};

// An input iterator over an array that can be gone through once, whose length is known: a plain
// pointer would tell algorithms that they may copy with memcpy(), or look at the end first. Begin
// and end have one type, as constructors of containers want it.
template <typename T>
class ArrayOnceIterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = const T*;
  using reference = const T&;
  using iterator_category = std::input_iterator_tag;
  using iterator_concept = std::input_iterator_tag;

  ArrayOnceIterator() noexcept = default;
  explicit ArrayOnceIterator(const T* at) noexcept : at_(at) {}

  const T& operator*() const noexcept { return *at_; }
  const T* operator->() const noexcept { return at_; }
  ArrayOnceIterator& operator++() noexcept {
    at_ = in_its_turn(at_ + 1);
    return *this;
  }
  ArrayOnceIterator operator++(int) noexcept {
    const ArrayOnceIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(ArrayOnceIterator, ArrayOnceIterator) = default;
  // How many elements there are from one to the other.
  friend std::ptrdiff_t operator-(ArrayOnceIterator a, ArrayOnceIterator b) noexcept {
    return a.at_ - b.at_;
  }

 private:
  const T* at_ = nullptr;
};

}}}  // namespace vortex::v0::detail
