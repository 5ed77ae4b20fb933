// How fast a block slides along an endless array: Table 2 of the Vortex paper (section 6.2).
//
// Every row moves one block forward again and again, without touching its bytes beyond what the
// method itself needs, so GB/s here is address space covered in a second. Compare with memcpy,
// which a copying stream would pay at least once for each byte.
//
//   commit         Vortex-B: make the pages accessible, touch each, give them back
//   bare_calls     Vortex-C, its system calls alone: place, withdraw, vacate, made by hand
//   remap          the same through BlockPool
//   remap_faults   a loop that touches one byte of each block of an InputStream; the faults do the
//                  rest
//   alias_faults   the same on a pool of aliases, vacated 16 blocks at a time
//   alias_exact    the same, each block vacated before it is given back
//
// The second argument is 1 for transparent huge pages, where the block is large enough for them.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "bench/support/ratios.h"
#include "vortex/block_pool.h"
#include "vortex/input_stream.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"

namespace vortex { namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kSpan = std::size_t{64} << 30;  // address space to slide along

// Hands out the one block it has, as it is.
class SameBlockSource final : public Source {
 public:
  explicit SameBlockSource(BlockPool& pool) : quota_(pool, 1, 1, "sliding block") {}
  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return 1; }
  Taken take(std::uint64_t, std::uint64_t) noexcept override {
    const auto [block, error] = quota_.try_take();
    return {block, pool().block_bytes(), {error, "no block"}};
  }
  void release(std::uint64_t, Block block) noexcept override { quota_.give_back(block); }
  std::optional<std::uint64_t> length() const noexcept override { return kSpan; }

 private:
  BlockQuota quota_;
};

BlockPoolOptions pool_options(const benchmark::State& state, PoolKind kind = PoolKind::kMoves) {
  const auto block_bytes = static_cast<std::size_t>(state.range(0));
  return {.pool_bytes = block_bytes,
          .block_bytes = block_bytes,
          .warming = Warming::kEager,
          .kind = kind,
          .huge_pages = state.range(1) != 0};
}

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void commit(benchmark::State& state) {
  const auto block_bytes = static_cast<std::size_t>(state.range(0));
  Reservation space({.bytes = kSpan});
  std::size_t at = 0;
  for (auto _ : state) {
    std::byte* const block = space.begin() + at;
    mprotect(block, block_bytes, PROT_READ | PROT_WRITE);
    if (state.range(1) != 0) madvise(block, block_bytes, MADV_HUGEPAGE);
    for (std::size_t page = 0; page < block_bytes; page += 4096) block[page] = std::byte{1};
    os::vacate(block, block_bytes);
    at = (at + block_bytes) % kSpan;
  }
  count(state);
}

void bare_calls(benchmark::State& state) {
  const auto block_bytes = static_cast<std::size_t>(state.range(0));
  BlockPool pool(pool_options(state));
  std::byte* const home = pool.homes();
  Reservation space({.bytes = kSpan});
  PageTableReclaimer page_tables(space, block_bytes);
  std::size_t at = 0;
  for (auto _ : state) {
    std::byte* const block = space.begin() + at;
    void* placed = mremap(home, block_bytes, block_bytes,
                          MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, block);
    void* withdrawn = mremap(block, block_bytes, block_bytes,
                             MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, home);
    void* vacated = mmap(block, block_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (placed == MAP_FAILED || withdrawn == MAP_FAILED || vacated == MAP_FAILED) {
      state.SkipWithError("a system call failed");
      break;
    }
    at = (at + block_bytes) % kSpan;
  }
  count(state);
}

void remap(benchmark::State& state) {
  const auto block_bytes = static_cast<std::size_t>(state.range(0));
  BlockPool pool(pool_options(state));
  BlockQuota quota(pool, 1, 1, "sliding block");
  const Block block = quota.try_take().block;
  Reservation space({.bytes = kSpan});
  std::size_t at = 0;
  for (auto _ : state) {
    if (pool.place(block, space.begin() + at) != 0 || pool.withdraw(block) != 0) {
      state.SkipWithError("a block could not be moved");
      break;
    }
    at = (at + block_bytes) % kSpan;
  }
  quota.give_back(block);
  count(state);
}

template <PoolKind kKind, StaleBlocks kStale>
void faults(benchmark::State& state) {
  const auto block_bytes = static_cast<std::size_t>(state.range(0));
  BlockPool pool(pool_options(state, kKind));
  const InputStreamOptions options{.comeback_blocks = 0, .stale_blocks = kStale};
  auto stream =
      std::make_unique<InputStream<char>>(std::make_unique<SameBlockSource>(pool), options);
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(*const_cast<const volatile char*>(stream->data() + at));
    at += block_bytes;
    if (at == kSpan) {  // a stream is read once
      state.PauseTiming();
      stream.reset();
      stream =
          std::make_unique<InputStream<char>>(std::make_unique<SameBlockSource>(pool), options);
      at = 0;
      state.ResumeTiming();
    }
  }
  count(state);
}

