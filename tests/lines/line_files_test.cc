// Sorts of files with little memory: runs, several passes, records longer than blocks, disks that
// fail, and the end of all of them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

#include "lines/job/line_plan.h"
#include "sort/runs/block_packer.h"
#include "study/fault_plan.h"
#include "tests/lines/fuzzed_input.h"
#include "tests/lines/line_folder.h"
#include "tests/support/cases.h"
#include "tests/support/environment.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"
#include "vortex/disk.h"
#include "vortex/line_sort.h"

namespace vortex::test::line_files_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBlock = 16 << 10;

class LineFiles : public LineFolder {
 protected:
  LineFiles() {
    options.resources.block_bytes = kBlock;
    // Every test, with any of these.
    auto random = test_random();
    options.resources.folders.assign(1 + random() % 3, runs.path().string());
    options.resources.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    options.resources.compression =
        random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
  }

  void expect_sorted(const Lines& lines) { expect_all(lines.size(), sorted(lines, options.order)); }
  // The same for those who sort the same lines several times.
  void expect_all(std::size_t lines, const Lines& expected) {
    report = expect_output(expected);
    EXPECT_EQ(report.records_in, lines);
    EXPECT_EQ(report.plan.memory_bytes, options.resources.memory_bytes);
  }

  static std::size_t one_of(std::mt19937_64& random, std::initializer_list<std::size_t> values) {
    return values.begin()[random() % values.size()];
  }
  void choose_framing(std::mt19937_64& random) {
    options.framing =
        random() % 3 == 0 ? RecordFraming::length_prefixed() : RecordFraming::delimited();
  }
  // Each kind in its turn, and for messages what a round is about.
  static LineKind kind_of(unsigned round) {
    return kAllLineKinds[round % std::size(kAllLineKinds)];
  }
  std::string about(unsigned round, std::size_t longest) const {
    return "round " + std::to_string(round) + ", kind " +
           std::to_string(static_cast<int>(kind_of(round))) + ", longest " +
           std::to_string(longest) + ", threads " + std::to_string(options.resources.threads);
  }
  // Several runs, several passes.
  Lines some_lines(std::mt19937_64& random, std::size_t count = 35000) {
    return make_lines(LineKind::kFields, count, 150, random);
  }

  // Disks do as planned.

  SortReport report;
};

TEST_F(LineFiles, RandomSorts) {
  auto random = test_random();
  Seen seen({{"with runs", 6}});
  for (unsigned round = 0; seen.another(round, 28); ++round) {
    const std::size_t longest =
        one_of(random, {3, 40, 200, kBlock - 1, kBlock, kBlock + 1, 5 * kBlock});
    const std::size_t bytes = random() % 4 == 0 ? 200000 : 1500000;
    const std::size_t count = 1 + bytes / (longest / 2 + 12);
    const Lines lines = make_lines(kind_of(round), count, longest, random);
    options.order = random_order(random);
    options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    choose_framing(random);
    // Two inputs; the first may lack the last delimiter.
    const auto half = lines.begin() + static_cast<std::ptrdiff_t>(random() % (lines.size() + 1));
    const Lines first(lines.begin(), half);
    std::string text = framed(first, options.framing);
    const bool delimited = options.framing.kind() == RecordFraming::Kind::kDelimited;
    if (delimited && !first.empty() && !first.back().empty() && random() % 2 == 0) text.pop_back();
    options.inputs = {put("a", text), put("b", framed(Lines(half, lines.end()), options.framing))};
    SCOPED_TRACE(about(round, longest));
    expect_sorted(lines);
    seen.note("with runs", report.runs > 1);
  }
  seen.expect_all();
}

TEST_F(LineFiles, ManyRunsTakeSeveralPasses) {
  auto random = test_random();
  const Lines lines = some_lines(random, 250000);
  const Lines expected = sorted(lines, options.order);
  options.resources.block_bytes = 2 * kBlock;
  put_input(lines);
  for (const unsigned threads : {1, 2}) {
    options.resources.threads = threads;
    expect_all(lines.size(), expected);
    EXPECT_GT(report.passes, 1u);
    EXPECT_GT(report.merges, 2u);
  }
}

// Keys of up to 1024 bytes lack in their runs what they share; longer ones, which are in other
// runs, come between them in the order.
TEST_F(LineFiles, MergedRunsMayBeLongerThanThoseTheyAreMadeOf) {
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 24000; ++i) {
    std::string line(1000, 'p');
    for (int digits = i / 1200 % 2 == 0 ? 20 : 40; digits > 0; --digits) {
      line += static_cast<char>('0' + random() % 10);
    }
    lines.push_back(std::move(line));
  }
  put_input(lines);
  options.resources.compression = RunCompression::kNever;
  expect_sorted(lines);
  EXPECT_GT(report.passes, 1u);
}

TEST_F(LineFiles, EqualRecordsNeverReachTheDisks) {
  auto random = test_random();
  // Ten times the memory, and few different keys.
  const Lines lines = some_lines(random, 130000);
  put_input(lines);
  options.order.keys = std::make_shared<KeysBehindComma>();
  options.order.unique = true;
  expect_sorted(lines);
  EXPECT_EQ(report.runs, 0u);
}

