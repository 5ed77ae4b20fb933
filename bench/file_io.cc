// Reading and writing a file: Table 3 of the Vortex paper (section 6.3).
//
// A file of 64-bit integers is summed, and written. Every row starts with a cold page cache, and
// writes end with fsync. Rows run in random order, several rounds of them; the medians count.
//
//   fstream        std::fstream, a value at a time
//   fread, fwrite  the same with the C library's buffers
//   read_1m        read(2), write(2) with 1 MiB
//   mmap           plain; mmap_sequential: MADV_SEQUENTIAL; mmap_populate: MAP_POPULATE
//   io_uring       by hand: O_DIRECT, 1 MiB, 4 in flight
//   io_uring_huge  the same on huge pages, which lie together: a disk is told of fewer pieces
//   io_uring_2m    by hand: 2 MiB in registered huge pages, 4 in flight
//   vortex_a       a callback stream that reads or writes 1 MiB directly inside its faults
//   vortex_b       a commit stream, a second thread moves 1 MiB directly at its other end
//   vortex_file    FileReader, FileWriter with the paper's settings: 1 MiB, 4 requests, no comeback
//   vortex_best    the same with the settings found best (2 MiB, 3 requests), or those of the
//   options fio            the ceiling: the same direct requests without a program that looks at
//   the data
//
// Counters: cpu_s processor seconds of the process, peak_MiB its resident peak above the start plus
// page tables, warm 1 when the page cache could not be dropped first.
//
// Options before those of Google Benchmark: --file=PATH (its folder decides the disk), --gib=N (8),
// --rounds=N (3), --warm (leave the page cache as it is: a file that is cached), --block-kib=N
// (2048) and --requests=N (3) of vortex_best and io_uring_2m.
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/support/number_file.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/memory_budget.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"

namespace vortex { namespace {

using bench::Descriptor;
using bench::fail;
using bench::kMiB;

struct Settings {
  std::string path = "file_io.data";
  std::uint64_t bytes = std::uint64_t{8} << 30;
  bool leave_cache = false;
  std::size_t best_block = 2 * kMiB;
  std::size_t best_requests = 3;
};
Settings settings;

std::uint64_t values() { return settings.bytes / sizeof(std::uint64_t); }

std::uint64_t sum(const std::uint64_t* data, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += data[i];
  return total;
}

void fill(std::uint64_t* data, std::uint64_t first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] = first + i;
}

void sync_file() {
  const Descriptor file(settings.path, O_RDONLY);
  if (fsync(file) != 0) fail("fsync");
}

// True: the file is not in the page cache afterwards.
bool drop_caches() {
  sync();
  if (std::ofstream("/proc/sys/vm/drop_caches") << 3 << std::flush) return true;
  const Descriptor file(settings.path, O_RDONLY);
  return posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
}

void write_1m();

// Readers find what the writers leave; before the first of them there is nothing.
void make_file() {
  struct stat status {};
  const bool there = stat(settings.path.c_str(), &status) == 0 &&
                     static_cast<std::uint64_t>(status.st_size) == settings.bytes;
  if (!there) write_1m();
}

// Memory for direct transfers, on huge pages for rows that would use them.
struct AlignedMemory {
  explicit AlignedMemory(std::size_t size, bool huge = false)
      : begin(static_cast<std::byte*>(std::aligned_alloc(huge ? 2 * kMiB : 4096, size))) {
    if (begin == nullptr) fail("memory");
    if (huge) madvise(begin, size, MADV_HUGEPAGE);
  }
  ~AlignedMemory() { std::free(begin); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  std::byte* begin;
};

// ---- Reading: each returns the sum.

std::uint64_t read_fstream() {
  std::ifstream file(settings.path, std::ios::binary);
  std::uint64_t total = 0;
  std::uint64_t value = 0;
  while (file.read(reinterpret_cast<char*>(&value), sizeof value)) total += value;
  return total;
}

std::uint64_t read_fread() {
  std::FILE* const file = std::fopen(settings.path.c_str(), "rb");
  if (file == nullptr) fail("fopen");
  std::uint64_t total = 0;
  std::uint64_t value = 0;
  while (std::fread(&value, sizeof value, 1, file) == 1) total += value;
  std::fclose(file);
  return total;
}

std::uint64_t read_1m() {
  const Descriptor file(settings.path, O_RDONLY);
  const AlignedMemory memory(kMiB);
  std::uint64_t total = 0;
  for (ssize_t got; (got = read(file, memory.begin, kMiB)) > 0;) {
    total += sum(reinterpret_cast<const std::uint64_t*>(memory.begin),
                 static_cast<std::size_t>(got) / sizeof(std::uint64_t));
  }
  return total;
}

std::uint64_t read_mapped(int flags, int advice) {
  const Descriptor file(settings.path, O_RDONLY);
  void* const memory = mmap(nullptr, settings.bytes, PROT_READ, MAP_SHARED | flags, file, 0);
  if (memory == MAP_FAILED) fail("mmap");
  if (advice != 0) madvise(memory, settings.bytes, advice);
  const std::uint64_t total = sum(static_cast<const std::uint64_t*>(memory), values());
  munmap(memory, settings.bytes);
  return total;
}

enum class Slots { kPages, kHugePages, kRegisteredHugePages };

// io_uring as one would write it by hand: `depth` slots of `block` bytes, and a ring that is torn
// down with the row.
class HandWritten {
 public:
  HandWritten(int file, std::size_t block, unsigned depth, Slots slots)
      : file_(file),
        block_(block),
        depth_(depth),
        fixed_(slots == Slots::kRegisteredHugePages),
        ended_(depth, 0),
        memory_(block * depth, slots != Slots::kPages) {
    if (const int error = io_uring_queue_init(depth, &ring_, 0)) {
      throw std::system_error(-error, std::generic_category(), "io_uring");
    }
    if (!fixed_) return;
    const iovec all{memory_.begin, block * depth};
    if (io_uring_register_buffers(&ring_, &all, 1) != 0) throw std::runtime_error("register");
  }
  ~HandWritten() { io_uring_queue_exit(&ring_); }
  HandWritten(const HandWritten&) = delete;
  HandWritten& operator=(const HandWritten&) = delete;

