// The cost and the gain of Caching::kAuto: a file that is in the page cache, one that is not, and
// one of which every second 8 MiB are, read directly, through the cache, and as kAuto decides.
//
// Rows are FILE/STATE/CACHING. `large` is one file read once; `small` is a file of 1 MiB that is
// opened, read and closed 200 times, since what a small file costs is its opening. `through_cache`
// is the share of the requests that went through the page cache, `cpu_s` processor seconds. The
// rows probe/… ask the page cache about 2 MiB, `ns` a question.
//
// Options before those of Google Benchmark: --file=PATH (its folder decides the disk), --mib=N of
// the large file (1024), --rounds=N (5).
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/support/number_file.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "io/file/page_cache.h"
#include "vortex/file_reader.h"

namespace vortex { namespace {

using bench::kMiB;

constexpr std::uint64_t kPart = 8 * kMiB;

struct Settings {
  std::string path = "file_caching.data";
  std::uint64_t bytes = 1024 * kMiB;
};
Settings settings;

enum class State { kCold, kHalf, kWarm };
constexpr const char* kStateNames[] = {"cold", "half", "warm"};
constexpr const char* kCachingNames[] = {"auto", "direct", "buffered"};

struct TestFile {
  std::string path;
  std::uint64_t bytes;
  int opened;  // times in a row
};

TestFile small_file() { return {settings.path + ".small", kMiB, 200}; }
TestFile large_file() { return {settings.path, settings.bytes, 1}; }

// Leaves so much of the file in the page cache.
void bring_to(State state, const TestFile& file) {
  const bench::Descriptor descriptor(file.path, O_RDONLY);
  if (state != State::kWarm) posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (state != State::kCold) {
    // No reading ahead of what is asked for.
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
    std::vector<char> part(kPart);
    for (std::uint64_t at = 0; at < file.bytes; at += state == State::kHalf ? 2 * kPart : kPart) {
      if (pread(descriptor, part.data(), part.size(), static_cast<off_t>(at)) < 0) {
        bench::fail("pread");
      }
    }
  }
}

struct Totals {
  double seconds = 0;
  double cpu_s = 0;
  std::uint64_t requests = 0;
  std::uint64_t through_cache = 0;
};

void read_once(const TestFile& file, Caching caching, Totals& totals) {
  const double cpu = bench::cpu_seconds();
  std::uint64_t sum = 0;
  totals.seconds += bench::seconds_of([&] {
    const FileReader<std::uint64_t> in(file.path, {.comeback_blocks = 0, .caching = caching});
    const std::uint64_t* const data = in.data();
    const std::uint64_t size = in.size();
    for (std::uint64_t i = 0; i < size; ++i) sum += data[i];
    const TransferStatistics statistics = in.statistics().source;
    totals.requests += statistics.requests;
    totals.through_cache += statistics.cached_requests;
  });
  totals.cpu_s += bench::cpu_seconds() - cpu;
  if (sum != bench::sum_of_first(file.bytes / sizeof(std::uint64_t))) {
    throw std::runtime_error("a wrong sum");
  }
}

void add_row(const char* name, TestFile (*which)(), State state, Caching caching) {
  const std::string row = std::string(name) + "/" + kStateNames[static_cast<int>(state)] + "/" +
                          kCachingNames[static_cast<int>(caching)];
  bench::add_row(row, [which, state, caching](benchmark::State& run) {
    const TestFile file = which();
    Totals totals;
    bench::make_number_file(file.path, file.bytes);
    for (auto _ : run) {
      const double before = totals.seconds;
      for (int i = 0; i < file.opened; ++i) {
        bring_to(state, file);
        read_once(file, caching, totals);
      }
      run.SetIterationTime(totals.seconds - before);
    }
    run.SetBytesProcessed(static_cast<std::int64_t>(file.bytes) * file.opened);
    run.counters["cpu_s"] = totals.cpu_s;
    run.counters["through_cache"] =
        static_cast<double>(totals.through_cache) / static_cast<double>(totals.requests);
  });
}

void add_probe(const char* name, State state, PageCacheProbe::Method method) {
  const std::string row = std::string("probe/") + kStateNames[static_cast<int>(state)] + "/" + name;
  bench::add_row(row, [state, method](benchmark::State& run) {
    const TestFile file = large_file();
    bench::make_number_file(file.path, file.bytes);
    bring_to(state, file);
    const bench::Descriptor descriptor(file.path, O_RDONLY);
    PageCacheProbe probe(method);
    const std::uint64_t questions = file.bytes / (2 * kMiB);
    for (auto _ : run) {
      const double seconds = bench::seconds_of([&] {
        for (std::uint64_t i = 0; i < questions; ++i) {
          benchmark::DoNotOptimize(probe.worth_reading_through(descriptor, i * 2 * kMiB, 2 * kMiB));
        }
      });
      run.SetIterationTime(seconds);
      run.counters["ns"] = 1e9 * seconds / static_cast<double>(questions);
    }
    if (probe.method() != method) run.SkipWithError("not on this system");
  });
}

void add_rows() {
  for (const State state : {State::kCold, State::kHalf, State::kWarm}) {
    for (const Caching caching : {Caching::kDirect, Caching::kBuffered, Caching::kAuto}) {
      add_row("large", large_file, state, caching);
      // A file of 1 MiB has no half: kHalf leaves out every second 8 MiB.
      if (state != State::kHalf) add_row("small", small_file, state, caching);
    }
  }
  for (const State state : {State::kCold, State::kWarm}) {
    add_probe("cachestat", state, PageCacheProbe::Method::kCachestat);
    add_probe("read_nowait", state, PageCacheProbe::Method::kReadWithoutWaiting);
  }
}

const bench::OwnOptions kOptions = {
    {"--file=", bench::text(settings.path)},
    {"--mib=",
     [](const std::string& value) { settings.bytes = std::stoull(value) / 16 * 16 * kMiB; }},
};

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  std::vector<std::string> arguments =
      vortex::bench::benchmark_arguments(argc, argv, vortex::kOptions, "5");
  vortex::add_rows();
  std::vector<vortex::bench::Ratio> ratios;
  using vortex::bench::shown;
  for (const std::string row :
       {"large/cold/", "large/half/", "large/warm/", "small/cold/", "small/warm/"}) {
    for (const std::string peer : {"direct", "buffered"}) {
      ratios.push_back({row + "auto against " + peer, shown(row + "auto"), shown(row + peer)});
    }
  }
  const int result = vortex::bench::run_with_ratios(std::move(arguments), ratios);
  unlink(settings.path.c_str());
  unlink((settings.path + ".small").c_str());
  return result;
}
