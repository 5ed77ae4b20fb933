// In-memory sorts of 64-bit keys (Tables 8 to 11 of the Vortex paper, section 6.7).
//
//   vortex_sort   vortex::sort on ordinary memory
//   radix_sort    vortex::radix_sort: a vanishing array through bucket streams (1 MiB blocks)
//   std_sort, spreadsort (Boost), highway, lsd_radix (out of place)
//
// Rows are SORT/KEYS/lg n. Everyone's memory is warmed before, filling it is not timed. The counter
// `memory` is the peak of the resident size over the size of the keys, where the kernel tells.
// By default n goes to 2^24; VORTEX_BENCH_LG=27 raises the largest (peers stop at 2^27).
#include <benchmark/benchmark.h>
#include <hwy/contrib/sort/vqsort.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <boost/sort/spreadsort/spreadsort.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/support/key_distributions.h"
#include "bench/support/ratios.h"
#include "sort/radix_sort.h"
#include "sort/sort.h"
#include "vortex/process_memory.h"

namespace vortex {
namespace {

using bench::Keys;

// An array on huge pages where the system grants them, touched.
class WarmArray {
 public:
  explicit WarmArray(std::size_t count) : bytes_(count * sizeof(std::uint64_t)) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, bytes_, MADV_HUGEPAGE);
    keys_ = {static_cast<std::uint64_t*>(memory), count};
    std::fill(keys_.begin(), keys_.end(), std::uint64_t{1});
  }
  ~WarmArray() { munmap(keys_.data(), bytes_); }
  WarmArray(const WarmArray&) = delete;
  WarmArray& operator=(const WarmArray&) = delete;
  std::span<std::uint64_t> keys() const { return keys_; }

 private:
  std::size_t bytes_;
  std::span<std::uint64_t> keys_;
};

// Times `sort` alone, checks the result, and reports keys/s and memory.
void measure(benchmark::State& state, Keys keys, std::span<std::uint64_t> array,
             const std::function<void()>& fill, const std::function<void()>& sort) {
  double memory = 0;
  for ([[maybe_unused]] auto _ : state) {
    fill();
    bench::fill_keys(keys, array);
    const bool told = reset_peak_resident();
    const std::size_t before = process_memory().resident_bytes;
    const auto start = std::chrono::steady_clock::now();
    sort();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(time.count());
    if (told) {
      const double bytes = static_cast<double>(array.size_bytes());
      memory = 1 + static_cast<double>(process_memory().peak_resident_bytes - before) / bytes;
    }
    if (!std::is_sorted(array.begin(), array.end())) {
      state.SkipWithError("not sorted");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(array.size()));
  state.counters["memory"] = memory;
}

void ordinary(benchmark::State& state, Keys keys, int lg,
              const std::function<void(std::span<std::uint64_t>)>& sort) {
  const WarmArray array(std::size_t{1} << lg);
  measure(
      state, keys, array.keys(), [] {}, [&] { sort(array.keys()); });
}

void vanishing(benchmark::State& state, Keys keys, int lg) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  const std::size_t count = std::size_t{1} << lg;
  const std::size_t bytes = count * sizeof(std::uint64_t);
  const std::size_t array_blocks = (bytes + kBlock - 1) / kBlock;
  const std::size_t blocks = array_blocks + radix_sort_extra_blocks(7);
  BlockPool pool(
      {.pool_bytes = blocks * kBlock, .block_bytes = kBlock, .warming = Warming::kEager});
  StreamPool streams(pool, blocks);
  VanishingArray<std::uint64_t> array(streams, count);
  array.open_range(0, bytes);
  array.resize(count);
  RadixSortReport report;
  measure(
      state, keys, {array.data(), count}, [&] { array.open_range(0, bytes); },
      [&] { report = radix_sort(array, {.first_split_bits = 7}); });
  // The pool is resident from the start: what the sort took of it, and its scratch.
  state.counters["memory"] =
      static_cast<double>(report.peak_blocks * kBlock + report.working_bytes) /
      static_cast<double>(bytes);
}

void lsd_radix(std::span<std::uint64_t> keys) {
  std::vector<std::uint64_t> other(keys.size());
  std::vector<std::array<std::size_t, 256>> counts(8);
  for (const std::uint64_t key : keys) {
    for (int byte = 0; byte < 8; ++byte) ++counts[byte][key >> 8 * byte & 255];
  }
  std::uint64_t* from = keys.data();
  std::uint64_t* to = other.data();
  for (int byte = 0; byte < 8; ++byte) {
    std::size_t at = 0;
    for (std::size_t& count : counts[byte]) at += std::exchange(count, at);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      to[counts[byte][from[i] >> 8 * byte & 255]++] = from[i];
    }
    std::swap(from, to);
  }
}

struct Row {
  const char* name;
  std::function<void(std::span<std::uint64_t>)> sort;  // empty: radix_sort
  int most_lg;
};

}  // namespace
}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  benchmark::Initialize(&argc, argv);
  const char* wanted = std::getenv("VORTEX_BENCH_LG");
  const int largest = wanted != nullptr ? std::atoi(wanted) : 24;
  const Row rows[] = {
      {"vortex_sort", [](std::span<std::uint64_t> keys) { sort(keys); }, 30},
      {"radix_sort", {}, 30},
      {"std_sort", [](std::span<std::uint64_t> keys) { std::sort(keys.begin(), keys.end()); }, 27},
      {"spreadsort",
       [](std::span<std::uint64_t> keys) {
         boost::sort::spreadsort::integer_sort(keys.begin(), keys.end());
       },
       27},
      {"highway",
       [](std::span<std::uint64_t> keys) {
         static hwy::Sorter sorter;
         sorter(keys.data(), keys.size(), hwy::SortAscending());
       },
       27},
      {"lsd_radix", lsd_radix, 27},
  };
  std::vector<bench::Ratio> ratios;
  for (int lg : {10, 14, 17, 20, 24, 27, 30}) {
    if (lg > largest) continue;
    for (int kind = 0; kind <= static_cast<int>(bench::Keys::kOneBitApart); ++kind) {
      const auto keys = static_cast<bench::Keys>(kind);
      const std::string tail = std::string("/") + bench::keys_name(keys) + "/" + std::to_string(lg);
      for (const Row& row : rows) {
        if (lg > row.most_lg || (!row.sort && lg < 20)) continue;
        benchmark::RegisterBenchmark((row.name + tail).c_str(), [row, keys,
                                                                 lg](benchmark::State& s) {
          row.sort ? ordinary(s, keys, lg, row.sort) : vanishing(s, keys, lg);
        })->UseManualTime();
        if (row.sort && std::string(row.name) != "vortex_sort") {
          ratios.push_back({"vortex_sort against " + std::string(row.name) + tail,
                            "vortex_sort" + tail + "/manual_time",
                            row.name + tail + "/manual_time"});
        }
      }
    }
  }
  bench::RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.print(ratios);
}
