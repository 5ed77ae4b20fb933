// Sequences of calls of the C interface that change files and blocks in memory: each returns 0 or a
// negative errno value with a text, and all is as a plain model has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/c.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/disk.h"

namespace vortex::test {
namespace {

constexpr std::size_t kB = std::size_t{16} << 10;

// Mostly one that is there.
int any_of(FuzzedBytes& bytes, unsigned kinds) {
  return static_cast<int>(bytes.byte() < 8 ? kinds : bytes.below(kinds));
}

bool copied(const void* from, void* to, std::size_t bytes) {
  return expect(guarded_copy(from, to, bytes));
}

// --- A file as an array

class ArrayCalls {
 public:
  ArrayCalls(FuzzedBytes& bytes, const TemporaryFolder& folder)
      : bytes_(bytes), path_(folder.file("array")), model_(bytes.below(9) * kB / 2, 'x') {
    put_file_text(path_, model_);
  }
  ~ArrayCalls() { vtx_array_close(array_); }
  ArrayCalls(const ArrayCalls&) = delete;
  ArrayCalls& operator=(const ArrayCalls&) = delete;

  void run() {
    for (int calls = 0; calls < 40 && !bytes_.empty() && !cancelled_; ++calls) {
      if (array_ == nullptr) {
        open();
      } else {
        call(bytes_.below(10));
      }
    }
    close();
  }

 private:
  void open() {
    vtx_array_options options{};
    options.memory_bytes = bytes_.below(8) == 0 ? bytes_.number() : bytes_.below(64) * kB;
    options.block_bytes = bytes_.below(16) == 0 ? bytes_.number() : kB;
    options.comeback_blocks = bytes_.below(4);
    options.read_ahead = bytes_.below(4);
    options.write_behind = bytes_.below(4);
    options.cursors = bytes_.below(4);
    options.caching = any_of(bytes_, 3);
    options.make = bytes_.flag();
    options.reserve_bytes = bytes_.below(16) == 0 ? bytes_.number() : 64 * kB;
    const int result = vtx_array_open(path_.c_str(), &options, &array_);
    EXPECT_EQ(result == 0, array_ != nullptr);
    expect(result);
  }
  void close() {
    vtx_array_close(std::exchange(array_, nullptr));
    if (!cancelled_) {
      EXPECT_TRUE(file_text(path_) == model_);
    }
  }
  char* at(std::uint64_t offset) { return static_cast<char*>(vtx_array_data(array_)) + offset; }
  std::uint64_t any_offset() { return model_.empty() ? 0 : bytes_() % model_.size(); }

  void call(unsigned which) {
    const std::uint64_t offset = any_offset();
    const std::uint64_t bytes =
        std::min<std::uint64_t>(bytes_() % (2 * kB), model_.size() - offset);
    switch (which) {
      case 0:
        resize();
        break;
      case 1:
        if (!expect(vtx_array_flush(array_, offset, bytes, 0), array_)) break;
        EXPECT_TRUE(file_text(path_).substr(offset, bytes) == model_.substr(offset, bytes));
        break;
      case 2:
        expect(vtx_array_prefault(array_, offset, bytes, bytes_.flag()), array_);
        break;
      case 3:
        expect(vtx_array_will_need(array_, offset, bytes), array_);
        break;
      case 4:
        expect(vtx_array_allocate(array_, bytes_.below(64) * kB), array_);
        break;
      case 5:
        close();
        break;
      case 6:
        if (bytes_.below(8) != 0) break;
        cancel(offset);
        break;
      case 7: {
        std::string read(bytes, ' ');
        if (copied(at(offset), read.data(), bytes)) {
          EXPECT_TRUE(read == model_.substr(offset, bytes));
          EXPECT_TRUE(bytes == 0 || vtx_array_home(array_, at(offset)) != nullptr);
        }
        break;
      }
      default: {
        const std::string written(bytes, static_cast<char>('a' + bytes_.below(20)));
        if (copied(written.data(), at(offset), bytes)) model_.replace(offset, bytes, written);
      }
    }
    if (array_ == nullptr) return;
    EXPECT_EQ(vtx_array_length(array_), model_.size());
    vtx_stream_counts counts{};
    expect(vtx_array_statistics(array_, &counts), array_);
  }
  // A touch outside of a guarded scope finds what is there, or zeros, of which the function is
  // told.
  void cancel(std::uint64_t offset) {
    int told = 0;
    const bool fills = bytes_.flag() && !model_.empty();
    if (fills) {
      EXPECT_EQ(vtx_array_fill_on_failure(array_, count_call, &told), 0);
    }
    vtx_array_cancel(array_, ECANCELED, "by chance");
    EXPECT_EQ(vtx_array_failure(array_), -ECANCELED);
    cancelled_ = true;
    for (int touches = 1; fills && touches < 3; ++touches) {
      const char found = *static_cast<volatile char*>(at(offset));
      EXPECT_EQ(found, told == 0 ? model_[offset] : '\0');
      EXPECT_TRUE(told == 0 || told == touches) << told;
      EXPECT_EQ(vtx_array_clear_filler(array_), 0);
    }
    EXPECT_EQ(vtx_array_fill_on_failure(array_, nullptr, nullptr), 0);
  }
  static void count_call(void* told, int error, const char* line) {
    ++*static_cast<int*>(told);
    EXPECT_EQ(error, -ECANCELED);
    EXPECT_STRNE(line, "");
  }
  void resize() {
    const std::uint64_t bytes = bytes_.below(8) == 0 ? bytes_.number() : bytes_.below(16) * kB / 2;
    if (bytes > 64 * kB) {
      EXPECT_NE(vtx_array_resize(array_, std::uint64_t{1} << 62), 0);
    } else if (expect(vtx_array_resize(array_, bytes), array_)) {
      model_.resize(bytes, '\0');
    }
  }

