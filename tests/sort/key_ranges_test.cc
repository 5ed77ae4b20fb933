// The ranges of keys against a model that has sorted maps of the records of two runs.
#include "sort/runs/key_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/sort/record_lists.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "vortex/block_pool.h"
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/fault_dispatcher.h"

namespace vortex::key_ranges_test { namespace {

using Border = detail::BucketSplitters::Border;
using Numbers = std::function<std::uint64_t(std::uint64_t i)>;
using Random = std::mt19937_64;

constexpr std::size_t kBlock = std::size_t{16} << 10;

// Records have a number in big-endian order, which decides, and where there is room another one
// that says when they came.
struct Form {
  std::size_t record_bytes;
  std::size_t number_at;
  std::size_t number_bytes;
  bool keeps_splitters;

  std::uint64_t key(std::uint64_t number) const { return number >> (64 - 8 * number_bytes); }
  std::vector<std::byte> record(std::uint64_t number, std::uint32_t came) const {
    std::vector<std::byte> bytes(record_bytes);
    for (std::size_t i = 0; i < number_bytes; ++i) {
      bytes[number_at + i] = static_cast<std::byte>(number >> (56 - 8 * i));
    }
    if (record_bytes >= number_at + number_bytes + sizeof came) {
      std::memcpy(&bytes[record_bytes - sizeof came], &came, sizeof came);
    }
    return bytes;
  }
};

bool is_less(const RecordOrder& order, const std::byte* record, std::uint64_t bits,
             const Border& border) {
  if (bits != border.bits) return bits < border.bits;
  return border.record != nullptr && order.less(record, border.record);
}
bool is_greater(const RecordOrder& order, const std::byte* record, std::uint64_t bits,
                const Border& border) {
  if (bits != border.bits) return bits > border.bits;
  return border.record != nullptr && order.less(border.record, record);
}

class Trial {
 public:
  Trial(const Form& form, const RecordOrder& order, Random& random)
      : form_(form),
        order_(order),
        random_(random),
        blocks_(4 + random() % 28),
        pool_(
            {.pool_bytes = blocks_ * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand}),
        streams_(pool_, blocks_),
        scratch_(std::size_t{1} << 20) {
    const auto first = static_cast<unsigned>(1 + random() % (blocks_ / 4));
    const auto most = static_cast<unsigned>(first + 2 + random() % 4);
    if (form_.keeps_splitters) kept_.resize(detail::BucketSplitters::kept_bytes(order_, most));
    if (BucketBuffer::suits(form_.record_bytes)) buffers_ = std::make_unique<BucketBuffer[]>(most);
    const std::uint64_t pool_bytes = blocks_ * kBlock;
    ranges_ = std::make_unique<KeyRanges>(
        order_, streams_,
        KeyRanges::Options{.ranges = first,
                           .most_ranges = most,
                           .most_closed = static_cast<unsigned>(3 + random() % 3),
                           .most_blocks = blocks_ - random() % (blocks_ / 8 + 1),
                           .most_run_bytes = random() % 2 == 0
                                                 ? std::numeric_limits<std::uint64_t>::max()
                                                 : (1 + random() % 6) * pool_bytes,
                           .batch_bytes = random() % 3 == 0 ? random() % (pool_bytes / 4) : 0,
                           .may_fall = random() % 4 != 0},
        kept_, buffers_.get());
  }

  std::size_t runs() const { return runs_; }
  std::size_t falling_runs() const { return falling_runs_; }

  void choose(const Numbers& numbers) {
    const std::size_t count = std::min<std::size_t>(200, blocks_ / 4 * kBlock / form_.record_bytes);
    std::vector<std::byte> sample;
    for (std::size_t i = 0; i < count; ++i) {
      const auto record = form_.record(numbers(i), 0);
      sample.insert(sample.end(), record.begin(), record.end());
    }
    ranges_->choose(sample.data(), count, scratch_);
  }

