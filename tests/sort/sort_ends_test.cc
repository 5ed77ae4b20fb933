// However a sort of files ends, with fixed records and with lines: by the error of a disk, a stop,
// an exception of its caller, or options that are refused. Nothing is lost, and nothing is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "study/fault_plan.h"
#include "tests/support/child_process.h"
#include "tests/support/environment.h"
#include "tests/support/small_sorts.h"

namespace vortex::test::sort_ends_test { namespace {

template <typename Kind>
class SortOf : public ::testing::Test {};
struct KindName {
  template <typename Kind>
  static std::string GetName(int) {
    return std::is_same_v<Kind, TextLines> ? "Lines" : "FixedRecords";
  }
};
using Kinds = ::testing::Types<FixedRecords, TextLines>;
TYPED_TEST_SUITE(SortOf, Kinds, KindName);

struct FaultCase {
  const char* name;
  PlannedFault fault;
  Operation operation;
  bool harmless;
};
constexpr PlannedFault kInterrupted{.kind = PlannedFault::Kind::kError, .error = EINTR};
constexpr PlannedFault kBusy{.kind = PlannedFault::Kind::kError, .error = EAGAIN};
constexpr PlannedFault kLate{.kind = PlannedFault::Kind::kLate, .overtakers = 5};
constexpr PlannedFault kFailed{.kind = PlannedFault::Kind::kError, .error = EIO};
constexpr PlannedFault kNoSpace{.kind = PlannedFault::Kind::kError, .error = ENOSPC};
constexpr PlannedFault kTorn{.kind = PlannedFault::Kind::kTorn, .error = EIO, .bytes = 1024};
constexpr FaultCase kFaults[] = {
    {"short read", {.kind = PlannedFault::Kind::kShort, .bytes = 512}, Operation::kRead, true},
    {"short write", {.kind = PlannedFault::Kind::kShort, .bytes = 4096}, Operation::kWrite, true},
    {"interrupted read", kInterrupted, Operation::kRead, true},
    {"interrupted write", kInterrupted, Operation::kWrite, true},
    {"busy read", kBusy, Operation::kRead, true},
    {"busy write", kBusy, Operation::kWrite, true},
    {"late read", kLate, Operation::kRead, true},
    {"late write", kLate, Operation::kWrite, true},
    {"failed read", kFailed, Operation::kRead, false},
    {"failed write", kFailed, Operation::kWrite, false},
    {"no space", kNoSpace, Operation::kWrite, false},
    {"torn write", kTorn, Operation::kWrite, false},
};

// Whichever request it happens to, the sort ends well or with the disk's error, and nothing is
// left. Disks that are full stay so: while one has room, runs go there. A block that is lost ends
// the process (BlockQuota looks).
TYPED_TEST(SortOf, FaultsHappenToEveryRequest) {
  auto random = test_random(1);
  for (const bool in_memory : {false, true}) {
    SmallSort<TypeParam> sort(in_memory);
    RandomFaults::Rates mixed;
    mixed.short_transfer = mixed.interrupted = mixed.try_again = mixed.late = 0.1;
    sort.options.resources.open_disk =
        sort_disks(Backend::kThreads, std::make_shared<RandomFaults>(random(), mixed));
    ASSERT_EQ(sort.run(), 0);
    for (const FaultCase& what : kFaults) {
      // Another number of threads may need another number of requests.
      const unsigned threads = kThreadCounts[random() % std::size(kThreadCounts)];
      SCOPED_TRACE(::testing::Message()
                   << what.name << ", in memory " << in_memory << ", threads " << threads);
      sort.options.resources.threads = threads;
      const auto all = counted(what.operation);
      sort.options.resources.open_disk = sort_disks(Backend::kThreads, all);
      ASSERT_EQ(sort.run(), 0);
      ASSERT_EQ(sort.passes, in_memory ? 0U : TypeParam::kPasses);
      ASSERT_EQ(sort.runs > 1, !in_memory) << sort.runs << " runs";
      const std::uint64_t requests = all->attempts();
      ASSERT_GT(requests, in_memory ? 0U : 50U);
      const std::uint64_t step = long_tests() ? 1 : std::max<std::uint64_t>(requests / 8, 1);
      for (std::uint64_t k = random() % step; k < requests; k += step) {
        SCOPED_TRACE(k);
        sort.options.resources.open_disk = sort_disks(
            random() % 2 == 0 ? Backend::kThreads : Backend::kUring,
            std::make_shared<FaultAt>(k, what.fault, what.operation, what.fault.error == ENOSPC));
        std::string message;
        ASSERT_EQ(sort.run(&message), what.harmless ? 0 : what.fault.error) << message;
        if (what.harmless) continue;
        ASSERT_NE(message.find(what.operation == Operation::kRead ? "reading " : "writing "),
                  message.npos);
        ASSERT_NE(message.find("'/"), message.npos) << message;
        ASSERT_NE(message.find(" at byte "), message.npos) << message;
      }
    }
  }
}

// A disk of runs that says that all went well, and has other bytes: the right ones come out
// nevertheless, or an error that says where they should have been.
TYPED_TEST(SortOf, ADiskThatLiesIsFoundOut) {
  auto random = test_random();
  unsigned found = 0;
  for (const unsigned threads : thread_counts(random)) {
    SmallSort<TypeParam> sort;
    sort.options.resources.threads = threads;
    for (const auto& lie : kLies) {
      sort.options.resources.compression =
          random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
      const auto all = counted(lie.operation);
      sort.options.resources.open_disk = run_disks(all);
      ASSERT_EQ(sort.run(), 0);
      const std::uint64_t requests = all->attempts();
      ASSERT_GT(requests, 8U);
      const std::uint64_t step = long_tests() ? 1 : std::max<std::uint64_t>(requests / 3, 1);
      for (std::uint64_t k = random() % step; k < requests; k += step) {
        SCOPED_TRACE(::testing::Message() << lie.name << ", threads " << threads << ", " << k);
        sort.options.resources.open_disk = run_disks(lie_at(k, lie, random));
        std::string message;
        const int error = sort.run(&message);
        if (error == 0) continue;
        ++found;
        EXPECT_TRUE(finds_out(error, message, lie));
        if (this->HasFailure()) return;
      }
    }
  }
  EXPECT_GT(found, 5U);
}

// The file that is replaced stays as it was when the sort fails, and passes its mode on when not.
TYPED_TEST(SortOf, WhatIsReplacedIsReplacedAtTheEnd) {
  SmallSort<TypeParam> sort;
  write_file(sort.files.output(), Bytes(10));
  ASSERT_EQ(chmod(sort.files.output().c_str(), 0640), 0);
  const auto all = counted(Operation::kWrite);
  sort.options.resources.open_disk = sort_disks(Backend::kThreads, all);
  ASSERT_EQ(sort.run(), 0);
  write_file(sort.files.output(), Bytes(10));
  ASSERT_EQ(chmod(sort.files.output().c_str(), 0640), 0);
  // Of a run, and one of the last of the output, of which another sort may have somewhat fewer.
  for (const std::uint64_t write : {std::uint64_t{3}, all->attempts() * 9 / 10}) {
    sort.options.resources.open_disk =
        sort_disks(Backend::kThreads, error_at(write, EIO, Operation::kWrite));
    EXPECT_EQ(error_of([&] { TypeParam::sort(sort.options); }), EIO);
    EXPECT_TRUE(read_file(sort.files.output()) == Bytes(10));
  }
  sort.options.resources.open_disk = {};
  TypeParam::sort(sort.options);
  EXPECT_EQ(read_file(sort.files.output()).size(), sort.input.size());
  struct stat status {};
  ASSERT_EQ(stat(sort.files.output().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TYPED_TEST(SortOf, ALinkThatIsTheOutputIsKept) {
  SmallSort<TypeParam> sort(true);
  const std::string link = sort.files.file("link");
  ASSERT_EQ(symlink("output", link.c_str()), 0);
  sort.options.output = link;
  TypeParam::sort(sort.options);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_file(sort.files.output()).size(), sort.input.size());
}

TYPED_TEST(SortOf, WhatIsWrongIsRefusedAtOnce) {
  SmallSort<TypeParam> sort;
  const std::string input = sort.files.path(0);
  std::string message;
  sort.options.inputs = {};
  EXPECT_EQ(sort.refusal(), EINVAL);
  sort.options.inputs = {sort.files.file("none")};
  EXPECT_EQ(sort.refusal(&message), ENOENT);
  EXPECT_TRUE(contains(message, "none"));
  sort.options.inputs = {input};
  const std::uint64_t enough = std::exchange(sort.options.resources.memory_bytes, 1000);
  EXPECT_EQ(sort.refusal(&message), ENOMEM);
  EXPECT_TRUE(contains(message, "at least"));
  sort.options.resources.memory_bytes = enough;
  // Before anything is opened, however little there is to sort.
  write_file(input, Bytes(sort.input.begin(), sort.input.begin() + 36));
  for (const std::vector<double>& speeds :
       {std::vector<double>{1}, {1, 2, 3}, {1, 0}, {1, -1}, {1, HUGE_VAL}, {1, std::nan("")}}) {
    sort.options.resources.folder_speeds = speeds;
    EXPECT_EQ(sort.refusal(), EINVAL);
    EXPECT_EQ(error_of([&] { TypeParam::make_sorter(sort.options.resources); }), EINVAL);
  }
  sort.options.resources.folder_speeds = {2, 1};
  sort.options.resources.threads = kMaxSortThreads + 1;
  sort.options.inputs = {sort.files.file("none")};
  EXPECT_TRUE(fails([&] { TypeParam::sort(sort.options); }, EINVAL));
  sort.options.inputs = {input};
  sort.options.resources.threads = 0;
  sort.options.resources.open_disk = [](const std::string&) { return std::unique_ptr<Disk>(); };
  EXPECT_TRUE(fails([&] { TypeParam::sort(sort.options); }, EINVAL, "makes disks"));
  sort.options.resources.open_disk = {};
  TypeParam::sort(sort.options);
}

TYPED_TEST(SortOf, AStopEndsEveryPhase) {
  auto random = test_random();
  for (const unsigned threads : thread_counts(random)) {
    SmallSort<TypeParam> sort(false, 4);
    sort.options.resources.threads = threads;
    unsigned reports = 0;
    sort.options.resources.progress = [&](const SortProgress&) { ++reports; };
    ASSERT_EQ(sort.run(), 0);
    const unsigned all = reports;
    EXPECT_GT(all, 8U);
    std::array<unsigned, 3> stopped_in{};
    for (unsigned at = 0; at < all; ++at) {
      std::stop_source stop;
      sort.options.resources.stop = stop.get_token();
      reports = 0;
      SortPhase last = SortPhase::kReading;
      sort.options.resources.progress = [&](const SortProgress& now) {
        last = now.phase;
        if (reports++ == at) stop.request_stop();
      };
      const int error = sort.run();
      EXPECT_EQ(error, reports > at ? ECANCELED : 0) << at << " of " << all;
      if (reports > at) ++stopped_in[static_cast<std::size_t>(last)];
    }
    EXPECT_GT(stopped_in[static_cast<std::size_t>(SortPhase::kReading)], 0U);
    EXPECT_GT(stopped_in[static_cast<std::size_t>(SortPhase::kWriting)], 0U);
    if (TypeParam::kPasses > 1) {
      EXPECT_GT(stopped_in[static_cast<std::size_t>(SortPhase::kMerging)], 0U);
    }
  }
}

// With runs on its disks, or a part of the output.
TYPED_TEST(SortOf, AKilledProcessLeavesNothing) {
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kMerging, SortPhase::kWriting}) {
    if (phase == SortPhase::kMerging && TypeParam::kPasses == 1) continue;
    SmallSort<TypeParam> sort(false, 4);
    sort.options.resources.progress = [&](const SortProgress& now) {
      const bool has_runs = phase != SortPhase::kReading || now.bytes > *now.phase_bytes / 2;
      if (now.phase == phase && has_runs) raise(SIGKILL);
    };
    const pid_t child = fork();
    if (child == 0) {
      TypeParam::sort(sort.options);
      end_process(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << static_cast<int>(phase);
    sort.files.expect_nothing_left(false);
    sort.files.expect_inputs_untouched();
  }
}

TYPED_TEST(SortOf, ProgressMayThrow) {
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kMerging, SortPhase::kWriting}) {
    if (phase == SortPhase::kMerging && TypeParam::kPasses == 1) continue;
    for (const unsigned threads : kThreadCounts) {
      SmallSort<TypeParam> sort;
      sort.options.resources.threads = threads;
      sort.options.resources.progress = [&](const SortProgress& now) {
        if (now.phase == phase) throw std::runtime_error("enough");
      };
      EXPECT_THROW(TypeParam::sort(sort.options), std::runtime_error);
      sort.files.expect_nothing_left(false);
    }
  }
}

// Another spelling of the output's name, or a link that leads to it, whether or not there is a
// file.
TYPED_TEST(SortOf, TheTraceIsNotTheOutput) {
  for (const InPlace in_place : {InPlace::kNever, InPlace::kAlways}) {
    for (const bool exists : {false, true}) {
      for (const bool link : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "exists " << exists << ", by a link " << link);
        SmallSort<TypeParam> sort(true);
        const TemporaryFolder links;
        sort.options.resources.output_in_place = in_place;
        sort.options.trace = link ? links.file("trace") : sort.files.file("./output");
        if (link) std::filesystem::create_symlink(sort.files.output(), sort.options.trace);
        if (exists) write_file(sort.files.output(), sort.input);
        EXPECT_TRUE(
            fails([&] { TypeParam::sort(sort.options); }, EINVAL, {"the trace", "is the output"}));
        sort.files.expect_nothing_left(exists);
        EXPECT_EQ(links.entries(), link ? 1U : 0U);
        if (exists) {
          EXPECT_TRUE(same_bytes(read_file(sort.files.output()), sort.input));
        }
      }
    }
  }
}

// A pipe whose writer falls silent: a sort of records waits inside a fault until it is to stop.
TYPED_TEST(SortOf, AWaitForAPipeIsEnded) {
  auto random = test_random();
  Files files;
  auto options = files.options<typename TypeParam::Options>();
  TypeParam::complete(options, random);
  options.inputs = {files.file("pipe")};
  options.resources.memory_bytes = 2 << 20;
  ASSERT_EQ(mkfifo(options.inputs[0].c_str(), 0600), 0);
  for (const bool merge : {false, true}) {
    if (merge && !TypeParam::kMergesPipes) continue;
    options.merge_inputs = merge;
    std::stop_source stop;
    options.resources.stop = stop.get_token();
    std::atomic_flag ended;
    std::thread writer([&] {
      std::ofstream pipe(options.inputs[0], std::ios::binary);  // waits for the reader
      pipe << "a line\n" << std::flush;
      stop.request_stop();
      ended.wait(false);
    });
    EXPECT_TRUE(fails([&] { TypeParam::sort(options); }, ECANCELED));
    ended.test_and_set();
    ended.notify_all();
    writer.join();
    EXPECT_FALSE(exists(files.output()));
  }
}

// Of what is sorted at once, too. Where the sort does not end, what it writes is read after a
// minute.
TYPED_TEST(SortOf, AWaitForAReaderIsEnded) {
  SmallSort<TypeParam> sort(true, 4);
  sort.options.resources = {};
  sort.options.resources.memory_bytes = 64 << 20;
  sort.options.inputs = {sort.files.file("small")};
  // More than the 256 KiB that a sort makes its pipe hold.
  sort.input.resize(36 * 10'000);
  write_file(sort.options.inputs[0], sort.input);
  sort.options.output = sort.files.file("pipe");
  ASSERT_EQ(mkfifo(sort.options.output.c_str(), 0600), 0);
  const int pipe = ::open(sort.options.output.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(pipe, 0);
  ASSERT_GE(fcntl(pipe, F_SETPIPE_SZ, 4096), 4096);
  std::stop_source stop;
  sort.options.resources.stop = stop.get_token();
  std::promise<void> ended;
  std::thread reader([&, has_ended = ended.get_future()] {
    pollfd written{pipe, POLLIN, 0};
    EXPECT_EQ(poll(&written, 1, 60'000), 1);
    stop.request_stop();
    std::array<char, 4096> read_too_late;
    while (has_ended.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
      while (read(pipe, read_too_late.data(), read_too_late.size()) > 0) {
      }
    }
  });
  EXPECT_TRUE(fails([&] { TypeParam::sort(sort.options); }, ECANCELED));
  ended.set_value();
  reader.join();
  close(pipe);
}

}  // namespace

}  // namespace vortex::test::sort_ends_test
