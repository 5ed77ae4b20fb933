// Records in memory, as sorts beyond one machine take them: merged, sorted, divided and summed.
#include <vortex/error.h>
#include <vortex/file_reader.h>
#include <vortex/file_writer.h>
#include <vortex/record_arrays.h>
#include <vortex/record_order.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "module.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

vortex::RecordFormat format_of(std::size_t record, const std::vector<KeyTuple>& tuples) {
  static constexpr vortex::KeyKind kKinds[] = {vortex::KeyKind::kBytes, vortex::KeyKind::kUnsigned,
                                               vortex::KeyKind::kSigned, vortex::KeyKind::kFloat};
  std::vector<vortex::RecordKey> keys;
  for (const auto& [offset, length, kind, big, descending] : tuples) {
    const vortex::KeyKind key_kind = kKinds[static_cast<std::size_t>(kind) % std::size(kKinds)];
    keys.push_back({offset,
                    length,
                    {key_kind, key_kind == vortex::KeyKind::kBytes ? 0 : length,
                     big ? vortex::ByteOrder::kBigEndian : vortex::ByteOrder::kLittleEndian},
                    descending});
  }
  return vortex::RecordFormat(record, std::move(keys));
}

std::uint64_t number_of(const std::byte* record, std::size_t bytes) noexcept {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t number = bytes * kOdd;
  const auto take = [&](std::uint64_t word) {
    number = (number ^ word) * kOdd;
    number ^= number >> 32;
  };
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, record, sizeof word);
    record += sizeof word;
    take(word);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, record, bytes);
  take(rest);
  return number;
}

namespace {

using Keys = std::vector<KeyTuple>;

// The records of several objects, which may be read without the GIL.
class Arrays {
 public:
  Arrays(const std::vector<nb::object>& objects, std::size_t record, Buffer::Use use) {
    for (const nb::object& object : objects) {
      buffers_.push_back(std::make_unique<Buffer>(object, use));
      if (buffers_.back()->bytes() % record != 0) {
        throw std::invalid_argument("an array whose bytes are no whole records");
      }
    }
  }

  std::vector<vortex::MergeInput> inputs(std::size_t record) const {
    std::vector<vortex::MergeInput> arrays;
    for (const auto& buffer : buffers_) {
      arrays.push_back({buffer->data(), buffer->bytes() / record});
    }
    return arrays;
  }
  std::vector<std::span<std::byte>> spans() const {
    std::vector<std::span<std::byte>> arrays;
    for (const auto& buffer : buffers_) arrays.emplace_back(buffer->data(), buffer->bytes());
    return arrays;
  }

 private:
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

void merge_to_array(const std::vector<nb::object>& arrays, std::size_t record, const Keys& keys,
                    nb::handle to, unsigned threads) {
  const Arrays sorted(arrays, record, Buffer::Use::kRead);
  const Buffer room(to, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  vortex::ArrayOutput out({room.data(), room.bytes()}, record);
  vortex::merge_arrays(*vortex::order_of_format(format_of(record, keys)), sorted.inputs(record),
                       out, threads);
}

// The sum of the numbers of all records, which no order of theirs changes.
std::uint64_t sum_of(const std::byte* records, std::size_t bytes, std::size_t record) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + record <= bytes; at += record) {
    sum += number_of(records + at, record);
  }
  return sum;
}

// Sums the records that go to another output while they are in the caches.
class SummedOutput final : public vortex::RecordOutput {
 public:
  SummedOutput(vortex::RecordOutput& out, std::size_t record) : out_(out), record_(record) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    return room_ = out_.room(
               std::min(most_bytes, std::max(kAtOnce / record_, std::size_t{1}) * record_));
  }
  void written(std::size_t bytes) override {
    sum_ += sum_of(room_.data(), bytes, record_);
    out_.written(bytes);
  }
  std::uint64_t sum() const noexcept { return sum_; }

 private:
  static constexpr std::size_t kAtOnce = std::size_t{128} << 10;

  vortex::RecordOutput& out_;
  const std::size_t record_;
  std::span<std::byte> room_;
  std::uint64_t sum_ = 0;
};

void merge_to_descriptor(const std::vector<nb::object>& arrays, std::size_t record,
                         const Keys& keys, int descriptor, unsigned threads) {
  const Arrays sorted(arrays, record, Buffer::Use::kRead);
  const nb::gil_scoped_release released;
  vortex::DescriptorOutput out(descriptor, record);
  vortex::merge_arrays(*vortex::order_of_format(format_of(record, keys)), sorted.inputs(record),
                       out, threads);
  out.flush();
}

using Readers = std::list<vortex::FileReader<std::byte>>;

