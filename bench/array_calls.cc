// Calls on arrays in memory beside what the standard library has, one thread unless a row says
// otherwise.
//
//   argsort64, argsort32     vortex::argsort_into, places of 64 and of 32 bits
//   argsort64_threads        the same on all cores that the process may use
//   pairs, pairs_threads     vortex::sort of KeyValue<u64, u64>: what an argsort is measured by
//   sort_by_key1, ..2        vortex::sort_by_key with one and with two arrays of u64
//   select, select_threads   vortex::select of the middle; nth_element is std's
//   first10, first_1in100    vortex::partial_sort; std_first10 and std_first_1in100 are std's
//   std_places               std::sort of places by their keys; std_stable_places is stable
//
// Rows are CALL/KEY/KEYS/lg n. Arrays are touched before, and filling them is not timed. By default
// n goes to 2^20; VORTEX_BENCH_LG=27 raises the largest (std::sort of places stops at 2^24).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "bench/support/key_distributions.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "bench/support/warm_array.h"
#include "vortex/array_calls.h"
#include "vortex/sort.h"

namespace vortex { namespace {

using bench::Keys;
using bench::WarmArray;
using Pair = KeyValue<std::uint64_t, std::uint64_t>;

// What the calls work on. Few keys are several arrays, 2^18 keys together.
template <typename K>
struct Arrays {
  Arrays(Keys kind, std::size_t count)
      : count(count), keys(std::max(count, std::size_t{1} << 18)), given(keys.records().size()) {
    // Each array has keys of its own: a processor that sees the same ones learns where they go.
    for (std::size_t first = 0; first < given.size(); first += count) {
      std::size_t at = first;
      const auto take = [&](std::uint64_t key) {
        // The upper half of narrow keys is where the differences are.
        given[at++] = static_cast<K>(sizeof(K) == 4 ? key ^ key >> 32 : key);
      };
      bench::for_each_key(kind, count, take, 1 + first / count);
    }
  }
  void fill() { std::copy(given.begin(), given.end(), keys.records().begin()); }

