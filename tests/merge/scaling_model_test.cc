// The model of a phase with several threads, against the phase itself, record by record.
#include "study/scaling_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random_seed.h"

namespace vortex::test::scaling_model_test { namespace {

ScaledPhase with(const ScalingPhase& phase, unsigned threads) {
  return scaled(phase, {threads, threads});
}

TEST(ScalingModel, NamesWhatLimits) {
  const ScalingPhase phase{{{.name = "partition", .seconds = 4, .most_threads = 2},
                            {.name = "sort", .seconds = 12, .disk_bytes = 20},
                            {.name = "pass on", .seconds = 1, .most_threads = 1}}};
  EXPECT_EQ(with(phase, 1).seconds, 17);
  EXPECT_EQ(with(phase, 1).limit, "threads");
  EXPECT_EQ(with(phase, 2).seconds, 8.5);
  EXPECT_EQ(with(phase, 16).seconds, 2);
  EXPECT_EQ(with(phase, 16).limit, "partition");
  EXPECT_EQ(scaled(phase, {16, 16, 4}).seconds, 5);
  EXPECT_EQ(scaled(phase, {16, 16, 4}).limit, "disks");
  EXPECT_EQ(scaled(phase, {2, 2, 4}).limit, "threads");
}

TEST(ScalingModel, ThreadsOfDisksWorkBesideThoseOfTheSort) {
  const ScalingPhase phase{
      {{.name = "sort", .seconds = 6},
       {.name = "copies", .seconds = 5, .most_threads = 1, .is_of_disks = true}}};
  EXPECT_EQ(scaled(phase, {1, 2}).seconds, 6);
  EXPECT_EQ(with(phase, 1).seconds, 11);
  EXPECT_EQ(with(phase, 1).limit, "processors");
  EXPECT_EQ(with(phase, 4).seconds, 5);
  EXPECT_EQ(with(phase, 4).limit, "copies");
}

TEST(ScalingModel, AStepThatInterruptsAllTakesLongerTheMoreThereAre) {
  const ScalingPhase phase{
      {{.name = "sort", .seconds = 8},
       {.name = "moves", .seconds = 1, .most_threads = 1, .seconds_of_thread = 0.25}}};
  EXPECT_EQ(with(phase, 1).seconds, 9);
  EXPECT_EQ(with(phase, 9).seconds, 3);
  EXPECT_EQ(with(phase, 9).limit, "moves");
  EXPECT_GT(with(phase, 17).seconds, with(phase, 9).seconds);
}

// One thread partitions while the disk reads, then sorts while it writes; two do both at once.
TEST(ScalingModel, OneThreadEndsAStageBeforeTheNext) {
  const ScalingPhase phase{
      {{.name = "partition", .seconds = 2},
       {.name = "reading", .seconds = 3, .most_threads = 1, .is_of_disks = true},
       {.name = "sort", .seconds = 4, .stage = 1},
       {.name = "writing", .seconds = 1, .most_threads = 1, .is_of_disks = true, .stage = 1}}};
  EXPECT_EQ(scaled(phase, {1, 2}).seconds, 3 + 4);
  EXPECT_EQ(scaled(phase, {1, 2}).limit, "threads");
  EXPECT_EQ(scaled(phase, {1, 1}).seconds, 2 + 3 + 4 + 1);
  EXPECT_EQ(scaled(phase, {2, 4}).seconds, 3);
  EXPECT_EQ(scaled(phase, {2, 4}).limit, "reading");
  EXPECT_EQ(scaled(phase, {2, 2}).seconds, 5);
  for (const unsigned threads : {1U, 2U, 7U}) {
    EXPECT_EQ(scaled(phase, {threads, 2}).processor_seconds, 10);
  }
}

TEST(ScalingModel, IdleSecondsAreNoWork) {
  const ScalingPhase phase{{{.name = "sort", .seconds = 2},
                            {.name = "copies",
                             .seconds = 4,
                             .most_threads = 1,
                             .is_of_disks = true,
                             .idle_seconds = 1}}};
  EXPECT_EQ(with(phase, 2).seconds, 4);
  EXPECT_EQ(with(phase, 1).seconds, 6);
  EXPECT_EQ(with(phase, 1).processor_seconds, 5);
}

TEST(ScalingModel, StagesTransferWhatIsTheirs) {
  const ScalingPhase phase{{{.name = "partition", .seconds = 2, .disk_bytes = 6},
                            {.name = "sort", .seconds = 4, .disk_bytes = 6, .stage = 1}}};
  EXPECT_EQ(scaled(phase, {1, 1, 2}).seconds, 3 + 4);
  EXPECT_EQ(scaled(phase, {2, 2, 2}).seconds, 6);
  EXPECT_EQ(scaled(phase, {2, 2, 2}).limit, "disks");
}

TEST(ScalingModel, WhatIsDoneAloneIsAdded) {
  const ScalingPhase phase{{{.name = "merge", .seconds = 8}}, 2};
  EXPECT_EQ(with(phase, 1).seconds, 10);
  EXPECT_EQ(with(phase, 2).seconds, 6);
  EXPECT_EQ(with(phase, 2).limit, "threads");
  EXPECT_EQ(with(phase, 8).seconds, 3);
  EXPECT_EQ(with(phase, 8).limit, "one thread");
  EXPECT_EQ(with(phase, 8).processor_seconds, 10);
}

// Records go from step to step, first come first served, with as many threads as the phase has:
// time by time, whoever is free takes a record of the last step that has one and room.
double simulated(const std::vector<unsigned>& units, const std::vector<unsigned>& most,
                 unsigned threads, unsigned records) {
  const std::size_t steps = units.size();
  std::vector<unsigned> waiting(steps, 0), working(steps, 0);
  waiting[0] = records;
  std::vector<std::pair<unsigned, std::size_t>> busy;  // left, and at which step
  unsigned done = 0, time = 0;
  while (done < records) {
    for (std::size_t step = steps; step-- > 0;) {
      while (busy.size() < threads && waiting[step] > 0 &&
             (most[step] == 0 || working[step] < most[step])) {
        --waiting[step];
        ++working[step];
        busy.emplace_back(units[step], step);
      }
    }
    ++time;
    for (auto& [left, step] : busy) --left;
    std::erase_if(busy, [&](const auto& work) {
      if (work.first > 0) return false;
      --working[work.second];
      work.second + 1 == steps ? ++done : ++waiting[work.second + 1];
      return true;
    });
  }
  return time;
}

TEST(ScalingModel, IsTheTimeOfRecordsThatGoFromStepToStep) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    constexpr unsigned kRecords = 400;
    const std::size_t steps = 1 + random() % 4;
    const unsigned threads = 1 + random() % 20;
    std::vector<unsigned> units, most;
    ScalingPhase phase;
    for (std::size_t i = 0; i < steps; ++i) {
      units.push_back(1 + random() % 8);
      most.push_back(random() % 5);
      phase.steps.push_back({.name = std::to_string(i),
                             .seconds = 1.0 * units[i] * kRecords,
                             .most_threads = most[i]});
    }
    const double model = with(phase, threads).seconds;
    const double time = simulated(units, most, threads, kRecords);
    EXPECT_GE(time, model);
    // Pipelines that fill and empty, and threads that take a record while the step that limits
    // wants one.
    EXPECT_LE(time, 1.5 * model + 100) << steps << " steps, " << threads << " threads";
  }
}

}  // namespace

}  // namespace vortex::test::scaling_model_test
