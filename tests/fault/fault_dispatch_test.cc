// Faults in regions of ours, on every engine: what code they happen in, in how many threads, and
// inside one another.
#include "vortex/fault/region_table.h"
#include "vortex/fault_dispatcher.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vortex::fault_dispatch_test { namespace {

using test::dispatcher;
using test::fails;
using test::Pages;
using test::stream_of_bytes;
using test::TestRegion;

constexpr std::size_t kBlockBytes = kMinBlockBytes;

template <typename EngineType>
class FaultDispatch : public test::EngineTest<EngineType> {};
TYPED_TEST_SUITE(FaultDispatch, test::AllEngines, test::EngineNames);

TYPED_TEST(FaultDispatch, PlainCode) {
  TestRegion region(3);
  EXPECT_TRUE(region.data()[5] == std::byte{0});
  EXPECT_EQ(region.faults(), 1U);
  EXPECT_EQ(region.last().address, region.pages().begin() + 5);
  region.data()[3 * Pages::page_bytes() - 1] = std::byte{7};
  EXPECT_EQ(region.faults(), 2U);
  EXPECT_EQ(region.last().address, region.pages().page(3) - 1);
  EXPECT_TRUE(region.data()[3 * Pages::page_bytes() - 1] == std::byte{7});
  EXPECT_EQ(region.faults(), 2U);
}

#if defined(__x86_64__) || defined(__i386__)
TYPED_TEST(FaultDispatch, ReadIsToldFromWrite) {
  TestRegion region(2);
  (void)region.data()[0];
  EXPECT_EQ(region.last().access, Access::kRead);
  EXPECT_EQ(region.faults(), 1U);
  region.data()[Pages::page_bytes()] = std::byte{1};
  EXPECT_EQ(region.last().access, Access::kWrite);
  EXPECT_EQ(region.faults(), 2U);
  if (TypeParam::kEngine == Engine::kUserfaultfd) return;  // which knows pages that are not there
  region.data()[0] = std::byte{1};                         // the page is readable by now
  EXPECT_EQ(region.last().access, Access::kWrite);
  EXPECT_EQ(region.faults(), 3U);
}
#endif

TYPED_TEST(FaultDispatch, StatisticsCountServedFaults) {
  TestRegion region(4);
  const auto before = dispatcher().statistics();
  for (std::size_t page = 0; page < 4; ++page) region.data()[page * Pages::page_bytes()];
  const auto after = dispatcher().statistics();
  EXPECT_EQ(after.served - before.served, 4U);
  EXPECT_EQ(after.failed, before.failed);
  EXPECT_EQ(after.forwarded, before.forwarded);
}

TYPED_TEST(FaultDispatch, ErrnoIsKept) {
  TestRegion region(1, [](const Fault& fault) {
    Pages::allow(fault.address);
    errno = ENOTTY;
    return nullptr;
  });
  errno = EXDEV;
  (void)region.data()[0];
  EXPECT_EQ(errno, EXDEV);
}

TYPED_TEST(FaultDispatch, ErrnoIsKeptByStreams) {
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_of_bytes(pool, test::patterned_bytes(64 * kBlockBytes));
  errno = EXDEV;
  char sum = 0;
  for (std::size_t i = 0; i < 64 * kBlockBytes; i += 512) {
    sum = static_cast<char>(sum ^ stream.data()[i]);
  }
  EXPECT_EQ(errno, EXDEV);
  EXPECT_FALSE(stream.failure());
  // The loop must not be optimised out.
  EXPECT_TRUE(sum == 0 || sum != 0);
}

TYPED_TEST(FaultDispatch, Memcpy) {
  BlockPool pool(test::small_blocks(2));
  const auto data = test::patterned_bytes(50 * kBlockBytes + 77);
  auto stream = stream_of_bytes(pool, data);
  std::vector<std::byte> copy(data.size());
  // Pieces of odd sizes, so that they straddle block borders at every offset.
  for (std::size_t at = 0, piece = 1; at < data.size(); at += piece, piece = piece * 3 % 9973 + 1) {
    std::memcpy(copy.data() + at, stream.data() + at, std::min(piece, data.size() - at));
  }
  EXPECT_TRUE(copy == data);
}

