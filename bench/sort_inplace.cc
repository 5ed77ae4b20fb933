// In-memory sorts (Tables 8 to 11 of the Vortex paper, section 6.7).
//
//   vortex_sort   vortex::sort on ordinary memory, with one thread
//   vortex_sort_threads  the same on all cores that the process may use
//   vortex_into, vortex_into_threads  vortex::sort_into of structs, to an array that is touched
//   vortex_stable, std_stable_sort  of pairs, those with equal keys in their order
//   radix_sort    vortex::radix_sort of a vanishing array with blocks of 2 MiB, by its own plan
//   radix_sort_buckets  through 2^6 bucket streams, 2^8 for 2^30 records, whatever the keys; rows
//                 radix_sort_KIB have blocks of that size and 2^7 buckets
//   radix_sort_threads  the same arrays on all cores that the process may use
//   algorithm9_plain, algorithm9_wc  vortex::bucket_sort: the paper's Algorithm 9 through 2^7
//                 streams with blocks of 1 MiB, by plain stores, or gathered and stored past the
//                 caches
//   std_sort, spreadsort (Boost), highway (Debian's), lsd_radix (out of place)
//   tbb           tbb::parallel_sort, on all processors; the others use one thread
//
// Rows are SORT/RECORD/KEYS/lg n. Records are u64, u32, double and float keys, pairs of a key and a
// value of 8 (pair) or 4 bytes each (half_pair), and structs of 8 to 256 bytes. Their keys, of 4
// bytes in struct_8, struct_12 and struct_100, of 10 bytes of text in text_100 and of 8 in others,
// are the last members: vortex_sort takes them as members, vortex_lambda as functions. Every sort's
// memory is warmed before, and filling it is not timed. Several small arrays are sorted one after
// the other, 2^18 records together. The counter `memory` is the peak of the resident size over the
// size of the records, where the kernel tells; for sorts of vanishing arrays it is blocks and own
// memory, `epsilon` the part of it beyond the records (Table 9). By default n goes to 2^20;
// VORTEX_BENCH_LG=27 raises the largest (peers stop at 2^27).
#include <benchmark/benchmark.h>
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <array>
#include <boost/sort/spreadsort/spreadsort.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(VORTEX_BENCH_TBB)
#include <tbb/parallel_sort.h>
#endif

#include "bench/support/key_distributions.h"
#include "bench/support/made_records.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "bench/support/warm_array.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/memory_budget.h"
#include "vortex/radix_sort.h"
#include "vortex/sort.h"