void copy(benchmark::State& state) {
  // Larger than the caches, and not zero.
  constexpr std::size_t kBytes = 256 * kMiB;
  std::vector<unsigned char> from(kBytes), to(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) from[i] = static_cast<unsigned char>(i * 167 + (i >> 9));
  std::memcpy(to.data(), from.data(), kBytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

void arguments(benchmark::internal::Benchmark* benchmark) {
  for (std::size_t bytes : {64 * kKiB, 256 * kKiB, kMiB, 2 * kMiB, 4 * kMiB, 8 * kMiB, 16 * kMiB}) {
    benchmark->Args({static_cast<std::int64_t>(bytes), 0});
    if (bytes >= 2 * kMiB) benchmark->Args({static_cast<std::int64_t>(bytes), 1});
  }
  benchmark->ArgNames({"block", "huge"})->UseRealTime()->MinTime(0.1);
}

BENCHMARK(copy)->UseRealTime()->MinTime(0.2)->Threads(1)->Threads(2);
BENCHMARK(commit)->Apply(arguments)->Threads(1)->Threads(2);
BENCHMARK(bare_calls)->Apply(arguments)->Threads(1)->Threads(2);
BENCHMARK(remap)->Apply(arguments)->Threads(1)->Threads(2);
BENCHMARK_TEMPLATE(faults, PoolKind::kMoves, 0)
    ->Name("remap_faults")
    ->Apply(arguments)
    ->Threads(1)
    ->Threads(2);
BENCHMARK_TEMPLATE(faults, PoolKind::kAliases, 15)
    ->Name("alias_faults")
    ->Apply(arguments)
    ->Threads(1)
    ->Threads(2);
BENCHMARK_TEMPLATE(faults, PoolKind::kAliases, 0)
    ->Name("alias_exact")
    ->Apply(arguments)
    ->Threads(1)
    ->Threads(2);

std::vector<bench::Ratio> ratios() {
  std::vector<bench::Ratio> list;
  for (const char* threads : {"1", "2"}) {
    const std::string suffix = std::string("/min_time:0.100/real_time/threads:") + threads;
    const std::string memcpy_name = std::string("copy/min_time:0.200/real_time/threads:") + threads;
    const std::string faults = "remap_faults/block:2097152/huge:1" + suffix;
    const std::string bare = "bare_calls/block:2097152/huge:1" + suffix;
    const std::string commits = "commit/block:2097152/huge:1" + suffix;
    const std::string who = std::string(", 2 MiB, ") + threads + " thread(s)";
    list.push_back({"remap with faults / memcpy" + who, faults, memcpy_name});
    list.push_back({"remap with faults / its bare system calls" + who, faults, bare});
    list.push_back({"remap with faults / commit and decommit" + who, faults, commits});
    list.push_back({"aliases with faults / remap with faults" + who,
                    "alias_faults/block:2097152/huge:1" + suffix, faults});
    list.push_back({"exact aliases with faults / remap with faults" + who,
                    "alias_exact/block:2097152/huge:1" + suffix, faults});
  }
  return list;
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  return vortex::bench::run_with_ratios(argc, argv, vortex::ratios());
}
