// Sums one number in every few million out of an array of 1 TiB, in a few MiB of memory.
//
// The array holds f(i) at index i and exists only where it is touched: a reader that jumps forward
// skips blocks, which are never made (section 4.3 of the Vortex paper).
//
//   g++ -std=c++20 -O2 jump_sum.cc $(pkg-config --cflags --libs vortex) -o jump_sum
//   ./jump_sum
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>

#include "vortex/input_stream.h"
#include "vortex/memory_budget.h"

namespace {

constexpr std::uint64_t kArrayBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kNumbers = kArrayBytes / sizeof(std::uint64_t);
constexpr std::uint64_t kStride = 3'000'017;  // about 23 MiB: most blocks are never touched

std::uint64_t number_at(std::uint64_t index) { return index ^ (index >> 7); }

std::size_t fill(std::span<std::byte> block, std::uint64_t offset) {
  auto* numbers = reinterpret_cast<std::uint64_t*>(block.data());
  const std::uint64_t first = offset / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < block.size() / sizeof(std::uint64_t); ++i) {
    numbers[i] = number_at(first + i);
  }
  return block.size();
}

}  // namespace

int main() {
  // Small blocks: each jump makes one, of which it reads eight bytes.
  vortex::BlockPool pool(
      {.pool_bytes = std::size_t{128} << 10, .block_bytes = std::size_t{16} << 10});
  auto stream = vortex::input_from_callback<std::uint64_t>(
      pool, fill, {.name = "numbers", .comeback_blocks = 0}, kArrayBytes);

  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t* numbers = stream.data();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < kNumbers; i += kStride) sum += numbers[i];
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < kNumbers; i += kStride) expected += number_at(i);
  const vortex::ProcessMemory memory = vortex::process_memory();
  std::printf("sum over 1 TiB in %llu jumps: %llu (%s), %.2f s\n",
              static_cast<unsigned long long>(stream.statistics().faults),
              static_cast<unsigned long long>(sum), sum == expected ? "right" : "WRONG",
              seconds.count());
  std::printf("peak memory %.1f MiB, page tables %.2f MiB\n",
              static_cast<double>(memory.peak_resident_bytes) / (1 << 20),
              static_cast<double>(memory.page_table_bytes) / (1 << 20));
  return sum == expected ? 0 : 1;
}
