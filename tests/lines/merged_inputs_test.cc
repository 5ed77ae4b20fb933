// Sorted inputs that any number of threads merge in parts: against std::stable_sort and GNU sort.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lines/job/line_plan.h"
#include "lines/text/text_division.h"
#include "study/fault_plan.h"
#include "tests/lines/gnu_sort.h"
#include "tests/lines/line_folder.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/line_sort.h"

namespace vortex::test::merged_inputs_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr unsigned kThreads[] = {1, 2, 7, 16, 64, 128};

// The keys of any number of threads at a time, each of which is counted from a moment on: none goes
// on before all have come.
class KeysOfThreads : public ManyKeys {
 public:
  explicit KeysOfThreads(std::shared_ptr<const RecordKeys> keys, std::size_t threads = 0)
      : ManyKeys(std::move(keys)), counts_(threads) {}
  void begin() noexcept { begun_.store(true); }
  std::size_t threads() const { return counts_.of_threads().size(); }

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    if (begun_.load()) counts_.add(1);
    ManyKeys::append(records, keys);
  }

 private:
  mutable TeamCounts counts_;
  std::atomic<bool> begun_{false};
};

class MergedInputs : public LineFolder {
 protected:
  MergedInputs() {
    options.merge_inputs = true;
    options.resources.memory_bytes = 64 * kMiB;
    options.resources.block_bytes = std::size_t{16} << 10;
  }
  // Cut into as many sorted inputs, some of which may be empty, and may lack the last delimiter.
  void put_inputs(const Lines& lines, std::size_t count, std::mt19937_64& random) {
    options.inputs.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t left = lines.size() - begin;
      std::size_t taken = std::min<std::size_t>(left, random() % (2 * lines.size() / count + 2));
      if (random() % 8 == 0) taken = std::min<std::size_t>(left, random() % 2);
      if (i + 1 == count) taken = left;
      const auto at = lines.begin() + static_cast<std::ptrdiff_t>(begin);
      const Lines of_input =
          sorted(Lines(at, at + static_cast<std::ptrdiff_t>(taken)), options.order);
      std::string text = framed(of_input, options.framing);
      if (random() % 2 == 0 && taken > 0 && !of_input.back().empty()) text.pop_back();
      options.inputs.push_back(put("in" + std::to_string(i), text));
      begin += taken;
    }
  }
};

TEST_F(MergedInputs, AreMergedByAllThreads) {
  auto random = test_random();
  const auto keys = std::make_shared<KeysBehindComma>();
  options.order.keys = keys;
  options.order.ties = Ties::kInputOrder;
  Lines lines;
  for (int i = 0; i < 600'000; ++i) lines.push_back("x," + std::to_string(random() % 1'000'000));
  put_inputs(lines, 5, random);
  const Lines expected = sorted(lines, options.order);
  const std::uint64_t texts = (joined(lines).size() + kMiB / 4 - 1) / (kMiB / 4);
  for (const unsigned threads : kThreads) {
    if (kShadowMemory && threads > 7) continue;
    SCOPED_TRACE(threads);
    options.resources.threads = threads;
    // Of 256 KiB at least.
    const auto parts = static_cast<unsigned>(std::min<std::uint64_t>(threads, texts));
    const auto counted = std::make_shared<KeysOfThreads>(keys, parts);
    options.order.keys = counted;
    options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == SortPhase::kWriting) counted->begin();
    };
    const SortReport report = expect_output(expected);
    EXPECT_EQ(report.plan.threads, parts);
    EXPECT_EQ(report.merge_parts, parts == 1 ? 0 : parts);
    EXPECT_EQ(counted->threads(), parts);
    EXPECT_EQ(report.records_in, lines.size());
    EXPECT_EQ(report.plan.merged_inputs, 5u);
  }
}

