// No allocation in the fault handler: this program's heap ends the process when it is called there.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/support/watched_heap.h"
#include "tests/vortex/placing.h"
#include "vortex/error.h"
#include "vortex/fault/region_table.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

namespace vortex::no_allocation_test { namespace {

const testing::Environment* const by_signals =
    testing::AddGlobalTestEnvironment(new test::BySignals(__FILE__));

using test::allocations;
using test::failing_at;
using test::faulting;
using test::patterned_bytes;
using test::stream_of_bytes;

constexpr std::size_t kBlockBytes = kMinBlockBytes;
constexpr std::size_t kBlocks = 40;

template <typename EngineType>
class NoAllocation : public test::EngineTest<EngineType> {
 protected:
  void SetUp() override {
    if (!test::kWatchedHeap) GTEST_SKIP() << test::kNoWatchedHeap;
    test::EngineTest<EngineType>::SetUp();
  }

  BlockPool pool_{test::small_blocks(8)};
};
TYPED_TEST_SUITE(NoAllocation, test::SignalEngines, test::EngineNames);

// Touches the blocks of an array, and nothing else.
void touch_blocks(const char* data, std::size_t count) {
  faulting = true;
  for (std::size_t i = 0; i < count; ++i) {
    (void)*static_cast<const volatile char*>(data + i * kBlockBytes);
  }
  faulting = false;
}

void write_blocks(char* data, std::size_t count) {
  faulting = true;
  for (std::size_t i = 0; i < count; ++i) *static_cast<volatile char*>(data + i * kBlockBytes) = 1;
  faulting = false;
}

// The heap of this test is the one that the library calls, and it sees what happens in a fault.
TYPED_TEST(NoAllocation, TheTestNoticesAnAllocation) {
  const std::size_t before = allocations;
  auto source = std::make_unique<test::MemorySource>(this->pool_, 2, std::vector<std::byte>(9));
  EXPECT_GE(allocations, before + 2);
  EXPECT_EXIT(
      {
        auto stream = input_from_callback<char>(
            this->pool_,
            [](std::span<std::byte> block, std::uint64_t) {
              void* volatile memory = std::malloc(block.size());  // not to be optimised away
              std::free(memory);
              return block.size();
            },
            {}, kBlockBytes);
        touch_blocks(stream.data(), 1);
      },
      ::testing::ExitedWithCode(test::kHeapWasCalled), "the heap was called inside a fault");
}

TYPED_TEST(NoAllocation, InputStream) {
  auto stream = stream_of_bytes(this->pool_, patterned_bytes(kBlocks * kBlockBytes - 1000));
  touch_blocks(stream.data(), kBlocks);
  // The filler behind a last block that has no room for it.
  auto whole = stream_of_bytes(this->pool_, patterned_bytes(2 * kBlockBytes));
  touch_blocks(whole.data(), 3);
}

// Streams end while memory is short, and in destructors.
TYPED_TEST(NoAllocation, TheEndOfAStream) {
  std::vector<std::unique_ptr<InputStream<char>>> streams;
  for (int i = 0; i < 8; ++i) {
    streams.emplace_back(
        new auto(stream_of_bytes(this->pool_, std::vector<std::byte>(1), {.comeback_blocks = 0})));
  }
  const std::size_t before = allocations;
  for (std::size_t i = 0; i < streams.size(); i += 3) streams[i].reset();
  streams.clear();
  EXPECT_EQ(allocations, before);
}

TYPED_TEST(NoAllocation, OutputStream) {
  auto stream =
      test::stream_into(this->pool_, test::sink_script(kBlocks * kBlockBytes),
                        {.reserve_bytes = 2 * kBlocks * kBlockBytes, .least_reserve_bytes = 1});
  write_blocks(stream.data(), kBlocks);
  stream.finish(kBlocks * kBlockBytes);
}

TYPED_TEST(NoAllocation, Callbacks) {
  auto input = input_from_callback<char>(
      this->pool_,
      [](std::span<std::byte> block, std::uint64_t) {
        block[0] = std::byte{1};
        return block.size();
      },
      {}, kBlocks * kBlockBytes);
  auto output = output_to_callback<char>(
      this->pool_, [](std::span<const std::byte>, std::uint64_t) {},
      {.reserve_bytes = 2 * kBlocks * kBlockBytes, .least_reserve_bytes = 1});
  touch_blocks(input.data(), kBlocks);
  write_blocks(output.data(), kBlocks);
  output.finish(kBlocks * kBlockBytes);
}

TYPED_TEST(NoAllocation, BlocksPopulatedInsideTheFault) {
  BlockPool pool(
      {.pool_bytes = 4 * kBlockBytes, .block_bytes = kBlockBytes, .warming = Warming::kOnDemand});
  auto stream =
      stream_of_bytes(pool, patterned_bytes(kBlocks * kBlockBytes), {.comeback_blocks = 3});
  touch_blocks(stream.data(), kBlocks);
}

// A thread whose first act is a fault: nothing of its thread-local storage may be made there.
TYPED_TEST(NoAllocation, FirstActOfAThread) {
  auto stream = stream_of_bytes(this->pool_, patterned_bytes(kBlocks * kBlockBytes));
  std::thread([data = stream.data()] { touch_blocks(data, kBlocks); }).join();
}

// The other way out: an error, and the jump back into guarded().
TYPED_TEST(NoAllocation, AFailure) {
  auto stream =
      stream_of_bytes(this->pool_, patterned_bytes(kBlocks * kBlockBytes), {}, failing_at(3));
  faulting = true;
  const Failure failure = guarded([&] { touch_blocks(stream.data(), kBlocks); });
  faulting = false;
  EXPECT_EQ(failure.error, EIO);
}

// A failure inside a fault that is inside another.
TYPED_TEST(NoAllocation, AFailureOfAnInnerStream) {
  auto inner =
      stream_of_bytes(this->pool_, patterned_bytes(kBlocks * kBlockBytes), {}, failing_at(3));
  auto outer = input_from_callback<char>(
      this->pool_,
      [&inner](std::span<std::byte> block, std::uint64_t offset) {
        std::memcpy(block.data(), inner.data() + offset, block.size());
        return block.size();
      },
      {}, kBlocks * kBlockBytes);
  faulting = true;
  const Failure failure = guarded([&] { touch_blocks(outer.data(), kBlocks); });
  faulting = false;
  EXPECT_EQ(failure.error, EIO);
}

// The line, and the way to the earlier handler.
TYPED_TEST(NoAllocation, TheEndOfTheProcess) {
  EXPECT_EXIT(
      {
        this->start_behind(test::action_of(SIG_DFL));
        auto stream = stream_of_bytes(this->pool_, patterned_bytes(kBlockBytes), {}, failing_at(0));
        touch_blocks(stream.data(), 1);
      },
      ::testing::KilledBySignal(SIGSEGV), "^vortex: stream 'input': the test says so.*\n$");
}

// A fault of nobody's.
TYPED_TEST(NoAllocation, ForwardingAFault) {
  this->start_behind(
      test::action_of([](int, siginfo_t* info, void*) { test::Pages::allow(info->si_addr); }));
  test::Pages pages(1);
  write_blocks(reinterpret_cast<char*>(pages.begin()), 1);
}

// Streams end while memory is short, too, and those of a parent that gave way to others.
TEST(NoAllocationOfTheTable, Removing) {
  if (!test::kWatchedHeap) GTEST_SKIP() << test::kNoWatchedHeap;
  struct Nobody final : FaultServer {
    bool serve(const Fault&, Failure&) noexcept override { return false; }
    void abandon(const Failure&) noexcept override {}
  } nobody;
  auto* const begin = reinterpret_cast<std::byte*>(std::uintptr_t{0x10000000});  // never touched
  Region inherited(begin, 10, nobody), own(begin, 10, nobody), second(begin + 10, 10, nobody),
      third(begin + 20, 10, nobody);
  RegionTable table;
  table.add(inherited);
  table.become_inherited();
  for (Region* region : {&own, &second, &third}) table.add(*region);
  const std::size_t before = allocations;
  for (Region* region : {&inherited, &own, &second, &third}) table.remove(*region);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace

}  // namespace vortex::no_allocation_test
