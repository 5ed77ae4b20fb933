// Handlers that the program installs after ours: noticed, named, and overtaken again by reclaim().
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <setjmp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_source.h"
#include "tests/support/sanitizers.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"

namespace vortex::test::handler_order_test { namespace {

using ::testing::KilledBySignal;

// Handlers of the program. Each counts, and then does as its name says.
struct Calls {
  int earlier = 0;
  int first = 0;
  int second = 0;
};
Calls calls;
struct sigaction replaced_by_first {};
struct sigaction replaced_by_second {};
sigjmp_buf way_out;
Pages* nested_pages = nullptr;

constexpr int kEndless = 20;

void earlier_allows(int, siginfo_t* info, void*) {
  ++calls.earlier;
  Pages::allow(info->si_addr);
}

void first_allows(int, siginfo_t* info, void*) {
  ++calls.first;
  Pages::allow(info->si_addr);
}

void first_jumps(int, siginfo_t*, void*) {
  ++calls.first;
  siglongjmp(way_out, 1);
}

void first_passes_on(int signal, siginfo_t* info, void* context) {
  if (++calls.first > kEndless) _exit(3);
  replaced_by_first.sa_sigaction(signal, info, context);
}

void first_faults_and_passes_on(int signal, siginfo_t* info, void* context) {
  if (++calls.first > kEndless) _exit(3);
  if (calls.first == 1) {
    *static_cast<volatile std::byte*>(nested_pages->begin()) = std::byte{1};
  }
  replaced_by_first.sa_sigaction(signal, info, context);
}

void first_puts_back(int signal, siginfo_t*, void*) {
  if (++calls.first > kEndless) _exit(3);
  sigaction(signal, &replaced_by_first, nullptr);
}

bool blocked_after_passing_on = false;

void first_passes_on_and_looks(int signal, siginfo_t* info, void* context) {
  ++calls.first;
  replaced_by_first.sa_sigaction(signal, info, context);
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  blocked_after_passing_on = sigismember(&mask, SIGSEGV) == 1;
}

// As many as there are places; each knows whom it replaced.
constexpr std::size_t kMany = 7;
int calls_of_many[kMany];
struct sigaction replaced_by_many[kMany];

template <std::size_t kIndex>
void one_of_many_passes_on(int signal, siginfo_t* info, void* context) {
  if (++calls_of_many[kIndex] > kEndless) _exit(3);
  replaced_by_many[kIndex].sa_sigaction(signal, info, context);
}

void second_passes_on(int signal, siginfo_t* info, void* context) {
  if (++calls.second > kEndless) _exit(3);
  replaced_by_second.sa_sigaction(signal, info, context);
}

template <typename EngineType>
class HandlerOrder : public test::EngineTest<EngineType> {
 protected:
  void SetUp() override {
    test::EngineTest<EngineType>::SetUp();
    if (this->IsSkipped()) return;
    calls = {};
    this->start_behind(action_of(&earlier_allows));
    ours_ = test::current_action();
  }

  void TearDown() override {
    // Whatever a test left in front.
    if (dispatcher().running()) sigaction(SIGSEGV, &ours_, nullptr);
    test::EngineTest<EngineType>::TearDown();
  }

  static void install(void (*handler)(int, siginfo_t*, void*), struct sigaction* replaced,
                      int flags = 0) {
    const struct sigaction action = action_of(handler, flags);
    sigaction(SIGSEGV, &action, replaced);
  }

