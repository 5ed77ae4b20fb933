// A program of somebody who sorts records of their own: what the headers of the library put into it
// must run clean under the sanitizers of its compiler. Whoever compiles it says RECORD_BYTES.
#include "vortex/block_pool.h"
#include "vortex/radix_sort.h"
#include "vortex/sort.h"
#include "vortex/vanishing_array.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace {

template <std::size_t kBytes>
struct Record {
  std::uint64_t key;
  std::uint64_t index;
  char rest[kBytes - 16];
};

// Outliers at every byte of the key; the others go one byte deeper each time.
std::vector<std::uint64_t> nested_outliers(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> keys;
  std::uint64_t prefix = 0;
  for (int shift = 56; shift > 0; shift -= 8) {
    for (std::uint64_t slice = 0; slice < 256; ++slice) {
      const int copies = slice == 1 ? 0 : slice == 0 || slice == 255 ? 250 : 1;
      for (int i = 0; i < copies; ++i) {
        keys.push_back(prefix | slice << shift | random() >> (64 - shift));
      }
    }
    prefix |= std::uint64_t{1} << shift;
  }
  while (keys.size() < count) keys.push_back(prefix | random() % 256);
  std::shuffle(keys.begin(), keys.end(), random);
  return keys;
}

// Uniform, crowded at the low end, few, and two that lead a sort deep.
std::vector<std::vector<std::uint64_t>> all_keys(std::size_t count) {
  std::mt19937_64 random(2);
  std::vector<std::vector<std::uint64_t>> all(4, std::vector<std::uint64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    all[0][i] = random();
    all[1][i] = random() >> random() % 64;
    all[2][i] = random() % 3;
    all[3][i] = std::uint64_t{1} << random() % 64;
  }
  all.push_back(nested_outliers(count));
  return all;
}

template <typename R>
std::vector<R> records_of(const std::vector<std::uint64_t>& keys) {
  std::vector<R> records(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    records[i].key = keys[i];
    records[i].index = i;
    std::memset(records[i].rest, static_cast<int>(i % 100), sizeof records[i].rest);
  }
  return records;
}

template <typename R>
bool sorts() {
  const auto key = [](const R& record) { return record.key; };
  for (const std::size_t count : {100u, 3000u, 23000u}) {
    for (const auto& keys : all_keys(count)) {
      std::vector<R> records = records_of<R>(keys);
      std::vector<R> expected = records;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const R& a, const R& b) { return a.key < b.key; });
      const auto same = [&](const R* sorted) {
        return std::memcmp(sorted, expected.data(), expected.size() * sizeof(R)) == 0;
      };
      vortex::BlockPoolOptions options;
      options.block_bytes = std::size_t{64} << 10;
      options.pool_bytes =
          (records.size() * sizeof(R) / options.block_bytes + 20) * options.block_bytes;
      vortex::BlockPool blocks(options);
      vortex::StreamPool pool(blocks, options.pool_bytes / options.block_bytes);
      vortex::VanishingArray<R> array(pool, records.size());
      array.load(records);
      vortex::radix_sort(array, key, {}, 3);
      vortex::sort(std::span<R>(records), key);
      if (!same(records.data()) || !same(array.data())) return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  const bool right = sorts<Record<RECORD_BYTES>>();
  std::puts(right ? "records are sorted" : "records are not sorted");
  return right ? 0 : 1;
}
