// Going once through an array whose end may show only when it is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace vortex::inline v0::detail {

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
    ++at_;
    return *this;
  }
  void operator++(int) noexcept { ++at_; }
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

}  // namespace vortex::inline v0::detail