  FuzzedBytes& bytes_;
  const std::string path_;
  std::string model_;
  vtx_array* array_ = nullptr;
  bool cancelled_ = false;
};

// --- A sequence over several files

void are_in_parts(const vtx_striped* striped, std::size_t count, std::uint64_t units) {
  std::uint64_t all = 0, some = 0;
  int left_out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(vtx_striped_part(striped, i, &some, &left_out), 0);
    all += some;
  }
  EXPECT_EQ(all, units);
  EXPECT_EQ(vtx_striped_part(striped, count, &some, &left_out), -ERANGE);
  EXPECT_EQ(vtx_striped_part(striped, 0, nullptr, &left_out), -EINVAL);
}

// Disks of such speeds, with little room, get as much of these bytes as they have room for.
void weights_fit(std::span<const double> speeds, std::uint64_t bytes) {
  std::vector<std::uint64_t> room;
  for (const double speed : speeds) room.push_back((static_cast<std::uint64_t>(speed) + 1) * kB);
  std::vector<double> weights(speeds.size());
  if (!expect(
          vtx_stripe_weights(speeds.data(), room.data(), speeds.size(), bytes, weights.data()))) {
    return;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_GE(weights[i], 0);
    EXPECT_LE(weights[i], static_cast<double>(room[i]));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  EXPECT_NEAR(sum, static_cast<double>(bytes), 1);
}

void striped_files(FuzzedBytes& bytes, const TemporaryFolder& folder) {
  std::array<std::string, 3> paths;
  std::array<vtx_part, 3> parts{};
  std::array<double, 3> weights{};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    paths[i] = folder.file("part" + std::to_string(i));
    parts[i].path = paths[i].c_str();
    weights[i] = bytes.below(4);
  }
  const std::size_t count = bytes.byte() < 8 ? 0 : 1 + bytes.below(3);
  weights_fit(std::span(weights).first(count), (2 * count + 1) * kB);
  vtx_striped_options options{};
  options.strategy = any_of(bytes, 4);
  options.weights = bytes.flag() ? weights.data() : nullptr;
  options.weight_count = options.weights == nullptr ? 0 : count;
  options.seed = bytes.byte();
  options.unit_bytes = bytes.below(8) == 0 ? bytes.number() : kB;
  options.most_bytes = 64 * kB;
  options.caching = any_of(bytes, 3);
  vtx_striped* striped = nullptr;
  if (!expect(vtx_striped_create(parts.data(), count, &options, &striped))) return;
  vtx_new_file_options writing{};
  writing.block_bytes = options.unit_bytes;
  writing.reserve_bytes = 64 * kB;
  const std::string text(bytes() % (8 * kB), static_cast<char>('a' + bytes.below(20)));
  vtx_output* output = nullptr;
  bool written = false;
  if (expect(vtx_striped_write(striped, &writing, &output), striped)) {
    written = copied(text.data(), vtx_output_data(output), text.size()) &&
              expect(vtx_output_finish(output, text.size()), output);
  }
  vtx_output_close(output);
  vtx_striped_close(std::exchange(striped, nullptr));
  if (!written) return;
  if (!expect(vtx_striped_open(parts.data(), count, &options, text.size(), &striped))) {
    ADD_FAILURE() << "what was written cannot be opened";
    return;
  }
  EXPECT_EQ(vtx_striped_length(striped), text.size());
  const std::size_t unit =
      options.unit_bytes == 0 ? StripedFileOptions().unit_bytes : options.unit_bytes;
  are_in_parts(striped, count, detail::units_for(text.size(), unit));
  vtx_file_options reading{};
  reading.block_bytes = options.unit_bytes;
  vtx_input* input = nullptr;
  std::string read(text.size(), ' ');
  if (expect(vtx_striped_read(striped, &reading, &input), striped) &&
      copied(vtx_input_data(input), read.data(), read.size())) {
    EXPECT_TRUE(read == text);
  }
  vtx_input_close(input);
  vtx_striped_close(striped);
}

// --- Blocks that vanish

int by_lowest_bits(void* context, const void* records, std::size_t count, std::uint32_t* buckets) {
  const auto* const numbers = static_cast<const std::uint64_t*>(records);
  for (std::size_t i = 0; i < count; ++i) {
    buckets[i] = static_cast<std::uint32_t>(numbers[i] % 4);
    if (--*static_cast<int*>(context) == 0) return -EDQUOT;
  }
  return 0;
}

// Numbers that are sorted, or go to four buckets.
class VanishingCalls {
 public:
  VanishingCalls(FuzzedBytes& bytes, vtx_blocks* blocks) : bytes_(bytes), blocks_(blocks) {}
  ~VanishingCalls() {
    vtx_vanishing_close(array_);
    for (vtx_bucket* const bucket : buckets_) vtx_bucket_close(bucket);
  }
  VanishingCalls(const VanishingCalls&) = delete;
  VanishingCalls& operator=(const VanishingCalls&) = delete;

