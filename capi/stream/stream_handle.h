// A handle that a stream is behind: its error, its counts, and how another thread ends it.
#pragma once

#include <cerrno>
#include <utility>
#include <vector>

#include "capi/stream/handle.h"
#include "capi/stream/stream_fields.h"
#include "vortex/c.h"
#include "vortex/stream.h"

namespace vortex { inline namespace v0 { namespace capi {

// What tells a function of a C program. It is kept for good, since a thread may be told of a stream
// that is gone.
Stream::FailureCall failure_call(vtx_failure_function tell, void* context);

class StreamHandle : public Handle {
 public:
  virtual Stream& stream() noexcept = 0;

  int failure() noexcept {
    return answer(*this, [&] { stream().failure().throw_if_failed(); });
  }
  void cancel(int error, const char* cause) noexcept {
    stream().cancel(error > 0 ? error : errno_from(error, ECANCELED),
                    cause != nullptr ? cause : "it was cancelled");
  }
  int fill_on_failure(vtx_failure_function tell, void* context) noexcept {
    return answer(*this, [&] { stream().fill_on_failure(failure_call(tell, context)); });
  }
  int clear_filler() noexcept {
    return answer(*this, [&] { stream().clear_filler(); });
  }
  int statistics(vtx_stream_counts* counts) noexcept {
    return answer(*this, [&] {
      expect_place(counts);
      vtx_stream_counts told = {};
      tell_fields(stream().statistics(), told);
      tell_more(told);
      *counts = told;
    });
  }

 protected:
  virtual void tell_more(vtx_stream_counts& /*counts*/) {}

  // Texts and disks stay with the handle.
  void tell_file(FileStatistics made, vtx_stream_counts& counts) {
    kept_ = std::move(made);
    tell_fields(kept_, counts);
    disks_.clear();
    for (const DiskStatistics& disk : kept_.disks) tell_fields(disk, disks_.emplace_back());
    counts.disks = disks_.data();
    counts.disk_count = disks_.size();
  }

 private:
  FileStatistics kept_;
  std::vector<vtx_disk_counts> disks_;
};

}}}  // namespace vortex::v0::capi

// The calls that every such handle has.
#define DEFINE_STREAM_CALLS(name)                                              \
  int vtx_##name##_failure(vtx_##name* handle) { return handle->failure(); }   \
  void vtx_##name##_cancel(vtx_##name* handle, int error, const char* cause) { \
    handle->cancel(error, cause);                                              \
  }                                                                            \
  int vtx_##name##_statistics(vtx_##name* handle, vtx_stream_counts* counts) { \
    return handle->statistics(counts);                                         \
  }                                                                            \
  void vtx_##name##_close(vtx_##name* handle) { delete handle; }

// Those of handles whose touches may find zeros.
#define DEFINE_FILLER_CALLS(name)                                                                  \
  int vtx_##name##_fill_on_failure(vtx_##name* handle, vtx_failure_function tell, void* context) { \
    return handle->fill_on_failure(tell, context);                                                 \
  }                                                                                                \
  int vtx_##name##_clear_filler(vtx_##name* handle) { return handle->clear_filler(); }