TEST_F(MergedInputs, GiveWhatAStableSortGives) {
  auto random = test_random();
  unsigned in_parts = 0, with_keys = 0, with_long = 0;
  const auto are_enough = [&](int rounds) {
    if (kShadowMemory) return rounds >= 10;
    return rounds >= 400 || (rounds >= 40 && in_parts > 0 && with_keys > 0 && with_long > 0);
  };
  for (int round = 0; !are_enough(round); ++round) {
    const LineKind kind = kAllLineKinds[static_cast<std::size_t>(round) % std::size(kAllLineKinds)];
    constexpr std::size_t kLongest[] = {3, 40, 200, 6000, 40'000};
    const std::size_t longest = kLongest[random() % std::size(kLongest)];
    options.order = random_order(random);
    options.order.unique = round % 16 == 15;
    if (options.order.keys) {
      options.order.keys = std::make_shared<KeysOfThreads>(options.order.keys);
    }
    Lines lines = make_lines(kind, 1 + 3'000'000 / (longest / 2 + 12), longest, random);
    const std::size_t longs = random() % 2 * (1 + random() % 3);
    for (std::size_t i = 0; i < longs; ++i) {
      lines[random() % lines.size()] += "," + std::string(random() % 300'000, 'x');
    }
    const bool is_text = std::ranges::none_of(
        lines, [](const std::string& line) { return line.find('\0') != line.npos; });
    options.framing = RecordFraming::delimited(is_text && random() % 4 == 0 ? '\0' : '\n');
    const std::size_t inputs = 1 + random() % 12;
    const unsigned threads = kThreads[random() % std::size(kThreads)];
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ", kind " << static_cast<int>(kind) << ", longest "
                 << longest << ", threads " << threads << ", inputs " << inputs);
    options.resources.threads = threads;
    put_inputs(lines, inputs, random);
    const SortReport report = expect_output(sorted(lines, options.order));
    if (HasFailure()) return;
    if (report.merge_parts < 2) continue;
    EXPECT_EQ(report.records_in, lines.size());
    EXPECT_FALSE(options.order.unique);
    ++in_parts;
    with_keys += options.order.keys != nullptr;
    with_long += longs > 0;
  }
  if (kShadowMemory) return;  // too few rounds
  for (const unsigned seen : {in_parts, with_keys, with_long}) EXPECT_GT(seen, 0u);
}

// With each kind of key.
TEST_F(MergedInputs, GiveWhatGnuSortGives) {
  if (!std::filesystem::exists(kGnuSort)) GTEST_SKIP() << "no " << kGnuSort;
  auto random = test_random();
  ProgramRunner runner;
  struct Case {
    std::vector<std::string> gnu;
    LineKeyOptions ours;
  };
  const Case cases[] = {
      {{}, {}},
      {{"-n"}, {.letters = "n"}},
      {{"-f"}, {.letters = "f"}},
      {{"-r"}, {.letters = "r"}},
      {{"-s", "-t,", "-k2,2n"}, {.keys = {"2,2n"}, .separator = ',', .stable = true}},
      {{"-t,", "-k2,2", "-k1,1r"}, {.keys = {"2,2", "1,1r"}, .separator = ','}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.gnu.empty() ? "" : each.gnu.back());
    options.order = line_order(each.ours);
    options.inputs.clear();
    std::vector<std::string> arguments{kGnuSort, "-m"};
    arguments.insert(arguments.end(), each.gnu.begin(), each.gnu.end());
    for (int i = 0; i < 4; ++i) {
      Lines lines;
      for (int line = 0; line < 20'000; ++line) {
        lines.push_back(std::string(1, "aAbB"[random() % 4]) + std::to_string(random() % 300) +
                        "," + std::to_string(random() % 50) + "," + std::to_string(i));
      }
      options.inputs.push_back(
          put("in" + std::to_string(i), joined(sorted_in_memory(lines, options.order))));
      arguments.push_back(options.inputs.back());
    }
    const ProgramResult wanted = runner.run(arguments, "", {"LC_ALL=C"});
    ASSERT_EQ(wanted.code, 0) << wanted.errors;
    for (const unsigned threads : kThreads) {
      options.resources.threads = threads;
      const SortReport report = sort_lines(options);
      EXPECT_TRUE(file_text(options.output) == wanted.output) << threads;
      EXPECT_EQ(report.merge_parts > 1, threads > 1);
    }
  }
}

// Of inputs that are not sorted any number of threads gives what one does.
TEST_F(MergedInputs, ThatAreNotSortedGiveWhatOneThreadGives) {
  auto random = test_random();
  for (int round = 0; round < (kShadowMemory ? 4 : 12); ++round) {
    SCOPED_TRACE(round);
    Lines lines;
    for (int i = 0; i < 150'000; ++i) lines.push_back(std::to_string(random() % 1'000'000));
    const std::size_t inputs = 1 + random() % 4;
    put_inputs(lines, inputs, random);
    // Two halves in order; in no order; all in order but for one line, or the last one.
    std::string& name = options.inputs[random() % inputs];
    Lines wrong = sorted(lines, {});
    switch (round % 4) {
      case 0:
        std::rotate(wrong.begin(),
                    wrong.begin() + static_cast<std::ptrdiff_t>(random() % wrong.size()),
                    wrong.end());
        break;
      case 1:
        wrong = lines;
        break;
      case 2:
        wrong[random() % wrong.size()] = "0";
        break;
      default:
        wrong.back() = "0";
        break;
    }
    name = put("wrong", joined(wrong));
    options.resources.threads = 1;
    const SortReport one = sort_lines(options);
    const std::string expected = file_text(options.output);
    for (const unsigned threads : {2U, 7U, 16U}) {
      options.resources.threads = threads;
      const SortReport report = sort_lines(options);
      EXPECT_EQ(report.records_in, one.records_in);
      EXPECT_EQ(report.records_out, one.records_out);
      EXPECT_EQ(report.input_bytes, one.input_bytes);
      EXPECT_TRUE(file_text(options.output) == expected);
    }
  }
}

// What is appended while inputs are merged comes out, too, and no line that was not whole is torn.
TEST_F(MergedInputs, MayGrow) {
  auto random = test_random();
  const auto keys = std::make_shared<KeysBehindComma>();
  for (const bool whole : {true, false}) {
    for (const unsigned threads : {1U, 2U, 7U}) {
      SCOPED_TRACE(threads);
      Lines lines;
      for (int i = 0; i < 100'000; ++i)
        lines.push_back("," + std::to_string(1'000'000 + random() % 1'000'000));
      options.order = {.keys = keys};
      put_inputs(lines, 3, random);
      Lines live = sorted(lines, options.order);
      std::string text = joined(live);
      live.push_back(",3000000");
      std::string more = ",3000000\n";
      if (!whole) {
        text += more.substr(0, 4);
        more = more.substr(4);
      }
      options.inputs.push_back(put("live", text));
      const std::string path = options.inputs.back();
      options.order.keys = std::make_shared<KeysOfThreads>(keys);
      options.resources.threads = threads;
      bool grown = false;
      options.resources.progress = [&](const SortProgress& now) {
        if (now.phase != SortPhase::kWriting || std::exchange(grown, true)) return;
        std::ofstream(path, std::ios::binary | std::ios::app) << more;
      };
      lines.insert(lines.end(), live.begin(), live.end());
      expect_output(sorted(lines, {.keys = keys}));
      options.resources.progress = {};
    }
  }
}

TEST_F(MergedInputs, EndTogetherWhenOneFails) {
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 600'000; ++i) lines.push_back(std::to_string(random() % 1'000'000));
  put_inputs(lines, 2, random);
  for (const unsigned threads : {1U, 2U, 7U, 16U}) {
    if (kShadowMemory && threads != 2) continue;
    SCOPED_TRACE(threads);
    std::filesystem::remove(options.output);
    options.resources.threads = threads;
    for (int i = 0; i < (kShadowMemory ? 1 : 3); ++i) {
      expect_whole_or_nothing(sorted(lines, {}), SortPhase::kWriting, random);
    }
  }
}

// Few descriptors, or little memory: fewer threads, or one.
TEST_F(MergedInputs, TakeFewerThreadsRatherThanNone) {
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 400'000; ++i) lines.push_back(std::to_string(random() % 1'000'000));
  put_inputs(lines, 300, random);
  const Lines expected = sorted(lines, {});
  options.resources.threads = 7;
  options.resources.block_bytes = std::size_t{32} << 10;
  std::set<unsigned> seen;
  for (const std::uint64_t memory : {2 * kMiB, 64 * kMiB, 512 * kMiB}) {
    SCOPED_TRACE(memory);
    options.resources.memory_bytes = memory;
    seen.insert(expect_output(expected).merge_parts);
  }
  EXPECT_EQ(*seen.begin(), 0u);
  EXPECT_EQ(seen.size(), 3u);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const SortReport report = expect_output(expected);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(report.merge_parts, 0u);
}

// Buffers or blocks of all inputs, what their short records take, and the writer of each part.
TEST(MergedInputsPlan, TakesNoMoreThanTheMemory) {
  auto random = test_random();
  unsigned several = 0;
  for (int round = 0; round < 2000; ++round) {
    SortResources resources;
    resources.memory_bytes = kMiB << random() % 12;
    resources.threads = kThreads[random() % std::size(kThreads)];
    if (random() % 2 == 0) resources.block_bytes = kMinBlockBytes << random() % 7;
    LinePlan plan;
    if (error_of([&] { plan = plan_lines(resources, 1024 * kMiB); })) continue;
    std::vector<std::uint64_t> lengths(1 + random() % 400);
    for (std::uint64_t& length : lengths) length = random() % (kMiB << random() % 8);
    const unsigned merges = plan.input_merges_at_once(lengths);
    ASSERT_GE(merges, 1u);
    ASSERT_LE(merges, std::max(plan.threads, 1u));
    if (merges == 1) continue;
    std::uint64_t each = 0;
    for (const std::uint64_t length : lengths) {
      const MergedInput input = plan.merged_input(lengths.size(), length, merges);
      each += input.in_blocks ? FileSource::blocks_needed(plan.merged_reader, plan.block_bytes) *
                                    plan.block_bytes
                              : std::min<std::uint64_t>(input.buffer_bytes, length + 4096);
    }
    each += plan.bytes_beside_inputs(plan.merged_together(lengths, merges), merges);
    each += (FileWriterBase::blocks_needed(plan.writer, plan.block_bytes) + 1) * plan.block_bytes;
    ASSERT_LE(merges * each, plan.pool_blocks * plan.block_bytes);
    ++several;
  }
  EXPECT_GT(several, 100u);
}

}}  // namespace vortex::test::merged_inputs_test
