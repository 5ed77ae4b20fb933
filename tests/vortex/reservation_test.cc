#include "vortex/os/reservation.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/sanitizers.h"
#include "vortex/memory_budget.h"
#include "vortex/os/memory.h"

namespace vortex::reservation_test { namespace {

int error_of(const Reservation::Options& options) {
  return test::error_of([&] { Reservation reservation(options); });
}

TEST(Reservation, IsAlignedAndHasWholePages) {
  for (std::size_t alignment : {std::size_t{4096}, kReservationAlignment, std::size_t{1} << 30}) {
    Reservation reservation({.bytes = 12345, .alignment = alignment});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reservation.begin()) % alignment, 0u);
    EXPECT_EQ(reservation.bytes(), os::page_bytes() * 4);
  }
}

TEST(Reservation, CostsNoMemory) {
  const std::size_t before = process_memory().resident_bytes;
  Reservation reservation({.bytes = std::size_t{256} << 30});
  EXPECT_LT(process_memory().resident_bytes, before + (1 << 20));
}

TEST(Reservation, RefusesWhatCannotBe) {
  EXPECT_EQ(error_of({.bytes = 0}), EINVAL);
  EXPECT_EQ(error_of({.bytes = std::size_t{1} << 47}), EINVAL);
  EXPECT_EQ(error_of({.bytes = SIZE_MAX}), EINVAL);
  EXPECT_EQ(error_of({.bytes = 4096, .alignment = 1000}), EINVAL);
  EXPECT_EQ(error_of({.bytes = 4096, .alignment = 512}), EINVAL);
}

TEST(Reservation, VacateTakesMemoryAway) {
  Reservation reservation({.bytes = std::size_t{4} << 20});
  int error = 0;
  std::byte* at = os::map_memory(reservation.begin() + 4096, 8192, &error);
  ASSERT_EQ(at, reservation.begin() + 4096);
  at[0] = std::byte{1};
  ASSERT_EQ(reservation.vacate(at, 8192), 0);
  unsigned char resident = 0;
  EXPECT_EQ(mincore(at, 4096, &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

// A program that runs over the end of one reservation must not reach the next.
TEST(Reservation, NoneBeginsWhereAnotherEnds) {
  std::deque<Reservation> all;
  for (int i = 0; i < 20; ++i)
    all.emplace_back(Reservation::Options{.bytes = std::size_t{4} << 20});
  for (const Reservation& one : all) {
    const auto* const guard_end = one.begin() + one.guarded_bytes();
    EXPECT_EQ(guard_end, one.end() + kReservationGuardBytes);
    unsigned char resident = 0;
    EXPECT_EQ(mincore(one.end(), 4096, &resident), 0) << "the guard is mapped";
    for (const Reservation& other : all) {
      EXPECT_FALSE(other.begin() >= one.end() && other.begin() < guard_end);
    }
  }
}

TEST(Reservation, IsUnmappedWithItsGuard) {
  std::optional<Reservation> one(Reservation::Options{.bytes = 1 << 20});
  std::byte* const begin = one->begin();
  std::byte* const end = one->end();
  unsigned char resident = 0;
  EXPECT_EQ(mincore(begin, 4096, &resident), 0) << "mapped";
  one.reset();
  EXPECT_EQ(mincore(begin, 4096, &resident), -1) << "unmapped";
  EXPECT_EQ(mincore(end, 4096, &resident), -1) << "the guard, too";
}

using test::kShadowMemory;

// The rest runs in a child, whose address space is limited.
template <typename Body>
void expect_true_within_8_gib(Body body) {
  if (kShadowMemory) {
    GTEST_SKIP() << "a sanitizer's shadow memory does not fit into a limited address space";
  }
  const auto limited = [&] {
    const rlimit limit{std::size_t{8} << 30, std::size_t{8} << 30};
    return setrlimit(RLIMIT_AS, &limit) == 0 && body();
  };
  EXPECT_EXIT(std::exit(limited() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(ReservationDeathTest, BacksOffWhenTheSystemRefuses) {
  expect_true_within_8_gib([] {
    const Reservation reservation(
        {.bytes = std::size_t{64} << 30, .least_bytes = std::size_t{1} << 30});
    return reservation.bytes() == std::size_t{4} << 30;
  });
}

TEST(ReservationDeathTest, NamesTheLimitThatRefused) {
  expect_true_within_8_gib([] {
    const auto reserve = [] { Reservation reservation({.bytes = std::size_t{64} << 30}); };
    return bool{test::fails(reserve, ENOMEM, "RLIMIT_AS is 8 GiB")} &&
           bool{test::fails(reserve, ENOMEM, "64 GiB")};
  });
}

int refused_call = 0;
int refuse_large(os::MemoryCall call) noexcept {
  return call == os::MemoryCall::kMap && refused_call-- > 0 ? ENOMEM : 0;
}

TEST(Reservation, HalvesOnceForEachRefusal) {
  refused_call = 3;
  os::set_failure_hook(&refuse_large);
  Reservation reservation({.bytes = std::size_t{64} << 30, .least_bytes = std::size_t{1} << 30});
  os::set_failure_hook(nullptr);
  EXPECT_EQ(reservation.bytes(), std::size_t{8} << 30);
}

// Page tables of finished address space come back.
TEST(PageTableReclaimer, FreesTheTablesBehind) {
  if (kShadowMemory) GTEST_SKIP() << "page tables of shadow memory drown the figure";
  constexpr std::size_t kSpan = std::size_t{1} << 30;
  Reservation reservation({.bytes = 8 * kSpan, .alignment = kSpan});
  for (std::size_t block_bytes : {std::size_t{64} << 10, std::size_t{2} << 20}) {
    PageTableReclaimer reclaimer(reservation, block_bytes);
    const std::size_t before = process_memory().page_table_bytes;
    // A page in each span of 2 MiB: tables of 4 KiB each.
    for (std::size_t at = 0; at < 8 * kSpan; at += std::size_t{2} << 20) {
      int error = 0;
      std::byte* page = os::map_memory(reservation.begin() + at, os::page_bytes(), &error);
      ASSERT_NE(page, nullptr);
      *page = std::byte{1};
      ASSERT_EQ(reservation.vacate(page, os::page_bytes()), 0);
    }
    EXPECT_GT(process_memory().page_table_bytes, before + (8 << 20)) << "tables stay by themselves";
    reclaimer.finished_below(reservation.begin() + 8 * kSpan);
    EXPECT_LT(process_memory().page_table_bytes, before + (1 << 20));
  }
}

}  // namespace

}  // namespace vortex::reservation_test