  // The slot of block `number`.
  std::uint64_t* slot(std::uint64_t number) const {
    return reinterpret_cast<std::uint64_t*>(memory_.begin + number % depth_ * block_);
  }

  void read(std::uint64_t number) {
    transfer(number, io_uring_prep_read, io_uring_prep_read_fixed);
  }
  void write(std::uint64_t number) {
    transfer(number, io_uring_prep_write, io_uring_prep_write_fixed);
  }

  // Waits until the request that was submitted for the slot of block `number` has ended.
  void wait(std::uint64_t number) {
    while (!ended_[number % depth_]) {
      io_uring_cqe* result = nullptr;
      if (io_uring_wait_cqe(&ring_, &result) < 0) fail("io_uring_wait_cqe");
      if (result->res != static_cast<int>(block_)) throw std::runtime_error("a short transfer");
      ended_[io_uring_cqe_get_data64(result) % depth_] = 1;
      io_uring_cqe_seen(&ring_, result);
    }
  }

 private:
  template <typename Prepare, typename PrepareFixed>
  void transfer(std::uint64_t number, Prepare prepare, PrepareFixed prepare_fixed) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    const auto bytes = static_cast<unsigned>(block_);
    if (fixed_) {
      prepare_fixed(entry, file_, slot(number), bytes, number * block_, 0);
    } else {
      prepare(entry, file_, slot(number), bytes, number * block_);
    }
    ended_[number % depth_] = 0;
    io_uring_sqe_set_data64(entry, number);
    if (io_uring_submit(&ring_) < 0) fail("io_uring_submit");
  }

  int file_;
  std::size_t block_;
  unsigned depth_;
  bool fixed_;
  std::vector<char> ended_;
  AlignedMemory memory_;
  io_uring ring_;
};

// Waits for the blocks in order and adds each up when it has arrived.
std::uint64_t read_uring(std::size_t block, unsigned depth, Slots slots) {
  const Descriptor file(settings.path, O_RDONLY | O_DIRECT);
  HandWritten disk(file, block, depth, slots);
  const std::uint64_t blocks = settings.bytes / block;
  for (std::uint64_t i = 0; i < depth && i < blocks; ++i) disk.read(i);
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    disk.wait(i);
    total += sum(disk.slot(i), block / 8);
    if (i + depth < blocks) disk.read(i + depth);
  }
  return total;
}

