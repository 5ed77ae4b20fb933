// Two threads at the ends of a pipeline, as a plan says: writes, reads, jumps, comebacks, finishes,
// departures and cancels, against a plain array that says what must be found where.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pipeline.h"

namespace vortex::pipeline_model_test {

inline constexpr std::uint64_t kB = std::uint64_t{16} << 10;
inline constexpr std::uint64_t kWords = kB / sizeof(std::uint64_t);

// How a thread's part ends.
enum class End {
  kRegular,     // finish(), or everything read
  kLeaves,      // the end goes out of scope half-way
  kTouchesOut,  // an access outside the window, whose error ends it
  kCancels,     // half-way, and goes on until it gets the error
};

struct Plan {
  std::size_t n, l, m;
  std::uint64_t words;  // length
  bool known_length;
  PoolKind kind;
  StaleBlocks stale_blocks;  // in a pool of aliases
  End writer_end, reader_end;
  std::uint64_t writer_until, reader_until;  // block at which an irregular end comes
  std::uint64_t writer_seed, reader_seed;
};

template <typename Random>
End random_end(Random& random) {
  switch (random() % 8) {
    case 0:
      return End::kLeaves;
    case 1:
      return End::kTouchesOut;
    case 2:
      return End::kCancels;
    default:
      return End::kRegular;
  }
}

inline bool exact(const Plan& plan) {
  return plan.kind == PoolKind::kMoves || plan.stale_blocks == 0;
}

template <typename Random>
Plan random_plan(Random& random, bool moves_only) {
  Plan plan{};
  plan.n = random() % 4;
  plan.l = random() % 4;
  plan.m = random() % 4;
  const std::uint64_t blocks = 1 + random() % 24;
  plan.words = random() % 3 == 0 ? blocks * kWords : random() % (blocks * kWords) + 1;
  plan.known_length = random() % 2 == 0;
  plan.kind = moves_only || random() % 2 == 0 ? PoolKind::kMoves : PoolKind::kAliases;
  plan.stale_blocks = random() % 2 == 0 ? 0 : random() % 6;
  do {
    plan.writer_end = random_end(random);
    // A write behind a window that is not exact may do harm before it is noticed.
  } while (!exact(plan) && plan.writer_end == End::kTouchesOut);
  plan.reader_end = random_end(random);
  plan.writer_until = random() % blocks;
  plan.reader_until = random() % blocks;
  plan.writer_seed = random();
  plan.reader_seed = random();
  return plan;
}

inline std::vector<std::uint64_t> random_words(std::mt19937_64& random, std::uint64_t count) {
  std::vector<std::uint64_t> words(count);
  for (std::uint64_t& word : words) word = random() | 1;  // none is zero, unlike the filler
  return words;
}

// The outcome of one thread.
struct Outcome {
  bool finished = false;
  Failure failure;                 // that ended it, if one did
  std::uint64_t failed_block = 0;  // where
  std::uint64_t wrong = 0;         // words that were not as in the model
  std::uint64_t handed_over = 0;   // the writer's: blocks that are final
  int finish_error = 0;
};

// Goes through the array in blocks: any block of the window at any time, the next one as soon as
// every block that thereby leaves the window has been touched.
class RandomWriter {
 public:
  RandomWriter(const Plan& plan, const std::vector<std::uint64_t>& model,
               Pipeline<std::uint64_t>& pipeline)
      : plan_(plan), model_(model), pipeline_(pipeline), random_(plan.writer_seed) {}

  Outcome run() {
    PipelineWriter<std::uint64_t> out = pipeline_.writer();
    out_ = out.data();
    const std::uint64_t blocks = (model_.size() + kWords - 1) / kWords;
    touched_.assign(blocks, false);
    while (floor_ < blocks) {
      if (plan_.writer_end != End::kRegular && next_ > plan_.writer_until) {
        if (plan_.writer_end == End::kLeaves) return outcome_;
        if (plan_.writer_end == End::kTouchesOut && floor_ > 0) {
          touch(random_() % floor_, 0);
          return outcome_;
        }
        if (plan_.writer_end == End::kCancels && !cancelled_) {
          cancelled_ = true;
          pipeline_.cancel(ECANCELED, "by the writer");
        }
      }
      if (!step(blocks)) return outcome_;
    }
    try {
      out.finish(model_.size());
      outcome_.finished = true;
    } catch (const Error& error) {
      outcome_.finish_error = error.code().value();
    }
    return outcome_;
  }

