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

#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "io/file/page_cache.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/thread/activity.h"

namespace vortex { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
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

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void make(const TestFile& file) {
  if (access(file.path.c_str(), F_OK) == 0) return;
  const std::uint64_t count = file.bytes / sizeof(std::uint64_t);
  FileWriter<std::uint64_t> out(file.path, {.sync = true, .expected_bytes = file.bytes});
  for (std::uint64_t i = 0; i < count; ++i) out.data()[i] = i;
  out.finish(count);
}

// Leaves so much of the file in the page cache.
void bring_to(State state, const TestFile& file) {
  const int descriptor = open(file.path.c_str(), O_RDONLY);
  if (descriptor < 0) fail("open");
  if (state != State::kWarm) posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (state != State::kCold) {
    // No reading ahead of what is asked for.
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
    std::vector<char> part(kPart);
    for (std::uint64_t at = 0; at < file.bytes; at += state == State::kHalf ? 2 * kPart : kPart) {
      if (pread(descriptor, part.data(), part.size(), static_cast<off_t>(at)) < 0) fail("pread");
    }
  }
  close(descriptor);
}

struct Totals {
  std::uint64_t ns = 0;
  double cpu_s = 0;
  std::uint64_t requests = 0;
  std::uint64_t through_cache = 0;
};

void read_once(const TestFile& file, Caching caching, Totals& totals) {
  const double cpu = bench::cpu_seconds();
  const std::uint64_t begin = steady_now_ns();
  std::uint64_t sum = 0;
  {
    const FileReader<std::uint64_t> in(file.path, {.comeback_blocks = 0, .caching = caching});
    const std::uint64_t* const data = in.data();
    const std::uint64_t size = in.size();
    for (std::uint64_t i = 0; i < size; ++i) sum += data[i];
    const FileSourceStatistics statistics = in.statistics().source;
    totals.requests += statistics.requests;
    totals.through_cache += statistics.cached_requests;
  }
  totals.ns += steady_now_ns() - begin;
  totals.cpu_s += bench::cpu_seconds() - cpu;
  const std::uint64_t count = file.bytes / sizeof(std::uint64_t);
  if (sum != count / 2 * (count - 1)) throw std::runtime_error("a wrong sum");
}

void add_row(const char* name, TestFile (*which)(), State state, Caching caching) {
  const std::string row = std::string(name) + "/" + kStateNames[static_cast<int>(state)] + "/" +
                          kCachingNames[static_cast<int>(caching)];
  benchmark::RegisterBenchmark(
      row.c_str(),
      [which, state, caching](benchmark::State& run) {
        const TestFile file = which();
        Totals totals;
        try {
          for (auto _ : run) {
            make(file);
            const std::uint64_t before = totals.ns;
            for (int i = 0; i < file.opened; ++i) {
              bring_to(state, file);
              read_once(file, caching, totals);
            }
            run.SetIterationTime(static_cast<double>(totals.ns - before) * 1e-9);
          }
        } catch (const std::exception& error) {
          run.SkipWithError(error.what());
          return;
        }
        run.SetBytesProcessed(static_cast<std::int64_t>(file.bytes) * file.opened);
        run.counters["cpu_s"] = totals.cpu_s;
        run.counters["through_cache"] =
            static_cast<double>(totals.through_cache) / static_cast<double>(totals.requests);
      })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void add_probe(const char* name, State state, PageCacheProbe::Method method) {
  benchmark::RegisterBenchmark(
      (std::string("probe/") + kStateNames[static_cast<int>(state)] + "/" + name).c_str(),
      [state, method](benchmark::State& run) {
        const TestFile file = large_file();
        make(file);
        bring_to(state, file);
        const int descriptor = open(file.path.c_str(), O_RDONLY);
        PageCacheProbe probe(method);
        const std::uint64_t questions = file.bytes / (2 * kMiB);
        for (auto _ : run) {
          const std::uint64_t begin = steady_now_ns();
          for (std::uint64_t i = 0; i < questions; ++i) {
            benchmark::DoNotOptimize(
                probe.worth_reading_through(descriptor, i * 2 * kMiB, 2 * kMiB));
          }
          const auto ns = static_cast<double>(steady_now_ns() - begin);
          run.SetIterationTime(ns * 1e-9);
          run.counters["ns"] = ns / static_cast<double>(questions);
        }
        close(descriptor);
        if (probe.method() != method) run.SkipWithError("not on this system");
      })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
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
    {"--file=", [](const std::string& value) { settings.path = value; }},
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
  const std::string suffix = "/iterations:1/manual_time";
  for (const std::string row :
       {"large/cold/", "large/half/", "large/warm/", "small/cold/", "small/warm/"}) {
    for (const std::string peer : {"direct", "buffered"}) {
      ratios.push_back({row + "auto against " + peer, row + "auto" + suffix, row + peer + suffix});
    }
  }
  const int result = vortex::bench::run_with_ratios(std::move(arguments), ratios);
  unlink(settings.path.c_str());
  unlink((settings.path + ".small").c_str());
  return result;
}
