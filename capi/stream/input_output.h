// Arrays to read and to write of the C interface, whatever is behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "capi/stream/stream_handle.h"
#include "vortex/c.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

struct vtx_input : vortex::capi::StreamHandle {
  virtual const std::byte* bytes() const noexcept = 0;
  virtual std::optional<std::uint64_t> length_bytes() const noexcept = 0;
  virtual void wait_for_length() {}
  virtual std::uint64_t readable_bytes(std::uint64_t offset) const = 0;
  virtual void prefault(std::uint64_t offset, std::size_t bytes) = 0;
  virtual const std::byte* home_of(const void* at) noexcept = 0;
  virtual void will_need(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
};

struct vtx_output : vortex::capi::StreamHandle {
  vortex::OutputStreamBase& stream() noexcept override = 0;
};

namespace vortex { inline namespace v0 { namespace capi {

// One that an InputStream is behind, which a derived class or somebody else owns.
class StreamInput : public vtx_input {
 public:
  explicit StreamInput(InputStreamBase& stream) noexcept : stream_(stream) {}

  const std::byte* bytes() const noexcept override { return stream_.bytes(); }
  std::optional<std::uint64_t> length_bytes() const noexcept override {
    return stream_.length_bytes();
  }
  std::uint64_t readable_bytes(std::uint64_t offset) const override {
    return stream_.readable_bytes(offset);
  }
  void prefault(std::uint64_t offset, std::size_t bytes) override {
    stream_.prefault(offset, bytes);
  }
  const std::byte* home_of(const void* at) noexcept override { return stream_.home_of(at); }
  Stream& stream() noexcept override { return stream_; }

 private:
  InputStreamBase& stream_;
};

}}}  // namespace vortex::v0::capi
