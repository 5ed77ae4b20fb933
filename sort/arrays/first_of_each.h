// Of records in order, the first of each key, moved to the front by threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "sort/arrays/scratch.h"
#include "vortex/detail/array/compiled_calls.h"

namespace vortex { inline namespace v0 { namespace detail {

// In rounds of a block for each share: all copy what they keep of their blocks beside the array,
// and in the next round to its place, which only what has been read lies behind. So a round waits
// once for all, and each record is read once.
class FirstOfEach {
 public:
  // Takes so many bytes for the block of each, or two records. Throws std::bad_alloc.
  template <typename Shares>
  FirstOfEach(void* records, std::size_t bytes, const CopyFirstOfEach& copy, const Shares& shares,
              std::size_t block_bytes)
      : records_(static_cast<std::byte*>(records)),
        bytes_(bytes),
        count_(shares.count()),
        copy_(copy),
        block_(std::max(block_bytes / bytes, std::size_t{2}) - 1),
        blocks_(shares.shares()),
        beside_(blocks_.size() * (block_ + 1) * bytes) {}

  // Returns how many there are.
  template <typename Shares>
  std::size_t run(Shares& shares) {
    std::size_t kept = 0;
    for (std::size_t read = 0; read < count_ + block_ * blocks_.size();) {
      shares.run([&](std::size_t share, std::size_t, std::size_t) {
        put(share);
        take(share, std::min(read + share * block_, count_));
      });
      read += block_ * blocks_.size();
      for (Block& block : blocks_) {
        block.to = kept;
        kept += block.kept;
      }
    }
    return kept;
  }

 private:
  struct Block {
    std::size_t begin = 0, size = 0;  // of what was read
    std::size_t kept = 0;
    std::size_t to = 0;
  };

  std::byte* at(std::size_t place) const noexcept { return records_ + place * bytes_; }
  std::byte* beside(std::size_t share) const noexcept {
    return beside_.get() + share * (block_ + 1) * bytes_;
  }

  // With the record in front of the block, which tells whether its first one is another. No thread
  // writes there: nobody writes where a whole block stays.
  void take(std::size_t share, std::size_t begin) {
    Block& block = blocks_[share];
    const std::size_t end = std::min(begin + block_, count_), before = begin == 0 ? 0 : 1;
    block = {begin, end - begin};
    if (begin != end) block.kept = copy_(begin - before, end, beside(share)) - before;
  }
  void put(std::size_t share) const noexcept {
    const Block& block = blocks_[share];
    if (block.to == block.begin && block.kept == block.size) return;
    const std::size_t before = block.begin == 0 ? 0 : 1;
    std::memcpy(at(block.to), beside(share) + before * bytes_, block.kept * bytes_);
  }

  std::byte* const records_;
  const std::size_t bytes_, count_;
  const CopyFirstOfEach& copy_;
  const std::size_t block_;  // records
  std::vector<Block> blocks_;
  const Scratch<std::byte> beside_;
};

}}}  // namespace vortex::v0::detail