  void run() {
    if (!expect(vtx_vanishing_create(blocks_, 8, kMost, nullptr, &array_))) return;
    const bool sorts = bytes_.flag();
    options_.threads = 1 + bytes_.below(2);
    ends_in_ = bytes_.flag() ? -1 : static_cast<int>(1 + bytes_.byte() * kMost / 128);
    std::vector<std::uint64_t> numbers(bytes_() % (kMost + kMost / 8));
    for (std::uint64_t& number : numbers) number = bytes_();
    const bool loaded = expect(vtx_vanishing_load(array_, numbers.data(), numbers.size()), array_);
    EXPECT_EQ(vtx_vanishing_size(array_), loaded ? numbers.size() : 0);
    if (!loaded) return;
    EXPECT_GE(vtx_vanishing_held_blocks(array_) * kB, numbers.size() * 8);
    vtx_stream_counts counts{};
    EXPECT_EQ(vtx_vanishing_statistics(array_, &counts), 0);
    EXPECT_EQ(vtx_vanishing_resize(array_, kMost + 1 + bytes_.number() % kMost), -EINVAL);
    EXPECT_EQ(vtx_vanishing_size(array_), numbers.size()) << "what fails changes nothing";
    if (bytes_.below(8) == 0) return give_up();
    const std::size_t blocks = blocks_of(numbers);
    numbers.resize(bytes_.flag() ? numbers.size() : bytes_() % (numbers.size() + 1));
    behind_ = blocks - blocks_of(numbers);
    EXPECT_EQ(vtx_vanishing_resize(array_, numbers.size()), 0);
    if (sorts) {
      sort(std::move(numbers));
    } else {
      divide(numbers);
    }
  }

 private:
  static constexpr std::size_t kMost = 12 * kB / 8;

  static std::size_t blocks_of(const std::vector<std::uint64_t>& numbers) {
    return (numbers.size() * 8 + kB - 1) / kB;
  }

