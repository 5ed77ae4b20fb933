// Schedules of streams: who touches what when.
#include "tests/fuzz/targets.h"
#include "tests/vortex/pipeline_model.h"
#include "tests/vortex/stream_model.h"

namespace vortex::test {

void fuzz_stream_schedules(std::string_view input) {
  FuzzedBytes bytes(input);
  const unsigned kind = bytes.below(3);
  const Placing placing = bytes.flag() ? Placing::kAliases : Placing::kMoves;
  if (kind == 0) {
    stream_model_test::run_input_case(bytes, placing);
  } else if (kind == 1) {
    stream_model_test::run_output_case(bytes, placing);
  } else {
    pipeline_model_test::run_plan(
        pipeline_model_test::random_plan(bytes, placing == Placing::kMoves));
  }
}

}  // namespace vortex::test
