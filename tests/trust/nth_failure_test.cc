// Whole jobs of the library of which one system call, one allocation or one request of a disk
// fails, the n-th of its kind: once, or from then on. For every n, until a job needs no n-th.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "lines/memory/arena_warmer.h"
#include "study/fault_plan.h"
#include "tests/support/environment.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "tests/trust/call_tracer.h"
#include "tests/trust/jobs/whole_jobs.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/thread/activity.h"
// Behind clang's <mm_malloc.h>, which declares functions that it defines.
#include "tests/trust/failing_heap.h"

namespace vortex::test::nth_failure_test { namespace {

// What fails: calls of a kind, or one of these.
constexpr std::size_t kHeap = kCallKinds;
constexpr std::size_t kReads = kCallKinds + 1;
constexpr std::size_t kWrites = kCallKinds + 2;
constexpr std::size_t kKinds = kCallKinds + 3;

const char* name_of_kind(std::size_t kind) {
  constexpr const char* kOthers[] = {"allocation", "request to read", "request to write"};
  return kind < kCallKinds ? kFailingCalls[kind].name : kOthers[kind - kCallKinds];
}
bool is_kind(std::size_t kind, std::string_view name) { return name == name_of_kind(kind); }
int error_of_kind(std::size_t kind) {
  if (kind < kCallKinds) return kFailingCalls[kind].error;
  return kind == kHeap ? ENOMEM : EIO;
}

// The n-th request of all disks of a job fails.
class RequestFailure final : public FaultPlan {
 public:
  explicit RequestFailure(Operation only) : only_(only) {}
  void arm(std::uint64_t at, bool lasting) noexcept {
    seen = failed = 0;
    at_ = at;
    lasting_ = lasting;
  }
  PlannedFault decide(const Attempt& attempt, std::uint64_t) noexcept override {
    if (attempt.operation != only_) return {};
    const std::uint64_t count = ++seen;
    if (at_ == 0 || count < at_ || (count > at_ && !lasting_)) return {};
    ++failed;
    return {.kind = PlannedFault::Kind::kError, .error = EIO};
  }
  std::atomic<std::uint64_t> seen = 0, failed = 0;

 private:
  const Operation only_;
  std::atomic<std::uint64_t> at_ = 0;
  std::atomic<bool> lasting_ = false;
};

// What the process has of the system.
struct Held {
  std::size_t descriptors = 0, threads = 0;
  std::uint64_t pages = 0;  // of its maps

