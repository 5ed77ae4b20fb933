// The message and the end of a process whose fault cannot be served while nobody asked for the
// error.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "vortex/block_pool.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

namespace vortex::fault_diagnostics_test { namespace {

using test::action_of;
using test::failing_at;
using test::Pages;
using test::touch;

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr std::size_t kBlockBytes = kMinBlockBytes;
constexpr Status kOnFire = {EIO, "the disk is on fire"};

// Takes what the pool has, without having been guaranteed it.
class GreedySource final : public Source {
 public:
  explicit GreedySource(BlockPool& pool) : quota_(pool, 1, BlockQuota::kNoMaximum, "greedy") {}

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return 100; }
  Taken take(std::uint64_t, std::uint64_t) noexcept override {
    const auto [block, error] = quota_.try_take();
    if (error != 0) return {{}, 0, {error, "no block left in the pool"}};
    return {block, kBlockBytes, {}};
  }
  void release(std::uint64_t, Block block) noexcept override { quota_.give_back(block); }
  std::optional<std::uint64_t> length() const noexcept override { return 100 * kBlockBytes; }

 private:
  BlockQuota quota_;
};

Status long_status() {
  static const std::string cause(5000, 'c');
  return {EIO, cause.c_str()};
}

template <typename EngineType>
class FaultDiagnostics : public test::EngineTest<EngineType> {
 protected:
  void SetUp() override {
    test::EngineTest<EngineType>::SetUp();
    if (this->IsSkipped()) return;
    // Sanitizers have handlers of their own, which end the process in their own way.
    start_behind(action_of(SIG_DFL));
  }

  void TearDown() override {
    pool_.reset();
    test::EngineTest<EngineType>::TearDown();
  }

  // The pool is for the engine that runs when it is made.
  void start_behind(const struct sigaction& action) {
    pool_.reset();
    test::EngineTest<EngineType>::start_behind(action);
    // Without a thread that warms it: the thread sanitizer takes one that is left for a leak.
    pool_.emplace(BlockPoolOptions{
        .pool_bytes = 8 * kBlockBytes, .block_bytes = kBlockBytes, .warming = Warming::kEager});
  }

  // 50 full blocks, and half a one.
  InputStream<char> input(
      std::shared_ptr<test::SourceScript> script = std::make_shared<test::SourceScript>()) {
    return test::stream_of_bytes(*pool_, test::patterned_bytes(50 * kBlockBytes + kBlockBytes / 2),
                                 {.name = "words", .comeback_blocks = 2}, std::move(script));
  }

  // The line is all there is: nothing before it, nothing after it.
  template <typename Body>
  void expect_line(Body body, const std::string& line) {
    EXPECT_EXIT(body(), KilledBySignal(this->kSignal), "^vortex: stream " + line + "\n$");
  }

