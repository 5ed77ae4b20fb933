// Sorting files that are larger than the memory given: ours, STXXL's and GNU sort's.
//
// Records of 100 bytes with a key of 10 (the sort benchmark's form), u64 keys, pairs of a u64 key
// and eight bytes more, each in uniform random order and in those of bench/support/arrivals.h. All
// rows but those of one run read the input, write it as runs, read those, and write the output. A
// row makes its input, which takes no time of its, and removes it.
//
//   vortex     external_sort(), the output synced; of *_fits in four times as much memory
//   stxxl      stxxl::sort of a vector on disk, in place; filling the vector is not timed. Only
//              random records, and u64
//   gnu_sort   GNU sort, LC_ALL=C, of lines (printable keys, otherwise the same records); only
//              records of 100 bytes, for it sorts nothing but text. Its output is synced, too
//
//   two_copies the u64 input copied by plain direct requests, and its copy copied again, both
//              synced: the same bytes as a sort moves, with nothing else done. Where others share
//              the disk it may take longer than a measurement of a second or two foretells
//
// Counters: of_bound the share that the least time for the disk has in that of ours; the disk is
// measured before and behind the sort; of_longest the time against the longest of reading, writing
// and what the threads work in all phases. forming_s of run formation; runs; moved by the disks,
// for each byte of the input; faults served; cpu_s processor seconds; peak_MiB the resident peak
// above the start (of the child, for GNU sort). The page cache is dropped before every row where
// the system permits; `warm` says where it did not.
//
// Options before those of Google Benchmark: --folder=DIR (decides the disk), --mib=N of input
// (1024), --memory-mib=N (128), --rounds=N (3).
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <stxxl/sort>
#include <stxxl/vector>

#include "bench/support/arrivals.h"
#include "bench/support/disk_speed.h"
#include "bench/support/own_options.h"
#include "bench/support/plain_copy.h"
#include "bench/support/ratios.h"
#include "bench/support/sort_settings.h"
#include "vortex/external_sort.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/memory_budget.h"
#include "vortex/record_order.h"

namespace vortex { namespace {

using bench::Arrival;
using bench::kMiB;

constexpr const char* kTwoCopies = "u64/two_copies";

bench::SortSettings settings;

std::string path_of(const std::string& name) { return settings.folder + "/external_sort." + name; }

template <Arrival kOrder>
struct Record100 {
  static constexpr const char* kKind = "records_100";
  static constexpr Arrival kArrival = kOrder;
  static RecordFormat format() { return RecordFormat(100, {parse_record_key("0:10")}); }
  static Record100 of(std::uint64_t key, std::uint64_t index) {
    Record100 record;
    // Printable, so that GNU sort takes the same records as lines: ten of 64 characters.
    for (int i = 0; i < 10; ++i) {
      record.bytes[i] = static_cast<char>(' ' + ((key >> (54 - 6 * i)) & 63));
    }
    for (int i = 10; i < 98; ++i) {
      record.bytes[i] = static_cast<char>('A' + ((index >> (i % 8 * 4)) & 15));
    }
    record.bytes[98] = '\r';
    record.bytes[99] = '\n';
    return record;
  }
  bool operator<(const Record100& other) const { return std::memcmp(bytes, other.bytes, 10) < 0; }
  static Record100 filled(int byte) {
    Record100 record;
    std::memset(record.bytes, byte, sizeof record.bytes);
    return record;
  }
  static Record100 least() { return filled(0); }
  static Record100 most() { return filled(255); }

  char bytes[100];
};

template <Arrival kOrder>
struct Key64 {
  static constexpr const char* kKind = "u64";
  static constexpr Arrival kArrival = kOrder;
  static RecordFormat format() { return RecordFormat(8, {parse_record_key("0:8:u64")}); }
  static Key64 of(std::uint64_t key, std::uint64_t /*index*/) { return {key}; }
  bool operator<(const Key64& other) const { return key < other.key; }
  static Key64 least() { return {0}; }
  static Key64 most() { return {std::numeric_limits<std::uint64_t>::max()}; }

  std::uint64_t key;
};

template <Arrival kOrder>
struct Pair128 {
  static constexpr const char* kKind = "pairs_16";
  static constexpr Arrival kArrival = kOrder;
  static RecordFormat format() { return RecordFormat(16, {parse_record_key("0:8:u64")}); }
  static Pair128 of(std::uint64_t key, std::uint64_t index) { return {key, index}; }
  bool operator<(const Pair128& other) const { return key < other.key; }
  static Pair128 least() { return {0, 0}; }
  static Pair128 most() { return {std::numeric_limits<std::uint64_t>::max(), 0}; }

