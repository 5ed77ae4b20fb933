// The machine of sorts, as a stranger with a kind of record of his own finds it.
#include "sort/job/file_sort.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "sort/job/request_costs.h"
#include "sort/job/run_set.h"
#include "sort/job/sort_context.h"
#include "sort/job/sort_folders.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"
#include "vortex/disk.h"
#include "vortex/external_sort.h"

namespace vortex::test::file_sort_test { namespace {

struct Numbered {
  std::uint64_t bytes = 0;
  std::vector<unsigned> parts;
};

// Runs that are nothing but their lengths and the numbers of what they were made of.
class NumberedRuns final : public RunList<Numbered> {
 public:
  NumberedRuns(BlockPool& pool, SortWatch& watch, std::uint64_t most_at_a_time)
      : RunList(pool, watch, {}, {}), most_(most_at_a_time) {}

  void form(std::uint64_t bytes) {
    add({bytes, {static_cast<unsigned>(counts().runs)}});
    count_run();
  }
  void reduce_to(std::uint64_t most) { reduce(most, most_); }
  const std::vector<Numbered>& all() const noexcept { return runs(); }

  std::uint64_t merged_bytes = 0;
  std::uint64_t largest = 0;

 private:
  std::uint64_t bytes_of(const Numbered& run) const noexcept override { return run.bytes; }
  Numbered merged(std::vector<Numbered> runs) override {
    Numbered run;
    for (const Numbered& part : runs) {
      run.bytes += part.bytes;
      run.parts.insert(run.parts.end(), part.parts.begin(), part.parts.end());
    }
    merged_bytes += run.bytes;
    largest = std::max<std::uint64_t>(largest, runs.size());
    return run;
  }

  const std::uint64_t most_;
};

// The fewest passes with which so many runs become `most`: a pass divides by the order at best.
unsigned fewest_passes(std::uint64_t runs, std::uint64_t most, std::uint64_t order) {
  unsigned passes = 0;
  for (; runs > most; ++passes) runs = (runs + order - 1) / order;
  return passes;
}

// However long runs are: as few passes as can be, no merge is larger than it may be, and what
// belongs together in the end lies in the order of the input.
TEST(RunSets, NeighboursAreMergedInAsFewPassesAsCanBe) {
  auto random = test_random();
  BlockPool pool({.pool_bytes = 1 << 20, .block_bytes = 1 << 16, .warming = Warming::kOnDemand});
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t order = 2 + random() % 9;
    const std::uint64_t most = 1 + random() % order;
    const std::uint64_t count = 1 + random() % 200;
    SortWatch watch({}, {});
    NumberedRuns runs(pool, watch, order);
    for (std::uint64_t i = 0; i < count; ++i) runs.form(random() % 1000);
    const std::uint64_t bytes = runs.bytes();
    runs.reduce_to(most);
    EXPECT_LE(runs.size(), most);
    EXPECT_LE(runs.largest, order);
    EXPECT_EQ(runs.bytes(), bytes);
    EXPECT_EQ(runs.counts().passes, fewest_passes(count, most, order));
    EXPECT_EQ(runs.counts().runs, count);
    EXPECT_LE(runs.merged_bytes, bytes * runs.counts().passes);
    std::vector<unsigned> parts;
    for (const Numbered& run : runs.all()) {
      parts.insert(parts.end(), run.parts.begin(), run.parts.end());
    }
    std::vector<unsigned> expected(count);
    std::iota(expected.begin(), expected.end(), 0u);
    EXPECT_EQ(parts, expected);
  }
}

TEST(RunSets, TheLightestNeighboursAreMergedWhereSomeSuffice) {
  BlockPool pool({.pool_bytes = 1 << 20, .block_bytes = 1 << 16, .warming = Warming::kOnDemand});
  SortWatch watch({}, {});
  NumberedRuns runs(pool, watch, 4);
  for (const std::uint64_t bytes : {900, 800, 10, 20, 700}) runs.form(bytes);
  runs.reduce_to(4);
  EXPECT_EQ(runs.merged_bytes, 30u);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs.all()[2].parts, (std::vector<unsigned>{2, 3}));
}