 private:
  // False after a failure.
  bool step(std::uint64_t blocks) {
    // The lowest block that was never touched may still be left for L blocks more.
    std::uint64_t untouched = floor_;
    while (untouched < blocks && touched_[untouched]) ++untouched;
    const std::uint64_t furthest = std::min(untouched + plan_.l, blocks - 1);
    if (random_() % 3 == 0 && next_ > floor_) {
      // Rubbish that is written over before the block goes.
      return touch(floor_ + random_() % (std::min(next_, furthest + 1) - floor_), random_());
    }
    if (next_ <= furthest && next_ < blocks) {
      const std::uint64_t to = next_ + random_() % (furthest - next_ + 1);
      const std::uint64_t new_floor = to > plan_.l ? to - plan_.l : 0;
      for (; floor_ < new_floor; ++floor_) {
        if (!complete(floor_)) return false;
      }
      next_ = to + 1;
      // From here on the blocks below the floor are the reader's.
      if (!touch(to, 1)) return false;
      outcome_.handed_over = floor_;
      return true;
    }
    if (next_ < blocks) return touch(untouched, 1);
    if (!complete(floor_)) return false;
    ++floor_;
    return true;
  }

  bool touch(std::uint64_t block, std::uint64_t value) {
    const std::uint64_t at = block * kWords + random_() % kWords;
    return guard(block, [&] { *const_cast<volatile std::uint64_t*>(out_ + at) = value; });
  }

  bool complete(std::uint64_t block) {
    const std::uint64_t end = std::min<std::uint64_t>((block + 1) * kWords, model_.size());
    return guard(block, [&] {
      std::copy(&model_[block * kWords], &model_[0] + end, out_ + block * kWords);
    });
  }

  template <typename Body>
  bool guard(std::uint64_t block, Body body) {
    outcome_.failure = guarded(body);
    outcome_.failed_block = block;
    if (outcome_.failure) return false;
    touched_[block] = true;
    return true;
  }

  const Plan& plan_;
  const std::vector<std::uint64_t>& model_;
  Pipeline<std::uint64_t>& pipeline_;
  std::mt19937_64 random_;
  std::uint64_t* out_ = nullptr;
  std::vector<bool> touched_;
  std::uint64_t next_ = 0;   // one more than the highest block touched
  std::uint64_t floor_ = 0;  // blocks below are as in the model
  bool cancelled_ = false;
  Outcome outcome_;
};

class RandomReader {
 public:
  RandomReader(const Plan& plan, const std::vector<std::uint64_t>& model,
               Pipeline<std::uint64_t>& pipeline)
      : plan_(plan), model_(model), pipeline_(pipeline), random_(plan.reader_seed) {}

  Outcome run() {
    PipelineReader<std::uint64_t> in = pipeline_.reader();
    in_ = in.data();
    const std::uint64_t blocks = (model_.size() + kWords - 1) / kWords;
    while (next_ < blocks) {
      if (plan_.reader_end != End::kRegular && next_ > plan_.reader_until) {
        if (plan_.reader_end == End::kLeaves) return outcome_;
        if (plan_.reader_end == End::kTouchesOut && floor() > 0) {
          look_behind(random_() % floor());
          return outcome_;
        }
        if (plan_.reader_end == End::kCancels && !cancelled_) {
          cancelled_ = true;
          pipeline_.cancel(ECANCELED, "by the reader");
        }
      }
      // On by one block mostly, or over some; then back, or on within the window.
      const std::uint64_t step = random_() % 4 == 0 ? random_() % 7 : 0;
      next_ = std::min(next_ + step, blocks - 1) + 1;
      if (!look_at(next_ - 1)) return outcome_;
      for (std::uint64_t looks = random_() % 4; looks > 0; --looks) {
        if (!look_at(floor() + random_() % (next_ - floor()))) return outcome_;
      }
    }
    try {
      outcome_.wrong += in.wait_size() != model_.size();
    } catch (const Error& error) {
      outcome_.finish_error = error.code().value();
      return outcome_;
    }
    // The terminator, and what comes after it.
    std::uint64_t terminator = 1;
    outcome_.failure = guarded([&] { terminator = in_[model_.size()]; });
    outcome_.wrong += terminator != 0;
    outcome_.finished = !outcome_.failure;
    const std::uint64_t page_words = os::page_bytes() / sizeof(std::uint64_t);
    const std::uint64_t beyond =
        std::max(blocks * kWords, (model_.size() / page_words + 2) * page_words);
    const Failure failure = guarded([&] { terminator = in_[beyond]; });
    outcome_.wrong += failure.error != ERANGE && failure.error != ECANCELED;
    return outcome_;
  }

 private:
  std::uint64_t floor() const { return next_ > plan_.m + 1 ? next_ - plan_.m - 1 : 0; }

