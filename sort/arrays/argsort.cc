#include "vortex/argsort.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "sort/arrays/place_engine.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Where the places of an argsort go. 64 bits hold the words that are sorted, too.
template <typename Place>
class PlacesSink {
 public:
  PlacesSink(Place* places, Shares& shares) : places_(places), shares_(shares) {}

  void given() {
    fill([](std::size_t i) { return i; });
  }
  void reversed() {
    fill([last = shares_.count() - 1](std::size_t i) { return last - i; });
  }
  std::uint64_t* room() {
    if constexpr (sizeof(Place) == sizeof(std::uint64_t)) {
      return places_;
    } else {
      return scratch_.emplace(shares_.count()).get();
    }
  }
  void start_words(const KeyWords& form) { form_ = &form; }
  void words(std::size_t begin, std::size_t size, std::uint64_t* words) {
    for (std::size_t i = 0; i < size; ++i)
      places_[begin + i] = static_cast<Place>(form_->place(words[i]));
  }
  void start_pairs() {}
  void pairs(std::size_t begin, std::size_t size, const Pair64* pairs) {
    for (std::size_t i = 0; i < size; ++i) places_[begin + i] = static_cast<Place>(pairs[i].value);
  }

 private:
  template <typename PlaceAt>
  void fill(const PlaceAt& place_at) {
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) places_[i] = static_cast<Place>(place_at(i));
    });
  }

  Place* const places_;
  Shares& shares_;
  const KeyWords* form_ = nullptr;
  std::optional<Scratch<std::uint64_t>> scratch_;
};

template <typename Place>
void argsort(const KeySource& keys, std::size_t count, Place* places, unsigned threads) {
  if (count == 0) return;
  Shares shares(count, threads);
  PlacesSink<Place> sink(places, shares);
  PlaceEngine(keys, shares, threads, sink).run();
}

}  // namespace

void expect_places(std::size_t room, std::size_t count, std::uint64_t most) {
  if (room < count) throw std::invalid_argument("argsort_into() has less room than keys");
  if (count > 0 && count - 1 > most)
    throw std::invalid_argument("argsort_into() cannot tell so many places in this type");
}

void argsort_32(const KeySource& keys, std::size_t count, void* places, unsigned threads) {
  argsort(keys, count, static_cast<std::uint32_t*>(places), threads);
}
void argsort_64(const KeySource& keys, std::size_t count, void* places, unsigned threads) {
  argsort(keys, count, static_cast<std::uint64_t*>(places), threads);
}

}}}  // namespace vortex::v0::detail