// Single bytes, which are counted: a kind of record that needs neither memory nor runs.
class Bytes final : public RecordKind {
 public:
  explicit Bytes(FileSort& machine) : files_(machine.files()), context_(machine.context()) {}
  ~Bytes() override {
    const Working working(log_, "late");
    const WorkSpan span(SpanKind::kCopy);
  }

  void start() override {
    log_ = Working::log();
    context_.make_pool(1 << 16, 64, Warming::kOnDemand, "memory of the bytes");
    runs_.emplace(*context_.pool(), context_.watch(), 2);
  }
  std::optional<std::uint64_t> input_bytes() const override { return files_.input_bytes(); }
  void form_runs(std::size_t input) override {
    FileReaderBase reader = files_.open_reader(input, *context_.pool(), {}, 0);
    const std::uint64_t length = *reader.length_bytes();
    for (std::uint64_t at = 0; at < length; ++at) {
      ++counts_[static_cast<unsigned char>(reader.bytes()[at])];
    }
    report.records_in = report.input_bytes += length;
  }
  void end_forming() override {
    if (fails) throw Error(EIO, "these bytes are wrong");
  }
  void reduce_runs() override { runs_->reduce_to(1); }
  std::uint64_t bytes_to_write() override { return report.input_bytes; }
  void write_output() override {
    FileWriterBase writer = files_.open_writer(*context_.pool(), {}, report.input_bytes);
    std::byte* to = writer.bytes();
    for (std::size_t byte = 0; byte < counts_.size(); ++byte) {
      to = std::fill_n(to, counts_[byte], static_cast<std::byte>(byte));
    }
    report.records_out = report.output_bytes = report.input_bytes;
    writer.finish_bytes(report.output_bytes);
  }
  RunSet& runs() override { return *runs_; }

  SortReport report;
  bool fails = false;

 private:
  SortFiles& files_;
  SortContext& context_;
  ActivityLog* log_ = nullptr;
  std::optional<NumberedRuns> runs_;
  std::array<std::uint64_t, 256> counts_{};
};

class FileSorts : public ::testing::Test {
 protected:
  FileSorts() {
    auto random = test_random();
    for (char& byte : text_) byte = static_cast<char>(random());
    put_file_text(folder_.file("in"), text_);
    options_.inputs = {folder_.file("in"), folder_.file("in")};
    options_.output = folder_.file("out");
    options_.trace = folder_.file("trace");
    std::sort(text_.begin(), text_.end(), [](unsigned char a, unsigned char b) { return a < b; });
  }

