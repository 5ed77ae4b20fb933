// One thread produces, another sums: Tables 4 and 5 of the Vortex paper (section 6.4).
//
// Items are pairs of 8-byte integers, written and added up with vector instructions; GB/s count
// each byte once, from the producer to the consumer. `streams` is the number of pairs of threads
// that run at once. Rows:
//
//   memory_copy       memcpy of 256 MiB: what a copying transport pays on top
//   cached_copy       memcpy of 2 MiB over and over, in one core's caches
//   cache_to_cache    a ring of blocks and two counters: what the two cores can pass on at all
//   iterator_queue    blocks behind an iterator, in a bounded queue with a mutex and two semaphores
//                     (Algorithms 3 and 4): the item-by-item interface that Vortex replaces
//   tuned_iterator    the same, with the queue's code kept out of the loop by hand
//   spsc_queue        loops that know of blocks, over boost::lockfree::spsc_queue
//   pipe              pipe(2)
//   vortex_b          CommitStream
//   vortex_c          Pipeline, on a pool of aliases
//   vortex_c_exact    the same with every block vacated at once (stale_blocks = 0)
//   vortex_c_moves    Pipeline, on a pool that moves its blocks
//
// peak_MiB is what the process took at most beyond what it had before the row began.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/support/number_file.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "vortex/block_pool.h"
#include "vortex/memory_budget.h"
#include "vortex/pipeline.h"

namespace vortex { namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

using Item = std::uint64_t __attribute__((vector_size(16)));

// The items that every producer writes: 0, 1, 2, ... in pairs.
struct Counter {
  Item next = {0, 1};
  Item step() noexcept {
    const Item item = next;
    next += Item{2, 2};
    return item;
  }
};

std::uint64_t total(Item sum) { return sum[0] + sum[1]; }

__attribute__((noinline)) void write_items(Item* out, std::size_t count, Counter& counter) {
  Counter local = counter;
  for (std::size_t i = 0; i < count; ++i) out[i] = local.step();
  counter = local;
}

__attribute__((noinline)) Item add_items(const Item* in, std::size_t count, Item sum) {
  for (std::size_t i = 0; i < count; ++i) sum += in[i];
  return sum;
}

void wait_briefly(int& spins) {
  if (++spins > 1000) std::this_thread::yield();
}

// Warm memory for the peers, with huge pages like a pool's.
class Arena {
 public:
  Arena(std::size_t blocks, std::size_t block_bytes)
      : pool_({.pool_bytes = (blocks * block_bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB),
               .block_bytes = 2 * kMiB,
               .warming = Warming::kEager}),
        block_bytes_(block_bytes) {}
  Item* block(std::size_t i) const {
    return reinterpret_cast<Item*>(pool_.homes() + i * block_bytes_);
  }

 private:
  BlockPool pool_;
  std::size_t block_bytes_;
};

// The queue of Algorithm 4: an internal mutex and two semaphores.
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t depth)
      : room_(static_cast<std::ptrdiff_t>(depth)), ring_(depth) {}

  void push(Item* block) {
    room_.acquire();
    {
      std::lock_guard lock(mutex_);
      ring_[pushed_++ % ring_.size()] = block;
    }
    filled_.release();
  }

  Item* pop() {
    filled_.acquire();
    Item* block = nullptr;
    {
      std::lock_guard lock(mutex_);
      block = ring_[popped_++ % ring_.size()];
    }
    room_.release();
    return block;
  }

 private:
  std::mutex mutex_;
  std::counting_semaphore<> filled_{0};
  std::counting_semaphore<> room_;
  std::vector<Item*> ring_;
  std::size_t pushed_ = 0;
  std::size_t popped_ = 0;
};

enum class Refill {
  kInline,     // all of the iterator in the caller's loop, as in the paper: the compiler then keeps
               // the caller's vectors in memory, because the queue's calls would destroy them in
               // registers
  kOutOfLine,  // what somebody does who has found that out
};

// Algorithm 4. Writer's and reader's state lie in cache lines of their own.
template <Refill kRefill>
class BlockIterator {
 public:
  BlockIterator(const Arena& arena, std::size_t depth, std::size_t items_in_block)
      : block_items_(items_in_block), full_(depth + 1), empty_(depth + 1) {
    for (std::size_t i = 0; i < depth; ++i) empty_.push(arena.block(i));
    write_block_ = empty_.pop();
  }

