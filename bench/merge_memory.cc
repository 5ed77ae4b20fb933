// Merging sorted runs that are in memory, as the sorts merge those whose blocks have come from the
// disks: what processors and memory allow.
//
//   RECORDS/runs:K/vortex_1   by one thread: a loser tree, or slices of words and pairs
//   RECORDS/runs:K/vortex     by as many as the process may use processors
//   RECORDS/runs:K/gnu        the same by __gnu_parallel::stable_multiway_merge of libstdc++
//                             (MCSTL), where OpenMP is there
//
// Records are words (u64), pairs of 16 bytes, and others of as many bytes as their names say, by a
// key of 8 bytes at the front, or by all bytes ("strings_100"). Bytes a second are those merged.
//
//   --mib=MIB       of all runs together (512)
//   --block-kib=KIB the blocks that runs are read by (1024)
//   --rounds=N      how often each row runs, all of them mixed (3)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#include <parallel/algorithm>
#endif

#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "vortex/record_order.h"
#include "vortex/thread/control_groups.h"

namespace vortex { namespace {

std::size_t mib = 512;
std::size_t block_bytes = std::size_t{1} << 20;

// Records of kBytes. Those in front of each other by the first kKey of them, as memcmp() says.
template <std::size_t kBytes, std::size_t kKey>
struct Record {
  static constexpr std::size_t kRecordBytes = kBytes;
  static constexpr std::size_t kKeyBytes = kKey;
  std::array<unsigned char, kBytes> bytes;

  friend bool operator<(const Record& a, const Record& b) noexcept {
    return std::memcmp(a.bytes.data(), b.bytes.data(), kKey) < 0;
  }
};

// The runs, and room for what they become.
template <typename R>
struct Data {
  explicit Data(std::size_t count) : merged((mib << 20) / sizeof(R) / count * count) {
    std::mt19937_64 random(1);
    const std::size_t of_run = merged.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint64_t> keys(of_run);
      for (std::uint64_t& key : keys) key = random();
      std::ranges::sort(keys);
      runs.emplace_back(of_run);
      for (std::size_t at = 0; at < of_run; ++at) {
        R& record = runs.back()[at];
        record.bytes.fill(static_cast<unsigned char>(at));
        const std::uint64_t first = __builtin_bswap64(keys[at]);
        std::memcpy(record.bytes.data(), &first, sizeof first);
      }
    }
  }

  std::vector<std::vector<R>> runs;
  std::vector<R> merged;
};

template <typename R, typename Merge>
void measure(benchmark::State& state, std::size_t runs, const Merge& merge) {
  Data<R> data(runs);
  for (auto _ : state) {
    const double processors = bench::cpu_seconds();
    state.SetIterationTime(bench::seconds_of([&] { merge(data); }));
    state.counters["cpu_ns"] =
        1e9 * (bench::cpu_seconds() - processors) / static_cast<double>(data.merged.size());
  }
  if (!std::is_sorted(data.merged.begin(), data.merged.end())) state.SkipWithError("not sorted");
  state.SetBytesProcessed(static_cast<std::int64_t>(data.merged.size() * sizeof(R)));
}

template <typename R>
void merge_by_vortex(Data<R>& data, unsigned threads) {
  const FormatOrder order(
      RecordFormat(sizeof(R), {{.offset = 0, .length = R::kKeyBytes, .type = {}}}));
  std::vector<MergeInput> inputs;
  for (const std::vector<R>& run : data.runs) {
    inputs.push_back({reinterpret_cast<const std::byte*>(run.data()), run.size()});
  }
  PointerOutput out(reinterpret_cast<std::byte*>(data.merged.data()), sizeof(R), block_bytes);
  const MergeRoom room = {.block_bytes = block_bytes,
                          .working_bytes = std::size_t{16} << 20,
                          .threads = threads,
                          .window_blocks = 2};
  const std::unique_ptr<RecordMerge> merge = order.merge(inputs, room);
  merge->start();
  merge->merge(merge->records_left(), out);
}

#if defined(_OPENMP)
template <typename R>
void merge_by_gnu(Data<R>& data, unsigned threads) {
  std::vector<std::pair<R*, R*>> runs;
  for (std::vector<R>& run : data.runs) runs.emplace_back(run.data(), run.data() + run.size());
  omp_set_num_threads(static_cast<int>(threads));
  __gnu_parallel::_Settings settings = __gnu_parallel::_Settings::get();
  settings.algorithm_strategy = __gnu_parallel::force_parallel;
  __gnu_parallel::_Settings::set(settings);
  __gnu_parallel::stable_multiway_merge(runs.begin(), runs.end(), data.merged.data(),
                                        static_cast<std::ptrdiff_t>(data.merged.size()),
                                        std::less<R>(), __gnu_parallel::parallel_tag(threads));
}
#endif

template <typename R>
void add(const std::string& records, std::size_t runs, std::vector<bench::Ratio>& ratios) {
  const std::string name = records + "/runs:" + std::to_string(runs) + "/";
  const auto row = [&](const char* who, const auto& merge) {
    bench::add_row(name + who,
                   [runs, merge](benchmark::State& state) { measure<R>(state, runs, merge); });
  };
  const unsigned cores = usable_cores();
  const auto shown = [&](const char* who) { return bench::shown(name + who); };
  row("vortex_1", [](Data<R>& data) { merge_by_vortex(data, 1); });
  row("vortex", [cores](Data<R>& data) { merge_by_vortex(data, cores); });
  ratios.push_back({name + ": all cores against one thread", shown("vortex"), shown("vortex_1")});
#if defined(_OPENMP)
  row("gnu", [cores](Data<R>& data) { merge_by_gnu(data, cores); });
  ratios.push_back({name + ": vortex against gnu", shown("vortex"), shown("gnu")});
#endif
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  const bench::OwnOptions own = {{"--mib=", bench::number(mib)},
                                 {"--block-kib=", bench::number(block_bytes, 1024)}};
  std::vector<std::string> arguments = bench::benchmark_arguments(argc, argv, own, "3");
  std::vector<bench::Ratio> ratios;
  for (const std::size_t runs : {10U, 128U}) {
    add<Record<8, 8>>("u64", runs, ratios);
    add<Record<16, 8>>("pairs_16", runs, ratios);
    add<Record<24, 8>>("records_24", runs, ratios);
    add<Record<100, 8>>("records_100", runs, ratios);
    add<Record<100, 100>>("strings_100", runs, ratios);
    add<Record<1000, 8>>("records_1000", runs, ratios);
  }
  return bench::run_with_ratios(std::move(arguments), ratios);
}
