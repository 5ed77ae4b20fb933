// Calls that fail in a child that is forked while a stream lives, in which holes take the place of
// the stream's memory: the child ends by itself, and the parent's stream goes on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "tests/support/environment.h"
#include "tests/trust/call_tracer.h"
#include "vortex/pipeline.h"

namespace vortex::test::forked_child_failures_test { namespace {

constexpr std::size_t kBlock = std::size_t{16} << 10;

// In the traced process: 0, or where it went wrong.
int fork_with_a_stream(CallLedger& ledger, std::uint64_t at, bool lasting) {
  Pipeline<std::uint64_t> pipeline({.block_bytes = kBlock, .reserve_bytes = 64 * kBlock});
  auto in = pipeline.reader();
  auto out = pipeline.writer();
  out.data()[0] = 7;
  ledger.arm(at, lasting);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  ledger.disarm();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  out.data()[1] = 8;
  out.finish(2);
  return in.data()[0] == 7 && in.data()[1] == 8 ? 0 : 2;
}

TEST(ForkedChildFailures, EndNeitherChildNorStream) {
  CallTracer tracer;
  if (const std::string refusal = tracer.refusal(); !refusal.empty()) {
    END_TEST_WITHOUT(Environment::kSeccomp, refusal);
  }
  CallLedger& ledger = tracer.ledger();
  for (const std::string name : {"msync", "mmap", "munmap", "madvise"}) {
    for (const bool lasting : {false, true}) {
      for (std::uint64_t at = 1;; ++at) {
        const TracedEnd end =
            tracer.run({kind_of(name)}, [&] { return fork_with_a_stream(ledger, at, lasting); });
        EXPECT_TRUE(end.exited_with(0)) << name << ' ' << at << (lasting ? " and all later" : "")
                                        << ": status " << end.status << end.waits;
        if (ledger.failed == 0) break;
      }
      if (name == "msync") {
        EXPECT_NE(ledger.seen[kind_of(name)], 0U);
      }
    }
  }
}

}  // namespace

}  // namespace vortex::test::forked_child_failures_test
