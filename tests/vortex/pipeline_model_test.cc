// Two threads at random, against a plain array.
#include "tests/vortex/pipeline_model.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/vortex/placing.h"

namespace vortex::pipeline_model_test { namespace {

int cases() { return test::long_tests() ? 20000 : test::kShadowMemory ? 200 : 800; }

void run_schedules(int count, bool moves_only) {
  std::mt19937_64 random = test::test_random();
  for (int i = 0; i < count; ++i) {
    const Plan plan = random_plan(random, moves_only);
    run_plan(plan);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "case " << i << ": N " << plan.n << " L " << plan.l << " M " << plan.m
        << (plan.kind == PoolKind::kAliases ? " aliases" : " moves") << ", stale "
        << plan.stale_blocks << ", words " << plan.words << ", writer's end "
        << static_cast<int>(plan.writer_end) << " after " << plan.writer_until << ", reader's end "
        << static_cast<int>(plan.reader_end) << " after " << plan.reader_until;
  }
}

TEST(PipelineModelTest, RandomSchedules) {
  const test::FaultsBy signals(test::signal_engine());
  run_schedules(cases(), false);
}

TEST(PipelineModelTest, RandomSchedulesByUserfaultfd) {
  const test::FaultsBy faults(Engine::kUserfaultfd);
  END_TEST_IF_REFUSED(faults);
  run_schedules(cases() / 4, true);
}

}  // namespace

}  // namespace vortex::pipeline_model_test
