// What input and output streams promise, against plain arrays: random reads, writes, jumps and
// comebacks on tiny blocks, as a generator decides.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/vortex/placing.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/os/memory.h"
#include "vortex/output_stream.h"

namespace vortex::stream_model_test {

using test::MemorySink;
using test::MemorySource;
using test::Placing;
using test::SinkScript;
using test::SourceScript;

inline constexpr std::uint64_t kB = std::uint64_t{16} << 10;

// Of one decision, however many bytes there are.
template <typename Random>
std::vector<std::byte> random_bytes(Random& decide, std::size_t size) {
  std::mt19937_64 random(decide());
  std::vector<std::byte> bytes(size);
  std::size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    const std::uint64_t word = random() | 0x0101010101010101;  // no byte is zero, unlike the filler
    std::memcpy(&bytes[at], &word, 8);
  }
  for (; at < size; ++at) bytes[at] = std::byte{7};
  return bytes;
}

// Lengths around every border, and any.
template <typename Random>
std::uint64_t random_length(Random& random) {
  const std::uint64_t blocks = random() % 20;
  const std::uint64_t page = os::page_bytes();
  switch (random() % 6) {
    case 0:
      return blocks * kB;
    case 1:
      return blocks * kB + 1;
    case 2:
      return (blocks + 1) * kB - 1;
    case 3:
      return (blocks + 1) * kB - page + random() % 3 - 1;
    case 4:
      return blocks * kB + page * (random() % 4);
    default:
      return random() % (20 * kB);
  }
}

// The promises of an input stream, in terms of a plain array.
struct InputModel {
  const std::vector<std::byte>& data;
  std::uint64_t window_blocks;
  bool length_known;
  std::uint64_t next = 0;  // one more than the newest block touched

  std::uint64_t floor() const { return next > window_blocks ? next - window_blocks : 0; }
  std::uint64_t filler_end() const {
    const std::uint64_t page = os::page_bytes();
    return (data.size() + page - 1) / page * page + page;
  }

  // The expected error of touching `offset`, or 0.
  int touch(std::uint64_t offset) {
    const std::uint64_t index = offset / kB;
    const bool beyond = index * kB >= data.size();
    if (beyond && length_known) return offset < filler_end() ? 0 : ERANGE;
    if (index < floor()) return EFAULT;
    next = std::max(next, index + 1);
    if (!beyond) {
      // A block that is not full tells where the end is.
      if (data.size() - index * kB < kB) length_known = true;
      return 0;
    }
    length_known = true;
    return offset < filler_end() ? 0 : ERANGE;
  }
  std::byte at(std::uint64_t offset) const {
    return offset < data.size() ? data[offset] : std::byte{0};
  }
};

// Where a step touches.
template <typename Random>
std::uint64_t next_touch(Random& random, const InputModel& model) {
  const std::uint64_t newest = model.next == 0 ? 0 : (model.next - 1) * kB;
  switch (random() % 8) {
    case 0:  // a step into the next block
      return newest + kB;
    case 1:  // a jump
      return newest + random() % (6 * kB);
    case 2:  // around a border
      return newest + kB + random() % 3 - 1;
    case 3:  // around the end
      return model.data.size() + random() % 3 - (model.data.empty() ? 0 : 1);
    case 4: {  // a comeback, now and then too far
      const std::uint64_t offset = model.floor() * kB + random() % (model.window_blocks * kB);
      return random() % 20 == 0 && model.floor() > 0 ? model.floor() * kB - 1 - random() % kB
                                                     : offset;
    }
    case 5:  // beyond the end, now and then
      return random() % 8 == 0 ? model.filler_end() + random() % (2 * kB) : newest;
    default:
      return newest + random() % kB;
  }
}

