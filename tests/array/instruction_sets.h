// The sets of instructions that sorts have code for.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

#include "vortex/detail/array/small_sort.h"

namespace vortex::test {

// Calls body() once with each of them that the processor has, until it fails, and puts the best in
// use again.
template <typename Body>
void for_each_isa(Body body) {
  for (const detail::Isa isa : {detail::Isa::kPortable, detail::Isa::kAvx2, detail::Isa::kAvx512}) {
    if (!detail::use_isa(isa)) {
      std::printf("this processor has no %s: not tested\n", detail::isa_name(isa));
      continue;
    }
    SCOPED_TRACE(detail::isa_name(isa));
    body();
    if (testing::Test::HasFatalFailure()) break;
  }
  detail::use_isa(detail::best_isa());
}

}  // namespace vortex::test