  // Puts in as many as there is room for.
  std::size_t put(const Numbers& numbers, std::uint64_t first, std::size_t most) {
    const bool looks = random_() % 4 != 0;
    while (looks && !ranges_->look()) {
      if (closed_.empty()) {
        ADD_FAILURE() << "it waits for what was closed, and nothing was";
        break;
      }
      take_back();
    }
    const std::size_t record_bytes = form_.record_bytes;
    const std::size_t count = std::min(most, std::max<std::size_t>(ranges_->records_to_look(), 1));
    std::vector<std::byte> records;
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t number = numbers(first + i);
      keys.push_back(form_.key(number));
      const auto record = form_.record(number, static_cast<std::uint32_t>(first + i));
      records.insert(records.end(), record.begin(), record.end());
    }
    std::size_t taken = 0;
    guarded([&] {
      taken = order_.scatter(records.data(), count, ranges_->splitters(), ranges_->buckets());
    }).throw_if_failed();
    is_full_ = taken < count;
    ranges_->added(taken, is_full_ ? nullptr : records.data() + (count - 1) * record_bytes);
    const std::size_t frontier = ranges_->frontier();
    for (std::size_t i = 0; i < taken; ++i) {
      const std::byte* const record = records.data() + i * record_bytes;
      const bool is_below = frontier == ranges_->splitters().buckets() ||
                            (frontier != 0 && is_less(order_, record, order_.leading_bits(record),
                                                      ranges_->splitters().border(frontier - 1)));
      const bool is_next = is_below != ranges_->falls();
      const auto came = static_cast<std::uint32_t>(first + i);
      (is_next ? next_ : now_).emplace(keys[i], came);
    }
    return taken;
  }

  bool is_full() const { return is_full_; }
  bool has_records() const { return !now_.empty() || !next_.empty(); }
  bool can_close() const { return has_records() && ranges_->buckets().can_close(); }
  bool any_closed() const { return !closed_.empty(); }
  void take_back() {
    ranges_->buckets().take_back(std::move(closed_.front()));
    closed_.pop_front();
  }

  // A bucket has the first records of the run that have not been closed, in the order of keys and
  // of their coming; or the last, where the run falls.
  void close(bool more) {
    KeyRanges::Closed closed = ranges_->close_next(more);
    const std::size_t count = closed.bucket.bytes / form_.record_bytes;
    if (closed.bucket.stream != nullptr) {
      ASSERT_GT(count, 0U);
      ASSERT_LE(count, now_.size());
      const std::vector<std::byte> sorted = sorted_of(closed.bucket);
      std::vector<std::byte> expected;
      auto next = now_.begin();
      if (closed.falls) std::advance(next, now_.size() - count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto [key, came] = *next;
        next = now_.erase(next);
        const auto record = form_.record(key << (64 - 8 * form_.number_bytes), came);
        expected.insert(expected.end(), record.begin(), record.end());
        const auto before = last_.try_emplace(key, came).first;
        ASSERT_LE(before->second, came) << "a later one of equal records came out before";
        before->second = came;
      }
      ASSERT_TRUE(sorted == expected);
      closed_.push_back(std::move(closed.bucket));
    } else {
      ASSERT_TRUE(closed.ends_run);
    }
    if (!closed.ends_run) return;
    // Only a run that is as long as it may be leaves records that could have joined it.
    ASSERT_TRUE(count == 0 || now_.empty());
    if (closed.falls) ++falling_runs_;
    end_run();
  }

  void end_run_early() {
    ranges_->end_run();
    end_run();
  }

  // Each record lies between the borders of its range, or at the upper one, if it came before that
  // was made; the ranges of both runs have what the model has.
  void expect_in_place() const {
    const detail::BucketSplitters& splitters = ranges_->splitters();
    std::size_t bytes[] = {0, 0};
    for (std::size_t i = 1; i + 1 < splitters.buckets(); ++i) {
      const Border low = splitters.border(i - 1), high = splitters.border(i);
      ASSERT_LE(low.bits, high.bits);
      if (low.bits == high.bits) {
        ASSERT_NE(low.record, nullptr);
        ASSERT_FALSE(order_.less(high.record, low.record));
      }
    }
    for (std::size_t range = 0; range < splitters.buckets(); ++range) {
      const bool is_below = range < ranges_->frontier();
      bytes[is_below != ranges_->falls()] += ranges_->buckets().bytes(range);
      for (const std::span<const std::byte> part : ranges_->buckets().parts(range)) {
        for (std::size_t at = 0; at < part.size(); at += form_.record_bytes) {
          const std::byte* const record = part.data() + at;
          const std::uint64_t bits = order_.leading_bits_in_bucket(record);
          if (range != 0) {
            ASSERT_FALSE(is_less(order_, record, bits, splitters.border(range - 1)))
                << "range " << range << " of " << splitters.buckets();
          }
          if (range + 1 < splitters.buckets()) {
            ASSERT_FALSE(is_greater(order_, record, bits, splitters.border(range)))
                << "range " << range << " of " << splitters.buckets();
          }
        }
      }
    }
    ASSERT_EQ(bytes[0], now_.size() * form_.record_bytes);
    ASSERT_EQ(bytes[1], next_.size() * form_.record_bytes);
    ASSERT_EQ(ranges_->buckets().any_closed(), !closed_.empty());
    ASSERT_LE(streams_.blocks_in_use(), blocks_);
  }