namespace vortex { namespace {

using bench::fill_records;
using bench::in_order;
using bench::key_of;
using bench::Keys;
using bench::kIsStruct;
using bench::Struct;
using bench::WarmArray;

using Pair = KeyValue<std::uint64_t, std::uint64_t>;
using HalfPair = KeyValue<std::uint32_t, std::uint32_t>;

// Highway's pairs have the value first.
template <typename Record>
struct HighwayRecord {
  using Type = Record;
};
template <>
struct HighwayRecord<Pair> {
  using Type = hwy::K64V64;
};
template <>
struct HighwayRecord<HalfPair> {
  using Type = hwy::K32V32;
};

template <typename Record>
void sort_ours(std::span<Record> records, const SortOptions& options) {
  if constexpr (kIsStruct<Record>) {
    sort(records, &Record::key, options);
  } else {
    sort(records, options);
  }
}

// Times `sort` alone, which sorts each of `arrays` of `count` records that lie one after the other,
// checks the results, which are there unless they are elsewhere, and reports records/s and memory.
template <typename Record>
void measure(benchmark::State& state, Keys keys, std::span<Record> arrays, std::size_t count,
             const std::function<void()>& prepare, const std::function<void()>& sort,
             std::span<const Record> results = {}) {
  if (results.empty()) results = arrays;
  double memory = 0;
  for ([[maybe_unused]] auto _ : state) {
    prepare();
    for (std::size_t at = 0; at < arrays.size(); at += count) {
      // Each array has keys of its own: a processor that sees the same ones learns where they go.
      fill_records(keys, arrays.subspan(at, count), 1 + at / count);
    }
    const bool told = reset_peak_resident();
    const std::size_t before = process_memory().resident_bytes;
    state.SetIterationTime(bench::seconds_of(sort));
    if (told) {
      const double bytes = static_cast<double>(count * sizeof(Record));
      // A peak that the kernel counts less exactly may be below.
      const std::size_t peak = std::max(process_memory().peak_resident_bytes, before);
      memory = 1 + static_cast<double>(peak - before) / bytes;
    }
    for (std::size_t at = 0; at < arrays.size(); at += count) {
      const auto array = results.subspan(at, count);
      if (std::is_sorted(array.begin(), array.end(), in_order)) continue;
      state.SkipWithError("not sorted");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(arrays.size()));
  state.counters["memory"] = memory;
}

template <typename Record>
void ordinary(benchmark::State& state, Keys keys, int lg,
              const std::function<void(std::span<Record>)>& sort) {
  const std::size_t count = std::size_t{1} << lg;
  // So many small ones that neither the clock nor what lies between the sorts matters.
  const WarmArray<Record> arrays(std::max(count, std::size_t{1} << 18));
  measure<Record>(
      state, keys, arrays.records(), count, [] {},
      [&] {
        const std::span<Record> records = arrays.records();
        for (std::size_t at = 0; at < records.size(); at += count) sort(records.subspan(at, count));
      });
}

template <typename Record>
void into(benchmark::State& state, Keys keys, int lg, unsigned threads) {
  const std::size_t count = std::size_t{1} << lg;
  const WarmArray<Record> arrays(std::max(count, std::size_t{1} << 18));
  const WarmArray<Record> sorted(arrays.records().size());
  measure<Record>(
      state, keys, arrays.records(), count, [] {},
      [&] {
        for (std::size_t at = 0; at < arrays.records().size(); at += count) {
          sort_into(arrays.records().subspan(at, count), sorted.records().subspan(at, count),
                    &Record::key, {.threads = threads});
        }
      },
      sorted.records());
}

// `sort` sorts the array on a pool with `extra` blocks more, and returns a report.
template <typename Record, typename Sort>
void vanishing(benchmark::State& state, Keys keys, int lg, std::size_t block_bytes,
               std::size_t extra, const Sort& sort) {
  const std::size_t count = std::size_t{1} << lg;
  const std::size_t bytes = count * sizeof(Record);
  const std::size_t array_blocks = (bytes + block_bytes - 1) / block_bytes;
  const std::size_t blocks = array_blocks + extra;
  BlockPool pool(
      {.pool_bytes = blocks * block_bytes, .block_bytes = block_bytes, .warming = Warming::kEager});
  StreamPool streams(pool, blocks);
  VanishingArray<Record> array(streams, count);
  detail::BlockRanges::open(array, 0, bytes);
  array.resize(count);
  decltype(sort(array)) report;
  measure<Record>(
      state, keys, {array.data(), count}, count,
      [&] { detail::BlockRanges::open(array, 0, bytes); }, [&] { report = sort(array); });
  // The pool is resident from the start: what the sort took of it, and its own memory.
  const double epsilon = static_cast<double>(report.epsilon_bytes) / static_cast<double>(bytes);
  state.counters["memory"] = 1 + epsilon;
  state.counters["epsilon"] = epsilon;
  if constexpr (requires { report.faults; }) {
    state.counters["faults"] = static_cast<double>(report.faults);
  }
}

template <typename Record>
void by_calls(benchmark::State& state, Keys keys, int lg, std::size_t block_bytes, int bits,
              const SortOptions& options, int first_split_bits) {
  vanishing<Record>(
      state, keys, lg, block_bytes, radix_sort_extra_blocks(bits),
      [&](VanishingArray<Record>& array) { return radix_sort(array, options, first_split_bits); });
}

void by_faults(benchmark::State& state, Keys keys, int lg, bool write_combining) {
  constexpr int kBits = 7;
  vanishing<std::uint64_t>(state, keys, lg, std::size_t{1} << 20, bucket_sort_extra_blocks(kBits),
                           [&](VanishingArray<std::uint64_t>& array) {
                             return bucket_sort(
                                 array, {.bits = kBits, .write_combining = write_combining});
                           });
}

template <typename Record>
void lsd_radix(std::span<Record> records) {
  constexpr std::size_t kBytes = sizeof(key_of(records[0]));
  std::vector<Record> other(records.size());
  std::array<std::array<std::size_t, 256>, kBytes> counts{};
  for (const Record& record : records) {
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      ++counts[byte][key_of(record) >> 8 * byte & 255];
    }
  }
  Record* from = records.data();
  Record* to = other.data();
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    std::size_t at = 0;
    for (std::size_t& count : counts[byte]) at += std::exchange(count, at);
    for (std::size_t i = 0; i < records.size(); ++i) {
      to[counts[byte][key_of(from[i]) >> 8 * byte & 255]++] = from[i];
    }
    std::swap(from, to);
  }
}

template <typename Record>
struct Row {
  std::string name;
  std::function<void(benchmark::State&, Keys, int lg)> run;
  int least_lg;
  int most_lg;
};

// Those that know numbers and pairs alone.
template <typename Record>
void add_sorts_of_numbers(std::vector<Row<Record>>& rows) {
  for (const unsigned threads : {1u, 0u}) {
    const auto as_planned = [threads](benchmark::State& state, Keys keys, int lg) {
      by_calls<Record>(state, keys, lg, std::size_t{2} << 20, 7, {.threads = threads}, 0);
    };
    rows.push_back({threads == 1 ? "radix_sort" : "radix_sort_threads", as_planned, 20, 30});
  }
  const auto through_buckets = [](benchmark::State& state, Keys keys, int lg) {
    const int bits = lg >= 30 ? 8 : 6;
    by_calls<Record>(state, keys, lg, std::size_t{2} << 20, bits, {.threads = 1}, bits);
  };
  rows.push_back({"radix_sort_buckets", through_buckets, 20, 30});
  if constexpr (std::is_same_v<Record, std::uint64_t>) {
    for (const bool combining : {false, true}) {
      rows.push_back({combining ? "algorithm9_wc" : "algorithm9_plain",
                      [combining](benchmark::State& state, Keys keys, int lg) {
                        by_faults(state, keys, lg, combining);
                      },
                      20, 30});
    }
  }
  rows.push_back({"highway",
                  [](benchmark::State& state, Keys keys, int lg) {
                    using Theirs = typename HighwayRecord<Record>::Type;
                    ordinary<Theirs>(state, keys, lg, [](std::span<Theirs> records) {
                      static hwy::Sorter sorter;
                      sorter(records.data(), records.size(), hwy::SortAscending());
                    });
                  },
                  0, 27});
}

template <typename Record>
std::vector<Row<Record>> rows() {
  using Span = std::span<Record>;
  std::vector<Row<Record>> rows;
  const auto add = [&rows](const char* name, int most_lg, std::function<void(Span)> sort) {
    const auto run = [sort](benchmark::State& state, Keys keys, int lg) {
      ordinary<Record>(state, keys, lg, sort);
    };
    rows.push_back({name, run, 0, most_lg});
  };
  add("vortex_sort", 30, [](Span records) { sort_ours(records, {.threads = 1}); });
  add("vortex_sort_threads", 30, [](Span records) { sort_ours(records, {.threads = 0}); });
  if constexpr (kIsStruct<Record>) {
    add("vortex_lambda", 30, [](Span records) {
      sort(records, [](const Record& record) { return record.key; }, {.threads = 1});
    });
    for (const unsigned threads : {1u, 0u}) {
      rows.push_back({threads == 1 ? "vortex_into" : "vortex_into_threads",
                      [threads](benchmark::State& state, Keys keys, int lg) {
                        into<Record>(state, keys, lg, threads);
                      },
                      0, 27});
    }
  } else {
    add_sorts_of_numbers(rows);
  }
  if constexpr (std::is_same_v<Record, Pair> || std::is_same_v<Record, HalfPair>) {
    add("vortex_stable", 30, [](Span records) { sort(records, {.stable = true, .threads = 1}); });
    add("std_stable_sort", 27,
        [](Span records) { std::stable_sort(records.begin(), records.end(), in_order); });
  }
  add("std_sort", 27, [](Span records) { std::sort(records.begin(), records.end(), in_order); });
  if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(key_of(Record{}))>>) {
    add("spreadsort", 27, [](Span records) {
      const auto digits = [](const Record& record, unsigned shift) {
        return key_of(record) >> shift;
      };
      boost::sort::spreadsort::integer_sort(records.begin(), records.end(), digits, in_order);
    });
    add("lsd_radix", 27, lsd_radix<Record>);
  }
#if defined(VORTEX_BENCH_TBB)
  add("tbb", 27,
      [](Span records) { tbb::parallel_sort(records.begin(), records.end(), in_order); });
#endif
  return rows;
}

