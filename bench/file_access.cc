// A file larger than memory as an array, touched in several orders: FileReader, mmap and pread,
// with the same memory each, cold.
//
// Rows are ORDER/PEER. Orders: forward, backward, 16 walks in turn (`cursors`), forward with 1 % of
// the steps somewhere else (`jumps`), 4 KiB and 64 KiB in random places, and forward twice
// (`two_passes`). Steps of the walks have 64 KiB, whose words are added up. Peers: `vortex` with
// the blocks that a reader chooses by itself and the read-ahead for as many walks as there are,
// `vortex_64k` with blocks of 64 KiB, `vortex_file_io` (forward only) as the row `vortex_file` of
// file_io, `mmap`, `mmap_random` (MADV_RANDOM), `mmap_windows` (2 MiB, or the step where that is
// random, populated at once and given back, 16 of them), `pread` of a step (1 MiB where the order
// goes forward).
//
// A control group limits the memory of every row, the page cache included; `limited` is 0 where
// none can be made. `peak_mib` is the most that the group had. Rates are of the bytes touched.
//
// Options before those of Google Benchmark: --file=PATH, --mib=N of the file (1024), --memory-mib=N
// (64), --touches=N in random places (2000), --rounds=N (3), --block-kib=N and --read-ahead=N of
// the row `vortex` (as a reader chooses).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "bench/support/memory_group.h"
#include "bench/support/number_file.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "vortex/file_reader.h"

namespace vortex { namespace {

using bench::fail;
using bench::kMiB;

constexpr std::uint64_t kStep = std::uint64_t{64} << 10;
constexpr std::size_t kWalks = 16;
// For the process itself, its rings and page tables.
constexpr std::uint64_t kBeside = 8 * kMiB;

struct Settings {
  std::string path = "file_access.data";
  std::uint64_t bytes = 1024 * kMiB;
  std::uint64_t memory = 64 * kMiB;
  std::size_t touches = 2000;
  std::uint64_t block = 0;  // of the row `vortex`; 0: as a reader chooses
  std::size_t read_ahead = 0;
};
Settings settings;

// ---- Orders.

struct Touch {
  std::uint64_t offset;
  std::uint64_t bytes;
};

enum class Order { kForward, kBackward, kCursors, kJumps, kRandom4k, kRandom64k, kTwoPasses };
constexpr std::array kOrders = {"forward",   "backward",   "cursors",   "jumps",
                                "random_4k", "random_64k", "two_passes"};

bool is_random(Order order) { return order == Order::kRandom4k || order == Order::kRandom64k; }

std::vector<Touch> touches_in(Order order) {
  const std::uint64_t steps = settings.bytes / kStep;
  std::mt19937_64 random(1);
  std::vector<Touch> result;
  const auto somewhere = [&](std::uint64_t bytes) {
    return Touch{random() % (settings.bytes / bytes) * bytes, bytes};
  };
  if (is_random(order)) {
    for (std::size_t i = 0; i < settings.touches; ++i) {
      result.push_back(somewhere(order == Order::kRandom4k ? 4096 : kStep));
    }
    return result;
  }
  for (std::uint64_t i = 0; i < steps; ++i) {
    std::uint64_t step = i;
    if (order == Order::kBackward) step = steps - 1 - i;
    if (order == Order::kCursors) step = i % kWalks * (steps / kWalks) + i / kWalks;
    result.push_back({step * kStep, kStep});
    if (order == Order::kJumps && i % 100 == 99) result.push_back(somewhere(kStep));
  }
  if (order == Order::kTwoPasses) {
    const std::vector<Touch> first = result;
    result.insert(result.end(), first.begin(), first.end());
  }
  return result;
}

// ---- Peers.

std::uint64_t sum_of(const std::byte* data, std::uint64_t bytes) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(data);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) sum += words[i];
  return sum;
}

// Adds up everything that is touched.
using Peer = std::uint64_t (*)(Order order, const std::vector<Touch>& touches);

std::uint64_t read_with(FileReaderOptions options, Order order, const std::vector<Touch>& touches) {
  options.cursors = order == Order::kCursors ? kWalks : 1;
  // A walk alone needs no more than its read-ahead.
  if (order == Order::kCursors || is_random(order)) options.memory_bytes = settings.memory;
  const FileReader<std::byte> in(settings.path, options);
  std::uint64_t sum = 0;
  for (const Touch& touch : touches) sum += sum_of(in.data() + touch.offset, touch.bytes);
  return sum;
}

std::uint64_t with_vortex(Order order, const std::vector<Touch>& touches) {
  FileReaderOptions options{.block_bytes = settings.block};
  if (settings.read_ahead != 0) options.read_ahead = settings.read_ahead;
  return read_with(options, order, touches);
}

std::uint64_t with_vortex_64k(Order order, const std::vector<Touch>& touches) {
  return read_with({.block_bytes = kStep}, order, touches);
}

// As the row `vortex_file` of bench/file_io.
std::uint64_t with_vortex_as_file_io(Order order, const std::vector<Touch>& touches) {
  return read_with({.block_bytes = kMiB, .comeback_blocks = 0, .read_ahead = 4}, order, touches);
}