TYPED_TEST(FaultDispatch, Strlen) {
  BlockPool pool(test::small_blocks(2));
  std::vector<std::byte> data(9 * kBlockBytes + 1234, std::byte{'x'});
  auto stream = stream_of_bytes(pool, data);
  // The filler after the data ends the string.
  EXPECT_EQ(std::strlen(stream.data()), data.size());
}

TYPED_TEST(FaultDispatch, MemcpyBetweenTwoStreams) {
  BlockPool pool(test::small_blocks(4));
  const auto data = test::patterned_bytes(40 * kBlockBytes);
  auto input = stream_of_bytes(pool, data);
  auto script = test::sink_script(data.size());
  auto output = test::stream_into(pool, script,
                                  {.reserve_bytes = 64 * kBlockBytes, .least_reserve_bytes = 1});
  constexpr std::size_t kPiece = kBlockBytes - 1000;
  for (std::size_t at = 0; at < data.size(); at += kPiece) {
    std::memcpy(output.data() + at, input.data() + at, std::min(kPiece, data.size() - at));
  }
  output.finish(data.size());
  EXPECT_TRUE(script->data == data);
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) std::uint64_t sum_avx2(const char* data, std::size_t bytes) {
  __m256i sum = _mm256_setzero_si256();
  std::size_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    sum = _mm256_add_epi64(sum, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at)));
  }
  std::uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

__attribute__((target("avx512f"))) std::uint64_t sum_avx512(const char* data, std::size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    sum = _mm512_add_epi64(sum, _mm512_loadu_si512(data + at));
  }
  std::uint64_t lanes[8];
  _mm512_storeu_si512(lanes, sum);
  return std::accumulate(std::begin(lanes), std::end(lanes), std::uint64_t{0});
}

// The running sum lives in vector registers across hundreds of faults, and the loads straddle every
// block border: the handler must keep the whole vector state.
void check_vector_sum(std::uint64_t (*sum)(const char*, std::size_t), std::size_t step) {
  BlockPool pool(test::small_blocks(2));
  const auto data = test::patterned_bytes(200 * kBlockBytes + 1);
  const std::size_t bytes = (data.size() - 1) / step * step;
  std::uint64_t expected = 0;
  for (std::size_t at = 1; at + 8 <= 1 + bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data.data() + at, 8);
    expected += word;
  }
  auto stream = stream_of_bytes(pool, data);
  EXPECT_EQ(sum(stream.data() + 1, bytes), expected);
}

TYPED_TEST(FaultDispatch, Avx2) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  check_vector_sum(&sum_avx2, 32);
}

TYPED_TEST(FaultDispatch, Avx512) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this processor has no AVX-512";
  check_vector_sum(&sum_avx512, 64);
}

#endif

TYPED_TEST(FaultDispatch, SeveralThreadsOnStreamsOfTheirOwn) {
  constexpr std::size_t kThreads = 8;
  BlockPool pool(test::small_blocks(2 * kThreads));
  const auto data = test::patterned_bytes(100 * kBlockBytes);
  std::atomic<int> right{0};
  test::run_together(kThreads, [&](std::size_t) {
    auto stream = stream_of_bytes(pool, data);
    if (std::memcmp(stream.data(), data.data(), data.size()) == 0) ++right;
  });
  EXPECT_EQ(right, static_cast<int>(kThreads));
}