  void start_reading() { read_block_ = full_.pop(); }
  void write(Item item) {
    write_block_[write_at_] = item;
    if (write_at_ != block_items_ - 1) {
      ++write_at_;
    } else if constexpr (kRefill == Refill::kInline) {
      pass_on();
    } else {
      pass_on_out_of_line();
    }
  }
  Item read() {
    const Item item = read_block_[read_at_];
    if (read_at_ != block_items_ - 1) {
      ++read_at_;
    } else if constexpr (kRefill == Refill::kInline) {
      turn_over();
    } else {
      turn_over_out_of_line();
    }
    return item;
  }
  // The last block, which need not be full.
  void flush() { full_.push(write_block_); }

 private:
  void pass_on() {
    full_.push(write_block_);
    write_block_ = empty_.pop();
    write_at_ = 0;
  }
  void turn_over() {
    empty_.push(read_block_);
    read_block_ = full_.pop();
    read_at_ = 0;
  }
  __attribute__((noinline, cold)) void pass_on_out_of_line() { pass_on(); }
  __attribute__((noinline, cold)) void turn_over_out_of_line() { turn_over(); }

  const std::size_t block_items_;
  BoundedQueue full_;
  BoundedQueue empty_;
  alignas(64) Item* write_block_ = nullptr;
  std::size_t write_at_ = 0;
  alignas(64) Item* read_block_ = nullptr;
  std::size_t read_at_ = 0;
};

// The work of a row in each of its streams. A transport is made before the clock starts.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void produce(std::size_t items) = 0;
  virtual std::uint64_t consume(std::size_t items) = 0;
};

template <Refill kRefill>
class IteratorQueue final : public Transport {
 public:
  IteratorQueue(std::size_t block_bytes, std::size_t depth)
      : arena_(depth, block_bytes), iterator_(arena_, depth, block_bytes / sizeof(Item)) {}
  void produce(std::size_t items) override {
    Counter counter;
    for (std::size_t i = 0; i < items; ++i) iterator_.write(counter.step());
    iterator_.flush();
  }
  std::uint64_t consume(std::size_t items) override {
    Item sum = {};
    iterator_.start_reading();
    for (std::size_t i = 0; i < items; ++i) sum += iterator_.read();
    return total(sum);
  }

 private:
  Arena arena_;
  BlockIterator<kRefill> iterator_;
};

class SpscQueue final : public Transport {
 public:
  SpscQueue(std::size_t block_bytes, std::size_t depth)
      : block_items_(block_bytes / sizeof(Item)),
        arena_(depth, block_bytes),
        full_(depth),
        empty_(depth) {
    for (std::size_t i = 0; i < depth; ++i) empty_.push(arena_.block(i));
  }
  void produce(std::size_t items) override {
    Counter counter;
    for (std::size_t done = 0; done < items; done += block_items_) {
      Item* block = pop(empty_);
      write_items(block, block_items_, counter);
      full_.push(block);
    }
  }
  std::uint64_t consume(std::size_t items) override {
    Item sum = {};
    for (std::size_t done = 0; done < items; done += block_items_) {
      Item* block = pop(full_);
      sum = add_items(block, block_items_, sum);
      empty_.push(block);
    }
    return total(sum);
  }

 private:
  using Queue = boost::lockfree::spsc_queue<Item*>;
  static Item* pop(Queue& queue) {
    Item* block = nullptr;
    for (int spins = 0; !queue.pop(block);) wait_briefly(spins);
    return block;
  }

  const std::size_t block_items_;
  Arena arena_;
  Queue full_;
  Queue empty_;
};

// No queue at all: a ring in which each side watches how far the other one is.
class CacheToCache final : public Transport {
 public:
  CacheToCache(std::size_t block_bytes, std::size_t depth)
      : block_items_(block_bytes / sizeof(Item)), depth_(depth), arena_(depth, block_bytes) {}
  void produce(std::size_t items) override {
    Counter counter;
    for (std::size_t block = 0; block < items / block_items_; ++block) {
      for (int spins = 0; block - consumed_.load(std::memory_order_acquire) >= depth_;) {
        wait_briefly(spins);
      }
      write_items(arena_.block(block % depth_), block_items_, counter);
      produced_.store(block + 1, std::memory_order_release);
    }
  }
  std::uint64_t consume(std::size_t items) override {
    Item sum = {};
    for (std::size_t block = 0; block < items / block_items_; ++block) {
      for (int spins = 0; produced_.load(std::memory_order_acquire) <= block;) {
        wait_briefly(spins);
      }
      sum = add_items(arena_.block(block % depth_), block_items_, sum);
      consumed_.store(block + 1, std::memory_order_release);
    }
    return total(sum);
  }

