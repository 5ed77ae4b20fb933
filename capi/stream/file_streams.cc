// Files and descriptors as arrays of the C interface.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "capi/stream/file_options.h"
#include "capi/stream/input.h"
#include "capi/stream/output.h"
#include "capi/stream/pool.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

class FileInput final : public vtx_input {
 public:
  template <typename File>
  FileInput(std::shared_ptr<BlockPool> pool, const File& file, const FileReaderOptions& options)
      : pool_(std::move(pool)), reader_(file, options) {}

  const std::byte* bytes() const noexcept override { return reader_.bytes(); }
  std::optional<std::uint64_t> length_bytes() const noexcept override {
    return reader_.length_bytes();
  }
  std::uint64_t readable_bytes(std::uint64_t offset) const override {
    return reader_.readable_bytes(offset);
  }
  void prefault(std::uint64_t offset, std::size_t bytes) override {
    reader_.prefault(offset, bytes);
  }
  void will_need(std::uint64_t offset, std::uint64_t bytes) override {
    reader_.will_need_bytes(offset, bytes);
  }
  Stream& stream() noexcept override { return reader_.stream(); }

 private:
  const std::shared_ptr<BlockPool> pool_;
  FileReaderBase reader_;
};

class FileOutput final : public vtx_output {
 public:
  template <typename File>
  FileOutput(std::shared_ptr<BlockPool> pool, const File& file, const FileWriterOptions& options)
      : pool_(std::move(pool)), writer_(file, options) {}

  OutputStreamBase& stream() noexcept override { return writer_.stream(); }

 private:
  const std::shared_ptr<BlockPool> pool_;
  FileWriterBase writer_;
};

template <typename File>
std::unique_ptr<vtx_input> open_input(const File& file, const vtx_file_options* given) {
  const vtx_file_options wanted = given != nullptr ? *given : vtx_file_options{};
  const std::shared_ptr<BlockPool> pool = blocks_of(wanted.pool);
  FileReaderOptions options;
  set_reading_options(options, wanted, pool.get());
  if (wanted.forward != 0) options.order = ReadOrder::kForward;
  return std::make_unique<FileInput>(pool, file, options);
}

template <typename File>
std::unique_ptr<vtx_output> open_output(const File& file, const vtx_new_file_options* given) {
  const vtx_new_file_options wanted = given != nullptr ? *given : vtx_new_file_options{};
  const std::shared_ptr<BlockPool> pool = blocks_of(wanted.pool);
  FileWriterOptions options;
  set_file_options(options, wanted, pool.get());
  set_unless_zero(options.write_behind, wanted.write_behind);
  if (wanted.unspecified_gaps != 0) options.gaps = Gaps::kUnspecified;
  options.sync = wanted.sync != 0;
  options.replace = wanted.keep_existing == 0;
  options.expected_bytes = wanted.expected_bytes;
  if (wanted.reserve_bytes != 0) {
    options.reserve_bytes = wanted.reserve_bytes;
    options.least_reserve_bytes = wanted.reserve_bytes;
  }
  return std::make_unique<FileOutput>(pool, file, options);
}

}  // namespace

}}}  // namespace vortex::v0::capi

using vortex::capi::answer_with;
using vortex::capi::required;

int vtx_input_open(const char* path, const vtx_file_options* options, vtx_input** input) {
  return answer_with(input,
                     [&] { return vortex::capi::open_input(required(path, "the path"), options); });
}

int vtx_input_open_descriptor(int descriptor, const vtx_file_options* options, vtx_input** input) {
  return answer_with(input, [&] { return vortex::capi::open_input(descriptor, options); });
}

int vtx_output_create(const char* path, const vtx_new_file_options* options, vtx_output** output) {
  return answer_with(
      output, [&] { return vortex::capi::open_output(required(path, "the path"), options); });
}

int vtx_output_open_descriptor(int descriptor, const vtx_new_file_options* options,
                               vtx_output** output) {
  return answer_with(output, [&] { return vortex::capi::open_output(descriptor, options); });
}
