#include "capi/stream/input_output.h"

#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "vortex/error.h"
#include "vortex/pipeline.h"

using vortex::capi::answer;

const void* vtx_input_data(const vtx_input* input) { return input->bytes(); }

int vtx_input_length(const vtx_input* input, uint64_t* bytes) {
  return answer(*input, [&] {
    vortex::capi::expect_place(bytes);
    const std::optional<std::uint64_t> length = input->length_bytes();
    if (!length) throw vortex::Error(EAGAIN, "the length of the data is known at their end");
    *bytes = *length;
  });
}

int vtx_input_wait_length(vtx_input* input, uint64_t* bytes) {
  const int error = answer(*input, [&] {
    vortex::capi::expect_place(bytes);
    input->wait_for_length();
  });
  return error != 0 ? error : vtx_input_length(input, bytes);
}

int vtx_input_readable(vtx_input* input, uint64_t offset, uint64_t* end) {
  return answer(*input, [&] {
    vortex::capi::expect_place(end);
    std::uint64_t readable = 0;
    vortex::guarded([&] { readable = input->readable_bytes(offset); }).throw_if_failed();
    *end = readable;
  });
}

int vtx_input_prefault(vtx_input* input, uint64_t offset, size_t bytes) {
  return answer(*input, [&] { input->prefault(offset, bytes); });
}

int vtx_input_will_need(vtx_input* input, uint64_t offset, uint64_t bytes) {
  return answer(*input, [&] { input->will_need(offset, bytes); });
}

const void* vtx_input_home(vtx_input* input, const void* at) { return input->home_of(at); }

DEFINE_STREAM_CALLS(input)
DEFINE_FILLER_CALLS(input)

void* vtx_output_data(vtx_output* output) { return output->stream().bytes(); }

int vtx_output_finish(vtx_output* output, uint64_t bytes) {
  return answer(*output, [&] { output->stream().finish_bytes(bytes); });
}

int vtx_output_prefault(vtx_output* output, uint64_t offset, size_t bytes) {
  return answer(*output, [&] { output->stream().prefault(offset, bytes); });
}

const void* vtx_output_home(vtx_output* output, const void* at) {
  return output->stream().home_of(at);
}

DEFINE_STREAM_CALLS(output)
DEFINE_FILLER_CALLS(output)

// ---- The two ends of a pipeline.

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