template <typename Random>
void run_input_case(Random& random, Placing placing) {
  const std::uint64_t comeback = random() % 4;
  const std::uint64_t extra = random() % 3;
  const auto data = random_bytes(random, random_length(random));
  auto script = std::make_shared<SourceScript>();
  script->length_known = random() % 2 == 0;
  BlockPool pool({.pool_bytes = (comeback + 1 + extra) * kB,
                  .block_bytes = kB,
                  .kind = test::pool_kind(placing)});
  InputModel model{data, comeback + 1, script->length_known};
  {
    InputStream<std::byte> stream(std::make_unique<MemorySource>(pool, comeback + 1, data, script),
                                  {.comeback_blocks = comeback, .reserve_bytes = 64 * kB});
    const std::byte* p = stream.data();
    int expected_error = 0;
    std::uint64_t last_offset = 0;
    std::byte seen{};
    for (int step = 0; step < 60 && expected_error == 0; ++step) {
      const std::uint64_t offset = std::min<std::uint64_t>(next_touch(random, model), 64 * kB - 1);
      // The rest of the data's last block is filler too, and placed: no error to expect there.
      last_offset = offset;
      expected_error = model.touch(offset);
      const Failure failure =
          guarded([&] { seen = *const_cast<const volatile std::byte*>(p + offset); });
      ASSERT_EQ(failure.error, expected_error)
          << failure.message() << " at " << offset << " of " << data.size();
      if (expected_error != 0) break;
      ASSERT_EQ(seen, model.at(offset)) << "at " << offset << " of " << data.size();
      // A copy across borders, as far as the window reaches.
      const std::uint64_t window_end = std::min<std::uint64_t>(model.next * kB, data.size());
      if (offset < window_end && random() % 4 == 0) {
        const std::size_t bytes = 1 + random() % (window_end - offset);
        std::vector<std::byte> copy(bytes);
        std::memcpy(copy.data(), p + offset, bytes);
        ASSERT_EQ(std::memcmp(copy.data(), data.data() + offset, bytes), 0);
      }
      ASSERT_LE(pool.statistics().blocks_in_use, comeback + 1);
    }
    EXPECT_EQ(stream.failure().error, expected_error);
    if (expected_error != 0) {
      EXPECT_EQ(stream.failure().offset, last_offset);
      const Failure again =
          guarded([&] { (void)*const_cast<const volatile std::byte*>(p + 60 * kB); });
      EXPECT_EQ(again.error, expected_error) << "the first error stays";
    }
  }
  EXPECT_EQ(pool.statistics().blocks_in_use, 0u);
  EXPECT_EQ(script->taken, script->released);
}

inline constexpr std::uint64_t kMax = 40 * kB;

// The promises of an output stream, in terms of plain arrays.
struct OutputModel {
  std::uint64_t window_blocks;
  bool may_skip;
  std::uint64_t next = 0;         // one more than the newest block touched
  std::uint64_t handed_over = 0;  // as far as the model knows
  std::vector<bool> touched = std::vector<bool>(kMax / kB);
  std::vector<bool> written = std::vector<bool>(kMax);
  std::vector<std::byte> expected = std::vector<std::byte>(kMax);

  std::uint64_t floor() const { return next > window_blocks ? next - window_blocks : 0; }

