// Policies decide inside faults, where nothing may be allocated; and what merges of files allocate.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "sort/job/sort_files.h"
#include "sort/merge/file_merge.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/plan/record_plan.h"
#include "sort/record/format_order.h"
#include "tests/merge/merge_inputs.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"

namespace {

std::size_t allocations_made = 0;
std::size_t bytes_allocated = 0;

}  // namespace

// The thread sanitizer brings operators of its own, and they cannot be replaced.
#ifndef VORTEX_TEST_TSAN

// Not inlined: gcc would see malloc() paired with a delete-expression and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations_made;
  bytes_allocated += size;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif

namespace vortex::test::prefetch_allocation_test { namespace {

constexpr char kNotCounted[] =
    "the thread sanitizer's operator new cannot be replaced by one that counts";

TEST(PrefetchAllocation, EventsAndDecisionsAllocateNothing) {
  if (kThreadSanitizer) GTEST_SKIP() << kNotCounted;
  auto random = test_random();
  for (const PrefetchKind kind : kAllPrefetchKinds) {
    const Runs runs = make_runs(RunShape::kUniform, 8, 60, 4, random);
    const auto allocation = allocations(AllocationStrategy::kSimpleRandomized, 3, 8, random());
    const MergeTrace trace = plain_trace(runs, 4, allocation);
    PrefetchOptions options = {.disks = 3, .buffers = 0, .held_blocks = 8};
    options.buffers = minimum_read_buffers(kind, options, 8);
    auto policy =
        make_prefetch_policy(kind, foretold_by(last_keys(runs, 4), allocation, 1), options, 8);
    std::vector<Position> reading;
    reading.reserve(trace.order.size());

    const std::size_t before = allocations_made;
    const auto carry_out = [&] {
      do {
        for (const Position position : reading) policy->fetched(position);
        reading.clear();
        for (PrefetchAction action;
             action = policy->next(), action.kind != PrefetchAction::Kind::kNothing;) {
          if (action.kind == PrefetchAction::Kind::kFetch) reading.push_back(action.position);
        }
      } while (!reading.empty());
    };
    carry_out();
    for (const MergeStep& step : trace.steps) {
      if (step.released != kNoPosition) policy->released(step.released);
      carry_out();
      if (step.taken != kNoPosition) policy->taken(step.taken);
      carry_out();
    }
    EXPECT_EQ(allocations_made, before) << prefetch_kind_name(kind);
  }
  EXPECT_GT(allocations_made, 0U);
}

// What is given back again counts, too.
TEST(FileMergeAllocation, IsWhatPlansKeepForEachFile) {
  if (kThreadSanitizer) GTEST_SKIP() << kNotCounted;
  constexpr std::size_t kFiles = 100, kRecord = 100;
  auto random = test_random();
  const FormatOrder order{RecordFormat(kRecord)};
  Files with;
  for (std::size_t i = 0; i < kFiles; ++i) {
    with.add_input(stably_sorted(order, make_records(Shape::kRandom, kRecord, 2000, random)).bytes);
  }
  const auto options = with.options();
  SortFiles files(options, kRecord);
  files.open_output();
  const std::vector<SortedFile> sorted = files.open_sorted(0, kFiles);
  SortPlanRequest request;
  request.bytes = files.input_bytes();
  request.record_bytes = kRecord;
  request.memory_bytes = std::size_t{64} << 20;
  request.block_bytes = kMinBlockBytes;
  const RecordPlan plan = plan_input_merge(request, kFiles);
  BlockPool pool({.pool_bytes = plan.pool_blocks * kMinBlockBytes, .block_bytes = kMinBlockBytes});
  const auto parts = divide_files(order, sorted, kMinBlockBytes, 1, 0);
  const FileMergeOptions merging{.reader = files.reader_options(pool, plan.reader)};
  const std::size_t before = bytes_allocated;
  const FileMerge merge(order, sorted, parts.front(), merging);
  const std::size_t each = (bytes_allocated - before) / kFiles;
  EXPECT_LE(each, FileMerge::kBytesOfFile);
  EXPECT_GT(each, FileMerge::kBytesOfFile / 2);
}

}  // namespace

}  // namespace vortex::test::prefetch_allocation_test
