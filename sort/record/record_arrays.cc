#include "vortex/record_arrays.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file/block_file.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/merge/record_sort.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// Arrays are read as if they were blocks of files: what is merged at a time stays in caches.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::size_t kWorkingBytes = std::size_t{16} << 20;

// Records that may be moved.
struct RecordArray {
  std::byte* begin = nullptr;
  std::uint64_t records = 0;
};

// The leading bits of the records of several arrays, sorted with their places, which count on from
// one array to the next.
class PlacesOfArrays {
 public:
  PlacesOfArrays(const RecordOrder& order, std::span<const RecordArray> arrays, std::size_t count)
      : order_(order), arrays_(arrays), count_(count) {
    std::uint64_t first = 0;
    for (const RecordArray& array : arrays) {
      first_.push_back(first);
      first += array.records;
    }
    pairs_ = std::make_unique_for_overwrite<Pair64[]>(2 * count_);
    Pair64* to = pairs_.get();
    for (const RecordArray& array : arrays) {
      for (std::uint64_t i = 0; i < array.records; ++i) {
        *to = {order.leading_bits(array.begin + i * order.record_bytes()),
               static_cast<std::uint64_t>(to - pairs_.get())};
        ++to;
      }
    }
    sort();
  }

  void append_to(RecordOutput& out) const {
    const std::size_t bytes = order_.record_bytes();
    for (std::size_t done = 0; done < count_;) {
      const std::span<std::byte> room = out.room((count_ - done) * bytes);
      for (std::size_t to = 0; to < room.size(); to += bytes, ++done) {
        if (done + kAhead < count_) __builtin_prefetch(at(pairs_[done + kAhead].value));
        std::memcpy(room.data() + to, at(pairs_[done].value), bytes);
      }
      out.written(room.size());
    }
  }

 private:
  static constexpr std::size_t kAhead = 8;

  const std::byte* at(std::uint64_t place) const noexcept {
    const auto behind = std::upper_bound(first_.begin(), first_.end(), place);
    const auto array = static_cast<std::size_t>(behind - first_.begin()) - 1;
    return arrays_[array].begin + (place - first_[array]) * order_.record_bytes();
  }

  void sort() {
    Pair64* const pairs = pairs_.get();
    detail::sort_pairs_by_key(pairs, count_, pairs + count_);
    for (std::size_t i = 0, end = 0; i < count_; i = end) {
      end = i + 1;
      while (end < count_ && pairs[end].key == pairs[i].key) ++end;
      if (end - i > 1) sort_equal_bits(pairs + i, pairs + end);
    }
  }

  void sort_equal_bits(Pair64* begin, Pair64* end) const {
    if (order_.leading_bits_decide()) return detail::sort_by_place(begin, end);
    // One comparison decides: of equal records the one at the smaller place is less.
    std::sort(begin, end, [this](const Pair64& a, const Pair64& b) {
      return a.value < b.value ? !order_.less(at(b.value), at(a.value))
                               : order_.less(at(a.value), at(b.value));
    });
  }

  const RecordOrder& order_;
  const std::span<const RecordArray> arrays_;
  const std::size_t count_;
  std::vector<std::uint64_t> first_;  // the place of each array's first record
  std::unique_ptr<Pair64[]> pairs_;   // and as many spare ones
};

// Where records of 0 bytes are written, nothing tells how many there are.
std::size_t at_least_one(std::size_t record_bytes) {
  if (record_bytes == 0) throw_error(EINVAL, "records have 0 bytes: give at least 1");
  return record_bytes;
}

}  // namespace

std::span<std::byte> ArrayOutput::room(std::size_t most_bytes) {
  const std::size_t left = to_.size() - done_;
  const std::size_t bytes = std::min(left - left % at_least_one(record_bytes_), most_bytes);
  if (bytes == 0) {
    throw_error(ENOBUFS, "an array of " + std::to_string(to_.size()) +
                             " bytes has no room for more records of " +
                             std::to_string(record_bytes_) + ": give a larger one");
  }
  return to_.subspan(done_, bytes);
}

DescriptorOutput::DescriptorOutput(int descriptor, std::size_t record_bytes)
    : descriptor_(descriptor),
      record_bytes_(at_least_one(record_bytes)),
      buffer_(std::max(kBufferBytes / record_bytes, std::size_t{1}) * record_bytes) {}

std::span<std::byte> DescriptorOutput::room(std::size_t most_bytes) {
  if (buffer_.size() - filled_ < record_bytes_) flush();
  const std::size_t left = buffer_.size() - filled_;
  return std::span(buffer_).subspan(filled_, std::min(left - left % record_bytes_, most_bytes));
}

void DescriptorOutput::flush() {
  if (filled_ == 0) return;
  BlockFile::borrow(descriptor_, "descriptor " + std::to_string(descriptor_), true)
      .write_all({reinterpret_cast<const char*>(buffer_.data()), filled_});
  filled_ = 0;
}

void merge_arrays(const RecordOrder& order, std::span<const MergeInput> arrays, RecordOutput& out,
                  unsigned threads) {
  const std::size_t record_bytes = order.record_bytes();
  std::vector<MergeInput> inputs;
  for (const MergeInput& array : arrays) {
    if (detail::saturating_product(array.records, record_bytes) >
        std::uint64_t{std::numeric_limits<std::ptrdiff_t>::max()}) {
      throw_error(EINVAL, std::to_string(array.records) + " records of " +
                              std::to_string(record_bytes) +
                              " bytes in an array, which is more than memory has");
    }
    if (array.records > 0) inputs.push_back(array);
  }
  if (inputs.empty()) return;
  const std::unique_ptr<RecordMerge> merge =
      order.merge(inputs, {.block_bytes = std::max(kBlockBytes, record_bytes),
                           .working_bytes = kWorkingBytes,
                           .threads = detail::ThreadTeam::resolve(threads),
                           .window_blocks = 2});
  merge->start();
  merge->merge(merge->records_left(), out);
}

void sort_arrays(const RecordOrder& order, std::span<const std::span<std::byte>> arrays,
                 RecordOutput& out) {
  std::vector<RecordArray> some;
  std::size_t count = 0;
  for (const std::span<std::byte> array : arrays) {
    const std::size_t records = array.size() / order.record_bytes();
    if (records * order.record_bytes() != array.size()) {
      throw_error(EINVAL, "an array of " + std::to_string(array.size()) +
                              " bytes does not hold whole records of " +
                              std::to_string(order.record_bytes()));
    }
    if (records > 0) some.push_back({array.data(), records});
    count = detail::saturating_sum(count, records);
  }
  if (some.empty()) return;
  if (some.size() > 1) {
    if (!detail::scratch_to_index_records(count)) {
      throw_error(EINVAL, std::to_string(some.size()) + " arrays have " + std::to_string(count) +
                              " records, more than are sorted at once: sort them one by one, and "
                              "merge them");
    }
    return PlacesOfArrays(order, some, count).append_to(out);
  }
  constexpr std::size_t kFixedBytes = std::size_t{512} << 10;
  const std::size_t bytes =
      detail::saturating_sum(detail::saturating_product(count, 32), kFixedBytes);
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(bytes);
  order.sort(some.front().begin, count, {scratch.get(), bytes}, out);
}

}}  // namespace vortex::v0