  static void fault() {
    const Pages pages(1);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    *static_cast<volatile std::byte*>(pages.begin()) = std::byte{1};
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  static void expect_calls(int earlier, int first, int second = 0) {
    EXPECT_EQ(calls.earlier, earlier);
    EXPECT_EQ(calls.first, first);
    EXPECT_EQ(calls.second, second);
  }

  static void expect_streams_work() {
    BlockPool pool(small_blocks(4));
    const auto data = test::patterned_bytes(5 * kMinBlockBytes);
    auto stream = stream_of_bytes(pool, data);
    const auto forwarded = dispatcher().statistics().forwarded;
    EXPECT_EQ(std::memcmp(stream.data(), data.data(), data.size()), 0);
    EXPECT_EQ(dispatcher().statistics().forwarded, forwarded);
  }

 private:
  struct sigaction ours_ {};
};
TYPED_TEST_SUITE(HandlerOrder, test::SignalEngines, test::EngineNames);

TYPED_TEST(HandlerOrder, OursInFrontHasNoName) {
  EXPECT_EQ(dispatcher().handler_in_front(), "");
  dispatcher().reclaim();  // nothing to do
  EXPECT_EQ(dispatcher().handler_in_front(), "");
  dispatcher().stop();
  EXPECT_EQ(dispatcher().handler_in_front(), "");
}

TYPED_TEST(HandlerOrder, TheHandlerInFrontIsNamed) {
  // A function that the dynamic linker knows by name.
  struct sigaction action {};
  action.sa_handler = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "tcdrain"));
  ASSERT_NE(action.sa_handler, SIG_DFL);
  sigaction(SIGSEGV, &action, nullptr);
  const std::string name = dispatcher().handler_in_front();
  EXPECT_TRUE(contains(name, "tcdrain"));
  EXPECT_TRUE(contains(name, kShadowMemory ? "(" : "libc"));
  // The handler in front would be lost.
  EXPECT_TRUE(fails([] { dispatcher().stop(); }, EBUSY, name));
  action.sa_handler = SIG_DFL;
  sigaction(SIGSEGV, &action, nullptr);
  EXPECT_EQ(dispatcher().handler_in_front(), "the default action");
}

TYPED_TEST(HandlerOrder, ANewStreamWarnsOnceOfTheHandlerInFront) {
  this->install(&first_passes_on, &replaced_by_first);
  ::testing::internal::CaptureStderr();
  { TestRegion region(1); }
  { TestRegion region(1); }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.rfind("vortex: SIGSEGV is handled by ", 0), 0U) << text;
  EXPECT_TRUE(contains(text, dispatcher().handler_in_front()));
  EXPECT_TRUE(contains(text, "reclaim()"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TYPED_TEST(HandlerOrder, AHandlerInFrontThatPassesOn) {
  this->install(&first_passes_on, &replaced_by_first, SA_NODEFER);
  this->fault();
  this->expect_calls(1, 1);
  this->expect_streams_work();
  EXPECT_GT(calls.first, 1);
}

// Without SA_NODEFER the kernel blocks the signal for the handler in front, and leaving it by a
// jump must not keep it blocked.
TYPED_TEST(HandlerOrder, AfterAGuardedFailureBehindAnotherHandlerStreamsWork) {
  this->install(&first_passes_on, &replaced_by_first, SA_RESTART);
  BlockPool pool(small_blocks(4));
  auto stream = stream_of_bytes(pool, patterned_bytes(3 * kMinBlockBytes), {}, failing_at(0));
  EXPECT_EQ(guarded([&] { touch(stream.data()); }).error, EIO);
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
  this->expect_streams_work();
}

TYPED_TEST(HandlerOrder, Reclaim) {
  this->install(&first_allows, nullptr);
  dispatcher().reclaim();
  EXPECT_EQ(dispatcher().handler_in_front(), "");
  this->expect_streams_work();
  this->fault();
  this->expect_calls(0, 1);
  // stop() puts back the one that was there last.
  dispatcher().stop();
  EXPECT_EQ(test::current_action().sa_sigaction, &first_allows);
}

TYPED_TEST(HandlerOrder, ReclaimFromOneThatPassesOn) {
  this->install(&first_passes_on, &replaced_by_first);
  dispatcher().reclaim();
  this->fault();
  this->expect_calls(1, 1);
  this->expect_streams_work();
  this->expect_calls(1, 1);
}

TYPED_TEST(HandlerOrder, ReclaimFromOneThatPutsBackWhatItReplaced) {
  this->install(&first_puts_back, &replaced_by_first);
  dispatcher().reclaim();
  this->fault();
  this->expect_calls(1, 1);
  this->fault();  // it is no longer there
  this->expect_calls(2, 1);
  EXPECT_EQ(dispatcher().handler_in_front(), "");
  this->expect_streams_work();
}

TYPED_TEST(HandlerOrder, ReclaimTwice) {
  this->install(&first_passes_on, &replaced_by_first);
  dispatcher().reclaim();
  this->install(&second_passes_on, &replaced_by_second);
  dispatcher().reclaim();
  this->fault();
  this->expect_calls(1, 1, 1);
  this->expect_streams_work();
  this->expect_calls(1, 1, 1);
}

TYPED_TEST(HandlerOrder, ReclaimSevenTimes) {
  std::fill(std::begin(calls_of_many), std::end(calls_of_many), 0);
  [this]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    ((this->install(&one_of_many_passes_on<kIndex>, &replaced_by_many[kIndex]),
      dispatcher().reclaim()),
     ...);
  }
  (std::make_index_sequence<kMany>());
  this->fault();
  this->expect_calls(1, 0);
  for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(calls_of_many[i], 1) << i;
  this->expect_streams_work();
}

// Signals that are blocked for the handler behind ours are not blocked for the handler in front.
TYPED_TEST(HandlerOrder, AHandlerThatPassesOnKeepsItsMask) {
  this->install(&first_passes_on_and_looks, &replaced_by_first, SA_NODEFER);
  blocked_after_passing_on = true;
  this->fault();
  this->expect_calls(1, 1);
  EXPECT_FALSE(blocked_after_passing_on);
}

TYPED_TEST(HandlerOrder, AHandlerThatInstallsItselfAgainAndAgain) {
  for (int round = 0; round < 30; ++round) {
    calls = {};
    this->install(&first_passes_on, &replaced_by_first);
    dispatcher().reclaim();
    this->fault();
    EXPECT_EQ(calls.earlier, 1) << round;
    EXPECT_GE(calls.first, 1) << round;
    EXPECT_LE(calls.first, 8) << round;
    this->expect_streams_work();
  }
}

// A handler that was there before us, and passes on to itself through us.
TYPED_TEST(HandlerOrder, ACircleEnds) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&first_passes_on, SA_NODEFER));
        this->install(&first_passes_on, &replaced_by_first, SA_NODEFER);
        this->fault();
      },
      KilledBySignal(SIGSEGV), "");
}

