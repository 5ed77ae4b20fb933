// What a progress line says, and what misspelt words are answered with.
#include "cli/common/progress_line.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/error_message.h"
#include "cli/common/suggestion.h"
#include "vortex/error.h"

namespace vortex::cli::progress_line_test { namespace {

TEST(ProgressText, HasWhatFits) {
  const ProgressFacts facts{.step = "writing",
                            .bytes = std::uint64_t{3} << 29,
                            .done = 0.5,
                            .seconds = 300,
                            .bytes_per_second = 350e6};
  EXPECT_EQ(progress_text(facts, 79), "50 %, 5 min left, writing 1.5 GiB, 350 MB/s");
  EXPECT_EQ(progress_text(facts, 39), "50 %, 5 min left, writing 1.5 GiB");
  EXPECT_EQ(progress_text(facts, 20), "50 %, 5 min left");
  EXPECT_EQ(progress_text(facts, 5), "50 %");
  for (std::size_t width = 1; width < 100; ++width) {
    EXPECT_LE(progress_text(facts, width).size(), width);
    EXPECT_FALSE(progress_text(facts, width).empty());
  }
  EXPECT_EQ(progress_text({.step = "reading"}, 79), "reading");
}

TEST(ProgressText, HasUnitsThatFit) {
  const auto text = [](std::uint64_t bytes, double seconds_left) {
    return progress_text({.step = "x", .bytes = bytes, .done = 0.5, .seconds = seconds_left}, 79);
  };
  EXPECT_EQ(text(999, 1), "50 %, 1 s left, x 999 bytes");
  EXPECT_EQ(text(1000, 99), "50 %, 99 s left, x 1.0 KiB");
  EXPECT_EQ(text(std::uint64_t{20} << 20, 101), "50 %, 2 min left, x 20 MiB");
  EXPECT_EQ(text(std::uint64_t{5} << 40, 7300), "50 %, 2 h 2 min left, x 5.0 TiB");
}

// The share is that of the whole sort and never less than before.
TEST(SortEstimate, CountsAllPhases) {
  SortEstimate estimate;
  const auto done = [&](SortPhase phase, std::uint64_t bytes, std::optional<std::uint64_t> all) {
    return estimate.done({.phase = phase, .bytes = bytes, .phase_bytes = all});
  };
  EXPECT_EQ(done(SortPhase::kReading, 0, 100), 0.0);
  EXPECT_TRUE(estimate.phase_began());
  EXPECT_EQ(done(SortPhase::kReading, 50, 100), 0.25);
  EXPECT_FALSE(estimate.phase_began());
  EXPECT_EQ(done(SortPhase::kReading, 100, 100), 0.5);
  EXPECT_EQ(done(SortPhase::kMerging, 0, 100), 0.5);  // one more than was known of
  EXPECT_TRUE(estimate.phase_began());
  EXPECT_EQ(done(SortPhase::kMerging, 80, 100), 0.6);
  EXPECT_EQ(done(SortPhase::kMerging, 100, 100), 200.0 / 300);
  EXPECT_EQ(done(SortPhase::kWriting, 100, 100), 1.0);
  SortEstimate of_merge;
  EXPECT_EQ(of_merge.done({.phase = SortPhase::kWriting, .bytes = 30, .phase_bytes = 100}), 0.3);
  SortEstimate of_pipe;
  EXPECT_EQ(of_pipe.done({.phase = SortPhase::kReading, .bytes = 30}), std::nullopt);
}

TEST(Suggestions, AreNearWords) {
  const std::vector<std::string> words = {"--parallel", "--progress", "--prefetch", "--seed"};
  EXPECT_EQ(nearest_word("--paralel", words), "--parallel");
  EXPECT_EQ(nearest_word("--prallel", words), "--parallel");
  EXPECT_EQ(nearest_word("--sede", words), "--seed");
  EXPECT_EQ(nearest_word("--foo", words), "");
  EXPECT_EQ(nearest_word("", words), "");
  EXPECT_EQ(nearest_word(std::string(1000, 'a'), words), "");
  EXPECT_EQ(did_you_mean("--progess", words), "; did you mean '--progress'?");
}

std::string told(const std::string& cause, int error) {
  Failure failure;
  failure.error = error;
  failure.stream.text("a stream");
  failure.cause.text(cause);
  try {
    failure.throw_if_failed();
  } catch (const std::exception& exception) {
    return message_for_people(exception);
  }
  return {};
}

TEST(MessagesForPeople, HaveNoOffsetsAndBlocks) {
  EXPECT_EQ(told("writing 'standard output' at byte 12", ENOSPC),
            "write failed: 'standard output': No space left on device");
  EXPECT_EQ(told("reading '/proc/self/mem' at byte 0", EIO),
            "read failed: /proc/self/mem: Input/output error");
  EXPECT_EQ(
      told("writing a temporary file in '/tmp' at byte 7; keep runs elsewhere", ENOSPC),
      "write failed: a temporary file in '/tmp': No space left on device; keep runs elsewhere");
  EXPECT_EQ(message_for_people(Error(ENOSPC, "write failed: '/dev/full'")),
            "write failed: /dev/full: No space left on device");
  EXPECT_NE(told("something else", EIO).find("something else"), std::string::npos);
  EXPECT_EQ(message_for_people(std::bad_alloc()), "Cannot allocate memory");
}

}  // namespace

}  // namespace vortex::cli::progress_line_test
