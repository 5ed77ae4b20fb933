// Algorithm 9 of the Vortex paper: sorts 64-bit keys by plain stores and loads, in the memory of
// the keys and one block for each bucket.
//
// Every bucket is as long as all levels of the recursion may make it. A store to its end takes a
// block from the pool, a load that reaches the next block gives the one before back, and what one
// bucket gives back another takes.
//
//   g++ -std=c++20 -O2 bucket_sort.cc $(pkg-config --cflags --libs vortex) -o bucket_sort
//   ./bucket_sort NUMBERS SORTED
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/vanishing_array.h"

namespace {

using Key = std::uint64_t;
constexpr int kBits = 7;
constexpr std::size_t kBuckets = std::size_t{1} << kBits;  // K in the paper
constexpr int kLevels = 64 / kBits + 1;                    // D
constexpr std::size_t kBlock = std::size_t{1} << 20;

class BucketSort {
 public:
  BucketSort(vortex::StreamPool& pool, Key* output, std::size_t count) : output_(output) {
    for (std::size_t j = 0; j < kBuckets; ++j) {
      // One that comes back a block: the sort of 32 keys at a block's border does.
      streams_[j] = std::make_unique<vortex::BucketStream>(
          pool, vortex::BucketStreamOptions{.reserve_bytes = count * sizeof(Key) * kLevels + kBlock,
                                            .comeback_blocks = 1});
      bucket_[0][j] = reinterpret_cast<Key*>(streams_[j]->bytes());
    }
  }

  void sort(const Key* buf, std::size_t size, int shift, int level) {
    Key** const p = bucket_[level];         // where the buckets of this level begin
    Key** const next = bucket_[level + 1];  // and end
    std::copy_n(p, kBuckets, next);
    for (std::size_t i = 0; i < size; ++i) {
      *next[buf[i] >> shift & (kBuckets - 1)]++ = buf[i];
    }
    for (std::size_t j = 0; j < kBuckets; ++j) {
      const auto size_next = static_cast<std::size_t>(next[j] - p[j]);
      if (size_next > 32 && shift > 0) {
        sort(p[j], size_next, std::max(shift - kBits, 0), level + 1);
      } else {
        if (shift > 0) std::sort(p[j], next[j]);
        // Volatile, since memcpy() might touch the end of a large bucket first.
        for (const volatile Key* key = p[j]; key != next[j]; ++key) *output_++ = *key;
      }
      // The paper lets the bucket grow on. Here what comes next begins where it began, and the
      // stream is told, since no load tells that it was the last.
      next[j] = p[j];
      const auto* const end = reinterpret_cast<const std::byte*>(p[j]);
      if (streams_[j]->truncate(static_cast<std::uint64_t>(end - streams_[j]->bytes())) != 0) {
        std::abort();
      }
    }
  }

 private:
  Key* bucket_[kLevels + 1][kBuckets];
  std::unique_ptr<vortex::BucketStream> streams_[kBuckets];
  Key* output_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s NUMBERS SORTED\n", argv[0]);
    return 2;
  }
  const vortex::FileReader<Key> numbers(argv[1]);
  const std::size_t count = numbers.size();
  const std::size_t own = count * sizeof(Key) / kBlock + 1;
  const std::size_t blocks = own + kBuckets + 4 * kLevels;
  vortex::BlockPool pool({.pool_bytes = blocks * kBlock, .block_bytes = kBlock});
  vortex::StreamPool streams(pool, blocks);
  vortex::VanishingArray<Key> array(streams, count);
  for (std::size_t i = 0; i < count; ++i) array.data()[i] = numbers.data()[i];

  array.seal();  // from here on reading gives blocks back
  BucketSort(streams, array.data(), count).sort(array.data(), count, 64 - kBits, 0);

  vortex::FileWriter<Key> sorted(argv[2]);
  array.seal();
  for (std::size_t i = 0; i < count; ++i) sorted.data()[i] = array.data()[i];
  sorted.finish(count);
  std::printf("%zu blocks of keys, at most %zu in use\n", own,
              pool.statistics().peak_blocks_in_use);
  return 0;
}
