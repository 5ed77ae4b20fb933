// A wild pointer in a program that was built with address sanitizer gives its report, streams or
// not.
#include <gtest/gtest.h>

#include <memory>

#include "tests/fault/engine_suite.h"
#include "tests/support/memory_source.h"
#include "tests/support/sanitizers.h"
#include "vortex/input_stream.h"

namespace vortex::asan_report_test { namespace {

constexpr std::size_t kBlockBytes = kMinBlockBytes;
constexpr const char kReport[] = "AddressSanitizer: SEGV on unknown address 0x0{8,}1230";

__attribute__((noinline)) void touch_wildly() {
  volatile std::uintptr_t address = 0x1230;
  *reinterpret_cast<volatile char*>(address) = 1;
}

template <typename EngineType>
class AsanReport : public test::EngineTest<EngineType> {
 protected:
  void SetUp() override {
    if (!test::kAddressSanitizer) {
      GTEST_SKIP() << "not applicable: this build has no address sanitizer, whose report is tested";
    }
    test::EngineTest<EngineType>::SetUp();
  }

  InputStream<char> stream() {
    return test::stream_of_bytes(pool_, test::patterned_bytes(4 * kBlockBytes));
  }

  BlockPool pool_{test::small_blocks(8)};
};
TYPED_TEST_SUITE(AsanReport, test::SignalEngines, test::EngineNames);

TYPED_TEST(AsanReport, WithoutStreams) { EXPECT_DEATH(touch_wildly(), kReport); }

TYPED_TEST(AsanReport, WithStreamsAlive) {
  EXPECT_DEATH(
      {
        auto alive = this->stream();
        test::touch(alive.data() + kBlockBytes);
        touch_wildly();
      },
      kReport);
}

TYPED_TEST(AsanReport, AfterStreamsHaveGone) {
  EXPECT_DEATH(
      {
        { test::touch(this->stream().data()); }
        touch_wildly();
      },
      kReport);
}

TYPED_TEST(AsanReport, InsideACallback) {
  EXPECT_DEATH(
      {
        auto wild = input_from_callback<char>(
            this->pool_,
            [](std::span<std::byte> block, std::uint64_t) {
              touch_wildly();
              return block.size();
            },
            {}, kBlockBytes);
        test::touch(wild.data());
      },
      kReport);
}

TYPED_TEST(AsanReport, BehindAStreamsError) {
  EXPECT_DEATH(
      {
        auto alive = this->stream();
        *const_cast<volatile char*>(alive.data()) = 1;
      },
      "vortex: stream 'input': a write to a stream that is read(.|\n)*AddressSanitizer: SEGV on "
      "unknown address");
}

}  // namespace

}  // namespace vortex::asan_report_test