  static std::size_t entries(const char* folder) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      count += !entry.path().empty();
    return count;
  }
  // Threads and rings that have ended are gone a moment later. Those that serve faults stay.
  static Held now(const Held& expected) {
    const bool threads_stay = std::getenv("VORTEX_ENGINE") != nullptr;
    Held held;
    for (int i = 0; i < 100'000; ++i) {
      held.threads = threads_stay ? 1 : entries("/proc/self/task");
      held.descriptors = entries("/proc/self/fd");
      if (held.threads <= expected.threads && held.descriptors <= expected.descriptors) break;
      std::this_thread::yield();
    }
    held.pages = std::strtoull(text_of("/proc/self/statm").c_str(), nullptr, 10);
    return held;
  }
};

// In the child: the job with failures of one kind.
class Sweep {
 public:
  Sweep(WholeJob job, CallLedger& ledger, std::size_t kind)
      : job_(std::move(job)),
        ledger_(ledger),
        kind_(kind),
        harmless_(ledger.interrupted),
        // An access by userfaultfd that has failed waits until its page can be taken from it.
        ends_(!harmless_ &&
              !(is_kind(kind, "ioctl of userfaultfd") ||
                (is_kind(kind, "madvise") && std::getenv("VORTEX_ENGINE") != nullptr))) {
    if (kind == kReads || kind == kWrites) {
      requests_ =
          std::make_shared<RequestFailure>(kind == kReads ? Operation::kRead : Operation::kWrite);
      plan_of_disks() = requests_;
    }
    // Room that the heap gives back and takes again is no leak.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }

  // How many there are of the kind.
  std::uint64_t count() {
    do_once(0, false);
    return counted();
  }

  // False: the next one, behind ledger_.tried, is for another process, since what stays mapped
  // fills the address space of this one.
  bool run(std::uint64_t first) {
    auto random = test_random(kind_ + first * kKinds);
    const std::uint64_t all = count();
    do_once(0, false);
    before_ = Held::now({.descriptors = 1 << 20, .threads = 1 << 20});
    before_ = Held::now({.descriptors = before_.descriptors, .threads = 1});
    for (std::uint64_t at = first;; at = next(at, all, random)) {
      const bool once = try_at(at, false);
      if ((!ends_ || !try_at(at, true)) && !once) break;
      if (is_kind(kind_, "munmap")) {
        ledger_.tried = next(at, all, random) - 1;
        do_once(0, false);
        return false;
      }
    }
    do_once(0, false);
    return true;
  }

 private:
  // Some of them by chance, unless tests may take long. Calls of a kind are much alike, allocations
  // are not.
  std::uint64_t next(std::uint64_t at, std::uint64_t all, std::mt19937_64& random) const {
    const std::uint64_t some = job_.quick ? 20 : kind_ < kCallKinds ? 3 : 8;
    const std::uint64_t step = std::max<std::uint64_t>(all / some, 1);
    return long_tests() || at < 2 ? at + 1 : at + 1 + random() % (2 * step);
  }

  std::uint64_t counted() const {
    if (kind_ < kCallKinds) return ledger_.seen[kind_];
    return kind_ == kHeap ? heap_failure().seen.load() : requests_->seen.load();
  }

  // False: nothing failed, since the job needed fewer.
  bool try_at(std::uint64_t at, bool lasting) {
    std::snprintf(ledger_.doing.data(), ledger_.doing.size(), "%s: %s %llu%s fails",
                  job_.name.c_str(), name_of_kind(kind_), static_cast<unsigned long long>(at),
                  lasting ? " and all later" : "");
    ledger_.tried = at;
    const bool failed = do_once(at, lasting);
    if (failed) ++ledger_.injected;
    Held held = Held::now(before_);
    if (held.descriptors > before_.descriptors) complain("descriptors are left");
    if (held.threads > before_.threads) complain("threads are left");
    // Caches grow once.
    const bool gives_back = !failed || !is_kind(kind_, "munmap");
    std::uint64_t first = held.pages;
    int growths = 0;
    while (gives_back && held.pages > before_.pages && growths < 5) {
      before_ = {before_.descriptors, before_.threads, held.pages};
      do_once(at, lasting);
      held = Held::now(before_);
      ++growths;
    }
    if (growths == 5) {
      complain("maps are left: " + std::to_string((held.pages - first) / 5) + " pages each time");
    }
    before_.descriptors = std::max(before_.descriptors, held.descriptors);
    before_.threads = std::max(before_.threads, held.threads);
    before_.pages = std::max(before_.pages, held.pages);
    return failed;
  }

  bool do_once(std::uint64_t at, bool lasting) {
    ++ledger_.steps;
    job_.prepare();
    if (kind_ == kHeap) {
      heap_failure().arm(at, lasting);
    } else if (requests_) {
      requests_->arm(at, lasting);
    } else {
      ledger_.arm(at, lasting);
    }
    bool ended_well = false;
    std::string message;
    try {
      job_.run();
      disarm();
      ended_well = true;
    } catch (const std::bad_alloc&) {
      disarm();
      message = std::strerror(ENOMEM);
    } catch (const std::exception& error) {
      disarm();
      message = error.what();
    }
    const std::uint64_t failed = kind_ < kCallKinds ? ledger_.failed.load()
                                 : kind_ == kHeap   ? heap_failure().failed.load()
                                                    : requests_->failed.load();
    if (harmless_ && !ended_well) complain("an interruption ends it: " + message);
    if (at == 0 && !ended_well) complain("without a failure it ends with: " + message);
    if (!ended_well && !harmless_ &&
        message.find(std::strerror(error_of_kind(kind_))) == std::string::npos) {
      complain("the cause is not told: " + message);
    }
    const bool files_may_stay = std::string_view(name_of_kind(kind_)).starts_with("unlink");
    const std::string wrong = job_.complaint(ended_well, files_may_stay);
    if (!wrong.empty()) complain(wrong + (ended_well ? "; no error" : "; error: " + message));
    return failed != 0;
  }
  void disarm() {
    ledger_.armed = false;
    heap_failure().armed = false;
  }

  void complain(const std::string& what) {
    disarm();
    ++ledger_.complaints;
    std::fprintf(stderr, "%s: %s\n", ledger_.doing.data(), what.c_str());
  }

  WholeJob job_;
  CallLedger& ledger_;
  const std::size_t kind_;
  const bool harmless_;
  const bool ends_;  // when all later calls fail, too
  std::shared_ptr<RequestFailure> requests_;
  Held before_;
};

class NthFailure : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string refusal = tracer_.refusal(); !refusal.empty()) {
      END_TEST_WITHOUT(Environment::kSeccomp, refusal);
    }
    if (!by_userfaultfd()) return;
    try {
      FaultDispatcher::instance().stop();
      FaultDispatcher::require(Engine::kUserfaultfd);
    } catch (const Error& error) {
      END_TEST_WITHOUT(Environment::kUserfaultfd, error.what());
    }
    sets_engine_ = std::getenv("VORTEX_ENGINE") == nullptr;
    setenv("VORTEX_ENGINE", "userfaultfd", 1);
  }

  // Quick jobs, which make no stream before they run, have both engines.
  static bool by_userfaultfd() { return GetParam().ends_with("ByUserfaultfd"); }
  static std::string job_name() { return GetParam().substr(0, GetParam().find("ByUserfaultfd")); }

  void TearDown() override {
    if (sets_engine_) unsetenv("VORTEX_ENGINE");
    const CallLedger& ledger = tracer_.ledger();
    std::printf("%llu failures, %llu jobs\n",
                static_cast<unsigned long long>(ledger.injected.load()),
                static_cast<unsigned long long>(ledger.steps.load()));
  }

  // Each sweep goes on behind what ended its child.
  void sweep(const WholeJob& job, std::size_t kind) {
    std::vector<std::size_t> kinds;
    if (kind < kCallKinds) kinds.push_back(kind);
    CallLedger& ledger = tracer_.ledger();
    for (std::uint64_t first = 1; first != 0;) {
      ledger.disarm();
      ledger.complaints = ledger.tried = 0;
      constexpr int kGoesOn = 3;
      const TracedEnd end =
          tracer_.run(kinds, [&] { return Sweep(job, ledger, kind).run(first) ? 0 : kGoesOn; });
      EXPECT_EQ(ledger.complaints, 0U) << job.name << ": " << name_of_kind(kind);
      EXPECT_FALSE(end.hung) << ledger.doing.data() << ": it hangs\n" << end.waits;
      EXPECT_TRUE(end.hung || end.exited_with(0) || end.exited_with(kGoesOn))
          << ledger.doing.data() << ": status " << end.status;
      first = end.exited_with(0) || ledger.tried == 0 ? 0 : ledger.tried + 1;
    }
  }

  // Of these kinds of calls those that a job makes: all of a quick one, of others a tenth, by
  // chance, and one at least, unless tests may take long.
  std::vector<std::size_t> kinds_of(const WholeJob& job, const std::vector<std::size_t>& all,
                                    std::mt19937_64& random) {
    const TracedEnd end = tracer_.run(all, [&] {
      Sweep(job, tracer_.ledger(), 0).count();
      return 0;
    });
    EXPECT_TRUE(end.exited_with(0)) << end.status << end.waits;
    std::vector<std::size_t> kinds;
    for (const std::size_t kind : all) {
      if (tracer_.ledger().seen[kind] != 0) kinds.push_back(kind);
    }
    if (long_tests() || job.quick) return kinds;
    std::shuffle(kinds.begin(), kinds.end(), random);
    kinds.resize((kinds.size() + 9) / 10);
    return kinds;
  }

  CallTracer tracer_;
  bool sets_engine_ = false;
};

