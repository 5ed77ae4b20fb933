// The two ends of a pipeline as arrays of the C interface.
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "capi/stream/input.h"
#include "capi/stream/output.h"
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

PipelineOptions options_of(const vtx_pipe_options& wanted) {
  PipelineOptions options;
  if (wanted.name != nullptr) options.name = wanted.name;
  options.pool = blocks_of(wanted.pool);
  set_unless_zero(options.block_bytes, wanted.block_bytes);
  set_unless_zero(options.read_ahead_blocks, wanted.read_ahead_blocks);
  set_unless_zero(options.writer_comeback_blocks, wanted.writer_comeback_blocks);
  set_unless_zero(options.reader_comeback_blocks, wanted.reader_comeback_blocks);
  if (wanted.length_bytes != 0) options.length_bytes = wanted.length_bytes;
  if (wanted.in_place != 0) options.handover = Handover::kInPlace;
  if (wanted.zero_gaps != 0) options.gaps = Gaps::kZeros;
  return options;
}

}  // namespace

}}}  // namespace vortex::v0::capi

int vtx_pipe_create(const vtx_pipe_options* options, vtx_output** writer, vtx_input** reader) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    expect_place(writer);
    expect_place(reader);
    vortex::Pipeline<std::byte> pipeline(
        options_of(options != nullptr ? *options : vtx_pipe_options{}));
    auto input = std::make_unique<PipeInput>(pipeline.reader());
    auto output = std::make_unique<PipeOutput>(pipeline.writer());
    *reader = input.release();
    *writer = output.release();
  });
}