// Records whose bytes are the same are kept once with a count, in memory and in runs; 65536 of one
// are more than an entry of the index counts.
TEST_F(LineFiles, EqualRecordsAreCounted) {
  auto random = test_random();
  const auto some_of = [&random](std::size_t kinds, std::size_t count, std::size_t of_one) {
    const Lines of = make_lines(LineKind::kFields, kinds, 60, random);
    Lines lines(of_one, of[0]);
    for (std::size_t i = 0; i < count; ++i) lines.push_back(of[random() % of.size()]);
    std::shuffle(lines.begin(), lines.end(), random);
    return lines;
  };
  const bool flips = random() % 2 == 0;
  for (const unsigned threads : {1, 2, 7}) {
    for (const bool by_key : {false, true}) {
      if (!long_tests() && by_key == ((threads == 2) == flips)) continue;  // the one or the other
      options.resources.threads = threads;
      options.order = {};
      if (by_key) options.order.keys = std::make_shared<KeysBehindComma>();
      options.order.descending = random() % 2 == 0;
      // Several times the memory, and few records.
      Lines lines = some_of(300, 60000, 150000);
      put_input(lines);
      expect_sorted(lines);
      EXPECT_EQ(report.runs, 0u);
      // Records that do not fit, a few of them many times; one run after the other has them.
      lines = some_of(20000, 40000, 70000);
      put_input(lines);
      expect_sorted(lines);
      EXPECT_GT(report.runs, 1u);
      // The order of the input decides: nothing is counted.
      options.order.ties = Ties::kInputOrder;
      expect_sorted(lines);
    }
  }
}

// Some 60 000 lines, of so many different ones.
Lines repeated_lines(std::size_t kinds, std::mt19937_64& random) {
  const Lines of = make_lines(LineKind::kFields, kinds, 100, random);
  Lines lines(1000, of[0]);
  for (std::size_t i = 0; i < 60000; ++i) lines.push_back(of[random() % of.size()]);
  return lines;
}

TEST_F(LineFiles, ASorterGivesCountedRecordsOneByOne) {
  auto random = test_random();
  for (const std::size_t kinds : {50u, 30000u}) {
    const Lines lines = repeated_lines(kinds, random);
    LineSorter sorter({}, options.resources);
    ASSERT_EQ(pushed_through(sorter, lines), sorted(lines, {}));
    EXPECT_EQ(sorter.counts().runs > 0, kinds > 50);
  }
}

// Records that come several times, in memory and from runs; some longer than the room for them.
TEST_F(LineFiles, ASorterTakesAndGivesSeveralAtOnce) {
  auto random = test_random();
  for (const std::size_t kinds : {50u, 30000u}) {
    Lines lines = repeated_lines(kinds, random);
    lines[17].append(5000, 'x');
    Lines wanted = sorted(lines, {});
    options.resources.first_records = random() % 2 == 0 ? 0 : 40000;
    if (options.resources.first_records != 0) wanted.resize(40000);
    LineSorter sorter({}, options.resources);
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    for (std::size_t begin = 0; begin < views.size();) {
      const std::size_t count = std::min<std::size_t>(random() % 500, views.size() - begin);
      sorter.push(std::span(views).subspan(begin, count));
      begin += count;
    }
    EXPECT_EQ(sorter.next({}, {}), 0u);
    Lines found;
    for (bool more = true; more;) {
      std::string room(random() % 4000, ' ');
      std::vector<std::size_t> lengths(random() % 100);
      const std::size_t count = sorter.next(room, lengths);
      const char* at = room.data();
      for (std::size_t i = 0; i < count; at += lengths[i++]) found.emplace_back(at, lengths[i]);
      if (count > 0) continue;
      std::string_view record;
      more = sorter.next(record);
      if (more) found.emplace_back(record);
    }
    ASSERT_TRUE(found == wanted);
    if (wanted.size() < lines.size()) continue;
    EXPECT_EQ(sorter.counts().runs > 0, kinds > 50);
  }
}

TEST_F(LineFiles, RunsLieOnADisk) {
  auto random = test_random();
  const TemporaryFolder disk;
  const Lines lines = some_lines(random);
  put_input(lines);
  options.resources.folders = {disk.path().string()};
  expect_sorted(lines);
  EXPECT_GT(report.runs, 2u);
  EXPECT_EQ(disk.entries(), 0u);
}

TEST_F(LineFiles, AFolderMayBeMissingWhereNothingIsKept) {
  auto random = test_random();
  const std::string missing = folder.file("none");
  options.resources.folders = {missing};
  options.inputs = {put("few", "b\na\n")};
  expect_sorted({"b", "a"});
  options.merge_inputs = true;
  options.inputs = {put("one", "a\nc\n"), put("other", "b\n")};
  expect_sorted({"a", "c", "b"});

  options.merge_inputs = false;
  options.output = folder.file("of many");
  options.inputs = {put("many", joined(some_lines(random)))};
  for (const bool unique : {false, true}) {  // known beforehand, and not
    options.order.unique = unique;
    expect_refused(ENOENT, {"'" + missing + "'"});
  }
}

