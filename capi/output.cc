#include "capi/output.h"

using vortex::capi::answer;

void* vtx_output_data(vtx_output* output) { return output->stream().bytes(); }

int vtx_output_finish(vtx_output* output, uint64_t bytes) {
  return answer(*output, [&] { output->stream().finish_bytes(bytes); });
}

int vtx_output_prefault(vtx_output* output, uint64_t offset, size_t bytes) {
  return answer(*output, [&] { output->stream().prefault(offset, bytes); });
}

int vtx_output_failure(vtx_output* output) {
  return answer(*output, [&] { output->stream().failure().throw_if_failed(); });
}

void vtx_output_cancel(vtx_output* output, int error, const char* cause) {
  output->stream().cancel(error, cause);
}

void vtx_output_close(vtx_output* output) { delete output; }
