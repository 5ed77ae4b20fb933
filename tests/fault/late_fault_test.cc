// Faults that reach their server late. A thread that waits for its data may be interrupted by a
// signal, fault once more, be served, and leave the block behind before its first fault is served.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tests/fault/engine_suite.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_source.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/thread/this_thread.h"

namespace vortex::test::late_fault_test { namespace {

constexpr std::size_t kBlockBytes = kMinBlockBytes;

class LateFaults : public EngineTest<UserfaultfdEngine> {};

Failure touched(const char* address) {
  return guarded([address] { touch(address); });
}

// Serves a fault of this thread as if it had been read before those that are over.
bool serve_late(const char* address, Access access) {
  auto* const at = reinterpret_cast<std::byte*>(const_cast<char*>(address));
  return serve_elsewhere(
      pin_region(at),
      {.address = at, .access = access, .thread = current_thread_id(), .doubtful = true},
      *userfaultfd_in_use());
}

TEST_F(LateFaults, OfABlockThatWasReadAreForgotten) {
  BlockPool pool(small_blocks(4));
  const auto data = patterned_bytes(8 * kBlockBytes);
  auto stream = stream_of_bytes(pool, data);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FALSE(touched(stream.data() + i * kBlockBytes));
  EXPECT_FALSE(serve_late(stream.data(), Access::kRead));
  EXPECT_FALSE(stream.failure());
  EXPECT_TRUE(serve_late(stream.data() + 5 * kBlockBytes, Access::kRead));
  EXPECT_EQ(
      std::memcmp(stream.data() + 5 * kBlockBytes, data.data() + 5 * kBlockBytes, 3 * kBlockBytes),
      0);
  // A thread that does touch it gets its error.
  EXPECT_TRUE(fails(touched(stream.data()), EFAULT, "behind the window"));
  EXPECT_EQ(stream.failure().error, EFAULT);
}

TEST_F(LateFaults, OfABlockThatWasWrittenAreForgotten) {
  BlockPool pool(small_blocks(4));
  std::uint64_t drained = 0;
  auto stream =
      output_to_callback<char>(pool, [&](std::span<const std::byte> bytes, std::uint64_t) {
        drained += bytes.size();
        return 0;
      });
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_FALSE(guarded([&] { stream.data()[i * kBlockBytes] = 1; }));
  }
  EXPECT_FALSE(serve_late(stream.data(), Access::kWrite));
  EXPECT_FALSE(stream.failure());
  stream.finish(6 * kBlockBytes);
  EXPECT_FALSE(serve_late(stream.data() + 5 * kBlockBytes, Access::kWrite));
  EXPECT_FALSE(stream.failure());
  EXPECT_EQ(drained, 6 * kBlockBytes);
}

}  // namespace

}  // namespace vortex::test::late_fault_test