 private:
  const std::size_t block_items_;
  const std::size_t depth_;
  Arena arena_;
  alignas(64) std::atomic<std::size_t> produced_{0};
  alignas(64) std::atomic<std::size_t> consumed_{0};
};

class UnixPipe final : public Transport {
 public:
  UnixPipe(std::size_t block_bytes, std::size_t) : bytes_(block_bytes), arena_(2, block_bytes) {
    if (::pipe2(ends_, O_CLOEXEC) != 0) std::abort();
    fcntl(ends_[1], F_SETPIPE_SZ, static_cast<int>(kMiB));
  }
  ~UnixPipe() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  UnixPipe(const UnixPipe&) = delete;
  UnixPipe& operator=(const UnixPipe&) = delete;

  void produce(std::size_t items) override {
    Counter counter;
    const std::size_t block_items = bytes_ / sizeof(Item);
    for (std::size_t done = 0; done < items; done += block_items) {
      write_items(arena_.block(0), block_items, counter);
      const auto* from = reinterpret_cast<const char*>(arena_.block(0));
      for (std::size_t at = 0; at < bytes_;) {
        const ssize_t moved = write(ends_[1], from + at, bytes_ - at);
        if (moved <= 0) std::abort();
        at += static_cast<std::size_t>(moved);
      }
    }
  }
  std::uint64_t consume(std::size_t items) override {
    Item sum = {};
    const std::size_t block_items = bytes_ / sizeof(Item);
    for (std::size_t done = 0; done < items; done += block_items) {
      auto* to = reinterpret_cast<char*>(arena_.block(1));
      for (std::size_t at = 0; at < bytes_;) {
        const ssize_t moved = read(ends_[0], to + at, bytes_ - at);
        if (moved <= 0) std::abort();
        at += static_cast<std::size_t>(moved);
      }
      sum = add_items(arena_.block(1), block_items, sum);
    }
    return total(sum);
  }

 private:
  const std::size_t bytes_;
  Arena arena_;
  int ends_[2];
};

class VortexB final : public Transport {
 public:
  VortexB(std::size_t block_bytes, std::size_t blocks)
      : stream_({.block_bytes = block_bytes,
                 .read_ahead_blocks = blocks - 1,
                 .writer_comeback_blocks = 0,
                 .reader_comeback_blocks = 0}) {}
  void produce(std::size_t items) override {
    Counter counter;
    write_items(stream_.writer_data(), items, counter);
    stream_.finish(items);
  }
  std::uint64_t consume(std::size_t items) override {
    return total(add_items(stream_.reader_data(), items, Item{}));
  }

 private:
  CommitStream<Item> stream_;
};

template <PoolKind kKind, StaleBlocks kStale = 15>
class VortexC final : public Transport {
 public:
  VortexC(std::size_t block_bytes, std::size_t blocks)
      : pipeline_({.read_ahead_blocks = blocks - 1,
                   .writer_comeback_blocks = 0,
                   .reader_comeback_blocks = 0,
                   .stale_blocks = kStale,
                   .pool = std::make_shared<BlockPool>(
                       BlockPoolOptions{.pool_bytes = blocks * block_bytes,
                                        .block_bytes = block_bytes,
                                        .warming = Warming::kEager,
                                        .kind = kKind})}),
        writer_(pipeline_.writer()),
        reader_(pipeline_.reader()) {}
  void produce(std::size_t items) override {
    Counter counter;
    write_items(writer_.data(), items, counter);
    writer_.finish(items);
  }
  std::uint64_t consume(std::size_t items) override {
    return total(add_items(reader_.data(), items, Item{}));
  }

 private:
  Pipeline<Item> pipeline_;
  PipelineWriter<Item> writer_;
  PipelineReader<Item> reader_;
};

