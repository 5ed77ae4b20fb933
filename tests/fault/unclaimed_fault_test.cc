// Faults and signals that are none of ours: the handler from before gets every one of them, as the
// kernel would have delivered it.
#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/child_process.h"
#include "tests/support/memory_source.h"
#include "tests/support/threads.h"
#include "vortex/input_stream.h"

namespace vortex::test::unclaimed_fault_test { namespace {

using ::testing::KilledBySignal;

template <typename EngineType>
class UnclaimedFault : public test::EngineTest<EngineType> {};
TYPED_TEST_SUITE(UnclaimedFault, test::SignalEngines, test::EngineNames);

// The last signal that the handlers below saw, and the number of their calls.
struct Seen {
  int calls = 0;
  int signal = 0;
  siginfo_t info{};
  sigset_t mask{};
};
Seen seen;

void note(int signal, siginfo_t* info) {
  ++seen.calls;
  seen.signal = signal;
  if (info != nullptr) seen.info = *info;
  pthread_sigmask(SIG_BLOCK, nullptr, &seen.mask);
}

void allow_page(int signal, siginfo_t* info, void*) {
  note(signal, info);
  Pages::allow(info->si_addr);
}

volatile std::byte* page_to_allow = nullptr;

void allow_known_page(int signal) {
  note(signal, nullptr);
  Pages::allow(const_cast<std::byte*>(page_to_allow));
}

// The compiler must not carry anything that the handlers change across the fault.
void write_to(std::byte* address) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  *static_cast<volatile std::byte*>(address) = std::byte{1};
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

TYPED_TEST(UnclaimedFault, SiginfoIsTheKernels) {
  this->start_behind(action_of(&allow_page));
  const auto before = dispatcher().statistics();
  Pages pages(2);
  seen = {};
  write_to(pages.page(1) + 17);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.signal, SIGSEGV);
  EXPECT_EQ(seen.info.si_signo, SIGSEGV);
  EXPECT_EQ(seen.info.si_code, SEGV_ACCERR);
  EXPECT_EQ(seen.info.si_addr, pages.page(1) + 17);
  EXPECT_EQ(dispatcher().statistics().forwarded - before.forwarded, 1U);
  EXPECT_EQ(dispatcher().statistics().served, before.served);
}

#if defined(__x86_64__)
std::uintptr_t fault_address_in_context = 0;

void skip_instruction(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  fault_address_in_context = static_cast<std::uintptr_t>(registers[REG_CR2]);
  registers[REG_RIP] += 2;
  registers[REG_RAX] = 4711;
}

// A handler that changes registers changes those of the interrupted code.
TYPED_TEST(UnclaimedFault, ContextIsTheKernels) {
  this->start_behind(action_of(&skip_instruction));
  Pages pages(1);
  std::uint64_t value = 0;
  asm volatile("movb (%1), %%al"  // two bytes long
               : "=a"(value)
               : "c"(pages.begin() + 5), "0"(value)
               : "memory");
  EXPECT_EQ(value, 4711U);
  EXPECT_EQ(fault_address_in_context, reinterpret_cast<std::uintptr_t>(pages.begin() + 5));
}
#endif

TYPED_TEST(UnclaimedFault, HandlerWithoutSiginfo) {
  this->start_behind(action_of(&allow_known_page));
  Pages pages(1);
  page_to_allow = pages.begin();
  seen = {};
  write_to(pages.begin());
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.signal, SIGSEGV);
}