 private:
  void end_run() {
    next_.merge(now_);
    now_ = std::exchange(next_, {});
    ++runs_;
  }

  std::vector<std::byte> sorted_of(const ClosedBucket& bucket) {
    test::RecordCollector out(form_.record_bytes);
    guarded([&] {
      order_.sort_bucket(bucket.begin(), bucket.bytes / form_.record_bytes, scratch_, out);
    }).throw_if_failed();
    return std::move(out.list.bytes);
  }

  const Form& form_;
  const RecordOrder& order_;
  Random& random_;
  const std::size_t blocks_;
  BlockPool pool_;
  StreamPool streams_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> kept_;
  std::unique_ptr<BucketBuffer[]> buffers_;
  std::unique_ptr<KeyRanges> ranges_;
  std::deque<ClosedBucket> closed_;
  // When they came, of what is in memory of this run, and of the next one; and of what was closed
  // last of each key.
  std::multimap<std::uint64_t, std::uint32_t> now_, next_;
  std::map<std::uint64_t, std::uint32_t> last_;
  bool is_full_ = false;  // not all that was to be put in found room
  std::size_t runs_ = 0, falling_runs_ = 0;
};

void expect_like_model(Trial& trial, const Numbers& numbers, std::uint64_t count, Random& random) {
  if (random() % 2 == 0) trial.choose(numbers);
  for (std::uint64_t put = 0; put < count || trial.has_records();) {
    if (put < count) {
      const std::size_t most = std::min<std::size_t>(count - put, 1 + random() % 2000);
      put += trial.put(numbers, put, most);
      if (!trial.is_full() && random() % 32 != 0) continue;
    }
    if (trial.any_closed() && (!trial.can_close() || random() % 2 == 0)) trial.take_back();
    if (trial.can_close()) {
      ASSERT_NO_FATAL_FAILURE(trial.close(random() % 16 != 0));
    }
    if (random() % 256 == 0) trial.end_run_early();
    ASSERT_NO_FATAL_FAILURE(trial.expect_in_place());
  }
}

constexpr Form kForms[] = {{1, 0, 1, false},   {8, 0, 8, false},   {8, 0, 4, false},
                           {16, 0, 8, false},  {100, 0, 8, false}, {100, 0, 8, true},
                           {100, 4, 8, false}, {100, 4, 8, true},  {100, 8, 8, true}};

// Keys of the leading bits alone decide; longer ones do not.
RecordFormat format_of(const Form& form) {
  const std::size_t key_bytes = form.keeps_splitters || form.number_at != 0
                                    ? form.number_at + form.number_bytes + 2
                                    : form.number_bytes;
  return RecordFormat(form.record_bytes, {{0, key_bytes, {}, false}});
}

TEST(KeyRanges, LikeTwoSortedMaps) {
  auto random = test::test_random();
  constexpr std::uint64_t kGreatest = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t count = 0;
  const std::pair<const char*, Numbers> shapes[] = {
      {"random", [&](std::uint64_t) { return random(); }},
      {"ascending", [&](std::uint64_t i) { return kGreatest / count * i; }},
      {"descending", [&](std::uint64_t i) { return kGreatest - kGreatest / count * i; }},
      {"drifting",
       [&](std::uint64_t i) { return kGreatest / count / 2 * i + random() % (kGreatest / 4); }},
      {"nearly ascending",
       [&](std::uint64_t i) { return kGreatest / count * (i - i % 20 + random() % 20); }},
      {"drifting down",
       [&](std::uint64_t i) {
         return kGreatest - kGreatest / count / 2 * i - random() % (kGreatest / 4);
       }},
      {"nearly descending",
       [&](std::uint64_t i) {
         return kGreatest - kGreatest / count * (i - i % 20 + random() % 20);
       }},
      {"descending with equal ones",
       [&](std::uint64_t i) { return kGreatest - kGreatest / 200 * (200 * i / count); }},
      {"falling sawtooth",
       [&](std::uint64_t i) { return kGreatest - kGreatest / count * 5 * (i % (count / 5)); }},
      {"up and down",
       [&](std::uint64_t i) {
         return kGreatest / count * 2 * std::min(i % (count / 2), count / 2 - i % (count / 2));
       }},
      {"up and far down in steps",
       [&](std::uint64_t i) {
         const std::uint64_t place = i % (count / 4);
         return kGreatest / 100 * (place < count / 16 ? place : (count / 4 - place) / 3) /
                (count / 1600);
       }},
      {"sawtooth", [&](std::uint64_t i) { return kGreatest / count * 5 * (i % (count / 5)); }},
      {"heavily equal",
       [&](std::uint64_t i) {
         return random() % 10 != 0 ? kGreatest / 3 : kGreatest / 64 * (i * 64 / count);
       }},
      {"near the greatest",
       [&](std::uint64_t) { return kGreatest - (random() >> (random() % 64)); }},
  };
  std::size_t runs = 0, falling_runs = 0;
  for (const Form& form : kForms) {
    const FormatOrder order(format_of(form));
    for (const auto& [name, numbers] : shapes) {
      SCOPED_TRACE(to_string(order.format()) + ", number at " + std::to_string(form.number_at) +
                   ", " + name);
      Trial trial(form, order, random);
      const std::uint64_t bytes = test::kShadowMemory ? 500'000 : 1'000'000;
      count = bytes / std::max<std::uint64_t>(form.record_bytes, 4);
      ASSERT_NO_FATAL_FAILURE(expect_like_model(trial, numbers, count, random));
      runs += trial.runs();
      falling_runs += trial.falling_runs();
    }
  }
  EXPECT_GT(runs, 100U);
  EXPECT_GT(falling_runs, 10U);
}

// Of records of one key, between others that are few, a range that becomes large again and again is
// looked at for its ends; and what it had then is not looked at once more.
TEST(KeyRanges, LookOnceAtRecordsOfOneKey) {
  auto random = test::test_random();
  constexpr std::size_t kBlocks = 256;
  constexpr std::size_t kRecords = kBlocks * 3 / 4 * kBlock / sizeof(test::KeyAndValue);
  for (const unsigned others : {0U, 1000U, 50U}) {
    std::size_t looked = 0;
    bool looks = false;
    const auto key = [&](const test::KeyAndValue& record) {
      if (looks) ++looked;
      return record.key;
    };
    const auto order = detail::order_of_type<test::KeyAndValue>(ByKey(key));
    BlockPool pool({.pool_bytes = kBlocks * kBlock, .block_bytes = kBlock});
    StreamPool streams(pool, kBlocks);
    KeyRanges ranges(*order, streams,
                     {.ranges = 16,
                      .most_ranges = 32,
                      .most_closed = 3,
                      .most_blocks = kBlocks,
                      .most_run_bytes = std::numeric_limits<std::uint64_t>::max()},
                     {}, nullptr);
    for (std::size_t put = 0; put < kRecords;) {
      std::vector<test::KeyAndValue> records(std::min(ranges.records_to_look(), kRecords - put));
      for (test::KeyAndValue& record : records) {
        const bool is_other = others != 0 && random() % others == 0;
        record = {is_other ? random() : std::uint64_t{1} << 62, put++};
      }
      const auto* const bytes = reinterpret_cast<const std::byte*>(records.data());
      std::size_t taken = 0;
      guarded([&] {
        taken = order->scatter(bytes, records.size(), ranges.splitters(), ranges.buckets());
      }).throw_if_failed();
      ASSERT_EQ(taken, records.size());
      ranges.added(records.size(), nullptr);
      looks = true;
      ASSERT_TRUE(ranges.look());
      looks = false;
    }
    // Each is compared with one other, and some are sampled.
    EXPECT_GT(looked, kRecords / 2) << others;
    EXPECT_LT(looked, 3 * kRecords) << others;
  }
}

}}  // namespace vortex::key_ranges_test