  // The expected error of handing over all blocks below `end`, or 0: those that were not touched
  // are skipped, which a sink may not allow.
  int hand_over(std::uint64_t end) const {
    for (std::uint64_t i = handed_over; i < end; ++i) {
      if (!touched[i] && !may_skip) return EINVAL;
    }
    return 0;
  }
  // That of touching `offset`.
  int touch(std::uint64_t offset) {
    const std::uint64_t index = offset / kB;
    if (index < floor()) return EFAULT;
    if (index < next) return 0;
    const std::uint64_t new_floor = index + 1 > window_blocks ? index + 1 - window_blocks : 0;
    const int error = hand_over(new_floor);
    handed_over = std::max(handed_over, new_floor);
    next = index + 1;
    return error;
  }
  void write(std::uint64_t offset, const std::vector<std::byte>& bytes) {
    touched[offset / kB] = true;
    std::copy(bytes.begin(), bytes.end(), expected.begin() + offset);
    std::fill_n(written.begin() + offset, bytes.size(), true);
  }
  // And that of ending at `length`.
  int finish(std::uint64_t length) const {
    return handed_over * kB > length ? EINVAL : hand_over((length + kB - 1) / kB);
  }
  void expect_written(const SinkScript& script, std::uint64_t length) const {
    EXPECT_EQ(script.finished_at, length);
    EXPECT_EQ(script.completed + script.skipped, (length + kB - 1) / kB);
    for (std::uint64_t i = 0; i < length; ++i) {
      if (written[i]) {
        ASSERT_EQ(script.data[i], expected[i]) << "at " << i << " of " << length;
      }
    }
  }
};

template <typename Random>
std::uint64_t next_touch(Random& random, const OutputModel& model) {
  const std::uint64_t newest = model.next == 0 ? 0 : (model.next - 1) * kB;
  switch (random() % 6) {
    case 0:
      return newest + kB;
    case 1:
      return newest + random() % (model.may_skip ? 5 * kB : 2 * kB);
    case 2:
      return model.floor() * kB + random() % (model.window_blocks * kB);
    case 3:
      return random() % 30 == 0 && model.floor() > 0 ? model.floor() * kB - 1 : newest;
    default:
      return newest + random() % kB;
  }
}

template <typename Random>
void run_output_case(Random& random, Placing placing) {
  const std::uint64_t comeback = random() % 4;
  auto script = std::make_shared<SinkScript>();
  script->may_skip = random() % 3 != 0;
  script->data.resize(kMax);
  BlockPool pool({.pool_bytes = (comeback + 1 + random() % 3) * kB,
                  .block_bytes = kB,
                  .kind = test::pool_kind(placing)});
  OutputModel model{comeback + 1, script->may_skip};
  int expected_error = 0;
  bool finished = false;
  std::uint64_t length = 0;
  {
    OutputStream<std::byte> stream(std::make_unique<MemorySink>(pool, comeback + 1, script),
                                   {.comeback_blocks = comeback, .reserve_bytes = kMax});
    std::byte* p = stream.data();
    for (int step = 0; step < 60 && expected_error == 0; ++step) {
      const std::uint64_t offset = std::min<std::uint64_t>(next_touch(random, model), kMax - 1);
      const std::size_t bytes = 1 + random() % std::min<std::uint64_t>(kB - offset % kB, 3000);
      expected_error = model.touch(offset);
      const auto bytes_to_write = random_bytes(random, bytes);
      const Failure failure =
          guarded([&] { std::memcpy(p + offset, bytes_to_write.data(), bytes); });
      ASSERT_EQ(failure.error, expected_error) << failure.message();
      if (expected_error != 0) break;
      model.write(offset, bytes_to_write);
      ASSERT_LE(pool.statistics().blocks_in_use, comeback + 1);
    }
    if (expected_error == 0 && random() % 8 != 0) {
      const std::uint64_t end = model.next * kB;
      length = end == 0 ? 0 : end - random() % (std::min<std::uint64_t>(end, 2 * kB));
      const int finish_error = model.finish(length);
      try {
        stream.finish(length);
        EXPECT_EQ(finish_error, 0);
        finished = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code().value(), finish_error) << error.what();
      }
      if (finished) {
        const Failure late = guarded([&] { *const_cast<volatile std::byte*>(p) = std::byte{1}; });
        EXPECT_EQ(late.error, EFAULT) << "nothing may be written after the end";
      }
    }
  }
  EXPECT_EQ(pool.statistics().blocks_in_use, 0u);
  EXPECT_EQ(script->abandoned, !finished);
  EXPECT_TRUE(script->in_order);
  if (finished) model.expect_written(*script, length);
}

}  // namespace vortex::stream_model_test