TEST_P(NthFailure, OfASystemCall) {
  auto random = test_random();
  const WholeJob job = make_job(job_name(), random);
  std::vector<std::size_t> all(kCallKinds);
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::vector<std::size_t> kinds = kinds_of(job, all, random);
  EXPECT_EQ(by_userfaultfd(), std::any_of(kinds.begin(), kinds.end(), [](std::size_t kind) {
              return kFailingCalls[kind].device == kUserfaultfd;
            }));
  for (const std::size_t kind : kinds) sweep(job, kind);
}

TEST_P(NthFailure, OfACallThatIsInterruptedIsNone) {
  auto random = test_random();
  const WholeJob job = make_job(job_name(), random);
  tracer_.ledger().interrupted = true;
  std::vector<std::size_t> all;
  for (std::size_t kind = 0; kind < kCallKinds; ++kind) {
    if (std::count(std::begin(kInterruptedCalls), std::end(kInterruptedCalls),
                   kFailingCalls[kind].number) != 0) {
      all.push_back(kind);
    }
  }
  for (const std::size_t kind : kinds_of(job, all, random)) sweep(job, kind);
}

TEST_P(NthFailure, OfAnAllocation) {
  auto random = test_random();
  sweep(make_job(job_name(), random), kHeap);
}

TEST_P(NthFailure, OfARequest) {
  auto random = test_random();
  const WholeJob job = make_job(job_name(), random);
  for (const std::size_t kind : {kReads, kWrites}) sweep(job, kind);
}