// Small blocks are slow for some; everybody gets at least 128 MiB and a thousand blocks.
std::size_t stream_bytes(std::size_t block_bytes) {
  return std::clamp(block_bytes * 1024, 128 * kMiB, 1024 * kMiB);
}

template <typename T>
void transport(benchmark::State& state) {
  const auto block_bytes = static_cast<std::size_t>(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  const auto streams = static_cast<std::size_t>(state.range(2));
  const std::size_t items = stream_bytes(block_bytes) / sizeof(Item);
  std::size_t peak_bytes = 0;
  for (auto _ : state) {
    const std::size_t resident_before = process_memory().resident_bytes;
    reset_peak_resident();
    std::vector<std::unique_ptr<Transport>> transports;
    for (std::size_t i = 0; i < streams; ++i) {
      transports.push_back(std::make_unique<T>(block_bytes, blocks));
    }
    std::atomic<bool> started{false};
    std::atomic<std::size_t> wrong{0};
    std::vector<std::thread> threads;
    const auto wait_for_start = [&started] {
      for (int spins = 0; !started.load(std::memory_order_acquire);) wait_briefly(spins);
    };
    for (auto& each : transports) {
      threads.emplace_back([&] {
        wait_for_start();
        each->produce(items);
      });
      threads.emplace_back([&] {
        wait_for_start();
        wrong += each->consume(items) != bench::sum_of_first(2 * items);
      });
    }
    state.SetIterationTime(bench::seconds_of([&] {
      started.store(true, std::memory_order_release);
      for (std::thread& thread : threads) thread.join();
    }));
    if (wrong != 0) state.SkipWithError("the sum is wrong");
    const std::size_t peak = process_memory().peak_resident_bytes;
    peak_bytes = std::max(peak_bytes, peak - std::min(peak, resident_before));
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(streams * items * sizeof(Item)));
  state.counters["peak_MiB"] = static_cast<double>(peak_bytes) / static_cast<double>(kMiB);
}

void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Arena from(1, bytes), to(1, bytes);
  Counter counter;
  write_items(from.block(0), bytes / sizeof(Item), counter);
  const std::size_t rounds = std::max<std::size_t>(1, 512 * kMiB / bytes);
  for (auto _ : state) {
    state.SetIterationTime(bench::seconds_of([&] {
      for (std::size_t i = 0; i < rounds; ++i) {
        std::memcpy(to.block(0), from.block(0), bytes);
        benchmark::ClobberMemory();
      }
    }));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rounds * bytes));
}

const auto kCores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));

using Sizes = std::vector<std::size_t>;
const Sizes kAllSizes = {16 * kKiB,  32 * kKiB, 64 * kKiB, 128 * kKiB, 256 * kKiB,
                         512 * kKiB, kMiB,      2 * kMiB,  4 * kMiB,   8 * kMiB};
const Sizes kPeerSizes = {64 * kKiB, 256 * kKiB, kMiB, 2 * kMiB, 4 * kMiB};

// Rows of one stream for each size and number of blocks, and one of a stream a core, with blocks of
// the size where the transport is at its best; 0: none.
template <typename T>
benchmark::internal::Benchmark* add_transport(const char* name, const Sizes& block_bytes,
                                              const std::vector<std::int64_t>& depths,
                                              std::size_t best_bytes) {
  benchmark::internal::Benchmark* const row = benchmark::RegisterBenchmark(name, transport<T>)
                                                  ->ArgNames({"block", "blocks", "streams"})
                                                  ->UseManualTime()
                                                  ->Iterations(1);
  for (const std::size_t bytes : block_bytes) {
    for (const std::int64_t depth : depths) row->Args({static_cast<std::int64_t>(bytes), depth, 1});
  }
  if (best_bytes != 0) row->Args({static_cast<std::int64_t>(best_bytes), depths.back(), kCores});
  return row;
}

// Also 4 and 8 MiB of memory in blocks of different sizes. A fault that places a run of k ready
// blocks in one move costs what it costs to place a block k times as large, so the rows of larger
// blocks bound what runs can gain.
template <typename T>
void add_vortex_c(const char* name) {
  auto* const row = add_transport<T>(name, kAllSizes, {3, 4}, 2 * kMiB);
  for (const std::size_t memory : {4 * kMiB, 8 * kMiB}) {
    for (const std::size_t bytes : {128 * kKiB, 256 * kKiB, 512 * kKiB, kMiB, 2 * kMiB}) {
      const auto blocks = static_cast<std::int64_t>(memory / bytes);
      if (blocks != 4) row->Args({static_cast<std::int64_t>(bytes), blocks, 1});
    }
  }
}