std::uint64_t read_vortex_a() {
  const Descriptor file(settings.path, O_RDONLY | O_DIRECT);
  BlockPool pool({.pool_bytes = kMiB, .block_bytes = kMiB});
  const auto stream = input_from_callback<std::uint64_t>(
      pool,
      [&](std::span<std::byte> block, std::uint64_t offset) {
        const ssize_t got = pread(file, block.data(), block.size(), static_cast<off_t>(offset));
        return got > 0 ? static_cast<std::size_t>(got) : 0;
      },
      {.comeback_blocks = 0}, settings.bytes);
  return sum(stream.data(), values());
}

std::uint64_t read_vortex_b() {
  const Descriptor file(settings.path, O_RDONLY | O_DIRECT);
  CommitStreamOptions options;
  options.block_bytes = kMiB;
  options.read_ahead_blocks = 4;
  options.reader_comeback_blocks = 0;
  CommitStream<std::uint64_t> stream(options);
  std::thread producer([&] {
    auto* const to = reinterpret_cast<volatile std::byte*>(stream.writer_data());
    for (std::uint64_t at = 0; at < settings.bytes; at += kMiB) {
      to[at] = std::byte{0};  // a system call does not fault
      if (pread(file, const_cast<std::byte*>(to + at), kMiB, static_cast<off_t>(at)) !=
          static_cast<ssize_t>(kMiB)) {
        std::abort();
      }
    }
    stream.finish(values());
  });
  const std::uint64_t total = sum(stream.reader_data(), values());
  producer.join();
  return total;
}

std::uint64_t read_vortex(std::size_t block, std::size_t requests) {
  const FileReader<std::uint64_t> file(
      settings.path, {.block_bytes = block, .comeback_blocks = 0, .read_ahead = requests});
  return sum(file.data(), file.size());
}

// ---- Writing: each leaves the values 0, 1, 2 … in the file, synced.

void write_fstream() {
  {
    std::ofstream file(settings.path, std::ios::binary);
    for (std::uint64_t i = 0; i < values(); ++i) {
      file.write(reinterpret_cast<const char*>(&i), sizeof i);
    }
  }
  sync_file();
}

void write_fwrite() {
  std::FILE* const file = std::fopen(settings.path.c_str(), "wb");
  if (file == nullptr) fail("fopen");
  for (std::uint64_t i = 0; i < values(); ++i) std::fwrite(&i, sizeof i, 1, file);
  std::fclose(file);
  sync_file();
}

void write_1m() {
  {
    const Descriptor file(settings.path, O_WRONLY | O_CREAT | O_TRUNC);
    const AlignedMemory memory(kMiB);
    for (std::uint64_t at = 0; at < settings.bytes; at += kMiB) {
      fill(reinterpret_cast<std::uint64_t*>(memory.begin), at / 8, kMiB / 8);
      if (write(file, memory.begin, kMiB) != static_cast<ssize_t>(kMiB)) fail("write");
    }
  }
  sync_file();
}

void write_mapped(int flags, int advice) {
  const Descriptor file(settings.path, O_RDWR | O_CREAT | O_TRUNC);
  if (ftruncate(file, static_cast<off_t>(settings.bytes)) != 0) fail("ftruncate");
  void* const memory =
      mmap(nullptr, settings.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file, 0);
  if (memory == MAP_FAILED) fail("mmap");
  if (advice != 0) madvise(memory, settings.bytes, advice);
  fill(static_cast<std::uint64_t*>(memory), 0, values());
  munmap(memory, settings.bytes);
  if (fsync(file) != 0) fail("fsync");
}

void write_uring(std::size_t block, unsigned depth, Slots slots) {
  const Descriptor file(settings.path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT);
  HandWritten disk(file, block, depth, slots);
  const std::uint64_t blocks = settings.bytes / block;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (i >= depth) disk.wait(i);
    fill(disk.slot(i), i * (block / 8), block / 8);
    disk.write(i);
  }
  for (std::uint64_t i = blocks - std::min<std::uint64_t>(depth, blocks); i < blocks; ++i) {
    disk.wait(i);
  }
  if (fsync(file) != 0) fail("fsync");
}

void write_vortex_a() {
  const Descriptor file(settings.path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT);
  BlockPool pool({.pool_bytes = kMiB, .block_bytes = kMiB});
  {
    auto stream = output_to_callback<std::uint64_t>(
        pool,
        [&](std::span<const std::byte> block, std::uint64_t offset) {
          if (pwrite(file, block.data(), block.size(), static_cast<off_t>(offset)) < 0)
            fail("pwrite");
        },
        {.comeback_blocks = 0});
    fill(stream.data(), 0, values());
    stream.finish(values());
  }
  if (fsync(file) != 0) fail("fsync");
}

