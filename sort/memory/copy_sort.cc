// Sorts of records by way of a copy of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "vortex/detail/key.h"
#include "vortex/detail/presorted.h"
#include "vortex/detail/record_codec.h"
#include "vortex/detail/sort_key.h"
#include "vortex/detail/thread_team.h"
#include "vortex/sort.h"

namespace vortex::inline v0::detail {
namespace {

// The records of one batch of keys stay in the nearest cache while pairs are made of them.
constexpr std::size_t kBatch = 256;
// So many records ahead of the one that is copied, the memory is asked for the next.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kLineBytes = 64;

class CopySort {
 public:
  CopySort(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
           unsigned threads)
      : records_(static_cast<std::byte*>(records)),
        count_(count),
        bytes_(record_bytes),
        key_(key),
        places_(new Pair64[count]),
        copy_(new std::byte[count * record_bytes]),
        team_(threads) {}

  void sort() {
    in_parts([this](std::size_t begin, std::size_t end) { take_keys(begin, end); });
    if (presorted(places_.get(), count_, KeyOfPair{}) == Presorted::kAscending) return;
    sort_pairs_64(places_.get(), count_, {}, true, team_.threads());
    in_parts([this](std::size_t begin, std::size_t end) { gather(begin, end); });
    in_parts([this](std::size_t begin, std::size_t end) {
      std::memcpy(records_ + begin * bytes_, copy_.get() + begin * bytes_, (end - begin) * bytes_);
    });
  }

 private:
  void take_keys(std::size_t begin, std::size_t end) noexcept {
    std::uint64_t bits[kBatch];
    for (; begin < end; begin += kBatch) {
      const std::size_t few = std::min(kBatch, end - begin);
      key_.take_bits(key_.function, records_ + begin * bytes_, few, bits);
      for (std::size_t i = 0; i < few; ++i) places_[begin + i] = {bits[i], begin + i};
    }
  }

  void gather(std::size_t begin, std::size_t end) noexcept {
    std::byte* to = copy_.get() + begin * bytes_;
    for (std::size_t i = begin; i < end; ++i, to += bytes_) {
      const std::byte* const soon =
          records_ + places_[std::min(i + kAhead, count_ - 1)].value * bytes_;
      for (std::size_t at = 0; at < bytes_; at += kLineBytes) __builtin_prefetch(soon + at);
      __builtin_prefetch(soon + bytes_ - 1);
      std::memcpy(to, records_ + places_[i].value * bytes_, bytes_);
    }
  }

  // By all threads.
  template <typename Body>
  void in_parts(const Body& body) {
    const std::size_t parts = team_.threads();
    const auto part = [&](std::size_t i) { body(count_ * i / parts, count_ * (i + 1) / parts); };
    team_.run(parts, std::cref(part));
  }

  std::byte* const records_;
  const std::size_t count_;
  const std::size_t bytes_;
  const SortKey key_;
  const std::unique_ptr<Pair64[]> places_;
  const std::unique_ptr<std::byte[]> copy_;
  ThreadTeam team_;
};

}  // namespace

void sort_by_copy(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
                  unsigned threads) {
  constexpr std::size_t kMinShare = std::size_t{1} << 18;
  const std::size_t pay = std::max<std::size_t>(count / kMinShare, 1);
  CopySort(records, count, record_bytes, key,
           static_cast<unsigned>(std::min<std::size_t>(ThreadTeam::resolve(threads), pay)))
      .sort();
}

}  // namespace vortex::inline v0::detail
