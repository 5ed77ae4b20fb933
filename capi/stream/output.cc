#include "capi/stream/output.h"

#include "capi/stream/stream_error.h"

using vortex::capi::answer;

void* vtx_output_data(vtx_output* output) { return output->stream().bytes(); }

int vtx_output_finish(vtx_output* output, uint64_t bytes) {
  return answer(*output, [&] { output->stream().finish_bytes(bytes); });
}

int vtx_output_prefault(vtx_output* output, uint64_t offset, size_t bytes) {
  return answer(*output, [&] { output->stream().prefault(offset, bytes); });
}

int vtx_output_failure(vtx_output* output) {
  return vortex::capi::failure_of(*output, output->stream());
}

void vtx_output_cancel(vtx_output* output, int error, const char* cause) {
  vortex::capi::cancel(output->stream(), error, cause);
}

void vtx_output_close(vtx_output* output) { delete output; }