// Runs a handler with these flags, and expects exactly the mask that the kernel would have set.
template <typename Start>
void check_mask(Start start_behind, int flags) {
  struct sigaction action = action_of(&allow_page, flags);
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaddset(&action.sa_mask, SIGWINCH);
  start_behind(action);
  sigset_t own, outside, after;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &own, &outside);
  Pages pages(1);
  seen = {};
  write_to(pages.begin());
  pthread_sigmask(SIG_SETMASK, &outside, &after);
  ASSERT_EQ(seen.calls, 1);
  for (int signal = 1; signal < 32; ++signal) {
    const bool own_signal = sigismember(&outside, signal) == 1 || signal == SIGUSR2;
    const bool expected = own_signal || signal == SIGUSR1 || signal == SIGWINCH ||
                          (signal == SIGSEGV && (flags & SA_NODEFER) == 0);
    EXPECT_EQ(sigismember(&seen.mask, signal) == 1, expected) << "in the handler: " << signal;
    EXPECT_EQ(sigismember(&after, signal) == 1, own_signal) << "after it: " << signal;
  }
}

TYPED_TEST(UnclaimedFault, MaskOfTheEarlierHandler) {
  check_mask([this](const struct sigaction& action) { this->start_behind(action); }, 0);
}

TYPED_TEST(UnclaimedFault, MaskOfTheEarlierHandlerWithNodefer) {
  check_mask([this](const struct sigaction& action) { this->start_behind(action); }, SA_NODEFER);
}

Pages* nested_pages = nullptr;

void fault_in_handler(int signal, siginfo_t* info, void*) {
  note(signal, info);
  if (seen.calls == 1) write_to(nested_pages->page(1));
  Pages::allow(info->si_addr);
}

TYPED_TEST(UnclaimedFault, FaultInsideAnEarlierHandlerWithNodefer) {
  this->start_behind(action_of(&fault_in_handler, SA_NODEFER));
  Pages pages(2);
  nested_pages = &pages;
  seen = {};
  write_to(pages.page(0));
  EXPECT_EQ(seen.calls, 2);
}

// Without SA_NODEFER a fault inside the handler ends the process, as without us.
TYPED_TEST(UnclaimedFault, FaultInsideAnEarlierHandlerWithoutNodefer) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&fault_in_handler));
        Pages pages(2);
        nested_pages = &pages;
        seen = {};
        write_to(pages.page(0));
      },
      KilledBySignal(SIGSEGV), "");
}

// An earlier handler may read a stream: its faults are served while SIGSEGV is blocked for it, so
// it needs SA_NODEFER, as it would for any fault of its own.
const char* stream_for_handler = nullptr;
char read_by_handler = 0;

void read_stream(int signal, siginfo_t* info, void*) {
  note(signal, info);
  read_by_handler = stream_for_handler[0];
  Pages::allow(info->si_addr);
}

TYPED_TEST(UnclaimedFault, EarlierHandlerReadsAStream) {
  this->start_behind(action_of(&read_stream, SA_NODEFER));
  {
    BlockPool pool(small_blocks(4));
    auto stream = stream_of_bytes(pool, patterned_bytes(kMinBlockBytes));
    stream_for_handler = stream.data();
    Pages pages(1);
    seen = {};
    write_to(pages.begin());
    EXPECT_EQ(seen.calls, 1);
    EXPECT_EQ(read_by_handler, static_cast<char>(test::byte_at(0)));
  }
}

TYPED_TEST(UnclaimedFault, ResethandIsCalledOnce) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&allow_page, static_cast<int>(SA_RESETHAND)));
        Pages pages(2);
        seen = {};
        write_to(pages.page(0));
        if (seen.calls != 1) _exit(1);
        std::fprintf(stderr, "once");
        write_to(pages.page(1));
        _exit(2);
      },
      KilledBySignal(SIGSEGV), "once");
}

TYPED_TEST(UnclaimedFault, ResethandThatWasCalledIsNotPutBack) {
  this->start_behind(action_of(&allow_page, static_cast<int>(SA_RESETHAND)));
  Pages pages(1);
  seen = {};
  write_to(pages.page(0));
  EXPECT_EQ(seen.calls, 1);
  dispatcher().stop();
  EXPECT_EQ(test::current_action().sa_handler, SIG_DFL);
}