  TemporaryFolder folder_;
  ExternalSortOptions options_;
  std::string text_ = std::string(300'000, ' ');
};

TEST_F(FileSorts, AKindOfRecordHasReportProgressAndTraceForNothing) {
  std::vector<SortPhase> phases;
  options_.resources.progress = [&](const SortProgress& now) { phases.push_back(now.phase); };
  FileSort machine(options_, 1);
  Bytes bytes(machine);
  machine.run(bytes, bytes.report);
  std::string expected;
  for (const char byte : text_) expected.append(2, byte);
  EXPECT_TRUE(file_text(options_.output) == expected);
  EXPECT_EQ(phases, (std::vector{SortPhase::kReading, SortPhase::kWriting}));
  const SortReport& report = bytes.report;
  EXPECT_EQ(report.runs, 0u);
  EXPECT_EQ(report.least_io_bytes, 4 * text_.size());
  EXPECT_GE(report.read_bytes, 2 * text_.size());
  EXPECT_GE(report.written_bytes, 2 * text_.size());
  EXPECT_GT(report.overlap[0].disks, 0);
  EXPECT_GT(report.overlap[2].threads, 0);
  EXPECT_NEAR(report.run_formation_seconds + report.merge_seconds, report.seconds, 1e-9);
  EXPECT_NE(file_text(options_.trace).find("\"read\""), std::string::npos);
}

// Of what the kind's threads do until it is gone, too.
TEST_F(FileSorts, AFailureLeavesATraceAndNoOutput) {
  {
    FileSort machine(options_, 1);
    Bytes bytes(machine);
    bytes.fails = true;
    EXPECT_EQ(error_of([&] { machine.run(bytes, bytes.report); }), EIO);
  }
  EXPECT_EQ(folder_.entries(), 2u);
  EXPECT_NE(file_text(options_.trace).find("\"read\""), std::string::npos);
  EXPECT_NE(file_text(options_.trace).find("\"copy\""), std::string::npos);
}

// What is wrong is refused in whole sorts (sort_ends_test).
TEST(SortContexts, FillInTheMemory) {
  const TemporaryFolder folder;
  SortResources resources;
  resources.folders = {folder.path().string()};
  resources.folder_speeds = {3};
  const SortContext context(resources, resources.folders);
  EXPECT_GT(context.resources().memory_bytes, 0u);
}

// Folders of one file system, and sorts that begin at once: each file system is measured once, and
// one that could not be is tried again.
TEST(RequestCosts, OfEachFileSystemAreMeasuredOnce) {
  const test::TemporaryFolder folder;
  const std::string one = folder.path() / "one", two = folder.path() / "two";
  std::filesystem::create_directory(one);
  std::filesystem::create_directory(two);
  const std::vector<std::string> folders = {one, two, "/proc", one, "/proc/self", "/nowhere"};
  for (int round = 0; round < 20; ++round) {
    RequestCosts costs;
    std::atomic<unsigned> of_folder{0}, of_proc{0};
    const auto measure = [&](const std::string& name) -> std::optional<std::uint64_t> {
      EXPECT_NE(name, "/nowhere");
      if (name == one || name == two) return of_folder++ + 1000;
      if (of_proc++ == 0) return std::nullopt;
      return 2000;
    };
    std::array<std::uint64_t, 8> most{};
    run_together(most.size(), [&](std::size_t i) { most[i] = costs.most_of(folders, measure); });
    EXPECT_EQ(of_folder, 1U);
    EXPECT_EQ(of_proc, 2U);
    EXPECT_EQ(std::ranges::count(most, 1000U), 1);  // when the other one could not be measured
    EXPECT_EQ(std::ranges::count(most, 2000U), 7);
    EXPECT_EQ(costs.most_of({"/nowhere"}, {}), 0U);
    EXPECT_EQ(costs.most_of({two}, {}), 1000U);
  }
}

// What has been measured is known to all sorts of the process: without a descriptor nothing can be.
TEST(RequestCosts, OfADiskAreMeasuredOnceInTheProcess) {
  const SortResources resources;
  const std::vector<std::string> here = {std::filesystem::current_path().string()};
  const std::uint64_t cost = request_cost_of(resources, here);
  if (cost == 0) GTEST_SKIP() << "requests to the current folder cost nothing";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::optional<std::uint64_t> again;
  const int error = test::error_of([&] { again = request_cost_of(resources, here); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(again, cost);
}

// They have no disk, and nothing is measured.
TEST(RequestCosts, OfFilesInMemoryAreNone) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "there is no /dev/shm";
  SortResources resources;
  const std::vector<std::string> folders = {"/dev/shm"};
  EXPECT_EQ(request_cost_of(resources, folders), 0U);
  // A disk of the program's own is measured wherever it is.
  unsigned opened = 0;
  resources.open_disk = [&](const std::string&) {
    ++opened;
    return open_disk();
  };
  request_cost_of(resources, folders);
  EXPECT_EQ(opened, 1U);
}

}  // namespace

}  // namespace vortex::test::file_sort_test
