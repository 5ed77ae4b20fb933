#include "vortex/detail/radix/kept_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/sort.h"

namespace vortex::detail::kept_memory_test { namespace {

TEST(KeptMemory, IsGivenAgainWhereItIsLargeEnough) {
  const void* small = nullptr;
  const void* large = nullptr;
  {
    const KeptMemory first(10000, true), second(100000, true);
    small = first.get();
    large = second.get();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % KeptMemory::kAlignment, 0u);
  }
  const KeptMemory fits(9000, true);
  EXPECT_EQ(fits.get(), small);
  const KeptMemory fits_the_larger(9000, true);
  EXPECT_EQ(fits_the_larger.get(), large);
  const KeptMemory fits_none(9000, true);
  EXPECT_NE(fits_none.get(), small);
  EXPECT_NE(fits_none.get(), large);
}

TEST(KeptMemory, AThreadKeepsNoMoreThanItSays) {
  std::thread([] {
    auto random = test::test_random();
    for (int turn = 0; turn < 200; ++turn) {
      std::vector<std::unique_ptr<KeptMemory>> pieces(1 + random() % 6);
      for (auto& piece : pieces) {
        piece = std::make_unique<KeptMemory>(1 + random() % (9u << 20), random() % 8 != 0);
      }
      while (!pieces.empty()) {
        pieces.pop_back();
        ASSERT_LE(KeptMemory::kept_bytes(), KeptMemory::kMaxBytes);
      }
    }
    EXPECT_GT(KeptMemory::kept_bytes(), 0u);
    KeptMemory::release();
    EXPECT_EQ(KeptMemory::kept_bytes(), 0u);
    KeptMemory::release();
    const KeptMemory again(1000, true);
    std::memset(again.get(), 1, 1000);
  }).join();
}

// A sort that keeps memory, and the call that gives it back.
TEST(KeptMemory, OfSortsIsReleased) {
  std::thread([] {
    auto random = test::test_random();
    for (const std::size_t count : {20000, 30000, 200000}) {  // fewer may be sorted in place
      std::vector<std::uint64_t> words(count);
      for (std::uint64_t& word : words) word = random();
      sort(std::span<std::uint64_t>(words));
      EXPECT_GE(KeptMemory::kept_bytes(), 1000u * 8);
      EXPECT_LE(KeptMemory::kept_bytes(), KeptMemory::kMaxBytes);
      release_sort_memory();
      EXPECT_EQ(KeptMemory::kept_bytes(), 0u);
    }
  }).join();
}

// Whatever is alive at once is apart, is as large as asked for, and stays a thread's own.
TEST(KeptMemory, PiecesDoNotOverlap) {
  const auto work = [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    struct Piece {
      std::unique_ptr<KeptMemory> memory;
      std::size_t bytes;
      unsigned char value;
    };
    std::vector<Piece> pieces;
    for (int turn = 0; turn < 1000; ++turn) {
      if (pieces.size() < 6 && random() % 2 == 0) {
        const std::size_t bytes = 1 + random() % 50000;
        const auto value = static_cast<unsigned char>(random());
        pieces.push_back({std::make_unique<KeptMemory>(bytes, random() % 4 != 0), bytes, value});
        std::memset(pieces.back().memory->get(), value, bytes);
      } else if (!pieces.empty()) {
        const std::size_t chosen = random() % pieces.size();
        const auto* bytes = static_cast<const unsigned char*>(pieces[chosen].memory->get());
        for (std::size_t i = 0; i < pieces[chosen].bytes; ++i) {
          ASSERT_EQ(bytes[i], pieces[chosen].value);
        }
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(chosen));
      }
    }
  };
  auto random = test::test_random();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work, random());
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

}  // namespace vortex::detail::kept_memory_test
