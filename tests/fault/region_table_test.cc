// The table of regions against std::map, and under threads that look up while others change it.
#include "vortex/fault/region_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/threads.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/output_stream.h"

namespace vortex::region_table_test { namespace {

struct Nobody final : FaultServer {
  bool serve(const Fault&, Failure&) noexcept override { return true; }
  void abandon(const Failure&) noexcept override {}
};
Nobody nobody;

// Addresses that are never touched.
std::byte* at(std::uintptr_t offset) {
  return reinterpret_cast<std::byte*>(std::uintptr_t{0x10000000} + offset);
}

TEST(LiesInStream, IsSoWhileTheStreamIsThere) {
  const std::byte here{};
  EXPECT_FALSE(lies_in_stream(&here));
  EXPECT_FALSE(lies_in_stream(nullptr));
  const std::byte* begin = nullptr;
  {
    BlockPool pool({.pool_bytes = 1 << 20, .block_bytes = 1 << 16});
    auto stream =
        output_to_callback<std::byte>(pool, [](std::span<const std::byte>, std::uint64_t) {});
    begin = stream.data();
    EXPECT_TRUE(lies_in_stream(begin));
    EXPECT_TRUE(lies_in_stream(begin + 12345));
    EXPECT_FALSE(lies_in_stream(&here));
  }
  EXPECT_FALSE(lies_in_stream(begin));
}

TEST(RegionTable, Empty) {
  RegionTable table;
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.pin(at(0)), nullptr);
  EXPECT_EQ(table.pin(nullptr), nullptr);
}

TEST(RegionTable, BoundsAreExact) {
  RegionTable table;
  Region region(at(100), 50, nobody);
  table.add(region);
  EXPECT_EQ(table.pin(at(99)), nullptr);
  EXPECT_EQ(table.pin(at(150)), nullptr);
  for (const std::uintptr_t inside : {100, 101, 149}) {
    ASSERT_EQ(table.pin(at(inside)), &region) << inside;
    region.unpin();
  }
  region.wait_until_unpinned();
  table.remove(region);
  EXPECT_EQ(table.pin(at(100)), nullptr);
}

// A child's own maps may lie where blocks of its parent were.
TEST(RegionTable, WhatAForkedChildInheritedGivesWay) {
  RegionTable table;
  Region first(at(0), 100, nobody);
  Region second(at(100), 100, nobody);
  Region third(at(200), 100, nobody);
  for (Region* region : {&first, &second, &third}) table.add(*region);
  Region own(at(50), 120, nobody);
  EXPECT_THROW(table.add(own), Error);
  table.become_inherited();
  table.add(own);
  EXPECT_EQ(table.size(), 2U);
  for (const std::uintptr_t inside : {50, 100, 169}) {
    ASSERT_EQ(table.pin(at(inside)), &own) << inside;
    own.unpin();
  }
  EXPECT_EQ(table.pin(at(170)), nullptr);
  EXPECT_EQ(table.pin(at(200)), &third);
  EXPECT_TRUE(third.inherited() && !own.inherited());
  Region other(at(60), 10, nobody);
  EXPECT_THROW(table.add(other), Error);
  for (Region* region : {&first, &second, &third, &own}) table.remove(*region);
  EXPECT_EQ(table.size(), 0U);
}

TEST(RegionTable, TheWholeAddressSpace) {
  RegionTable table;
  auto* const bottom = reinterpret_cast<std::byte*>(std::uintptr_t{1});  // null has no offsets
  Region low(bottom, 4095, nobody);
  auto* const top = reinterpret_cast<std::byte*>(~std::uintptr_t{0} - 4096);
  Region high(top, 4096, nobody);
  table.add(low);
  table.add(high);
  EXPECT_EQ(table.pin(nullptr), nullptr);
  EXPECT_EQ(table.pin(bottom), &low);
  EXPECT_EQ(table.pin(top + 4095), &high);
  EXPECT_EQ(table.pin(top + 4096), nullptr);
  EXPECT_EQ(table.pin(top - 1), nullptr);
}

TEST(RegionTable, ModelAgainstAMap) {
  constexpr std::uintptr_t kSpace = 2000;
  const int rounds = test::long_tests() ? 500'000 : 20'000;
  auto random = test::test_random();
  RegionTable table;
  std::map<std::uintptr_t, std::unique_ptr<Region>> model;  // by first offset
  const auto owner = [&model](std::uintptr_t offset) -> Region* {
    auto after = model.upper_bound(offset);
    if (after == model.begin()) return nullptr;
    Region* region = std::prev(after)->second.get();
    return at(offset) < region->end() ? region : nullptr;
  };
  for (int round = 0; round < rounds; ++round) {
    const std::uintptr_t offset = random() % kSpace;
    switch (random() % 4) {
      case 0: {
        const std::size_t bytes = random() % 40;
        auto region = std::make_unique<Region>(at(offset), bytes, nobody);
        bool free = bytes > 0;
        for (std::uintptr_t i = offset; free && i < offset + bytes; ++i) free = !owner(i);
        if (free) {
          table.add(*region);
          model.emplace(offset, std::move(region));
        } else {
          EXPECT_THROW(table.add(*region), Error);
        }
        break;
      }
      case 1: {
        Region* region = owner(offset);
        if (region == nullptr) break;
        table.remove(*region);
        region->wait_until_unpinned();
        model.erase(static_cast<std::uintptr_t>(region->begin() - at(0)));
        break;
      }
      default: {
        Region* region = table.pin(at(offset));
        ASSERT_EQ(region, owner(offset)) << "at " << offset << " in round " << round;
        if (region != nullptr) region->unpin();
      }
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

// A region knows whether it may be found: after remove() and the end of its pins, never.
class MortalRegion {
 public:
  MortalRegion(RegionTable& table, std::uintptr_t offset, std::size_t bytes)
      : table_(table), region_(at(offset), bytes, server_) {
    server_.alive = true;
    table_.add(region_);
  }
  ~MortalRegion() {
    table_.remove(region_);
    region_.wait_until_unpinned();
    server_.alive = false;
  }

  struct Server final : FaultServer {
    bool serve(const Fault&, Failure&) noexcept override { return true; }
    void abandon(const Failure&) noexcept override {}
    // Not atomic: the pin is what makes reading it safe, and the thread sanitizer checks that.
    bool alive = false;
  };

 private:
  RegionTable& table_;
  Server server_;
  Region region_;
};

TEST(RegionTable, LookupsWhileRegionsComeAndGo) {
  constexpr std::size_t kChanging = 2;
  constexpr std::size_t kLooking = 2;
  constexpr std::uintptr_t kEach = 1000;
  constexpr std::uint64_t kMinFound = 10'000;  // else the threads took turns
  const int rounds = test::long_tests() ? 200'000 : 2'000;
  RegionTable table;
  // One in the middle that is always there.
  Region stays(at(kChanging * kEach), 10, nobody);
  table.add(stays);
  const std::uint64_t seed = test::test_seed();
  std::atomic<std::size_t> changing{kChanging};
  std::atomic<std::uint64_t> wrong{0}, found{0};
  test::run_together(kChanging + kLooking, [&](std::size_t thread) {
    std::mt19937_64 random(seed + thread);
    if (thread < kChanging) {
      for (int round = 0; round < rounds || found < kMinFound; ++round) {
        std::vector<std::unique_ptr<MortalRegion>> regions;
        std::uintptr_t offset = thread * kEach;
        for (int i = 0; i < 5; ++i) {
          const std::size_t bytes = 1 + random() % 150;
          regions.push_back(std::make_unique<MortalRegion>(table, offset, bytes));
          offset += bytes + random() % 40;
        }
        std::shuffle(regions.begin(), regions.end(), random);
      }
      --changing;
      return;
    }
    while (changing > 0) {
      const std::uintptr_t offset = random() % (kChanging * kEach);
      if (Region* region = table.pin(at(offset))) {
        ++found;
        if (at(offset) < region->begin() || at(offset) >= region->end()) ++wrong;
        if (!static_cast<MortalRegion::Server&>(region->server()).alive) ++wrong;
        region->unpin();
      }
      if (table.pin(at(kChanging * kEach + 9)) != &stays) {
        ++wrong;
      } else {
        stays.unpin();
      }
    }
  });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(table.size(), 1U);
  table.remove(stays);
}

}  // namespace

}  // namespace vortex::region_table_test
