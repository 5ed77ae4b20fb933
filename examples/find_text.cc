// Finds a word beyond 10 GiB of text with one call to strstr, in less than 16 MiB of memory.
//
// The text is made as strstr reads it: the function below runs inside its page faults (Vortex-A).
// Build it against an installed library with
//   c++ -std=c++20 -O2 find_text.cc $(pkg-config --cflags --libs vortex) -o find_text
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "vortex/input_stream.h"
#include "vortex/memory_budget.h"

namespace {

constexpr std::string_view kFiller = "the quick brown fox jumps over the lazy dog and runs on\n";
constexpr std::string_view kWord = "vortex";

// The text repeats one line; the word stands once, right behind `word_offset`.
class Text {
 public:
  explicit Text(std::uint64_t word_offset) : word_offset_(word_offset) {}

  std::uint64_t length() const { return word_offset_ + kWord.size(); }

  std::size_t fill(std::span<std::byte> block, std::uint64_t offset) const {
    std::size_t done = 0;
    std::size_t phase = offset % kFiller.size();
    // One line by hand, the rest by doubling what is there.
    while (done < block.size() && done < kFiller.size()) {
      block[done++] = static_cast<std::byte>(kFiller[phase]);
      if (++phase == kFiller.size()) phase = 0;
    }
    while (done < block.size()) {
      const std::size_t copied = std::min(done, block.size() - done);
      std::memcpy(block.data() + done, block.data(), copied);
      done += copied;
    }
    for (std::size_t i = 0; i < kWord.size(); ++i) {
      const std::uint64_t at = word_offset_ + i;
      if (at >= offset && at - offset < block.size()) {
        block[at - offset] = static_cast<std::byte>(kWord[i]);
      }
    }
    return block.size();
  }

 private:
  std::uint64_t word_offset_;
};

}  // namespace

int main(int argc, char** argv) {
  const double gib = argc > 1 ? std::atof(argv[1]) : 10.0;
  const Text text(static_cast<std::uint64_t>(gib * (1 << 30)));

  vortex::BlockPool pool({.pool_bytes = std::size_t{4} << 20});
  auto stream = vortex::input_from_callback<char>(
      pool,
      [&text](std::span<std::byte> block, std::uint64_t offset) {
        return text.fill(block, offset);
      },
      {.name = "text"}, text.length());

  std::printf("searching %.1f GiB of text for \"%s\" with one strstr()...\n", gib, kWord.data());
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const char* found = std::strstr(stream.data(), kWord.data());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (found == nullptr) {
    std::puts("not found: this is a bug");
    return 1;
  }
  const vortex::ProcessMemory memory = vortex::process_memory();
  std::printf("found at offset %llu after %.2f s (%.2f GB/s), %llu page faults\n",
              static_cast<unsigned long long>(found - stream.data()), seconds.count(),
              static_cast<double>(found - stream.data()) / seconds.count() / 1e9,
              static_cast<unsigned long long>(stream.statistics().faults));
  std::printf("peak memory %.1f MiB, page tables %.2f MiB\n",
              static_cast<double>(memory.peak_resident_bytes) / (1 << 20),
              static_cast<double>(memory.page_table_bytes) / (1 << 20));
  return found - stream.data() == static_cast<std::ptrdiff_t>(text.length() - kWord.size()) ? 0 : 1;
}
