#include "capi/input.h"

#include <cerrno>

#include "vortex/error.h"

using vortex::capi::answer;

const void* vtx_input_data(const vtx_input* input) { return input->bytes(); }

int vtx_input_length(const vtx_input* input, uint64_t* bytes) {
  return answer(*input, [&] {
    const std::optional<std::uint64_t> length = input->length_bytes();
    if (!length) throw vortex::Error(EAGAIN, "the length of the data is known at their end");
    *bytes = *length;
  });
}

int vtx_input_wait_length(vtx_input* input, uint64_t* bytes) {
  const int error = answer(*input, [&] { input->wait_for_length(); });
  return error != 0 ? error : vtx_input_length(input, bytes);
}

int vtx_input_prefault(vtx_input* input, uint64_t offset, size_t bytes) {
  return answer(*input, [&] { input->prefault(offset, bytes); });
}

int vtx_input_failure(vtx_input* input) {
  return answer(*input, [&] { input->stream().failure().throw_if_failed(); });
}

void vtx_input_cancel(vtx_input* input, int error, const char* cause) {
  input->stream().cancel(error, cause);
}

void vtx_input_close(vtx_input* input) { delete input; }