  void give_up() {
    if (bytes_.flag()) {
      vtx_vanishing_cancel(array_, EDOM, "by chance");
      EXPECT_EQ(vtx_vanishing_failure(array_), -EDOM);
    } else if (expect(vtx_vanishing_clear(array_), array_)) {
      EXPECT_EQ(vtx_vanishing_size(array_), 0U);
      EXPECT_EQ(vtx_vanishing_held_blocks(array_), 0U);
      EXPECT_EQ(vtx_vanishing_failure(array_), 0);
    }
  }
  void sort(std::vector<std::uint64_t> numbers) {
    if (!expect(vtx_vanishing_sort(array_, VTX_U64, &options_, nullptr), array_)) return;
    std::sort(numbers.begin(), numbers.end());
    if (!expect(vtx_vanishing_seal(array_), array_)) return;
    std::vector<std::uint64_t> read(numbers.size());
    if (copied(vtx_vanishing_data(array_), read.data(), read.size() * 8)) {
      EXPECT_TRUE(read == numbers);
      if (expect(vtx_vanishing_finish_reading(array_), array_)) {
        EXPECT_LE(vtx_vanishing_held_blocks(array_), behind_);
      }
    }
  }
  void divide(const std::vector<std::uint64_t>& numbers) {
    vtx_vanishing_options options{};
    options.reserve_bytes = 16 * kB;
    for (vtx_bucket*& bucket : buckets_) {
      if (!expect(vtx_bucket_create(blocks_, &options, &bucket))) return;
    }
    std::array<std::uint64_t, 4> counts{};
    if (!expect(vtx_partition(array_, buckets_.data(), buckets_.size(), by_lowest_bits, &ends_in_,
                              counts.data()),
                array_)) {
      return;
    }
    for (std::uint64_t i = 0; i < counts.size(); ++i) {
      std::vector<std::uint64_t> expected, read(counts[i]);
      std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(expected),
                   [i](std::uint64_t number) { return number % 4 == i; });
      EXPECT_GE(vtx_bucket_held_blocks(buckets_[i]) * kB, counts[i] * 8);
      EXPECT_EQ(vtx_bucket_failure(buckets_[i]), 0);
      if (!expect(vtx_bucket_seal(buckets_[i]), buckets_[i])) continue;
      if (copied(vtx_bucket_data(buckets_[i]), read.data(), read.size() * 8)) {
        EXPECT_TRUE(read == expected);
      }
      EXPECT_EQ(vtx_bucket_truncate(buckets_[i], counts[i] * 4), 0);
      vtx_stream_counts done{};
      EXPECT_EQ(vtx_bucket_statistics(buckets_[i], &done), 0);
      if (expect(vtx_bucket_clear(buckets_[i]), buckets_[i])) {
        EXPECT_EQ(vtx_bucket_held_blocks(buckets_[i]), 0U);
      }
      if (bytes_.below(8) == 0) {
        vtx_bucket_cancel(buckets_[i], EDOM, "by chance");
        EXPECT_EQ(vtx_bucket_failure(buckets_[i]), -EDOM);
      }
    }
  }

  FuzzedBytes& bytes_;
  vtx_blocks* const blocks_;
  vtx_sort_options options_{};
  int ends_in_ = -1;
  std::size_t behind_ = 0;  // blocks that hold nothing but records behind the contents
  vtx_vanishing* array_ = nullptr;
  std::array<vtx_bucket*, 4> buckets_{};
};

void vanishing(FuzzedBytes& bytes) {
  vtx_pool_options options{};
  options.pool_bytes = (bytes.byte() + bytes.byte()) * kB;
  options.block_bytes = kB;
  vtx_pool* pool = nullptr;
  vtx_blocks* blocks = nullptr;
  if (expect(vtx_pool_create(&options, &pool)) &&
      expect(vtx_blocks_create(pool, bytes.byte() / 2, &blocks))) {
    VanishingCalls(bytes, blocks).run();
    EXPECT_EQ(vtx_blocks_in_use(blocks), 0u);
  }
  vtx_blocks_close(blocks);
  vtx_pool_close(pool);
}

}  // namespace

void fuzz_c_storage(std::string_view input) {
  static const TemporaryFolder folder(fast_folder());
  FuzzedBytes bytes(input);
  switch (bytes.below(3)) {
    case 0:
      return ArrayCalls(bytes, folder).run();
    case 1:
      return striped_files(bytes, folder);
    default:
      return vanishing(bytes);
  }
}

}  // namespace vortex::test