TYPED_TEST(HandlerOrder, AFaultInsideAHandlerThatPassesOn) {
  this->install(&first_faults_and_passes_on, &replaced_by_first, SA_NODEFER);
  dispatcher().reclaim();
  Pages pages(1);
  nested_pages = &pages;
  this->fault();
  // Both faults go the same way.
  this->expect_calls(2, 2);
}

// Leaving the handler with longjmp leaves records behind. They must not be mistaken for faults that
// are being passed on, wherever in the stack the next fault is.
template <typename Fault>
__attribute__((noinline)) void fault_at_depth(int depth, Fault fault) {
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  if (depth == 0) {
    fault();
  } else {
    fault_at_depth(depth - 1, fault);
  }
  frame[1] = frame[0];
}

TYPED_TEST(HandlerOrder, LeavingAHandlerFromAnyDepth) {
  this->install(&first_jumps, &replaced_by_first);
  dispatcher().reclaim();
  constexpr int kRounds = 200;
  static int round;  // keeps its value when the handler jumps
  for (round = 0; round < kRounds; ++round) {
    if (sigsetjmp(way_out, 1) == 0) {
      fault_at_depth(round / 2 * 7 % 30, [] { HandlerOrder<TypeParam>::fault(); });
      ADD_FAILURE() << "a fault was lost";
    }
  }
  this->expect_calls(0, kRounds);
}

void earlier_counts(int, siginfo_t*, void*) { ++calls.earlier; }

// Bus errors are what the engine userfaultfd raises.
class BusErrorOrder : public EngineTest<UserfaultfdEngine> {};

TEST_F(BusErrorOrder, AHandlerThatStaysInFrontMakesNoCircle) {
  calls = {};
  start_behind(action_of(&earlier_counts));
  const struct sigaction action = action_of(&first_passes_on);
  sigaction(SIGBUS, &action, &replaced_by_first);
  for (int starts = 1; starts <= 3; ++starts) {
    raise(SIGBUS);
    EXPECT_EQ(calls.first, starts);
    EXPECT_EQ(calls.earlier, starts);
    dispatcher().stop();  // leaves what stands behind the program's handler
    dispatcher().start(Engine::kUserfaultfd);
  }
}

// libsigsegv keeps one user in a process. If the program is one, vortex cannot be another.
class SharedLibsigsegv : public test::EngineTest<test::LibsigsegvEngine> {
 protected:
  using Handler = int (*)(void*, int);
  using Install = int (*)(Handler);

  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) return;
    install_ = reinterpret_cast<Install>(dlsym(RTLD_DEFAULT, "sigsegv_install_handler"));
    ASSERT_NE(install_, nullptr);
  }

  static int decline(void*, int) { return 0; }

  Install install_ = nullptr;
};

TEST_F(SharedLibsigsegv, InstalledAfterOursCannotBeReclaimed) {
  const struct sigaction ours = test::current_action();
  install_(&decline);
  EXPECT_NE(dispatcher().handler_in_front(), "");
  EXPECT_TRUE(fails([] { dispatcher().reclaim(); }, EBUSY, "-Dengine=native"));
  sigaction(SIGSEGV, &ours, nullptr);
}

TEST_F(SharedLibsigsegv, InstalledBeforeOursIsAnError) {
  dispatcher().stop();
  install_(&decline);
  EXPECT_TRUE(fails([] { dispatcher().start(Engine::kLibsigsegv); }, EBUSY, "-Dengine=native"));
  EXPECT_FALSE(dispatcher().running());
  // The native engine gets along with it.
  install_(&decline);
  dispatcher().start(Engine::kNative);
  {
    TestRegion region(1);
    region.data()[0] = std::byte{1};
    EXPECT_EQ(region.faults(), 1U);
  }
  dispatcher().stop();
}

}  // namespace

}  // namespace vortex::test::handler_order_test