void add_rows() {
  add_transport<CacheToCache>("cache_to_cache", {256 * kKiB, 2 * kMiB}, {4}, 0);
  add_transport<IteratorQueue<Refill::kInline>>("iterator_queue", kPeerSizes, {2, 4}, 2 * kMiB);
  add_transport<IteratorQueue<Refill::kOutOfLine>>("tuned_iterator", kPeerSizes, {2, 4}, 2 * kMiB);
  add_transport<SpscQueue>("spsc_queue", kPeerSizes, {4}, 2 * kMiB);
  add_transport<UnixPipe>("pipe", {64 * kKiB, kMiB}, {2}, 64 * kKiB);
  add_transport<VortexB>("vortex_b", {64 * kKiB, 256 * kKiB, kMiB, 2 * kMiB}, {4}, kMiB);
  add_vortex_c<VortexC<PoolKind::kAliases>>("vortex_c");
  add_vortex_c<VortexC<PoolKind::kAliases, 0>>("vortex_c_exact");
  add_vortex_c<VortexC<PoolKind::kMoves>>("vortex_c_moves");
}

BENCHMARK(copy)->Name("memory_copy")->Arg(256 * kMiB)->UseManualTime()->Iterations(1);
BENCHMARK(copy)->Name("cached_copy")->Arg(2 * kMiB)->UseManualTime()->Iterations(1);

std::string row_name(const char* family, std::size_t block_bytes, std::int64_t blocks,
                     std::int64_t streams) {
  return std::string(family) + "/block:" + std::to_string(block_bytes) +
         "/blocks:" + std::to_string(blocks) + "/streams:" + std::to_string(streams) +
         "/iterations:1/manual_time";
}

std::vector<bench::Ratio> ratios() {
  std::vector<bench::Ratio> list;
  const std::string memcpy_name = "memory_copy/268435456/iterations:1/manual_time";
  for (const char* family : {"vortex_c", "vortex_c_exact", "vortex_c_moves"}) {
    const std::string who = std::string(family) + " / ";
    for (const std::size_t bytes : {kMiB, 2 * kMiB, 4 * kMiB}) {
      const std::string at = ", blocks of " + std::to_string(bytes / kKiB) + " KiB";
      const std::string c = row_name(family, bytes, 4, 1);
      list.push_back({who + "iterator_queue" + at, c, row_name("iterator_queue", bytes, 4, 1)});
      list.push_back({who + "tuned_iterator" + at, c, row_name("tuned_iterator", bytes, 4, 1)});
      list.push_back({who + "spsc_queue" + at, c, row_name("spsc_queue", bytes, 4, 1)});
      list.push_back({who + "memory_copy" + at, c, memcpy_name});
    }
    const std::string c = row_name(family, 2 * kMiB, 4, 1);
    list.push_back({who + "cache_to_cache", c, row_name("cache_to_cache", 2 * kMiB, 4, 1)});
    list.push_back({who + "pipe", c, row_name("pipe", 64 * kKiB, 2, 1)});
    list.push_back({who + "vortex_b", c, row_name("vortex_b", kMiB, 4, 1)});
    const std::string all = row_name(family, 2 * kMiB, 4, kCores);
    list.push_back({who + "iterator_queue, a stream a core", all,
                    row_name("iterator_queue", 2 * kMiB, 4, kCores)});
  }
  for (const auto& [bytes, blocks] : {std::pair{128 * kKiB, 64}, {512 * kKiB, 16}, {2 * kMiB, 4}}) {
    list.push_back({"vortex_c / vortex_c_moves, blocks of " + std::to_string(bytes / kKiB) + " KiB",
                    row_name("vortex_c", bytes, blocks, 1),
                    row_name("vortex_c_moves", bytes, blocks, 1)});
  }
  return list;
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  vortex::add_rows();
  return vortex::bench::run_with_ratios(argc, argv, vortex::ratios());
}