TYPED_TEST(UnclaimedFault, EndsTheProcessByDefaultAndWhereFaultsAreIgnored) {
  for (const auto handler : {SIG_DFL, SIG_IGN}) {
    EXPECT_EXIT(
        {
          this->start_behind(action_of(handler));
          Pages pages(1);
          write_to(pages.begin());
        },
        KilledBySignal(SIGSEGV), "");
  }
}

TYPED_TEST(UnclaimedFault, DefaultActionForASentSignal) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(SIG_DFL));
        kill(getpid(), SIGSEGV);
        for (;;) pause();
      },
      KilledBySignal(SIGSEGV), "");
}

TYPED_TEST(UnclaimedFault, DefaultActionForASentSignalThatNobodyMayQueue) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(SIG_DFL));
        if (!test::refuse_call(SYS_rt_tgsigqueueinfo, EPERM)) _exit(2);
        pthread_kill(pthread_self(), SIGSEGV);
        _exit(1);
      },
      KilledBySignal(SIGSEGV), "");
}

TYPED_TEST(UnclaimedFault, IgnoredSentSignal) {
  this->start_behind(action_of(SIG_IGN));
  const auto before = dispatcher().statistics();
  ASSERT_EQ(pthread_kill(pthread_self(), SIGSEGV), 0);
  EXPECT_EQ(dispatcher().statistics().forwarded - before.forwarded, 1U);
}

TYPED_TEST(UnclaimedFault, SentSignalsAreForwarded) {
  this->start_behind(action_of([](int signal, siginfo_t* info, void*) { note(signal, info); }));
  seen = {};
  ASSERT_EQ(pthread_kill(pthread_self(), SIGSEGV), 0);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.info.si_code, SI_TKILL);
  EXPECT_EQ(seen.info.si_pid, getpid());

  TestRegion region(1);
  sigval value{};
  value.sival_ptr = region.pages().begin() + 8;
  ASSERT_EQ(sigqueue(getpid(), SIGSEGV, value), 0);
  while (seen.calls < 2) std::this_thread::yield();
  EXPECT_EQ(seen.info.si_code, SI_QUEUE);
  EXPECT_EQ(seen.info.si_value.sival_ptr, value.sival_ptr);
  EXPECT_EQ(seen.info.si_pid, getpid());
  EXPECT_EQ(region.faults(), 0U);
}

// The sender's fields lie where the address of a fault would: they must not be taken for one.
TYPED_TEST(UnclaimedFault, SentSignalThatLooksLikeAFaultInOurRegion) {
  this->start_behind(action_of([](int signal, siginfo_t* info, void*) { note(signal, info); }));
  seen = {};
  TestRegion region(1);
  siginfo_t info{};
  info.si_signo = SIGSEGV;
  info.si_code = SI_QUEUE;
  info.si_addr = region.pages().begin() + 8;
  ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGSEGV, &info), 0);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.info.si_addr, region.pages().begin() + 8);
  EXPECT_EQ(region.faults(), 0U);
}

// Counts faults of threads on pages of their own; everything else is misdelivered.
struct Tally {
  const Pages* pages = nullptr;
  std::uint64_t faults = 0;
  std::uint64_t misdelivered = 0;
  sigjmp_buf way_out{};
};
constinit thread_local Tally tally;

void count_and_allow(int signal, siginfo_t* info, void*) {
  if (signal != SIGSEGV || tally.pages == nullptr || !tally.pages->contains(info->si_addr)) {
    ++tally.misdelivered;
    return;
  }
  ++tally.faults;
  Pages::allow(info->si_addr);
}

void count_and_jump(int signal, siginfo_t* info, void* context) {
  count_and_allow(signal, info, context);
  siglongjmp(tally.way_out, 1);
}

constexpr std::uint64_t kUnclaimedFaults = 10000;