TEST_F(LineFiles, AFunctionFramesRecordsAcrossBlocks) {
  auto random = test_random();
  // Two bytes of length, then the rest: up to three blocks.
  options.framing = RecordFraming::by_function([](std::string_view text, bool) -> std::size_t {
    if (text.size() < 2) return 0;
    const std::size_t bytes = 2 + static_cast<unsigned char>(text[0]) * std::size_t{256} +
                              static_cast<unsigned char>(text[1]);
    return bytes <= text.size() ? bytes : 0;
  });
  Lines records;
  for (int i = 0; i < 100; ++i) {
    std::string record(2 + random() % 50000, static_cast<char>('a' + random() % 3));
    record[0] = static_cast<char>((record.size() - 2) / 256);
    record[1] = static_cast<char>((record.size() - 2) % 256);
    records.push_back(std::move(record));
  }
  const auto text = [](const Lines& all) {
    std::string joined;
    for (const std::string& record : all) joined += record;
    return joined;
  };
  options.inputs = {put("a", text(records))};
  const SortReport done = sort_lines(options);
  EXPECT_GT(done.runs, 1u);
  EXPECT_TRUE(file_text(options.output) == text(sorted(records, {})));
}

// Lines whose ends are known when so many bytes have been seen behind them: what a border of blocks
// cuts is put together with records behind it.
TEST_F(LineFiles, AFunctionMayLookBehindTheRecord) {
  auto random = test_random();
  for (const std::size_t behind : {1, 2, 300, 40000}) {
    options.framing =
        RecordFraming::by_function([=](std::string_view text, bool ends) -> std::size_t {
          const std::size_t bytes = text.find('\n') + 1;  // npos + 1 is 0
          return ends || text.size() - bytes >= behind ? bytes : 0;
        });
    for (const std::size_t count : {100, 40000}) {
      SCOPED_TRACE(std::to_string(behind) + ", " + std::to_string(count));
      Lines lines = make_lines(LineKind::kFields, count, 60, random);
      options.inputs = {put("a", joined(lines))};
      sort_lines(options);
      EXPECT_TRUE(file_text(options.output) == joined(sorted(lines, options.order)));
    }
  }
}

TEST_F(LineFiles, LinesOfAMebibyteWithACommonPrefix) {
  auto random = test_random();
  Lines lines;
  const std::string prefix(kMiB, 'p');
  for (int i = 0; i < 30; ++i) lines.push_back(prefix + std::to_string(random() % 20));
  put_input(lines);
  options.resources.memory_bytes = 10 * kMiB;
  options.resources.compression = RunCompression::kAlways;  // else they are kept apart
  expect_sorted(lines);
  EXPECT_GT(report.runs, 1u);
}

// One long line among short ones, in four times its memory.
TEST_F(LineFiles, AVeryLongLine) {
  const std::size_t bytes = long_tests() ? std::size_t{1} << 30 : 20 * kMiB;
  options.inputs = {put("a", "c\n" + std::string(bytes, 'b') + "\na\n")};
  options.resources.memory_bytes = 4 * bytes;
  options.resources.block_bytes = kMiB;
  sort_lines(options);
  const std::string found = file_text(options.output);
  ASSERT_EQ(found.size(), bytes + 5);
  EXPECT_EQ(found.substr(0, 2), "a\n");
  EXPECT_EQ(found.find_first_not_of('b', 2), bytes + 2);
  EXPECT_EQ(found.substr(bytes + 2), "\nc\n");
  std::filesystem::remove(options.output);
  options.resources.memory_bytes = bytes;
  expect_refused(EMSGSIZE, {"record 2 of '", "at offset 2,"});
}

TEST_F(LineFiles, ALineThatIsTooLongIsNamed) {
  options.inputs = {put("a", "short\n" + std::string(2 * kMiB, 'x') + "\n")};
  expect_refused(EMSGSIZE, {"record 2 of '", "a', at offset 6", "sort with more memory"});
  EXPECT_EQ(error_of([&] { check_lines(options); }), 0);
}

// A long key of the record "b" alone.
class OneLongKey final : public RecordKeys {
 public:
  explicit OneLongKey(std::size_t bytes) : bytes_(bytes) {}

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      keys.append(std::string(record == "b" ? bytes_ : 1, 'k'));
      keys.end_key();
    }
  }

 private:
  const std::size_t bytes_;
};

TEST_F(LineFiles, ALineThatIsTooLongWithItsKeyIsNamed) {
  options.header_records = 1;
  const auto expect_third_refused = [&](std::string_view text) {
    options.inputs = {put("a", text)};
    expect_refused(EMSGSIZE, {"record 3 of '", "a', at offset 13, of ", "with its key",
                              "sort with more than"});
  };
  options.order.keys = std::make_shared<OneLongKey>(4 * kMiB);
  expect_third_refused("a,head\nshort\nb\n");
  options.order.keys = std::make_shared<KeysBehindComma>();
  options.resources.memory_bytes = 16 * kMiB;
  options.resources.compression = RunCompression::kAlways;  // none is kept apart
  expect_third_refused("a,head\nshort\n," + std::string(5 * kMiB, 'x') + "\n" +
                       std::string(16 * kMiB, 'b') + "\n");
}