// The files, and what they and the output take beside each other of about `memory` bytes.
Readers opened(const std::vector<std::string>& names, std::size_t record, std::size_t memory) {
  constexpr std::size_t kBlocksOfFile = 12, kLeast = std::size_t{64} << 10;
  const std::size_t block =
      std::bit_floor(std::max(memory / (kBlocksOfFile * (names.size() + 1)), kLeast));
  Readers files;
  for (const std::string& name : names) {
    files.emplace_back(
        name, vortex::FileReaderOptions{.block_bytes = std::min(block, std::size_t{1} << 19)});
    if (files.back().size() % record != 0) {
      vortex::throw_error(EINVAL, "a run whose bytes are no whole records: " + name);
    }
  }
  return files;
}

// Merges sorted arrays and, behind them, sorted files, to a new file, which appears when it is
// whole. Around the page cache: its pages would be written and read back, and cost more than the
// merge. With `last` it has reached the disk then, and the sum of the records, taken from them on
// their way, is returned; otherwise 0.
std::uint64_t merge_to_file(const std::vector<nb::object>& arrays,
                            const std::vector<std::string>& names, std::size_t record,
                            const Keys& keys, const std::string& path, bool last,
                            std::size_t memory) {
  const Arrays sorted(arrays, record, Buffer::Use::kRead);
  const nb::gil_scoped_release released;
  receive_faults();
  Readers files = opened(names, record, memory);
  std::vector<vortex::MergeInput> inputs = sorted.inputs(record);
  for (auto& file : files) inputs.push_back({file.data(), file.size() / record});
  vortex::FileWriter<std::byte> writer(
      path,
      {.block_bytes = std::size_t{1} << 20, .gaps = vortex::Gaps::kUnspecified, .sync = last});
  vortex::ArrayOutput file({writer.data(), std::numeric_limits<std::ptrdiff_t>::max()}, record);
  SummedOutput summed(file, record);
  vortex::RecordOutput& out = last ? static_cast<vortex::RecordOutput&>(summed) : file;
  const auto order = vortex::order_of_format(format_of(record, keys));
  vortex::guarded([&] { vortex::merge_arrays(*order, inputs, out, 1); }).throw_if_failed();
  writer.finish(file.bytes());
  return summed.sum();
}

void sort_to_array(const std::vector<nb::object>& arrays, std::size_t record, const Keys& keys,
                   nb::handle to) {
  const Arrays unsorted(arrays, record, Buffer::Use::kChange);
  const Buffer room(to, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  vortex::ArrayOutput out({room.data(), room.bytes()}, record);
  vortex::sort_arrays(*vortex::order_of_format(format_of(record, keys)), unsorted.spans(), out);
}

std::uint64_t sum_records(nb::handle array, std::size_t record) {
  const Buffer records(array, Buffer::Use::kRead);
  const nb::gil_scoped_release released;
  return sum_of(records.data(), records.bytes(), record);
}

// Of each border, a record: how many of the sorted records come before it, and how many do not come
// behind it.
std::vector<std::pair<std::size_t, std::size_t>> ranks(nb::handle array, std::size_t record,
                                                       const Keys& keys, nb::handle borders) {
  const Buffer sorted(array, Buffer::Use::kRead);
  const Buffer wanted(borders, Buffer::Use::kRead);
  const nb::gil_scoped_release released;
  const vortex::RecordFormat format = format_of(record, keys);
  const std::size_t count = sorted.bytes() / record;
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t at = 0; at + record <= wanted.bytes(); at += record) {
    const auto rank = [&](int least) {
      std::size_t low = 0, high = count;
      while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        const bool before =
            format.compare(sorted.data() + middle * record, wanted.data() + at) < least;
        (before ? low : high) = before ? middle + 1 : middle;
      }
      return low;
    };
    found.emplace_back(rank(0), rank(1));
  }
  return found;
}

// How many records have the key of `wanted`.
std::size_t count_equal(nb::handle array, std::size_t record, const Keys& keys, nb::handle wanted) {
  const Buffer records(array, Buffer::Use::kRead);
  const Buffer one(wanted, Buffer::Use::kRead);
  if (one.bytes() != record) throw std::invalid_argument("it is no record");
  const nb::gil_scoped_release released;
  const vortex::RecordFormat format = format_of(record, keys);
  std::size_t count = 0;
  for (std::size_t at = 0; at + record <= records.bytes(); at += record) {
    count += format.compare(records.data() + at, one.data()) == 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

void bind_records(nb::module_& module) {
  module.def("merge_to_array", &merge_to_array);
  module.def("merge_to_descriptor", &merge_to_descriptor);
  module.def("merge_to_file", &merge_to_file);
  module.def("sort_to_array", &sort_to_array);
  module.def("sum_records", &sum_records);
  module.def("ranks", &ranks);
  module.def("count_equal", &count_equal);
}

}  // namespace vortex_python