// Two threads fault ten thousand times where no stream is, while two others read streams.
template <typename Fault>
void check_that_none_is_lost(Fault fault) {
  constexpr std::size_t kFaulting = 2;
  constexpr std::size_t kReading = 2;
  constexpr std::size_t kPagesEach = 50;
  constexpr std::size_t kBlocks = 40;
  BlockPool pool(small_blocks(4));
  const auto data = test::patterned_bytes(kBlocks * kMinBlockBytes);
  const auto before = dispatcher().statistics();
  std::atomic<std::uint64_t> faults{0}, misdelivered{0}, wrong{0}, streams{0};
  std::atomic<std::size_t> still_faulting{kFaulting};
  test::run_together(kFaulting + kReading, [&](std::size_t thread) {
    if (thread < kFaulting) {
      const Pages pages(kPagesEach);
      tally.pages = &pages;
      for (std::uint64_t i = 0; i < kUnclaimedFaults / kFaulting; ++i) {
        const std::size_t page = i % kPagesEach;
        if (page == 0) pages.protect_all(PROT_NONE);
        fault(pages.page(page));
      }
      tally.pages = nullptr;
      faults += tally.faults;
      --still_faulting;
    } else {
      do {
        auto stream = stream_of_bytes(pool, data);
        if (std::memcmp(stream.data(), data.data(), data.size()) != 0) ++wrong;
        ++streams;
      } while (still_faulting > 0);
    }
    misdelivered += tally.misdelivered;
  });
  EXPECT_EQ(faults, kUnclaimedFaults);
  EXPECT_EQ(misdelivered, 0U);
  EXPECT_EQ(wrong, 0U);
  const auto after = dispatcher().statistics();
  EXPECT_EQ(after.forwarded - before.forwarded, kUnclaimedFaults);
  EXPECT_EQ(after.served - before.served, streams * kBlocks);
  EXPECT_EQ(after.failed, before.failed);
}

TYPED_TEST(UnclaimedFault, NoneOfTenThousandIsLost) {
  this->start_behind(action_of(&count_and_allow));
  check_that_none_is_lost([](std::byte* address) { write_to(address); });
}

TYPED_TEST(UnclaimedFault, NoneOfTenThousandIsLostWithANonlocalExit) {
  this->start_behind(action_of(&count_and_jump));
  check_that_none_is_lost([](std::byte* address) {
    if (sigsetjmp(tally.way_out, 1) == 0) {
      write_to(address);
      ADD_FAILURE() << "a fault was lost";
    }
  });
}

TYPED_TEST(UnclaimedFault, NoneOfTenThousandIsLostWithNodeferAndNonlocalExit) {
  this->start_behind(action_of(&count_and_jump, SA_NODEFER));
  check_that_none_is_lost([](std::byte* address) {
    if (sigsetjmp(tally.way_out, 0) == 0) {
      write_to(address);
      ADD_FAILURE() << "a fault was lost";
    }
  });
}

// The engine is stopped and started again under the threads that fault.
TYPED_TEST(UnclaimedFault, NoneIsLostWhileTheEngineComesAndGoes) {
  this->start_behind(action_of(&count_and_allow));
  constexpr std::size_t kPagesEach = 50;
  constexpr std::uint64_t kRounds = 100;
  std::atomic<std::size_t> still_faulting{2};
  std::atomic<std::uint64_t> faults{0}, misdelivered{0};
  test::run_together(3, [&](std::size_t thread) {
    if (thread == 2) {
      while (still_faulting > 0) {
        dispatcher().stop();
        dispatcher().start(TypeParam::kEngine);
      }
      return;
    }
    const Pages pages(kPagesEach);
    tally.pages = &pages;
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      pages.protect_all(PROT_NONE);
      for (std::size_t page = 0; page < kPagesEach; ++page) write_to(pages.page(page));
    }
    tally.pages = nullptr;
    faults += tally.faults;
    misdelivered += tally.misdelivered;
    --still_faulting;
  });
  EXPECT_EQ(faults, 2 * kRounds * kPagesEach);
  EXPECT_EQ(misdelivered, 0U);
}

}  // namespace

}  // namespace vortex::test::unclaimed_fault_test