TEST_F(LineFiles, SortedInputsAreMerged) {
  auto random = test_random();
  for (const bool unique : {false, true}) {
    options.order.unique = unique;
    options.order.keys = some_keys(random);
    // Few inputs, and more than can be merged at a time.
    for (const std::size_t inputs : {3, 40}) {
      Lines all;
      options.inputs.clear();
      for (std::size_t i = 0; i < inputs; ++i) {
        add_input(sorted(make_lines(LineKind::kFields, 1000, 100, random), options.order), all);
      }
      options.merge_inputs = true;
      expect_sorted(all);
      EXPECT_EQ(report.runs > 0, inputs == 40);
      EXPECT_EQ(report.plan.merged_inputs, inputs);
    }
  }
}

// More than fit in the memory of a merge, at their beginning and behind many short ones.
TEST_F(LineFiles, SortedInputsMayHaveLongLines) {
  options.merge_inputs = true;
  options.resources.memory_bytes = 8 * kMiB;
  options.resources.block_bytes = 4 * kBlock;
  for (const std::size_t shorts : {0, 100000}) {
    for (const std::size_t inputs : {2, 4, 16}) {
      Lines all;
      options.inputs.clear();
      for (std::size_t i = 0; i < inputs; ++i) {
        Lines lines(shorts / inputs, "x" + std::to_string(i));
        for (const char last : {'a', 'b', 'c'}) {
          lines.push_back(std::string(kMiB, 'y') + last + std::to_string(i));
        }
        add_input(lines, all);
      }
      expect_sorted(all);
    }
  }
}

// The same with whatever a sort may be asked for.
TEST_F(LineFiles, SortedInputsMayHaveLongLinesInAnyOrder) {
  auto random = test_random();
  options.merge_inputs = true;
  options.resources.memory_bytes = 8 * kMiB;
  options.resources.block_bytes = 4 * kBlock;
  for (int round = 0; round < 6; ++round) {
    options.order = random_order(random, round % 2 == 0);
    options.order.unique = round % 3 == 0;
    options.header_records = random() % 3;
    const std::size_t shorts = random() % 2 == 0 ? 3 : 40000;
    SCOPED_TRACE(::testing::Message() << "round " << round);
    Lines all;
    options.inputs.clear();
    for (const char* const name : {"a", "b", "c", "d"}) {
      Lines lines = make_lines(LineKind::kFields, shorts, 60, random);
      for (const char last : {'a', 'b', 'c'}) {
        lines.push_back(std::string(600 << 10, 'y') + last + name);
        lines.back().insert(random() % 3, ",");
      }
      lines.push_back(std::string(600 << 10, 'x'));
      add_input(sorted(lines, options.order), all,
                joined(Lines(options.header_records, std::string("head of ") + name)));
    }
    const std::string header = joined(Lines(options.header_records, "head of a"));
    EXPECT_EQ(expect_output(sorted(all, options.order), header).records_in, all.size());
  }
}

// What has gone into a pipe cannot be taken back.
TEST_F(LineFiles, LongLinesAreMergedToAPipeWhereTheyComeFirst) {
  options.merge_inputs = true;
  options.output = folder.file("pipe");
  options.resources.memory_bytes = 8 * kMiB;
  options.resources.block_bytes = 4 * kBlock;
  ASSERT_EQ(mkfifo(options.output.c_str(), 0600), 0);
  for (const std::size_t shorts : {0, 100000}) {
    Lines all;
    options.inputs.clear();
    for (const char* const name : {"a", "b", "c", "d"}) {
      Lines lines(shorts, "x");
      const std::size_t long_bytes = shorts == 0 ? 3 * kMiB / 2 : kMiB;
      for (const char last : {'a', 'b'})
        lines.push_back(std::string(long_bytes, 'y') + last + name);
      add_input(lines, all);
    }
    std::string read;
    std::thread reader([&] {
      std::ifstream pipe(options.output, std::ios::binary);
      read.assign(std::istreambuf_iterator<char>(pipe), {});
    });
    const auto sort = [&] { sort_lines(options); };
    EXPECT_TRUE(shorts == 0
                    ? fails(sort, 0)
                    : fails(sort, EMSGSIZE,
                            {"record 10000", "', at offset 200", "MiB", "give more memory"}));
    reader.join();
    EXPECT_EQ(read == joined(sorted(all, {})), shorts == 0);
  }
}

// The longest that can be merged, and one that cannot.
TEST_F(LineFiles, AShortLineMayHaveALongKey) {
  auto random = test_random();
  Lines lines = make_lines(LineKind::kFields, 20000, 100, random);
  std::erase(lines, "b");
  Lines expected = sorted(lines, {});
  expected.push_back("b");
  const std::size_t place = random() % lines.size();
  const Lines before(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(place));
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(place), "b");
  put_input(lines);
  for (const unsigned threads : {1, 2}) {
    options.resources.threads = threads;
    const LinePlan plan = plan_lines(options.resources, joined(lines).size());
    std::size_t longest = kBlock;
    while (plan.most_runs(longest + kBlock) >= 2) longest += kBlock;
    options.order.keys = std::make_shared<OneLongKey>(longest - 100);
    EXPECT_GT(expect_output(expected).runs, 1u);
    std::filesystem::remove(options.output);
    options.order.keys = std::make_shared<OneLongKey>(longest + kBlock);
    expect_refused(EMSGSIZE,
                   {"record " + std::to_string(place + 1) + " of '" + folder.file("in") +
                    "', at offset " + std::to_string(joined(before).size()) + ", of 1 bytes"});
  }
}