class Mapped {
 public:
  explicit Mapped(int advice) {
    const bench::Descriptor file(settings.path, O_RDONLY);
    void* const at = mmap(nullptr, settings.bytes, PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) fail("mmap");
    data_ = static_cast<std::byte*>(at);
    madvise(data_, settings.bytes, advice);
  }
  ~Mapped() { munmap(data_, settings.bytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

template <int kAdvice>
std::uint64_t with_mmap(Order, const std::vector<Touch>& touches) {
  const Mapped file(kAdvice);
  std::uint64_t sum = 0;
  for (const Touch& touch : touches) sum += sum_of(file.data() + touch.offset, touch.bytes);
  return sum;
}

std::uint64_t with_windows(Order order, const std::vector<Touch>& touches) {
  const Mapped file(MADV_NORMAL);
  const std::uint64_t window = is_random(order) ? touches.front().bytes : 2 * kMiB;
  std::array<std::uint64_t, kWalks> there{};
  there.fill(~std::uint64_t{0});
  std::size_t oldest = 0;
  std::uint64_t sum = 0;
  for (const Touch& touch : touches) {
    const std::uint64_t wanted = touch.offset / window;
    if (std::find(there.begin(), there.end(), wanted) == there.end()) {
      std::uint64_t& given_back = there[oldest++ % there.size()];
      if (given_back != ~std::uint64_t{0}) {
        madvise(file.data() + given_back * window, window, MADV_DONTNEED);
      }
      if (madvise(file.data() + wanted * window, window, MADV_POPULATE_READ) != 0) fail("madvise");
      given_back = wanted;
    }
    sum += sum_of(file.data() + touch.offset, touch.bytes);
  }
  return sum;
}

std::uint64_t with_pread(Order order, const std::vector<Touch>& touches) {
  const bench::Descriptor file(settings.path, O_RDONLY);
  const bool forward = order == Order::kForward || order == Order::kTwoPasses;
  std::vector<std::byte> buffer(forward ? kMiB : touches.front().bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < touches.size(); i += buffer.size() / touches.front().bytes) {
    if (pread(file, buffer.data(), buffer.size(), static_cast<off_t>(touches[i].offset)) !=
        static_cast<ssize_t>(buffer.size())) {
      fail("pread");
    }
    sum += sum_of(buffer.data(), buffer.size());
  }
  return sum;
}

struct NamedPeer {
  const char* name;
  Peer run;
};
constexpr std::array kPeers = {
    NamedPeer{"vortex", with_vortex},          NamedPeer{"vortex_64k", with_vortex_64k},
    NamedPeer{"mmap", with_mmap<MADV_NORMAL>}, NamedPeer{"mmap_random", with_mmap<MADV_RANDOM>},
    NamedPeer{"mmap_windows", with_windows},   NamedPeer{"pread", with_pread}};

// The numbers of the file follow each other.
std::uint64_t expected_sum(const std::vector<Touch>& touches) {
  std::uint64_t sum = 0;
  for (const Touch& touch : touches) {
    const std::uint64_t first = touch.offset / sizeof(std::uint64_t);
    const std::uint64_t count = touch.bytes / sizeof(std::uint64_t);
    sum += count * first + count * (count - 1) / 2;
  }
  return sum;
}

void add_row(Order order, const NamedPeer& peer) {
  const std::string name = std::string(kOrders[static_cast<std::size_t>(order)]) + "/" + peer.name;
  bench::add_row(name, [order, peer](benchmark::State& run) {
    bench::make_number_file(settings.path, settings.bytes);
    const std::vector<Touch> touches = touches_in(order);
    std::uint64_t bytes = 0;
    for (const Touch& touch : touches) bytes += touch.bytes;
    for (auto _ : run) {
      bench::drop_from_cache(settings.path);
      const bench::MemoryGroup group(settings.memory + kBeside);
      const double cpu = bench::cpu_seconds();
      std::uint64_t sum = 0;
      run.SetIterationTime(bench::seconds_of([&] { sum = peer.run(order, touches); }));
      run.counters["cpu_s"] = bench::cpu_seconds() - cpu;
      run.counters["limited"] = group.refusal.empty() ? 1 : 0;
      if (group.refusal.empty()) {
        run.counters["peak_mib"] = static_cast<double>(group.peak_bytes()) / kMiB;
      } else {
        run.SetLabel(group.refusal);
      }
      if (sum != expected_sum(touches)) throw std::runtime_error("a wrong sum");
    }
    run.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  });
}

std::vector<bench::Ratio> ratios() {
  std::vector<bench::Ratio> result;
  for (const char* const order : kOrders) {
    const auto row = [order](const char* peer) {
      return bench::shown(std::string(order) + "/" + peer);
    };
    for (const char* const peer : {"mmap", "mmap_random", "mmap_windows", "pread"}) {
      for (const char* const ours : {"vortex", "vortex_64k"}) {
        result.push_back(
            {std::string(order) + ": " + ours + " over " + peer, row(ours), row(peer)});
      }
    }
  }
  result.push_back({"vortex: forward over file_io", bench::shown("forward/vortex"),
                    bench::shown("forward/vortex_file_io")});
  result.push_back({"vortex: cursors over forward", bench::shown("cursors/vortex"),
                    bench::shown("forward/vortex")});
  return result;
}

int main_of(int argc, char** argv) {
  const std::vector<std::string> arguments =
      bench::benchmark_arguments(argc, argv,
                                 {{"--file=", bench::text(settings.path)},
                                  {"--mib=", bench::number(settings.bytes, kMiB)},
                                  {"--memory-mib=", bench::number(settings.memory, kMiB)},
                                  {"--block-kib=", bench::number(settings.block, 1024)},
                                  {"--read-ahead=", bench::number(settings.read_ahead)},
                                  {"--touches=", bench::number(settings.touches)}},
                                 "3");
  for (std::size_t order = 0; order < kOrders.size(); ++order) {
    for (const NamedPeer& peer : kPeers) add_row(static_cast<Order>(order), peer);
  }
  add_row(Order::kForward, {"vortex_file_io", with_vortex_as_file_io});
  return bench::run_with_ratios(arguments, ratios());
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) { return vortex::main_of(argc, argv); }