  std::optional<BlockPool> pool_;
};
TYPED_TEST_SUITE(FaultDiagnostics, test::AllEngines, test::EngineNames);

TYPED_TEST(FaultDiagnostics, SourceFails) {
  this->expect_line(
      [this] {
        auto stream = this->input(failing_at(7, kOnFire));
        for (std::size_t i = 0; i < 51; ++i) touch(stream.data() + i * kBlockBytes + 3);
      },
      "'words': the disk is on fire \\(offset 114691, block 7, window of blocks "
      "\\[5, 8\\)\\): Input/output error");
}

TYPED_TEST(FaultDiagnostics, ReadPastTheEnd) {
  this->expect_line(
      [this] {
        auto stream = this->input();
        // The filler reaches to the end of the last page, and a page further.
        for (std::size_t i = 0; i < 51; ++i) touch(stream.data() + i * kBlockBytes);
        touch(stream.data() + 50 * kBlockBytes + kBlockBytes / 2);
        touch(stream.data() + 51 * kBlockBytes + Pages::page_bytes());
      },
      "'words': a read past the end of the data, which are 827392 bytes long "
      "\\(offset 839680, block 51, window of blocks \\[48, 51\\)\\): Numerical result out of "
      "range");
}

TYPED_TEST(FaultDiagnostics, ReadBehindTheWindow) {
  this->expect_line(
      [this] {
        auto stream = this->input();
        touch(stream.data() + 10 * kBlockBytes);
        touch(stream.data() + 9 * kBlockBytes);
        touch(stream.data() + 8 * kBlockBytes - 1);
      },
      "'words': a read behind the window: raise the comeback \\(M\\) "
      "\\(offset 131071, block 7, window of blocks \\[8, 11\\)\\): Bad address");
}

#if defined(__x86_64__) || defined(__i386__)
TYPED_TEST(FaultDiagnostics, WriteToAnInputStream) {
  this->expect_line(
      [this] {
        auto stream = this->input();
        *const_cast<volatile char*>(stream.data() + 2) = 1;
      },
      "'words': a write to a stream that is read "
      "\\(offset 2, block 0, window of blocks \\[0, 0\\)\\): Permission denied");
}

TYPED_TEST(FaultDiagnostics, ReadOfWhatWasNeverWritten) {
  this->expect_line(
      [this] {
        auto stream = test::stream_into(
            *this->pool_, test::sink_script(0),
            {.name = "out", .reserve_bytes = 8 * kBlockBytes, .least_reserve_bytes = 1});
        touch(stream.data());
      },
      "'out': a read of a block that was never written "
      "\\(offset 0, block 0, window of blocks \\[0, 0\\)\\): Bad address");
}
#endif

TYPED_TEST(FaultDiagnostics, PoolExhausted) {
  this->expect_line(
      [this] {
        InputStream<char> stream(std::make_unique<GreedySource>(*this->pool_),
                                 {.name = "greedy", .comeback_blocks = 20});
        for (std::size_t i = 0; i < 20; ++i) touch(stream.data() + i * kBlockBytes);
      },
      "'greedy': no block left in the pool "
      "\\(offset 131072, block 8, window of blocks \\[0, 9\\)\\): Resource temporarily "
      "unavailable");
}

TYPED_TEST(FaultDiagnostics, ACallbackThatReadsItsOwnStream) {
  this->expect_line(
      [this] {
        const char* data = nullptr;
        auto stream = input_from_callback<char>(
            *this->pool_,
            [&data](std::span<std::byte> block, std::uint64_t) {
              touch(data + kBlockBytes);
              return block.size();
            },
            {.name = "ouroboros"}, 4 * kBlockBytes);
        data = stream.data();
        touch(data);
      },
      "'ouroboros': a callback inside a fault of this stream touched the same "
      "stream \\(offset 16384, block 1, window of blocks \\[0, 1\\)\\): Resource deadlock "
      "avoided");
}

// A stream fails inside the fault of another: the line is that of the one that failed.
TYPED_TEST(FaultDiagnostics, InsideAFaultOfAnotherStream) {
  this->expect_line(
      [this] {
        auto inner = this->input(failing_at(0));
        auto outer = input_from_callback<char>(
            *this->pool_,
            [&inner](std::span<std::byte> block, std::uint64_t) {
              touch(inner.data());
              return block.size();
            },
            {.name = "outer"}, 4 * kBlockBytes);
        touch(outer.data());
      },
      std::string(TypeParam::kEngine == Engine::kUserfaultfd
                      ? "'outer': a callback inside its fault failed on stream "
                      : "") +
          "'words': the test says so \\(offset 0, block 0, window of blocks \\[0, 1\\)\\): "
          "Input/output error");
}

// Longer than any buffer: cut, and still a line.
TYPED_TEST(FaultDiagnostics, LongNames) {
  this->expect_line(
      [this] {
        auto stream =
            test::stream_of_bytes(*this->pool_, test::patterned_bytes(100),
                                  {.name = std::string(5000, 'n')}, failing_at(0, long_status()));
        touch(stream.data());
      },
      "'n{63}': c{511} \\(offset 0, .*error");
}

void report_and_exit(int signal, siginfo_t* info, void* context) {
  std::fprintf(stderr, "signal %d at %d of the page with%s context\n", signal,
               static_cast<int>(reinterpret_cast<std::uintptr_t>(info->si_addr) % 4096),
               context != nullptr ? "" : "out");
  _exit(42);
}

// A crash reporter that was there before us gets its crash, after the line.
TYPED_TEST(FaultDiagnostics, TheEarlierHandlerIsCalledAfterTheLine) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&report_and_exit));
        auto stream = this->input(failing_at(0));
        touch(stream.data() + 77);
      },
      ExitedWithCode(42),
      "^vortex: stream 'words': the test says so .*\nsignal " + std::to_string(this->kSignal) +
          " at 77 of the page with context\n$");
}

// One that thinks it has mended the matter cannot make the process fault for ever.
TYPED_TEST(FaultDiagnostics, AnEarlierHandlerThatReturnsDoesNotStopTheEnd) {
  this->expect_line(
      [this] {
        this->start_behind(action_of([](int) { std::fprintf(stderr, "handled\n"); }));
        auto stream = this->input(failing_at(0));
        touch(stream.data());
      },
      "'words': .*\nhandled");
}

}  // namespace

}  // namespace vortex::fault_diagnostics_test