TEST_F(LineFiles, DisorderIsFoundAcrossBlocks) {
  auto random = test_random();
  Lines lines = sorted(make_lines(LineKind::kRandom, 20000, 60, random), {});
  put_input(lines);
  EXPECT_FALSE(check_lines(options));
  const std::size_t at = 10000 + random() % 5000;
  lines[at].clear();
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < at; ++i) offset += lines[i].size() + 1;
  put_input(lines);
  const auto found = check_lines(options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->record, at + 1);
  EXPECT_EQ(found->offset, offset);
}

class FailingKeys final : public RecordKeys {
 public:
  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      if (record == "bad") throw std::invalid_argument("no key");
      keys.append(record);
      keys.end_key();
    }
  }
};

TEST_F(LineFiles, KeysMayThrow) {
  options.inputs = {put("a", "good\nbad\n")};
  options.order.keys = std::make_shared<FailingKeys>();
  EXPECT_THROW(sort_lines(options), std::invalid_argument);
  EXPECT_FALSE(exists(options.output));
}

// Several threads make the last merge, each a part of the output.
class LineMergeParts : public LineFiles {
 protected:
  LineMergeParts() {
    options.resources.memory_bytes = 4 * kMiB;
    options.resources.threads = 2;
  }
  // Some eight megabytes, and so a dozen runs.
  Lines many_lines(LineKind kind, std::size_t longest, std::mt19937_64& random,
                   std::size_t bytes = 8000000) {
    return make_lines(kind, bytes / (longest / 2 + 12), longest, random);
  }
};

TEST_F(LineMergeParts, GiveWhatOneMergeGives) {
  auto random = test_random();
  Seen seen({{"in parts", 9}});
  options.resources.memory_bytes = 2 * kMiB;
  for (unsigned round = 0; seen.another(round, 14); ++round) {
    const std::size_t longest = one_of(random, {20, 100, 500, kBlock, 3 * kBlock});
    Lines lines = many_lines(kind_of(round), longest, random, 4000000);
    options.order = random_order(random);
    options.order.unique = false;
    options.resources.threads = static_cast<unsigned>(one_of(random, {2, 3, 7}));
    // Runs that do not overlap, or only a little.
    if (random() % 4 == 0) lines = sorted(lines, options.order);
    choose_framing(random);
    put_input(lines);
    SCOPED_TRACE(about(round, longest));
    expect_sorted(lines);
    seen.note("in parts", report.merge_parts > 1);
  }
  seen.expect_all();
}

// The same for records that were sorted in memory, behind a header, with equal ones that are
// dropped or counted, and where one part would be too short.
TEST_F(LineMergeParts, OfWhatFitsInMemory) {
  auto random = test_random();
  Seen seen({{"in parts", 9}, {"whole"}});
  options.resources.memory_bytes = 64 * kMiB;
  for (unsigned round = 0; seen.another(round, 14); ++round) {
    const std::size_t longest = one_of(random, {3, 20, 100, 3 * kBlock, 9 * kBlock});
    Lines lines = make_lines(kind_of(round), 1500000 / (longest / 2 + 4), longest, random);
    // Parts are likely to be cut where lines are equal.
    const std::size_t different = lines.size();
    const std::size_t repeats = round % 3 == 0 ? 3 + random() % 30 : 0;
    for (std::size_t i = 0; i < different * repeats && lines.size() < 60000; ++i) {
      lines.push_back(Lines::value_type(lines[i % different]));
    }
    options.order = random_order(random);
    options.order.unique |= repeats > 0;
    options.resources.threads = static_cast<unsigned>(one_of(random, {2, 3, 7}));
    choose_framing(random);
    options.header_records = 0;
    put_input(lines);
    SCOPED_TRACE(about(round, longest));
    expect_sorted(lines);
    if (HasFailure()) return;
    EXPECT_EQ(report.runs, 0u);
    seen.note("in parts", report.merge_parts > 1);
    seen.note("whole", report.merge_parts == 1);
    const bool prefix = options.framing.kind() == RecordFraming::Kind::kLengthPrefixed;
    if (prefix || lines.size() < 2) continue;
    const std::string header = std::string(random() % (2 * kBlock), 'h') + '\n';
    put("in", header + joined(lines));
    options.header_records = 1;
    expect_output(sorted(lines, options.order), header);
  }
  seen.expect_all();
}

