// Files, descriptors and striped files as arrays of the C interface.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/stream/input_output.h"
#include "capi/stream/pool.h"
#include "vortex/disk.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

struct vtx_array : vortex::capi::StreamHandle {
  vtx_array(const std::string& path, const vtx_array_options* given)
      : held(given), file(path, vortex::capi::options_of<vortex::FileArrayOptions>(given)) {}

  vortex::Stream& stream() noexcept override { return file.stream(); }
  void tell_more(vtx_stream_counts& counts) override { tell_file(file.statistics(), counts); }

  const vortex::capi::Held held;
  vortex::FileArrayBase file;
};

namespace vortex { inline namespace v0 { namespace capi {

// What of a striped file must be there as long as its streams.
struct StripedParts {
  std::vector<std::shared_ptr<Disk>> disks;
  std::shared_ptr<StripedFile> file;
};

}}}  // namespace vortex::v0::capi

struct vtx_striped : vortex::capi::Handle, vortex::capi::StripedParts {
  // Opened with a length, made without one. What it is read and written through holds it, too.
  vtx_striped(const vtx_part* parts, std::size_t count, const vtx_striped_options* given,
              std::optional<std::uint64_t> length)
      : part_count(count) {
    vortex::capi::expect_array(parts, count, sizeof(*parts), "the parts");
    std::vector<vortex::StripedFile::Part> wanted(count);
    for (std::size_t i = 0; i < count; ++i) {
      vortex::capi::required(parts[i].path, "the path of a part");
      vortex::capi::take_fields(parts[i], wanted[i]);
      if (parts[i].disk != nullptr) disks.push_back(parts[i].disk->queue);
    }
    const auto options = vortex::capi::options_of<vortex::StripedFileOptions>(given);
    file = length ? std::make_shared<vortex::StripedFile>(wanted, options, *length)
                  : std::make_shared<vortex::StripedFile>(wanted, options);
  }

  const std::size_t part_count;
};

namespace vortex { inline namespace v0 { namespace capi { namespace {

class FileInput final : public vtx_input {
 public:
  template <typename File>
  FileInput(File&& file, const vtx_file_options* given, StripedParts parts = {})
      : parts_(std::move(parts)),
        held_(given),
        reader_(std::forward<File>(file), options_of<FileReaderOptions>(given)) {}

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
  const std::byte* home_of(const void* at) noexcept override { return reader_.home_of(at); }
  Stream& stream() noexcept override { return reader_.stream(); }

 protected:
  void tell_more(vtx_stream_counts& counts) override { tell_file(reader_.statistics(), counts); }

 private:
  const StripedParts parts_;
  const Held held_;
  FileReaderBase reader_;
};

// Address space that is asked for by name is not halved unless that is asked for, too.
FileWriterOptions writer_options(const vtx_new_file_options* given) {
  auto options = options_of<FileWriterOptions>(given);
  if (given != nullptr && given->reserve_bytes != 0 && given->least_reserve_bytes == 0) {
    options.least_reserve_bytes = options.reserve_bytes;
  }
  return options;
}

class FileOutput final : public vtx_output {
 public:
  template <typename File>
  FileOutput(File&& file, const vtx_new_file_options* given, StripedParts parts = {})
      : parts_(std::move(parts)),
        held_(given),
        writer_(std::forward<File>(file), writer_options(given)) {}

  OutputStreamBase& stream() noexcept override { return writer_.stream(); }

 protected:
  void tell_more(vtx_stream_counts& counts) override { tell_file(writer_.statistics(), counts); }

 private:
  const StripedParts parts_;
  const Held held_;
  FileWriterBase writer_;
};

}  // namespace

}}}  // namespace vortex::v0::capi

using namespace vortex::capi;

int vtx_input_open(const char* path, const vtx_file_options* options, vtx_input** input) {
  return answer_with(
      input, [&] { return std::make_unique<FileInput>(required(path, "the path"), options); });
}

int vtx_input_open_descriptor(int descriptor, const vtx_file_options* options, vtx_input** input) {
  return answer_with(input, [&] { return std::make_unique<FileInput>(descriptor, options); });
}

int vtx_output_create(const char* path, const vtx_new_file_options* options, vtx_output** output) {
  return answer_with(
      output, [&] { return std::make_unique<FileOutput>(required(path, "the path"), options); });
}

