// Faults that reach their server late. A thread that waits for its data may be interrupted by a
// signal, fault once more, be served, and leave the block behind before its first fault is served.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "tests/fault/engine_suite.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_source.h"
#include "tests/support/threads.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"
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

// A stream's writer and its reader use one address; the thread sanitizer does not see what keeps
// them apart.
__attribute__((no_sanitize("thread"))) void put_blocks(volatile char* out, char from, char to) {
  for (char i = from; i < to; ++i) out[static_cast<std::size_t>(i) * kBlockBytes] = i;
}
__attribute__((no_sanitize("thread"))) bool has_blocks(const volatile char* in, char from,
                                                       char to) {
  while (from < to && in[static_cast<std::size_t>(from) * kBlockBytes] == from) ++from;
  return from == to;
}

// A thread in whose name a fault waits that is late.
struct LateThread {
  LateThread(const char* address, Access access)
      : thread([this, address, access] {
          id = current_thread_id();
          serve_late(address, access);
          userfaultfd_in_use()->wake(reinterpret_cast<std::byte*>(const_cast<char*>(address)));
        }) {
    while (id == 0 || !asleep(id)) std::this_thread::yield();
  }

  std::atomic<std::int32_t> id{0};
  std::thread thread;
};

// Only one of two faults for the same block may take what both wait for, and the other one goes.
TEST_F(LateFaults, OfAWriterThatWaitsLeaveTheNextBlockToIt) {
  constexpr char kBlocks = 20;
  CommitStream<char> stream({.block_bytes = kBlockBytes,
                             .read_ahead_blocks = 1,
                             .writer_comeback_blocks = 0,
                             .reader_comeback_blocks = 0});
  char* const out = stream.writer_data();
  put_blocks(out, 0, 1);
  LateThread late(out + kBlockBytes, Access::kWrite);
  std::atomic<std::int32_t> writing{0};
  std::thread writer([&] {
    writing = current_thread_id();
    put_blocks(out, 1, kBlocks);
    stream.finish(kBlocks * kBlockBytes);
  });
  while (writing == 0 || !asleep(writing)) std::this_thread::yield();
  EXPECT_TRUE(has_blocks(stream.reader_data(), 0, kBlocks));
  writer.join();
  late.thread.join();
}

TEST_F(LateFaults, OfAReaderThatWaitsLeaveTheNextBlockToIt) {
  constexpr char kBlocks = 20;
  CommitStream<char> stream({.block_bytes = kBlockBytes,
                             .read_ahead_blocks = 2,
                             .writer_comeback_blocks = 0,
                             .reader_comeback_blocks = 0});
  char* const out = stream.writer_data();
  put_blocks(out, 0, 2);
  const char* const in = stream.reader_data();
  LateThread late(in, Access::kRead);
  const std::int32_t reader = current_thread_id();
  std::thread writer([&] {
    while (!asleep(reader)) std::this_thread::yield();
    put_blocks(out, 2, kBlocks);
    stream.finish(kBlocks * kBlockBytes);
  });
  const Failure failure = guarded([&] { EXPECT_TRUE(has_blocks(in, 0, kBlocks)); });
  EXPECT_FALSE(failure) << failure.message();
  writer.join();
  late.thread.join();
}

}  // namespace

}  // namespace vortex::test::late_fault_test