TYPED_TEST(FaultDispatch, OneBlockTouchedFirstByTwoThreads) {
  constexpr std::size_t kRounds = 500;
  constexpr std::size_t kThreads = 2;
  BlockPool pool(test::small_blocks(4));
  const auto data = test::patterned_bytes(kRounds * kBlockBytes);
  auto script = std::make_shared<test::SourceScript>();
  auto stream = stream_of_bytes(pool, data, {.comeback_blocks = 2}, script);
  test::SpinBarrier barrier(kThreads);
  std::atomic<std::uint64_t> wrong{0};
  test::run_together(kThreads, [&](std::size_t thread) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::size_t at = round * kBlockBytes + thread * 64;
      barrier.arrive_and_wait();
      if (static_cast<std::byte>(stream.data()[at]) != data[at]) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(script->taken, kRounds);
  EXPECT_FALSE(stream.failure());
}

// Three streams deep: reading the outermost makes its callback read the next, and so on.
TYPED_TEST(FaultDispatch, NestedThreeDeep) {
  BlockPool pool(test::small_blocks(6));
  const std::uint64_t length = 30 * kBlockBytes;
  auto inner = input_from_callback<char>(
      pool,
      [](std::span<std::byte> block, std::uint64_t offset) {
        for (std::size_t i = 0; i < block.size(); ++i) block[i] = test::byte_at(offset + i);
        return block.size();
      },
      {.name = "inner"}, length);
  auto add_one = [](const char* from) {
    return [from](std::span<std::byte> block, std::uint64_t offset) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        block[i] = static_cast<std::byte>(from[offset + i] + 1);
      }
      return block.size();
    };
  };
  auto middle = input_from_callback<char>(pool, add_one(inner.data()), {.name = "middle"}, length);
  auto outer = input_from_callback<char>(pool, add_one(middle.data()), {.name = "outer"}, length);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < length; ++i) {
    if (outer.data()[i] != static_cast<char>(static_cast<char>(test::byte_at(i)) + 2)) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(outer.statistics().faults, 30U);
  EXPECT_EQ(inner.statistics().faults, 30U);
}

TYPED_TEST(FaultDispatch, CallbackThatReadsItsOwnStreamIsAnError) {
  BlockPool pool(test::small_blocks(2));
  const char* data = nullptr;
  auto stream = input_from_callback<char>(
      pool,
      [&data](std::span<std::byte> block, std::uint64_t offset) {
        block[0] = static_cast<std::byte>(data[offset + kBlockBytes]);
        return block.size();
      },
      {.name = "ouroboros"}, 4 * kBlockBytes);
  data = stream.data();
  char byte = 0;
  const Failure failure = guarded([&] { byte = stream.data()[0]; });
  EXPECT_TRUE(fails(failure, EDEADLK, "ouroboros"));
  EXPECT_EQ(byte, 0);
  // The stream stays failed, and nobody waits for its lock.
  EXPECT_EQ(guarded([&] { byte = stream.data()[0]; }).error, EDEADLK);
  std::thread([&] { EXPECT_EQ(guarded([&] { byte = stream.data()[0]; }).error, EDEADLK); }).join();
}

TYPED_TEST(FaultDispatch, OverlappingRegionsAreRefused) {
  struct Counter final : FaultServer {
    bool serve(const Fault& fault, Failure&) noexcept override {
      ++faults;
      Pages::allow(fault.address);
      return true;
    }
    void abandon(const Failure&) noexcept override {}
    std::atomic<std::uint64_t> faults{0};
  } counter, nobody;
  const std::size_t page = Pages::page_bytes();
  const Pages space(16);
  std::byte* const begin = space.page(4);
  Region region(begin, 4 * page, counter);
  dispatcher().add(region);
  struct {
    std::byte* begin;
    std::size_t bytes;
  } const overlapping[] = {
      {begin, 4 * page},             // the same
      {begin + page, page},          // within
      {begin - page, 6 * page},      // around
      {begin - page, 2 * page},      // over its begin
      {begin - page, page + 1},      // by a byte
      {begin + 3 * page, 2 * page},  // over its end
      {begin + 4 * page - 1, page},  // by a byte
      {begin - page, 5 * page},      // to the same end
      {begin, 5 * page},             // from the same begin
      {begin + 8 * page, 0},         // nothing at all
  };
  for (const auto& [at, bytes] : overlapping) {
    Region other(at, bytes, nobody);
    const auto add = [&other] {
      dispatcher().add(other);
      dispatcher().remove(other);
    };
    EXPECT_TRUE(fails(add, EEXIST)) << bytes << " bytes at " << at - begin;
  }
  // Neighbours are no overlap.
  Region before(begin - page, page, nobody);
  Region after(begin + 4 * page, page, nobody);
  dispatcher().add(before);
  dispatcher().add(after);
  volatile std::byte* const data = begin;
  data[0] = std::byte{1};
  data[4 * page - 1] = std::byte{1};
  EXPECT_EQ(counter.faults, 2U);
  EXPECT_EQ(nobody.faults, 0U);
  dispatcher().remove(before);
  dispatcher().remove(after);
  dispatcher().remove(region);
}