  std::uint64_t key;
  std::uint64_t payload;
};

using GnuRecord = Record100<Arrival::kRandom>;

template <typename Record>
struct StxxlOrder {
  bool operator()(const Record& left, const Record& right) const { return left < right; }
  static Record min_value() { return Record::least(); }
  static Record max_value() { return Record::most(); }
};

template <typename Record>
std::uint64_t records() {
  return settings.input_bytes / sizeof(Record);
}

template <typename Record>
Record record(std::uint64_t index) {
  return Record::of(bench::arriving_key(Record::kArrival, index, records<Record>()), index);
}

template <typename Record>
std::string name_of() {
  return std::string(Record::kKind) + bench::ending_of(Record::kArrival);
}

// The input of a row. There is one at a time: all of them together may not fit the disk.
template <typename Record>
class Input {
 public:
  Input() {
    FileWriterOptions options;
    options.sync = true;
    FileWriter<Record> file(path_, options);
    for (std::uint64_t i = 0; i < records<Record>(); ++i) file.data()[i] = record<Record>(i);
    file.finish(records<Record>());
  }
  ~Input() { unlink(path_.c_str()); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_ = path_of(name_of<Record>() + ".in");
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Counts what one row takes.
class Row {
 public:
  Row(benchmark::State& state, int who) : state_(state), who_(who) {
    warm_ = !bench::drop_page_cache();
    reset_peak_resident();
    before_ = process_memory();
    cpu_ = cpu_seconds(who);
  }
  ~Row() {
    state_.counters["cpu_s"] = cpu_seconds(who_) - cpu_;
    if (who_ == RUSAGE_SELF) {
      const ProcessMemory after = process_memory();
      state_.counters["peak_MiB"] =
          static_cast<double>(after.peak_resident_bytes - before_.resident_bytes) / kMiB;
    } else {
      rusage usage{};
      getrusage(RUSAGE_CHILDREN, &usage);
      state_.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
    }
    if (warm_) state_.counters["warm"] = 1;
    state_.SetBytesProcessed(static_cast<std::int64_t>(settings.input_bytes));
  }

 private:
  benchmark::State& state_;
  int who_;
  bool warm_ = false;
  ProcessMemory before_;
  double cpu_ = 0;
};

// A row that does not sort is not worth a time.
template <typename Record>
void expect_sorted(benchmark::State& state, const std::string& path) {
  FileReader<Record> file(path);
  bool sorted = file.size() == records<Record>();
  for (std::uint64_t i = 1; sorted && i < file.size(); ++i) {
    sorted = !(file.data()[i] < file.data()[i - 1]);
  }
  if (!sorted) state.SkipWithError("the output is not the input sorted");
}

template <typename Record, bool kFits = false>
void sort_with_vortex(benchmark::State& state) {
  const Input<Record> input;
  const std::string output = path_of("out");
  for (auto _ : state) {
    const ExternalSortOptions options{.inputs = {input.path()},
                                      .output = output,
                                      .format = Record::format(),
                                      .resources = {.memory_bytes = settings.memory_of(kFits),
                                                    .folders = {settings.folder},
                                                    .stop = {},
                                                    .progress = {}}};
    const bench::DiskAround disk(settings.folder);
    const auto faults = [] { return FaultDispatcher::instance().statistics().served; };
    const std::uint64_t faults_before = faults();
    SortReport report;
    {
      const Row row(state, RUSAGE_SELF);
      report = external_sort(options);
    }
    state.SetIterationTime(report.seconds);
    const std::uint64_t bytes = settings.input_bytes;
    state.counters["faults"] = static_cast<double>(faults() - faults_before);
    state.counters["runs"] = static_cast<double>(report.runs);
    state.counters["moved"] = static_cast<double>(report.io_bytes()) / static_cast<double>(bytes);
    state.counters["of_bound"] =
        disk.seconds({bytes, std::min(report.run_bytes, bytes), bytes}) / report.seconds;
    state.counters["forming_s"] = report.run_formation_seconds;
    state.counters["of_longest"] = bench::of_longest(report);
  }
  expect_sorted<Record>(state, output);
  unlink(output.c_str());
}

template <typename Record>
void sort_with_stxxl(benchmark::State& state) {
  constexpr unsigned kBlock = 2 << 20;
  using Vector = typename stxxl::VECTOR_GENERATOR<Record, 4, 8, kBlock>::result;
  for (auto _ : state) {
    Vector vector(records<Record>());
    typename Vector::bufwriter_type writer(vector.begin());
    for (std::uint64_t i = 0; i < records<Record>(); ++i) writer << record<Record>(i);
    writer.finish();
    vector.flush();
    {
      const Row row(state, RUSAGE_SELF);
      const double begin = stxxl::timestamp();
      stxxl::sort(vector.begin(), vector.end(), StxxlOrder<Record>(), settings.memory_bytes);
      vector.flush();
      state.SetIterationTime(stxxl::timestamp() - begin);
    }
    typename Vector::bufreader_type reader(vector);
    Record last = Record::least();
    for (; !reader.empty(); ++reader) {
      if (*reader < last) state.SkipWithError("STXXL's vector is not sorted");
      last = *reader;
    }
  }
}

void sort_with_gnu(benchmark::State& state) {
  const Input<GnuRecord> input;
  const std::string output = path_of("out");
  const std::string memory = std::to_string(settings.memory_bytes / 1024) + "K";
  for (auto _ : state) {
    const Row row(state, RUSAGE_CHILDREN);
    const double begin = stxxl::timestamp();
    std::array<const char*, 9> arguments = {
        "sort", "-S",           memory.c_str(),       "-T",   settings.folder.c_str(),
        "-o",   output.c_str(), input.path().c_str(), nullptr};
    std::array<const char*, 3> environment = {"LC_ALL=C", "PATH=/usr/bin:/bin", nullptr};
    pid_t child = 0;
    int status =
        posix_spawnp(&child, "sort", nullptr, nullptr, const_cast<char**>(arguments.data()),
                     const_cast<char**>(environment.data()));
    if (status != 0 || waitpid(child, &status, 0) != child || status != 0) {
      state.SkipWithError("GNU sort failed");
      break;
    }
    const int file = open(output.c_str(), O_RDONLY | O_CLOEXEC);
    fsync(file);
    close(file);
    state.SetIterationTime(stxxl::timestamp() - begin);
  }
  expect_sorted<GnuRecord>(state, output);
  unlink(output.c_str());
}

// The disk's share of a sort, and nothing else.
void copy_twice(benchmark::State& state) {
  const Input<Key64<Arrival::kRandom>> input;
  const std::string run = path_of("run"), output = path_of("out");
  for (auto _ : state) {
    const Row row(state, RUSAGE_SELF);
    const double begin = stxxl::timestamp();
    bench::copy_plainly(input.path(), run);
    bench::copy_plainly(run, output);
    state.SetIterationTime(stxxl::timestamp() - begin);
  }
  unlink(run.c_str());
  unlink(output.c_str());
}

using bench::add_row;
using bench::shown;

template <typename Record>
void add_rows(std::vector<bench::Ratio>& ratios) {
  const std::string name = name_of<Record>(), vortex = name + "/vortex";
  add_row(vortex, sort_with_vortex<Record>);
  if constexpr (Record::kArrival == Arrival::kRandom ||
                std::is_same_v<Record, Key64<Record::kArrival>>) {
    add_row(name + "/stxxl", sort_with_stxxl<Record>);
  }
  if constexpr (std::is_same_v<Record, GnuRecord>) add_row(name + "/gnu_sort", sort_with_gnu);
  for (const std::string peer : {"stxxl", "gnu_sort"}) {
    ratios.push_back({name + ": vortex against " + peer, shown(vortex), shown(name + "/" + peer)});
  }
  ratios.push_back({name + ": vortex against two copies of u64", shown(vortex), shown(kTwoCopies)});
}

template <template <Arrival> typename Record>
void add_rows_of_all(std::vector<bench::Ratio>& ratios) {
  add_rows<Record<Arrival::kRandom>>(ratios);
  add_rows<Record<Arrival::kSorted>>(ratios);
  add_rows<Record<Arrival::kReversed>>(ratios);
  add_rows<Record<Arrival::kNearlySorted>>(ratios);
  add_rows<Record<Arrival::kDrifting>>(ratios);
  add_rows<Record<Arrival::kAppended>>(ratios);
}

// STXXL's disk: one file, reached directly and unlinked at once; its logs go nowhere.
void configure_stxxl() {
  setenv("STXXLLOGFILE", "/dev/null", 1);
  setenv("STXXLERRLOGFILE", "/dev/null", 1);
  stxxl::disk_config disk(path_of("stxxl"), 3 * settings.input_bytes + 256 * kMiB,
                          "syscall unlink direct=try");
  stxxl::config::get_instance()->add_disk(disk);
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  const std::vector<std::string> arguments =
      bench::benchmark_arguments(argc, argv, settings.options(), "3");
  configure_stxxl();
  std::vector<bench::Ratio> ratios;
  add_rows_of_all<Record100>(ratios);
  add_rows_of_all<Key64>(ratios);
  add_rows_of_all<Pair128>(ratios);
  add_row("records_100_fits/vortex", sort_with_vortex<Record100<Arrival::kRandom>, true>);
  add_row("u64_fits/vortex", sort_with_vortex<Key64<Arrival::kRandom>, true>);
  add_row("pairs_16_fits/vortex", sort_with_vortex<Pair128<Arrival::kRandom>, true>);
  add_row(kTwoCopies, copy_twice);
  return bench::run_with_ratios(arguments, ratios);
}