// Lines like names of files: runs lack most of them, and longer ones than a reader puts together
// are whole. Passes, parts of merges, and counted records beside those that come once.
class LineRunsThatShare : public LineMergeParts {
 protected:
  // With a number and a comma in front of those that are keys.
  Lines paths(bool keys, std::size_t bytes, std::size_t prefix_bytes, std::mt19937_64& random) {
    Lines lines;
    for (std::size_t done = 0; done < bytes; done += lines.back().size() + 1) {
      std::string line;
      if (keys) line = std::to_string(random() % 1000) + ',';
      const auto folder = random() % 4;
      line += std::string(prefix_bytes + folder % 2, static_cast<char>('a' + folder));
      line += std::string(random() % 30, 'x') + std::to_string(random() % 5000);
      lines.push_back(std::move(line));
      if (random() % 8 == 0) lines.push_back(Lines::value_type(lines.back()));
    }
    return lines;
  }
};

TEST_F(LineRunsThatShare, AreSorted) {
  auto random = test_random();
  std::size_t several_passes = 0;
  std::size_t in_parts = 0;
  Turns turns(random, 3);
  for (const std::size_t prefix_bytes : {0, 6, 7, 8, 70, 254, 500, 980, 1000, 1020, 1030}) {
    for (const bool keys : {false, true}) {
      // Most of these are merged in parts, so that one is.
      const bool in_threads = prefix_bytes <= 8 && !keys;
      if (!in_threads && prefix_bytes != 70 && turns.leave_out()) continue;
      options.order = random_order(random, keys);
      const bool little = !in_threads && (prefix_bytes == 70 || random() % 2 == 0);
      options.resources.memory_bytes = (little ? 1 : 4) * kMiB;
      options.resources.threads =
          in_threads ? 2 : kThreadCounts[random() % std::size(kThreadCounts)];
      // Enough for several passes where the memory is small.
      const std::size_t bytes = options.resources.memory_bytes == kMiB ? 8000000 : 4000000;
      Lines lines = paths(keys, bytes, prefix_bytes, random);
      put_input(lines);
      SCOPED_TRACE(::testing::Message() << "common " << prefix_bytes << ", keys " << keys
                                        << ", threads " << options.resources.threads);
      expect_sorted(lines);
      if (HasFailure()) return;
      several_passes += report.passes > 1;
      in_parts += report.merge_parts > 1;
    }
  }
  EXPECT_GT(several_passes, 0u);
  EXPECT_GT(in_parts, 0u);
}

// Marks that are further apart than what is read of a run at once when it is divided.
TEST_F(LineRunsThatShare, AreDividedFarFromMarks) {
  auto random = test_random();
  options.resources.memory_bytes = 32 * kMiB;
  options.resources.block_bytes = kMiB / 2;
  Lines lines;
  for (int i = 0; i < 450000; ++i) {  // the second lacks the first, which is whole
    lines.push_back(std::to_string(random()));
    lines.push_back(lines.back() + "/of/it");
  }
  put_input(lines);
  expect_sorted(lines);
  EXPECT_EQ(report.merge_parts, 2u);
}

TEST_F(LineRunsThatShare, AreShort) {
  auto random = test_random();
  options.resources.compression = RunCompression::kNever;
  for (const bool keys : {false, true}) {
    if (keys) options.order.keys = std::make_shared<KeysBehindComma>();
    for (const std::size_t prefix_bytes : {500, 1100}) {
      const Lines lines = paths(keys, 8000000, prefix_bytes, random);
      put_input(lines);
      expect_sorted(lines);
      // With keys a record is there twice, and only its key may lack a part.
      const std::uint64_t whole = (keys ? 2 : 1) * report.input_bytes;
      const bool fits = prefix_bytes == 500;
      const std::uint64_t bytes = report.run_bytes + report.plan.kept_bytes;
      EXPECT_GT(report.runs, 1u);
      if (fits) {
        EXPECT_LT(bytes, keys ? whole * 6 / 10 : whole / 4);
      } else {
        EXPECT_GT(bytes, whole * 8 / 10);  // records that come twice are there once
      }
    }
  }
}

// Sorted inputs that are merged into runs first.
TEST_F(LineRunsThatShare, MayComeFromAMerge) {
  auto random = test_random();
  options.merge_inputs = true;
  options.resources.memory_bytes = kMiB;
  Lines all;
  for (int i = 0; i < 40; ++i) {
    add_input(sorted(paths(false, 60000, 300, random), options.order), all);
  }
  expect_sorted(all);
  EXPECT_GT(report.passes, 1u);
  EXPECT_LT(report.run_bytes, report.input_bytes / 2);
}

// A few keys that come often: a part begins with the first record of a key, whatever the run.
TEST_F(LineMergeParts, NeverDivideEqualKeys) {
  auto random = test_random();
  for (const std::size_t keys : {1, 2, 3, 20}) {
    Lines lines;
    for (std::size_t i = 0; i < 150000; ++i) {
      lines.push_back(std::to_string(i) + ',' + std::to_string(random() % keys) +
                      std::string(random() % 40, 'x').substr(0, keys == 20 ? 3 : 0));
    }
    options.order.keys = some_keys(random);
    options.order.ties = Ties::kInputOrder;
    const Lines expected = sorted(lines, options.order);
    put_input(lines);
    for (const unsigned threads : {2, 7}) {
      options.resources.threads = threads;
      SCOPED_TRACE(::testing::Message() << keys << " keys, threads " << threads);
      expect_all(lines.size(), expected);
      if (keys == 1) {
        EXPECT_EQ(report.merge_parts, 1u);
      }
      if (keys == 20) {
        EXPECT_GT(report.merge_parts, 1u);
      }
    }
  }
}