void write_vortex_b() {
  const Descriptor file(settings.path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT);
  CommitStreamOptions options;
  options.block_bytes = kMiB;
  options.read_ahead_blocks = 4;
  options.writer_comeback_blocks = 0;
  options.reader_comeback_blocks = 0;
  CommitStream<std::uint64_t> stream(options);
  std::thread consumer([&] {
    auto* const from = reinterpret_cast<const volatile std::byte*>(stream.reader_data());
    for (std::uint64_t at = 0; at < settings.bytes; at += kMiB) {
      (void)from[at];  // a system call does not fault
      if (pwrite(file, const_cast<const std::byte*>(from + at), kMiB, static_cast<off_t>(at)) !=
          static_cast<ssize_t>(kMiB)) {
        std::abort();
      }
    }
  });
  fill(stream.writer_data(), 0, values());
  stream.finish(values());
  consumer.join();
  if (fsync(file) != 0) fail("fsync");
}

void write_vortex(std::size_t block, std::size_t requests) {
  FileWriter<std::uint64_t> file(
      settings.path,
      {.block_bytes = block, .comeback_blocks = 0, .write_behind = requests, .sync = true});
  fill(file.data(), 0, values());
  file.finish(values());
}

// ---- fio, as a child process. Its own clock counts; 0: there is none, or it failed.
double fio_bytes_per_s(const char* direction) {
  const std::string path = settings.path + (direction[0] == 'r' ? "" : ".fio");
  const std::string command =
      "fio --name=ceiling --filename='" + path + "' --rw=" + direction +
      " --bs=1M --iodepth=4 --ioengine=io_uring --direct=1 --end_fsync=1 --size=" +
      std::to_string(settings.bytes) + " --output-format=terse --terse-version=3 2>/dev/null";
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return 0;
  std::string line;
  for (int c; (c = std::fgetc(output)) != EOF;) line += static_cast<char>(c);
  pclose(output);
  if (direction[0] == 'w') unlink(path.c_str());
  // KiB/s are field 7 for reading and 48 for writing.
  std::size_t at = 0;
  for (int field = 1; field < (direction[0] == 'r' ? 7 : 48); ++field) {
    at = line.find(';', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  return std::strtod(line.c_str() + at, nullptr) * 1024;
}

class Row {
 public:
  explicit Row(benchmark::State& state) : state_(state) {
    // Memory that earlier rows left with the allocator would hide what this one takes.
    warm_ = settings.leave_cache || !drop_caches();
    reset_peak_resident();
    before_ = process_memory();
    cpu_ = bench::cpu_seconds();
  }
  ~Row() {
    state_.counters["cpu_s"] = bench::cpu_seconds() - cpu_;
    const ProcessMemory after = process_memory();
    state_.counters["peak_MiB"] =
        static_cast<double>(after.peak_resident_bytes - before_.resident_bytes +
                            after.page_table_bytes) /
        static_cast<double>(kMiB);
    state_.counters["warm"] = warm_ ? 1 : 0;
    state_.SetBytesProcessed(static_cast<std::int64_t>(settings.bytes));
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

 private:
  benchmark::State& state_;
  bool warm_ = false;
  ProcessMemory before_;
  double cpu_ = 0;
};

// A row whose rounds are `round`, which begins and ends with the time paused.
void add_row(const std::string& name, const std::function<void(benchmark::State&)>& round) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [round](benchmark::State& state) {
                                 try {
                                   for (auto _ : state) {
                                     state.PauseTiming();
                                     round(state);
                                     state.ResumeTiming();
                                   }
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kSecond);
}

void add_reader(const std::string& name, const std::function<std::uint64_t()>& read) {
  add_row("read/" + name, [read](benchmark::State& state) {
    make_file();
    const Row row(state);
    state.ResumeTiming();
    if (read() != bench::sum_of_first(values())) state.SkipWithError("a wrong sum");
    state.PauseTiming();
  });
}

void add_writer(const std::string& name, const std::function<void()>& write) {
  add_row("write/" + name, [write](benchmark::State& state) {
    unlink(settings.path.c_str());
    { const Descriptor fresh(settings.path, O_WRONLY | O_CREAT); }
    {
      const Row row(state);
      state.ResumeTiming();
      write();
      state.PauseTiming();
    }
    struct stat status {};
    if (stat(settings.path.c_str(), &status) != 0 ||
        static_cast<std::uint64_t>(status.st_size) != settings.bytes) {
      state.SkipWithError("a file of the wrong length");
    }
  });
}

void add_fio(const char* direction) {
  const auto run = [direction](benchmark::State& state) {
    for (auto _ : state) {
      drop_caches();
      const double rate = fio_bytes_per_s(direction);
      if (rate == 0) throw std::runtime_error("no fio on this machine");
      state.SetIterationTime(static_cast<double>(settings.bytes) / rate);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(settings.bytes));
  };
  bench::add_row(std::string(direction) + "/fio", run, benchmark::kSecond);
}

void add_rows() {
  add_reader("fstream", read_fstream);
  add_reader("fread", read_fread);
  add_reader("read_1m", read_1m);
  add_reader("mmap", [] { return read_mapped(0, 0); });
  add_reader("mmap_sequential", [] { return read_mapped(0, MADV_SEQUENTIAL); });
  add_reader("mmap_populate", [] { return read_mapped(MAP_POPULATE, 0); });
  add_reader("io_uring", [] { return read_uring(kMiB, 4, Slots::kPages); });
  add_reader("io_uring_huge", [] { return read_uring(kMiB, 4, Slots::kHugePages); });
  add_reader("io_uring_2m", [] {
    return read_uring(settings.best_block, static_cast<unsigned>(settings.best_requests + 1),
                      Slots::kRegisteredHugePages);
  });
  add_reader("vortex_a", read_vortex_a);
  add_reader("vortex_b", read_vortex_b);
  add_reader("vortex_file", [] { return read_vortex(kMiB, 4); });
  add_reader("vortex_best",
             [] { return read_vortex(settings.best_block, settings.best_requests); });
  add_fio("read");
  add_writer("fstream", write_fstream);
  add_writer("fwrite", write_fwrite);
  add_writer("write_1m", write_1m);
  add_writer("mmap", [] { write_mapped(0, 0); });
  add_writer("mmap_sequential", [] { write_mapped(0, MADV_SEQUENTIAL); });
  add_writer("mmap_populate", [] { write_mapped(MAP_POPULATE, 0); });
  add_writer("io_uring", [] { write_uring(kMiB, 4, Slots::kPages); });
  add_writer("io_uring_huge", [] { write_uring(kMiB, 4, Slots::kHugePages); });
  add_writer("io_uring_2m", [] {
    write_uring(settings.best_block, static_cast<unsigned>(settings.best_requests + 1),
                Slots::kRegisteredHugePages);
  });
  add_writer("vortex_a", write_vortex_a);
  add_writer("vortex_b", write_vortex_b);
  add_writer("vortex_file", [] { write_vortex(kMiB, 4); });
  add_writer("vortex_best", [] { write_vortex(settings.best_block, settings.best_requests); });
  add_fio("write");
}

const bench::OwnOptions kOptions = {
    {"--file=", bench::text(settings.path)},
    // Whole requests of all rows.
    {"--gib=",
     [](const std::string& value) {
       settings.bytes = static_cast<std::uint64_t>(std::stod(value) * 64) << 24;
     }},
    {"--block-kib=", bench::number(settings.best_block, 1024)},
    {"--requests=", bench::number(settings.best_requests)},
    {"--warm", [](const std::string&) { settings.leave_cache = true; }},
};

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  std::vector<std::string> arguments =
      vortex::bench::benchmark_arguments(argc, argv, vortex::kOptions, "3");
  vortex::add_rows();
  std::vector<vortex::bench::Ratio> ratios;
  for (const std::string direction : {"read/", "write/"}) {
    const auto shown = [&direction](const std::string& row) {
      return direction + row + "/iterations:1/real_time";
    };
    for (const char* row : {"vortex_file", "vortex_best"}) {
      for (const char* peer : {"io_uring", "io_uring_huge", "io_uring_2m", "mmap_sequential"}) {
        ratios.push_back({direction + row + " against " + peer, shown(row), shown(peer)});
      }
    }
  }
  const int result = vortex::bench::run_with_ratios(std::move(arguments), ratios);
  unlink(settings.path.c_str());
  return result;
}