TYPED_TEST(FaultDispatch, StartAndStop) {
  dispatcher().start(TypeParam::kEngine);  // again: nothing to do
  const Engine other =
      TypeParam::kEngine == Engine::kNative ? Engine::kLibsigsegv : Engine::kNative;
  EXPECT_TRUE(fails([&] { dispatcher().start(other); }, EBUSY)) << "two engines at once";
  {
    TestRegion region(1);
    EXPECT_TRUE(fails([] { dispatcher().stop(); }, EBUSY)) << "under a region";
    region.data()[0] = std::byte{1};
  }
  dispatcher().stop();
  EXPECT_FALSE(dispatcher().running());
  dispatcher().stop();  // again: nothing to do
  // The first region starts the default engine.
  {
    TestRegion region(1);
    region.data()[0] = std::byte{1};
    EXPECT_EQ(dispatcher().engine(), FaultDispatcher::default_engine());
  }
  dispatcher().stop();
  EXPECT_FALSE(dispatcher().running());
}

// As where a container forbids it.
TYPED_TEST(FaultDispatch, AHandlerThatIsRefusedLeavesNothing) {
  dispatcher().stop();
  test::expect_in_child([] {
    const auto descriptors = [] {
      std::size_t count = 0;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        count += !entry.path().empty();
      }
      return count;
    };
    const std::size_t before = descriptors();
    if (!test::refuse_call_with(SYS_rt_sigaction, 0, TestFixture::kSignal, EPERM)) return 1;
    if (test::error_of([] { dispatcher().start(TypeParam::kEngine); }) == 0) return 2;
    if (dispatcher().running()) return 3;
    return descriptors() == before ? 0 : 4;
  });
}

class FaultsOfTheKernel : public test::EngineTest<test::UserfaultfdEngine> {
 protected:
  static constexpr std::size_t kStackBytes = std::size_t{1} << 30;

  static void have_large_stacks() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  // From now on there is address space for so many more of them, or for all.
  static void leave_room_for(std::size_t stacks) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * Pages::page_bytes() + stacks * kStackBytes + kStackBytes / 2;
    setrlimit(RLIMIT_AS, &limit);
  }
  static void leave_room_for_all() {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
  }
};