TEST_F(LineMergeParts, AreWrittenBehindAHeader) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random);
  for (const std::size_t header_bytes : {std::size_t{0}, std::size_t{7}, kBlock - 1, 3 * kBlock}) {
    const std::string header(header_bytes, 'h');
    options.header_records = 1;
    options.inputs = {put("a", header + "\n" + joined(lines))};
    EXPECT_GT(expect_output(sorted(lines, options.order), header + "\n").merge_parts, 1u);
  }
}

TEST_F(LineMergeParts, AreOneWhereTheirPlaceIsNotKnown) {
  auto random = test_random();
  Lines lines = many_lines(LineKind::kRandom, 100, random);
  put_input(lines);
  options.order.unique = true;
  expect_sorted(lines);
  EXPECT_GT(report.runs, 3u);
  EXPECT_EQ(report.merge_parts, 1u);
  options.order.unique = false;
  expect_sorted(lines);
  EXPECT_EQ(report.merge_parts, 2u);
  lines.push_back(std::string(80000, 'x'));
  put_input(lines);
  expect_sorted(lines);
  EXPECT_EQ(report.merge_parts, 1u);
}

TEST_F(LineMergeParts, EndTogetherWhenOneFails) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random);
  put_input(lines);
  const auto all = counted();
  use(all);
  expect_sorted(lines);
  EXPECT_EQ(report.merge_parts, 2u);
  std::filesystem::remove(options.output);
  for (int i = 0; i < 16; ++i) {
    // While runs are merged.
    use(error_at(all->attempts() / 2 + random() % (all->attempts() * 2 / 5), EIO));
    expect_refused(EIO);
  }
  use(all);
  for (int after = 0; after < 3; ++after) {
    std::stop_source stop;
    options.resources.stop = stop.get_token();
    options.resources.progress = [&, left = after](const SortProgress& now) mutable {
      if (now.phase == SortPhase::kWriting && left-- == 0) stop.request_stop();
    };
    expect_refused(ECANCELED);
  }
}

TEST_F(LineMergeParts, FillADiskAndAreGone) {
  const SmallFileSystem small("tmpfs", 4 * kMiB);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  auto random = test_random();
  options.inputs = {put("a", joined(many_lines(LineKind::kFields, 100, random)))};
  options.output = small.file("out");
  expect_refused(ENOSPC, {options.output});
  EXPECT_TRUE(std::filesystem::is_empty(small.root));
}

// Several passes, and a last merge in parts.
class CompressedRuns : public LineFiles {
 protected:
  CompressedRuns() {
    options.resources.compression = RunCompression::kAlways;
    options.resources.memory_bytes = 4 * kMiB;
  }
  void SetUp() override {
    if (!BlockPacker::available()) GTEST_SKIP() << "built without LZ4";
  }
  // Different ones, which have much in common.
  static Lines log(std::size_t count, std::mt19937_64& random) {
    Lines lines;
    for (std::size_t i = 0; i < count; ++i) {
      lines.push_back(std::to_string(random() % 1000) + ' ' + std::to_string(i) +
                      " - - [24/Nov/2026:12:00:00 +0000] GET /articles/of/a/section/" +
                      std::to_string(random() % 100));
    }
    return lines;
  }
};

TEST_F(CompressedRuns, AreShort) {
  auto random = test_random();
  const Lines lines = log(200000, random);
  const Lines expected = sorted(lines, options.order);
  put_input(lines);
  std::size_t several_passes = 0;
  std::size_t in_parts = 0;
  for (const std::size_t block : {kBlock, 4 * kBlock, 8 * kBlock}) {
    for (const unsigned threads : {1, 2, 5}) {
      if (kShadowMemory && threads == 2) continue;
      options.resources.block_bytes = block;
      options.resources.threads = threads;
      SCOPED_TRACE(::testing::Message() << "blocks of " << block << ", threads " << threads);
      options.resources.compression = RunCompression::kNever;
      expect_all(lines.size(), expected);
      const std::uint64_t as_they_are = report.run_bytes;
      options.resources.compression = RunCompression::kAlways;
      expect_all(lines.size(), expected);
      if (HasFailure()) return;
      EXPECT_LT(report.run_bytes, as_they_are * 6 / 10);
      several_passes += report.passes > 1;
      in_parts += report.merge_parts > 1;
    }
  }
  EXPECT_GT(several_passes, 0u);
  EXPECT_GT(in_parts, 0u);
}

// Blocks that a full folder refuses go to the other, packed as they are.
TEST_F(CompressedRuns, GoOnInAnotherFolder) {
  const SmallFileSystem small("tmpfs", kMiB);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  auto random = test_random();
  const Lines lines = log(300000, random);
  put_input(lines);
  options.resources.folders = {small.root, runs.path().string()};
  expect_sorted(lines);
  EXPECT_GT(report.run_bytes, 2 * kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(small.root));
}