int vtx_output_open_descriptor(int descriptor, const vtx_new_file_options* options,
                               vtx_output** output) {
  return answer_with(output, [&] { return std::make_unique<FileOutput>(descriptor, options); });
}

// ---- Files that are changed in place.

int vtx_array_open(const char* path, const vtx_array_options* options, vtx_array** array) {
  return answer_with(
      array, [&] { return std::make_unique<vtx_array>(required(path, "the path"), options); });
}

void* vtx_array_data(const vtx_array* array) { return array->file.bytes(); }

uint64_t vtx_array_length(const vtx_array* array) { return array->file.length_bytes(); }

int vtx_array_resize(vtx_array* array, uint64_t bytes) {
  return answer(*array, [&] { array->file.resize_bytes(bytes); });
}

int vtx_array_allocate(vtx_array* array, uint64_t bytes) {
  return answer(*array, [&] { array->file.allocate_bytes(bytes); });
}

int vtx_array_flush(vtx_array* array, uint64_t offset, uint64_t bytes, int sync) {
  return answer(*array, [&] {
    array->file.flush_bytes(offset, bytes,
                            sync != 0 ? vortex::Flush::kSynced : vortex::Flush::kWritten);
  });
}

int vtx_array_prefault(vtx_array* array, uint64_t offset, size_t bytes, int to_write) {
  return answer(*array, [&] {
    array->file.prefault(offset, bytes,
                         to_write != 0 ? vortex::Access::kWrite : vortex::Access::kRead);
  });
}

int vtx_array_will_need(vtx_array* array, uint64_t offset, uint64_t bytes) {
  return answer(*array, [&] { array->file.will_need_bytes(offset, bytes); });
}

const void* vtx_array_home(vtx_array* array, const void* at) { return array->file.home_of(at); }

DEFINE_STREAM_CALLS(array)
DEFINE_FILLER_CALLS(array)

// ---- Files on several disks.

int vtx_striped_create(const vtx_part* parts, size_t part_count, const vtx_striped_options* options,
                       vtx_striped** striped) {
  return answer_with(striped, [&] {
    return std::make_unique<vtx_striped>(parts, part_count, options, std::nullopt);
  });
}

int vtx_striped_open(const vtx_part* parts, size_t part_count, const vtx_striped_options* options,
                     uint64_t bytes, vtx_striped** striped) {
  return answer_with(
      striped, [&] { return std::make_unique<vtx_striped>(parts, part_count, options, bytes); });
}

int vtx_striped_write(vtx_striped* striped, const vtx_new_file_options* options,
                      vtx_output** output) {
  return answer(*striped, [&] {
    expect_place(output);
    *output = new FileOutput(striped->file->writing_layout(), options, *striped);
  });
}

int vtx_striped_read(vtx_striped* striped, const vtx_file_options* options, vtx_input** input) {
  return answer(*striped, [&] {
    expect_place(input);
    *input = new FileInput(striped->file->reading_layout(), options, *striped);
  });
}

uint64_t vtx_striped_length(const vtx_striped* striped) { return striped->file->length(); }

int vtx_striped_part(const vtx_striped* striped, size_t part, uint64_t* units, int* left_out) {
  return answer(*striped, [&] {
    expect_place(units);
    expect_place(left_out);
    if (part >= striped->part_count) {
      throw vortex::Error(ERANGE, "there is no part " + std::to_string(part) + " of " +
                                      std::to_string(striped->part_count));
    }
    *units = striped->file->units_of(part);
    *left_out = striped->file->left_out(part) ? 1 : 0;
  });
}

void vtx_striped_close(vtx_striped* striped) { delete striped; }

int vtx_stripe_weights(const double* bytes_per_second, const uint64_t* free_bytes, size_t disks,
                       uint64_t total_bytes, double* weights) {
  return answer(thread_error(), [&] {
    expect_array(bytes_per_second, disks, sizeof(double), "the speeds");
    expect_array(free_bytes, disks, sizeof(uint64_t), "the free bytes");
    expect_array(weights, disks, sizeof(double), "the weights");
    const std::vector<double> made =
        vortex::stripe_weights({bytes_per_second, bytes_per_second + disks},
                               {free_bytes, free_bytes + disks}, total_bytes);
    std::copy(made.begin(), made.end(), weights);
  });
}