  std::size_t count;
  WarmArray<K> keys;
  std::vector<K> given;
  WarmArray<std::uint64_t> places = WarmArray<std::uint64_t>(keys.records().size());
  WarmArray<std::uint64_t> values = WarmArray<std::uint64_t>(keys.records().size());
  WarmArray<std::uint32_t> narrow = WarmArray<std::uint32_t>(keys.records().size());
  WarmArray<Pair> pairs = WarmArray<Pair>(keys.records().size());
};

// Times `call` for the array that begins at each place, with what `prepare` does not counted.
template <typename K>
void measure(benchmark::State& state, Arrays<K>& arrays, const std::function<void()>& prepare,
             const std::function<void(std::size_t at)>& call) {
  const std::size_t all = arrays.keys.records().size();
  for ([[maybe_unused]] auto _ : state) {
    prepare();
    state.SetIterationTime(bench::seconds_of([&] {
      for (std::size_t at = 0; at < all; at += arrays.count) call(at);
    }));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all));
}

template <typename K>
struct Row {
  std::string name;
  int most_lg;
  std::function<void(Arrays<K>&, std::size_t at)> call;
  bool of_pairs = false;
};

template <typename K>
std::vector<Row<K>> rows() {
  const auto keys = [](Arrays<K>& a, std::size_t at) {
    return a.keys.records().subspan(at, a.count);
  };
  const auto argsort64 = [keys](unsigned threads) {
    return [=](Arrays<K>& a, std::size_t at) {
      argsort_into(std::span<const K>(keys(a, at)), a.places.records().subspan(at, a.count),
                   {.threads = threads});
    };
  };
  const auto pairs = [](unsigned threads) {
    return [=](Arrays<K>& a, std::size_t at) {
      sort(a.pairs.records().subspan(at, a.count), {.threads = threads});
    };
  };
  const auto places = [keys](auto sort_places) {
    return [=](Arrays<K>& a, std::size_t at) {
      const std::span<std::uint64_t> order = a.places.records().subspan(at, a.count);
      std::iota(order.begin(), order.end(), std::uint64_t{0});
      sort_places(order.begin(), order.end(),
                  [k = keys(a, at)](std::uint64_t x, std::uint64_t y) { return k[x] < k[y]; });
    };
  };
  return {
      {"argsort64", 30, argsort64(1)},
      {"argsort64_threads", 30, argsort64(0)},
      {"argsort32", 30,
       [keys](Arrays<K>& a, std::size_t at) {
         argsort_into(std::span<const K>(keys(a, at)), a.narrow.records().subspan(at, a.count),
                      {.threads = 1});
       }},
      {"pairs", 30, pairs(1), true},
      {"pairs_threads", 30, pairs(0), true},
      {"sort_by_key1", 30,
       [keys](Arrays<K>& a, std::size_t at) {
         sort_by_key({.threads = 1}, keys(a, at), a.values.records().subspan(at, a.count));
       }},
      {"sort_by_key2", 30,
       [keys](Arrays<K>& a, std::size_t at) {
         sort_by_key({.threads = 1}, keys(a, at), a.values.records().subspan(at, a.count),
                     a.places.records().subspan(at, a.count));
       }},
      {"select", 30,
       [keys](Arrays<K>& a, std::size_t at) { select(keys(a, at), a.count / 2, {.threads = 1}); }},
      {"select_threads", 30,
       [keys](Arrays<K>& a, std::size_t at) { select(keys(a, at), a.count / 2, {.threads = 0}); }},
      {"nth_element", 27,
       [keys](Arrays<K>& a, std::size_t at) {
         const std::span<K> k = keys(a, at);
         std::nth_element(k.begin(), k.begin() + static_cast<std::ptrdiff_t>(k.size() / 2),
                          k.end());
       }},
      {"first10", 30,
       [keys](Arrays<K>& a, std::size_t at) { partial_sort(keys(a, at), 10, {.threads = 1}); }},
      {"std_first10", 27,
       [keys](Arrays<K>& a, std::size_t at) {
         const std::span<K> k = keys(a, at);
         std::partial_sort(k.begin(), k.begin() + 10, k.end());
       }},
      {"first_1in100", 30,
       [keys](Arrays<K>& a, std::size_t at) {
         partial_sort(keys(a, at), a.count / 100, {.threads = 1});
       }},
      {"std_first_1in100", 27,
       [keys](Arrays<K>& a, std::size_t at) {
         const std::span<K> k = keys(a, at);
         std::partial_sort(k.begin(), k.begin() + static_cast<std::ptrdiff_t>(k.size() / 100),
                           k.end());
       }},
      {"std_places", 24,
       places([](auto first, auto last, auto less) { std::sort(first, last, less); })},
      {"std_stable_places", 24,
       places([](auto first, auto last, auto less) { std::stable_sort(first, last, less); })},
  };
}

template <typename K>
void run_row(benchmark::State& state, const Row<K>& row, Keys kind, int lg) {
  Arrays<K> arrays(kind, std::size_t{1} << lg);
  const auto prepare = [&] {
    arrays.fill();
    if (!row.of_pairs) return;
    const std::span<Pair> pairs = arrays.pairs.records();
    for (std::size_t i = 0; i < pairs.size(); ++i)
      pairs[i] = {to_key_bits(arrays.keys.records()[i]), i};
  };
  measure<K>(state, arrays, prepare, [&](std::size_t at) { row.call(arrays, at); });
}

template <typename K>
void register_all(const std::string& key, int largest, std::vector<bench::Ratio>& ratios) {
  for (int lg : {10, 14, 17, 20, 24, 27}) {
    if (lg > largest) continue;
    for (const Keys kind : {Keys::kUniform, Keys::kZipf, Keys::kZipfRanks, Keys::kSorted}) {
      const std::string tail = "/" + key + "/" + bench::keys_name(kind) + "/" + std::to_string(lg);
      for (const Row<K>& row : rows<K>()) {
        if (lg > row.most_lg) continue;
        benchmark::RegisterBenchmark((row.name + tail).c_str(), [row, kind,
                                                                 lg](benchmark::State& state) {
          run_row(state, row, kind, lg);
        })->UseManualTime();
      }
      const auto against = [&](const std::string& ours, const std::string& theirs) {
        ratios.push_back({ours + " against " + theirs + tail, ours + tail + "/manual_time",
                          theirs + tail + "/manual_time"});
      };
      against("argsort64", "pairs");
      against("argsort32", "pairs");
      against("argsort64_threads", "pairs_threads");
      against("argsort64", "std_places");
      against("argsort64", "std_stable_places");
      against("sort_by_key1", "pairs");
      against("select", "nth_element");
      against("first10", "std_first10");
      against("first_1in100", "std_first_1in100");
    }
  }
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  const char* wanted = std::getenv("VORTEX_BENCH_LG");
  const int largest = wanted != nullptr ? std::atoi(wanted) : 20;
  std::vector<bench::Ratio> ratios;
  register_all<std::uint64_t>("u64", largest, ratios);
  register_all<std::uint32_t>("u32", largest, ratios);
  register_all<double>("f64", largest, ratios);
  register_all<float>("f32", largest, ratios);
  return bench::run_with_ratios(argc, argv, ratios);
}