void register_row(const std::string& name, std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime();
}

template <typename Record>
void register_all(const std::string& record, std::span<const Keys> kinds, int largest,
                  std::vector<bench::Ratio>& ratios) {
  for (int lg : {4, 6, 8, 10, 12, 14, 17, 20, 24, 27, 30}) {
    if (lg > largest) continue;
    for (const Keys keys : kinds) {
      const std::string tail =
          "/" + record + "/" + bench::keys_name(keys) + "/" + std::to_string(lg);
      for (const Row<Record>& row : rows<Record>()) {
        if (lg < row.least_lg || lg > row.most_lg) continue;
        register_row(row.name + tail,
                     [row, keys, lg](benchmark::State& state) { row.run(state, keys, lg); });
        if (row.name == "vortex_sort") continue;
        for (const std::string ours : {"vortex_sort", "vortex_sort_threads", "radix_sort"}) {
          if (kIsStruct<Record> && ours == "radix_sort") continue;
          if (row.name == ours || (ours == "radix_sort" && row.name == "vortex_sort_threads"))
            continue;
          ratios.push_back({ours + " against " + row.name + tail, ours + tail + "/manual_time",
                            row.name + tail + "/manual_time"});
        }
      }
    }
  }
}

// Rows that show the cost and the gain of blocks of another size.
void register_block_sizes(int largest) {
  for (int lg : {24, 27}) {
    if (lg > largest) continue;
    for (std::size_t kib = 64; kib <= 8192; kib *= 2) {
      register_row("radix_sort_" + std::to_string(kib) + "/u64/uniform/" + std::to_string(lg),
                   [kib, lg](benchmark::State& state) {
                     by_calls<std::uint64_t>(state, Keys::kUniform, lg, kib << 10, 7,
                                             {.threads = 1}, 7);
                   });
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
  std::vector<Keys> all;
  for (int kind = 0; kind <= static_cast<int>(Keys::kSawtooth); ++kind) {
    all.push_back(static_cast<Keys>(kind));
  }
  const Keys some[] = {Keys::kUniform, Keys::kZipf, Keys::kSorted, Keys::kPieces};
  register_all<std::uint64_t>("u64", all, largest, ratios);
  register_all<std::uint32_t>("u32", some, largest, ratios);
  const Keys two[] = {Keys::kUniform, Keys::kSorted};
  register_all<double>("f64", two, largest, ratios);
  register_all<float>("f32", two, largest, ratios);
  register_all<Pair>("pair", some, largest, ratios);
  register_all<HalfPair>("half_pair", some, largest, ratios);
  register_all<Struct<std::uint32_t, 0>>("struct_8", some, largest, ratios);
  register_all<Struct<std::uint32_t, 4>>("struct_12", some, largest, ratios);
  register_all<Struct<std::uint64_t, 0>>("struct_16", some, largest, ratios);
  register_all<Struct<std::uint64_t, 8>>("struct_24", some, largest, ratios);
  register_all<Struct<std::uint64_t, 16>>("struct_32", some, largest, ratios);
  register_all<Struct<std::uint64_t, 32>>("struct_48", some, largest, ratios);
  register_all<Struct<std::uint64_t, 48>>("struct_64", some, largest, ratios);
  register_all<Struct<std::uint32_t, 92>>("struct_100", some, largest, ratios);
  register_all<Struct<std::uint64_t, 240>>("struct_256", some, largest, ratios);
  register_all<Struct<bench::Text, 80>>("text_100", some, largest, ratios);
  register_block_sizes(largest);
  return bench::run_with_ratios(argc, argv, ratios);
}