// One thread waits in a fault, another one listens, and the next one that waits needs one more.
TEST_F(FaultsOfTheKernel, ThreadsThatWereRefusedAreTriedAgain) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer takes all of the address space";
  dispatcher().stop();
  test::expect_in_child([] {
    have_large_stacks();
    leave_room_for(1);
    if (test::error_of([] { dispatcher().start(Engine::kUserfaultfd); }) != EAGAIN) return 1;
    if (dispatcher().running()) return 2;
    leave_room_for(2);
    dispatcher().start(Engine::kUserfaultfd);
    leave_room_for_all();
    BlockPool pool(test::small_blocks(8));
    test::Gate inside[2], begin[2], go_on;
    const auto waiting = [&](test::Gate& in) {
      return input_from_callback<char>(
          pool,
          [&](std::span<std::byte> block, std::uint64_t) {
            in.open();
            go_on.wait();
            return block.size();
          },
          {}, kBlockBytes);
    };
    auto first = waiting(inside[0]), second = waiting(inside[1]);
    auto quick = stream_of_bytes(pool, test::patterned_bytes(2 * kBlockBytes));
    std::vector<std::thread> threads;
    for (const std::size_t i : {0, 1}) {
      threads.emplace_back([&, i] {
        begin[i].wait();
        test::touch((i == 0 ? first : second).data());
      });
    }
    leave_room_for(0);
    begin[0].open();
    inside[0].wait();
    test::touch(quick.data());  // by the thread that was to stand by
    leave_room_for_all();
    begin[1].open();
    inside[1].wait();
    test::touch(quick.data() + kBlockBytes);
    go_on.open();
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
}

// Another thread stops the dispatcher again and again. A thread that has a region has a handler,
// whatever others stop meanwhile.
TYPED_TEST(FaultDispatch, StopNeverComesBetweenARegionAndItsHandler) {
  std::atomic<bool> done{false};
  std::thread stopper([&done] {
    while (!done) {
      try {
        dispatcher().stop();
      } catch (const Error& error) {
        EXPECT_EQ(error.code().value(), EBUSY);
      }
    }
  });
  for (int round = 0; round < 2000; ++round) {
    const TestRegion region(1);
    EXPECT_TRUE(dispatcher().running());
  }
  done = true;
  stopper.join();
}

// Regions come and go while other threads fault, in regions of theirs and in one that stays.
TYPED_TEST(FaultDispatch, RegionsComeAndGoWhileOthersFault) {
  constexpr std::size_t kPages = 64;
  constexpr int kRounds = 300;
  TestRegion stays(kPages);
  std::atomic<int> changers{2};
  std::atomic<std::uint64_t> stay_touches{0};
  test::run_together(4, [&](std::size_t thread) {
    if (thread < 2) {
      for (int round = 0; round < kRounds; ++round) {
        TestRegion comes(3);
        TestRegion goes(5);
        for (std::size_t page = 0; page < 3; ++page) {
          comes.data()[page * Pages::page_bytes()] = std::byte{1};
          goes.data()[page * Pages::page_bytes()] = std::byte{1};
        }
        EXPECT_EQ(comes.faults(), 3U);
        EXPECT_EQ(goes.faults(), 3U);
      }
      --changers;
      return;
    }
    // Each of the two has its half of the pages, and takes the permission back after each touch.
    while (changers > 0) {
      for (std::size_t page = thread - 2; page < kPages; page += 2) {
        stays.data()[page * Pages::page_bytes()] = std::byte{1};
        stays.pages().protect(page, PROT_NONE);
        ++stay_touches;
      }
    }
  });
  EXPECT_EQ(stays.faults(), stay_touches);
}

// remove() returns after the faults that are being served in the region.
TYPED_TEST(FaultDispatch, RemoveWaitsForFaultsBeingServed) {
  struct Slow final : FaultServer {
    bool serve(const Fault& fault, Failure&) noexcept override {
      inside.open();
      go_on.wait();
      Pages::allow(fault.address);
      served = true;
      return true;
    }
    void abandon(const Failure&) noexcept override {}
    test::Gate inside;
    test::Gate go_on;
    std::atomic<bool> served{false};
  } slow;
  Pages pages(1);
  Region region(pages.begin(), pages.bytes(), slow);
  dispatcher().add(region);
  std::thread reader([&] { *static_cast<volatile std::byte*>(pages.begin()) = std::byte{1}; });
  slow.inside.wait();
  std::atomic<bool> removing{false};
  std::thread remover([&] {
    removing = true;
    dispatcher().remove(region);
    EXPECT_TRUE(slow.served);
  });
  while (!removing) std::this_thread::yield();
  for (int chance = 0; chance < 1000; ++chance) std::this_thread::yield();
  slow.go_on.open();
  remover.join();
  reader.join();
}

std::atomic<std::uint64_t> async_signals{0};

// Another thread's signals arrive at any moment of this one, also inside its faults.
TYPED_TEST(FaultDispatch, AsynchronousSignals) {
  constexpr int kPasses = 100;
  BlockPool pool(test::small_blocks(2));
  async_signals = 0;
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = [](int) { async_signals.fetch_add(1); };
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> done{false};
  std::uint64_t wrong = 0;
  std::thread reader([&] {
    const auto data = test::patterned_bytes(20 * kBlockBytes);
    for (int pass = 0; pass < kPasses || async_signals == 0; ++pass) {
      auto stream = stream_of_bytes(pool, data);
      if (std::memcmp(stream.data(), data.data(), data.size()) != 0) ++wrong;
    }
    done = true;
  });
  while (!done) {
    ASSERT_EQ(pthread_kill(reader.native_handle(), SIGUSR1), 0);
    std::this_thread::yield();
  }
  reader.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(wrong, 0U);
}

}  // namespace

}  // namespace vortex::fault_dispatch_test
