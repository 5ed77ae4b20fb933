#include "vortex/thread/activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/threads.h"
namespace vortex::activity_test { namespace {

void let_the_clock_move() {
  const std::uint64_t now = steady_now_ns();
  while (steady_now_ns() < now + 1000) {
  }
}

// The counts of a phase in which nothing changes.
ActivityLog::Totals totals_of_a_phase(ActivityLog& log, unsigned phase) {
  const ActivityLog::Totals before = log.totals(phase);
  log.begin_phase(phase);
  let_the_clock_move();
  log.begin_phase(phase == 0 ? 1 : 0);
  const ActivityLog::Totals after = log.totals(phase);
  return {after.all_ns - before.all_ns,
          after.disks_ns - before.disks_ns,
          after.threads_ns - before.threads_ns,
          after.both_ns - before.both_ns,
          after.sum_disks_ns - before.sum_disks_ns,
          after.sum_threads_ns - before.sum_threads_ns};
}

void expect_working(ActivityLog& log, unsigned disks, unsigned threads) {
  for (unsigned phase = 0; phase < ActivityLog::kPhases; ++phase) {
    const ActivityLog::Totals totals = totals_of_a_phase(log, phase);
    const std::uint64_t all = totals.all_ns;
    EXPECT_GT(all, 0);
    EXPECT_EQ(totals.disks_ns, disks > 0 ? all : 0);
    EXPECT_EQ(totals.threads_ns, threads > 0 ? all : 0);
    EXPECT_EQ(totals.both_ns, disks > 0 && threads > 0 ? all : 0);
    EXPECT_EQ(totals.sum_disks_ns, disks * all);
    EXPECT_EQ(totals.sum_threads_ns, threads * all);
  }
}

TEST(ActivityLog, CountsWhatWorksAtOnce) {
  ActivityLog log;
  expect_working(log, 0, 0);
  log.disk_begins();
  expect_working(log, 1, 0);
  log.thread_begins();
  log.thread_begins();
  expect_working(log, 1, 2);
  log.disk_begins();
  log.thread_ends();
  expect_working(log, 2, 1);
  log.disk_ends();
  log.disk_ends();
  expect_working(log, 0, 1);
  log.thread_ends();
  expect_working(log, 0, 0);
}

TEST(ActivityLog, AThreadThatWaitsDoesNotWork) {
  ActivityLog log;
  EXPECT_EQ(Working::log(), nullptr);
  { const Waiting for_no_log; }
  {
    const Working working(&log, "one");
    EXPECT_EQ(Working::log(), &log);
    expect_working(log, 0, 1);
    {
      const Waiting outer;
      const Waiting inner;
      expect_working(log, 0, 0);
    }
    expect_working(log, 0, 1);
    std::thread([&] {
      EXPECT_EQ(Working::log(), nullptr);
      const Working other(&log, "other");
      const Waiting waiting;
      expect_working(log, 0, 1);
    }).join();
    expect_working(log, 0, 1);
  }
  EXPECT_EQ(Working::log(), nullptr);
  expect_working(log, 0, 0);
  const Working for_no_log(nullptr, "none");
  EXPECT_EQ(Working::log(), nullptr);
}

TEST(ActivityLog, KeepsSpansOfItsThreads) {
  ActivityLog log(100);
  const std::uint64_t begin = steady_now_ns();
  { const WorkSpan for_no_log(SpanKind::kSort); }
  {
    const Working working(&log, "one", 1);
    const WorkSpan outer(SpanKind::kMerge);
    const WorkSpan inner(SpanKind::kFault);
    const Waiting waiting;
  }
  std::thread([&] {
    const Working working(&log, "one", 2);
    const WorkSpan span(SpanKind::kSort);
  }).join();
  {
    const Working again(&log, "one", 1);
    const WorkSpan span(SpanKind::kPartition);
  }
  const std::uint64_t end = steady_now_ns();
  ASSERT_EQ(log.tracks().size(), 2);
  EXPECT_EQ(log.tracks()[0].number, 1);
  EXPECT_EQ(log.tracks()[1].number, 2);
  const auto spans = log.spans();
  ASSERT_EQ(spans.size(), 5);
  const std::vector<SpanKind> kinds = {SpanKind::kWait, SpanKind::kFault, SpanKind::kMerge,
                                       SpanKind::kSort, SpanKind::kPartition};
  const std::vector<std::uint32_t> tracks = {0, 0, 0, 1, 0};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].kind, kinds[i]);
    EXPECT_EQ(spans[i].track, tracks[i]);
    EXPECT_LE(begin, spans[i].begin_ns);
    EXPECT_LE(spans[i].begin_ns, spans[i].end_ns);
    EXPECT_LE(spans[i].end_ns, end);
  }
  // One within the other.
  EXPECT_LE(spans[2].begin_ns, spans[1].begin_ns);
  EXPECT_LE(spans[1].end_ns, spans[2].end_ns);
}

TEST(ActivityLog, CountsSpansThatFindNoRoom) {
  ActivityLog log(1000);
  test::run_together(4, [&log](std::size_t i) {
    const Working working(&log, "thread", static_cast<unsigned>(i));
    for (unsigned span = 0; span < 300; ++span) const WorkSpan work(SpanKind::kSort);
  });
  EXPECT_EQ(log.spans().size(), 1000);
  EXPECT_EQ(log.spans_lost(), 200);
  EXPECT_TRUE(std::all_of(log.spans().begin(), log.spans().end(),
                          [](const Span& span) { return span.begin_ns <= span.end_ns; }));
}

TEST(ActivityLog, KeepsNoSpansUnlessAskedTo) {
  ActivityLog log;
  EXPECT_FALSE(log.traces());
  const Working working(&log, "one");
  { const WorkSpan span(SpanKind::kSort); }
  EXPECT_TRUE(log.spans().empty());
  EXPECT_EQ(log.spans_lost(), 0);
}

}  // namespace

}  // namespace vortex::activity_test