  // A word of the block, or all of them.
  bool look_at(std::uint64_t block) {
    std::uint64_t begin = block * kWords;
    std::uint64_t end = std::min<std::uint64_t>(begin + kWords, model_.size());
    if (random_() % 2 == 0) {
      begin += random_() % (end - begin);
      end = begin + 1;
    }
    std::uint64_t wrong = 0;
    outcome_.failure = guarded([&] {
      for (std::uint64_t i = begin; i < end; ++i) wrong += in_[i] != model_[i];
    });
    outcome_.failed_block = block;
    if (outcome_.failure) return false;
    outcome_.wrong += wrong;
    return true;
  }

  // A word of a block that was given back. A stale alias shows what the writer puts there, but only
  // so many blocks behind the window.
  void look_behind(std::uint64_t block) {
    const std::uint64_t at = block * kWords + random_() % kWords;
    std::uint64_t word = 0;
    outcome_.failure = guarded([&] { word = in_[at]; });
    outcome_.failed_block = block;
    if (outcome_.failure) return;
    outcome_.wrong += block + plan_.stale_blocks < floor() || exact(plan_);
  }

  const Plan& plan_;
  const std::vector<std::uint64_t>& model_;
  Pipeline<std::uint64_t>& pipeline_;
  std::mt19937_64 random_;
  const volatile std::uint64_t* in_ = nullptr;
  std::uint64_t next_ = 0;  // one more than the highest block touched
  bool cancelled_ = false;
  Outcome outcome_;
};

// Everything that may have ended the one thread, given what the other one did.
inline void check_writer(const Plan& plan, const Outcome& writer) {
  const bool reader_irregular = plan.reader_end != End::kRegular;
  const bool cancelled = plan.reader_end == End::kCancels || plan.writer_end == End::kCancels;
  const int error = writer.failure ? writer.failure.error : writer.finish_error;
  if (error == 0) return;
  if (plan.writer_end == End::kTouchesOut && error == EFAULT) {
    EXPECT_LT(writer.failed_block, writer.failure.window_begin);
    return;
  }
  if (cancelled && error == ECANCELED) return;
  EXPECT_TRUE(reader_irregular && error == EPIPE) << writer.failure.message();
}

inline void check_reader(const Plan& plan, const Outcome& writer, const Outcome& reader) {
  EXPECT_EQ(reader.wrong, 0u);
  const bool cancelled = plan.reader_end == End::kCancels || plan.writer_end == End::kCancels;
  const int error = reader.failure ? reader.failure.error : reader.finish_error;
  if (error == 0) return;
  if (plan.reader_end == End::kTouchesOut && error == EFAULT &&
      reader.failed_block < reader.failure.window_begin) {
    return;
  }
  if (cancelled && error == ECANCELED) return;
  // The writer gave up, and everything that it had handed over was there.
  EXPECT_FALSE(writer.finished) << reader.failure.message();
  EXPECT_GE(reader.failed_block, reader.failure ? writer.handed_over : 0)
      << reader.failure.message();
  if (plan.writer_end == End::kTouchesOut) {
    EXPECT_TRUE(error == EFAULT || error == EPIPE) << reader.failure.message();
  } else {
    EXPECT_EQ(error, EPIPE) << reader.failure.message();
  }
}

inline void run_plan(const Plan& plan) {
  std::mt19937_64 random(plan.writer_seed + 1);
  const std::vector<std::uint64_t> model = random_words(random, plan.words);
  auto pool = std::make_shared<BlockPool>(BlockPoolOptions{
      .pool_bytes = (plan.n + plan.l + plan.m + 5) * kB, .block_bytes = kB, .kind = plan.kind});
  Outcome writer, reader;
  {
    PipelineOptions options{.read_ahead_blocks = plan.n,
                            .writer_comeback_blocks = plan.l,
                            .reader_comeback_blocks = plan.m,
                            .stale_blocks = plan.stale_blocks,
                            .reserve_bytes = std::uint64_t{1} << 30,
                            .pool = pool};
    if (plan.known_length) options.length_bytes = plan.words * sizeof(std::uint64_t);
    Pipeline<std::uint64_t> pipeline(options);
    std::thread producer([&] { writer = RandomWriter(plan, model, pipeline).run(); });
    reader = RandomReader(plan, model, pipeline).run();
    producer.join();
  }
  check_writer(plan, writer);
  check_reader(plan, writer, reader);
  const BlockPool::Statistics blocks = pool->statistics();
  EXPECT_LE(blocks.peak_blocks_in_use, plan.n + plan.l + plan.m + 1);
  EXPECT_EQ(blocks.blocks_in_use, 0u);
  EXPECT_EQ(blocks.blocks_guaranteed, 0u);
}

}  // namespace vortex::pipeline_model_test