TEST_F(CompressedRuns, ThatChangedOnTheDiskAreAnError) {
  auto random = test_random();
  options.inputs = {put("a", joined(log(150000, random)))};
  for (const unsigned threads : {1, 2}) {
    options.resources.threads = threads;
    for (const std::uint64_t from : {0, 12}) {
      use(damaged_writes(from));
      expect_refused(EBADMSG, {runs.path().string()});
    }
  }
}

// Where runs are divided for several threads, too, which looks into them by plain calls.
TEST_F(CompressedRuns, ADiskThatLiesIsFoundOutInEveryPart) {
  auto random = test_random();
  const Lines lines = log(100000, random);
  const Lines expected = sorted(lines, options.order);
  put_input(lines);
  options.resources.threads = 5;
  std::size_t in_parts = 0;
  std::size_t found = 0;
  for (const RunCompression compression : {RunCompression::kNever, RunCompression::kAlways}) {
    options.resources.compression = compression;
    const auto writes = counted(Operation::kWrite);
    options.resources.open_disk = run_disks(writes);
    expect_all(lines.size(), expected);
    in_parts += report.merge_parts > 1;
    for (std::uint64_t k = 0; k < writes->attempts();
         k += 1 + random() % (writes->attempts() / 4)) {
      const auto kind =
          random() % 2 == 0 ? PlannedFault::Kind::kFlipped : PlannedFault::Kind::kSilent;
      SCOPED_TRACE(::testing::Message()
                   << "write " << k << ", flipped " << (kind == PlannedFault::Kind::kFlipped));
      options.resources.open_disk = run_disks(std::make_shared<FaultAt>(
          k, PlannedFault{.kind = kind, .bytes = random() % kBlock}, Operation::kWrite));
      std::string message;
      const int error = error_of([&] { expect_all(lines.size(), expected); }, &message);
      found += error != 0;
      EXPECT_TRUE(error == 0 || error == EBADMSG || error == ENODATA) << message;
      EXPECT_TRUE(error == 0 ||
                  (contains(message, runs.path().string()) && contains(message, "of a run) ")))
          << message;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(in_parts, 0u);
  EXPECT_GT(found, 0u);
}

TEST_F(LineFiles, AFullDiskIsNamed) {
  const SmallFileSystem small("tmpfs", kMiB);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  auto random = test_random();
  const Lines lines = some_lines(random);
  put_input(lines);
  options.resources.folders = {small.root};
  options.resources.compression = RunCompression::kNever;
  for (const bool unique : {false, true}) {
    options.order.unique = unique;
    expect_refused(ENOSPC, {small.root});
  }
  options.order.unique = false;
  options.resources.folders = {runs.path().string()};
  options.output = small.file("out");
  expect_refused(ENOSPC);
  EXPECT_TRUE(std::filesystem::is_empty(small.root));
}

// How much room runs take is not known before they are written.
TEST_F(LineFiles, RunsThatShareFitOnASmallDisk) {
  const SmallFileSystem small("tmpfs", kMiB);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 20000; ++i) {
    lines.push_back(std::string(200, 'x') + std::to_string(random() % 100000));
  }
  put_input(lines);
  options.resources.folders = {small.root};
  expect_sorted(lines);
  EXPECT_GT(report.runs, 2u);
}

TEST_F(LineFiles, ASorterKeepsRunsInItsFolders) {
  auto random = test_random();
  const Lines lines = some_lines(random);
  for (const unsigned threads : {1, 2}) {
    options.resources.threads = threads;
    LineOrder order;
    order.keys = std::make_shared<KeysBehindComma>();
    LineSorter sorter(order, options.resources);
    ASSERT_EQ(pushed_through(sorter, lines), sorted(lines, order));
    EXPECT_GT(sorter.counts().runs, 2u);
    EXPECT_EQ(error_of([&] { sorter.push("more"); }), EINVAL);
    std::string_view record;
    EXPECT_FALSE(sorter.next(record));
  }
}

TEST_F(LineFiles, RandomBytesAreReadAsAnyFraming) {
  auto random = test_random();
  int whole = 0;
  for (int round = 0; round < 300; ++round) {
    std::string input(FuzzedInput::kHead + random() % 200, '\0');
    for (char& c : input) c = static_cast<char>(random());
    // Few different bytes, so that there are records; and lengths that are right, in one file.
    const std::string some("ab\n\n\"\0\1\2", 8);
    for (std::size_t i = FuzzedInput::kHead; i < input.size(); ++i) {
      input[i] = some[static_cast<unsigned char>(input[i]) % some.size()];
    }
    if (round % 4 == 0) {
      input = std::string("\2", 1) + input.substr(1, 3) + std::string(2, '\0');
      for (auto records = random() % 20; records > 0; --records) {
        const auto bytes = static_cast<unsigned char>(random() % 9);
        input += static_cast<char>(bytes) + std::string(3, '\0') + std::string(bytes, 'a');
      }
    }
    whole += FuzzedInput(folder.path().string(), input).whole() ? 1 : 0;
    EXPECT_STREQ(problem_with_input(folder.path().string(), input), nullptr)
        << ::testing::PrintToString(input);
  }
  EXPECT_GT(whole, 100);
}

}  // namespace

}  // namespace vortex::test::line_files_test
