// Two sorts, one behind the other, chained and through a file.
//
// Rows of integers and of pairs: `through_a_file` sorts a file into another, and that one, by
// another order, into a third. `chained` pushes the file into a sorter, reads that into a second
// one, and writes what this gives: both share one budget of memory. The file between is neither
// written nor read, so that 6 N bytes are moved instead of 8 N, and where the disk is the limit it
// takes three quarters of the time (Dementiev and Sanders, section 6).
//
// Counters: moved_N is what the kernel has read and written for the process (/proc/self/io) over
// the bytes of the file; cpu_s processor seconds. The page cache is dropped before every row where
// the system permits. Options before those of Google Benchmark:
//   --folder=PATH    where everything lies (.)
//   --mib=N          of the file (1024)
//   --memory-mib=N   of all sorts together (128)
//   --rounds=N       times each row runs (3); medians
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/disk_speed.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "bench/support/sort_settings.h"
#include "io/sequence/seeded_random.h"
#include "vortex/external_sort.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/memory_budget.h"
#include "vortex/sorter.h"

namespace vortex { namespace {

bench::SortSettings settings;

std::string file(const std::string& name) { return settings.folder + "/sort_chain." + name; }

struct Pair {
  std::uint64_t key;
  std::uint64_t value;
};

struct ByKey {
  bool operator()(const Pair& a, const Pair& b) const noexcept { return a.key < b.key; }
};
struct ByValue {
  bool operator()(const Pair& a, const Pair& b) const noexcept { return a.value < b.value; }
};

// What a row sorts, by which orders, and what happens to a record between the two.
struct Integers {
  using Record = std::uint64_t;
  using First = std::less<Record>;
  using Second = std::less<Record>;
  static constexpr const char* kName = "u64";
  static Record make(std::uint64_t number) { return mix_bits(number); }
  static Record between(Record record) { return mix_bits(record); }
};
struct Pairs {
  using Record = Pair;
  using First = ByKey;
  using Second = ByValue;
  static constexpr const char* kName = "pairs";
  static Record make(std::uint64_t number) { return {mix_bits(2 * number), mix_bits(~number)}; }
  static Record between(Record record) { return record; }
};

template <typename Kind>
std::uint64_t records() {
  return settings.input_bytes / sizeof(typename Kind::Record);
}

SortResources resources_under(const std::shared_ptr<MemoryBudget>& budget) {
  SortResources resources;
  resources.memory_bytes = settings.memory_bytes;
  resources.budget = budget;
  resources.folders = {settings.folder};
  return resources;
}

template <typename Kind>
void through_a_file() {
  using Record = typename Kind::Record;
  const SortResources resources = resources_under(nullptr);
  external_sort<Record>({.inputs = {file("in")}, .output = file("sorted"), .resources = resources},
                        typename Kind::First());
  external_sort<Record>({.inputs = {file("sorted")}, .output = file("out"), .resources = resources},
                        typename Kind::Second());
}

template <typename Kind>
void chained() {
  using Record = typename Kind::Record;
  const auto budget = MemoryBudget::make(settings.memory_bytes);
  const SortResources resources = resources_under(budget);
  auto first = std::make_unique<Sorter<Record, typename Kind::First>>(resources);
  {
    const FileReader<Record> in(file("in"));
    first->push(in.span());
  }
  first->sort();
  Sorter<Record, typename Kind::Second> second(resources);
  for (const Record& record : *first) second.push(Kind::between(record));
  first.reset();
  second.sort();
  FileWriter<Record> out(file("out"), FileWriterOptions{.sync = true});
  std::ranges::copy(second, out.data());
  out.finish(second.size());
}

template <typename Kind>
bool is_sorted() {
  const FileReader<typename Kind::Record> out(file("out"));
  const auto less = typename Kind::Second();
  return out.size() == records<Kind>() && std::is_sorted(out.begin(), out.end(), less);
}

// Of the devices, for this process.
std::uint64_t bytes_moved() {
  std::ifstream io("/proc/self/io");
  std::uint64_t moved = 0, bytes = 0;
  for (std::string name; io >> name >> bytes;) {
    if (name == "read_bytes:" || name == "write_bytes:") moved += bytes;
  }
  return moved;
}

template <typename Kind>
void run(benchmark::State& state, void (*sort)()) {
  {
    FileWriter<typename Kind::Record> in(file("in"), FileWriterOptions{.sync = true});
    for (std::uint64_t i = 0; i < records<Kind>(); ++i) in.data()[i] = Kind::make(i);
    in.finish(records<Kind>());
  }
  for (auto _ : state) {
    bench::drop_page_cache();
    const double cpu = bench::cpu_seconds();
    const std::uint64_t moved = bytes_moved();
    state.SetIterationTime(bench::seconds_of(sort));
    state.counters["cpu_s"] = bench::cpu_seconds() - cpu;
    state.counters["moved_N"] =
        static_cast<double>(bytes_moved() - moved) / static_cast<double>(settings.input_bytes);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(settings.input_bytes));
  if (!is_sorted<Kind>()) state.SkipWithError("the output is not sorted");
  for (const char* const name : {"in", "sorted", "out"}) unlink(file(name).c_str());
}

template <typename Kind>
void add_rows() {
  const auto add = [](const std::string& who, void (*sort)()) {
    bench::add_row(
        std::string(Kind::kName) + "/" + who,
        [sort](benchmark::State& state) { run<Kind>(state, sort); }, benchmark::kSecond);
  };
  add("through_a_file", &through_a_file<Kind>);
  add("chained", &chained<Kind>);
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  add_rows<Integers>();
  add_rows<Pairs>();
  return bench::run_with_ratios(
      bench::benchmark_arguments(argc, argv, settings.options(), "3"),
      {{"u64: chained against through a file", bench::shown("u64/chained"),
        bench::shown("u64/through_a_file")},
       {"pairs: chained against through a file", bench::shown("pairs/chained"),
        bench::shown("pairs/through_a_file")}});
}
