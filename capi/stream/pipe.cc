// The two ends of a pipeline as arrays of the C interface.
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "capi/stream/input_output.h"
#include "capi/stream/pool.h"
#include "vortex/pipeline.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

class PipeInput final : public StreamInput {
 public:
  explicit PipeInput(PipelineReader<std::byte> reader)
      : StreamInput(reader.stream()), reader_(std::move(reader)) {}

  void wait_for_length() override { reader_.wait_size(); }

 private:
  PipelineReader<std::byte> reader_;  // the stream stays where it is when this is moved
};

class PipeOutput final : public vtx_output {
 public:
  explicit PipeOutput(PipelineWriter<std::byte> writer) : writer_(std::move(writer)) {}

  OutputStreamBase& stream() noexcept override { return writer_.stream(); }

 private:
  PipelineWriter<std::byte> writer_;
};

}  // namespace

}}}  // namespace vortex::v0::capi

int vtx_pipe_create(const vtx_pipe_options* options, vtx_output** writer, vtx_input** reader) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    expect_place(writer);
    expect_place(reader);
    auto wanted = options_of<vortex::PipelineOptions>(options);
    if (options != nullptr && options->exact != 0) wanted.stale_blocks = 0;
    vortex::Pipeline<std::byte> pipeline(wanted);
    auto input = std::make_unique<PipeInput>(pipeline.reader());
    auto output = std::make_unique<PipeOutput>(pipeline.writer());
    *reader = input.release();
    *writer = output.release();
  });
}
