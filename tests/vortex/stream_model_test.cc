// Random reads, writes, jumps and comebacks on tiny blocks, against plain arrays.
#include "tests/vortex/stream_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"

namespace vortex::stream_model_test { namespace {

int cases() { return test::long_tests() ? 30000 : test::kShadowMemory ? 250 : 1000; }

class StreamModel : public test::PlacingTest {};

INSTANTIATE_TEST_SUITE_P(Kinds, StreamModel, testing::ValuesIn(test::kAllPlacings),
                         test::NameOfPlacing());

TEST_P(StreamModel, InputStreamAgainstAnArray) {
  auto random = test::test_random(1);
  for (int i = 0; i < cases() && !HasFailure(); ++i) run_input_case(random, GetParam());
}

TEST_P(StreamModel, OutputStreamAgainstAnArray) {
  auto random = test::test_random(2);
  for (int i = 0; i < cases() && !HasFailure(); ++i) run_output_case(random, GetParam());
}

// prefault() makes ranges fit for system calls, wherever the window is.
TEST_P(StreamModel, PrefaultedRangesServeSystemCalls) {
  auto random = test::test_random(3);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  for (int i = 0; i < cases() / 10; ++i) {
    const std::uint64_t comeback = random() % 3;
    const auto data = random_bytes(random, 1 + random_length(random));
    BlockPool pool({.pool_bytes = 2 * (comeback + 1) * kB,
                    .block_bytes = kB,
                    .kind = test::pool_kind(GetParam())});
    InputStream<std::byte> input(std::make_unique<MemorySource>(pool, comeback + 1, data),
                                 {.comeback_blocks = comeback});
    auto script = std::make_shared<SinkScript>();
    script->data.resize(64 * kB);
    OutputStream<std::byte> output(std::make_unique<MemorySink>(pool, comeback + 1, script),
                                   {.comeback_blocks = comeback, .reserve_bytes = 64 * kB});
    for (std::uint64_t at = 0; at < data.size();) {
      const std::uint64_t in_block = kB - at % kB + comeback * kB;
      const std::size_t bytes =
          std::min<std::uint64_t>({data.size() - at, in_block, 1 + random() % (2 * kB)});
      input.prefault(at, bytes);
      output.prefault(at, bytes);
      ASSERT_EQ(write(pipe_ends[1], input.data() + at, bytes), static_cast<ssize_t>(bytes));
      ASSERT_EQ(read(pipe_ends[0], output.data() + at, bytes), static_cast<ssize_t>(bytes));
      at += bytes;
    }
    output.finish(data.size());
    ASSERT_EQ(std::memcmp(script->data.data(), data.data(), data.size()), 0);
  }
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace

}  // namespace vortex::stream_model_test