INSTANTIATE_TEST_SUITE_P(JobsByUserfaultfd, NthFailure,
                         testing::Values("CopyByUserfaultfd", "ArrayByUserfaultfd",
                                         "PipelineByUserfaultfd"),
                         [](const auto& name) { return name.param; });
INSTANTIATE_TEST_SUITE_P(Jobs, NthFailure, testing::ValuesIn(job_names()),
                         [](const auto& name) { return name.param; });

// A thread that has no memory for its part in the log is no error of whoever started it.
TEST(ArenaWarmer, GoesWithoutMemoryForItsThread) {
  std::vector<char> memory(std::size_t{8} << 20);
  bool failed = true;
  for (std::uint64_t at = 1; failed; ++at) {
    ActivityLog log;
    const Working working(&log, "fills");
    ArenaWarmer warmer;
    warmer.begin(memory);
    heap_failure().arm(at, false);
    try {
      warmer.note(memory.data() + (memory.size() >> 1), memory.data() + memory.size());
    } catch (const std::bad_alloc&) {
      // There is no thread.
    }
    warmer.stop();
    heap_failure().armed = false;
    failed = heap_failure().failed != 0;
  }
}

// A disk that stays knows nothing of memory that readers had who had no memory for themselves.
TEST(SharedDisk, ReadsRightAfterReadersThatFailed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("file");
  const std::size_t count = std::size_t{4} << 20 >> 3;
  {
    FileWriter<std::uint64_t> out(path, {.sync = true});
    for (std::size_t i = 0; i < count; ++i) out.data()[i] = i;
    out.finish(count);
  }
  const std::unique_ptr<Disk> disk = open_disk({.name = "shared"});
  const FileReaderOptions options{.caching = Caching::kDirect, .disk = disk.get()};
  bool failed = true;
  unsigned refused = 0;
  for (std::uint64_t at = 1; failed; ++at) {
    heap_failure().arm(at, false);
    try {
      const FileReader<std::uint64_t> none(path, options);
    } catch (const std::exception&) {
      ++refused;
    }
    heap_failure().armed = false;
    failed = heap_failure().failed != 0;
    const FileReader<std::uint64_t> in(path, options);
    std::size_t wrong = 0;
    guarded([&] {
      for (std::size_t i = 0; i < count; i += 512) wrong += in.data()[i] != i;
    }).throw_if_failed();
    ASSERT_EQ(wrong, 0U) << "allocation " << at << " failed";
  }
  EXPECT_GT(refused, 3U);
}

}  // namespace

}  // namespace vortex::test::nth_failure_test
