// The form in which names and messages are given to a terminal.
#include "vortex/detail/stream/printable.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/support/random_seed.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"

namespace vortex::printable_test { namespace {

TEST(Printable, LeavesTextAlone) {
  for (const std::string text :
       {"", "plain", "it's a \"name\"\\", "größer", "日本語", "\U0001f600"}) {
    EXPECT_EQ(detail::printable(text), text);
  }
}

TEST(Printable, EscapesWhatTerminalsObey) {
  EXPECT_EQ(detail::printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(detail::printable("\x1b[2J\a\x7f"), "\\x1b[2J\\x07\\x7f");
  EXPECT_EQ(detail::printable(std::string("\0", 1)), "\\x00");
  // The second set of controls, by itself and as UTF-8.
  EXPECT_EQ(detail::printable("\x9b"
                              "2J"),
            "\\x9b"
            "2J");
  EXPECT_EQ(detail::printable("\xc2\x9b"
                              "2J"),
            "\\xc2\\x9b"
            "2J");
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(detail::printable("a\xff"), "a\\xff");
  EXPECT_EQ(detail::printable("gr\xc3"), "gr\\xc3");                // cut off
  EXPECT_EQ(detail::printable("\xc0\x8a"), "\\xc0\\x8a");           // a newline in two bytes
  EXPECT_EQ(detail::printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");  // and in three
  EXPECT_EQ(detail::printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(detail::printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, NeedsNoSecondTime) {
  auto random = test::test_random();
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string once = detail::printable(bytes);
    EXPECT_EQ(detail::printable(once), once);
    for (const char c : once) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

TEST(Printable, IsWhatErrorsAndFailuresSay) {
  EXPECT_EQ(std::string(Error(ENOENT, "open 'a\nb'").what()),
            "open 'a\\nb': No such file or directory");
  Failure failure;
  failure.error = EIO;
  failure.stream.text("a\x1b[2Jb");
  EXPECT_NE(failure.message().find("'a\\x1b[2Jb'"), std::string::npos) << failure.message();
  testing::internal::CaptureStderr();
  write_line("vortex: stream 'a\nb'");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "vortex: stream 'a\\nb'\n");
}

}  // namespace

}  // namespace vortex::printable_test
