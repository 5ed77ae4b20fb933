// Every number that a stream, a pool or a file takes, with the least and the largest values: an
// error or what was asked for, and never a number that wrapped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/extreme_numbers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"
#include "vortex/stream.h"
#include "vortex/vanishing_array.h"

namespace vortex::test::stream_limits_test { namespace {

constexpr std::size_t kBlock = kMinBlockBytes;
constexpr std::uint64_t kWords = 40'000;  // of the file, which is some blocks long
using Word = std::uint64_t;
using Ends = std::vector<int>;

TemporaryFolder& folder() {
  static TemporaryFolder made;
  return made;
}

Word word(std::uint64_t index) { return index * 0x9E3779B97F4A7C15; }

int null_device() {
  static const int descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
  return descriptor;
}

// A file of known words, made anew.
std::string some_file() {
  const std::string path = folder().file("some");
  std::vector<Word> words(kWords);
  for (std::uint64_t i = 0; i < kWords; ++i) words[i] = word(i);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), kWords * sizeof(Word));
  return path;
}

std::uint64_t length_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

BlockPool& small_pool() {
  static BlockPool pool({.pool_bytes = 64 * kBlock, .block_bytes = kBlock});
  return pool;
}

// What the options are but for the number that is tried.
template <typename Options>
Options given() {
  Options options;
  if constexpr (requires { options.block_bytes; }) options.block_bytes = kBlock;
  if constexpr (requires { options.unit_bytes; }) options.unit_bytes = 4 * kBlock;
  if constexpr (std::is_same_v<Options, AddressSpace>) options.bytes = std::uint64_t{1} << 20;
  if constexpr (std::is_same_v<Options, BlockPoolOptions>) {
    options.pool_bytes = 8 * kBlock;
    options.warming = Warming::kOnDemand;
  }
  if constexpr (std::is_same_v<Options, DiskSpeedOptions>) {
    options.bytes = std::uint64_t{1} << 20;
    options.most_ns = 1'000'000;
    options.request_bytes = 64 << 10;
  }
  return options;
}

void read_all(const FileReaderOptions& options) {
  const FileReader<Word> in(some_file(), options);
  guarded([&] {
    for (std::uint64_t i = 0; i < kWords; ++i) ASSERT_EQ(in.data()[i], word(i)) << i;
  }).throw_if_failed();
  ASSERT_EQ(in.size(), kWords);
}

void read_any_order(const FileReaderOptions& options) { read_all(options); }

void read_forward(FileReaderOptions options) {
  options.order = ReadOrder::kForward;
  read_all(options);
}

// A file whose length its end tells.
void read_pipe(const FileReaderOptions& options) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "abc", 3), 3);
  close(ends[1]);
  struct Closing {
    int descriptor;
    ~Closing() { close(descriptor); }
  } const closing{ends[0]};
  FileReader<char> in(ends[0], options);
  guarded([&] { ASSERT_EQ(in.data()[2], 'c'); }).throw_if_failed();
  ASSERT_EQ(in.readable_bytes(0), 3U);
}

void change_array(const FileArrayOptions& options) {
  const std::string path = some_file();
  {
    FileArray<Word> array(path, options);
    ASSERT_EQ(array.size(), kWords);
    guarded([&] {
      for (std::uint64_t i = 0; i < kWords; ++i) ASSERT_EQ(array.data()[i], word(i)) << i;
      array.data()[kWords - 1] = 7;
    }).throw_if_failed();
    array.flush(Flush::kWritten);
  }
  ASSERT_EQ(length_of(path), kWords * sizeof(Word));
}

void write_file(const FileWriterOptions& options) {
  const std::string path = folder().file("written");
  std::filesystem::remove(path);
  {
    FileWriter<Word> out(path, options);
    guarded([&] {
      for (std::uint64_t i = 0; i < kWords; ++i) out.data()[i] = word(i);
    }).throw_if_failed();
    out.finish(kWords);
  }
  ASSERT_EQ(length_of(path), kWords * sizeof(Word));
}

std::size_t fill_ones(std::span<std::byte> block, std::uint64_t) {
  std::fill(block.begin(), block.end(), std::byte{1});
  return block.size();
}

void read_callback(const InputStreamOptions& options) {
  auto in = input_from_callback<char>(small_pool(), fill_ones, options);
  guarded([&] {
    for (std::size_t i = 0; i < 4 * kBlock; i += 1000) ASSERT_EQ(in.data()[i], 1);
  }).throw_if_failed();
}

void write_callback(const OutputStreamOptions& options) {
  std::uint64_t got = 0;
  auto out = output_to_callback<char>(
      small_pool(), [&](std::span<const std::byte> block, std::uint64_t) { got += block.size(); },
      options);
  guarded([&] {
    for (std::size_t i = 0; i < 4 * kBlock; i += 1000) out.data()[i] = 1;
  }).throw_if_failed();
  out.finish(4 * kBlock);
  ASSERT_EQ(got, 4 * kBlock);
}

// With one thread: what is written fits in the windows.
void use_pipeline(const PipelineOptions& options) {
  Pipeline<Word> pipeline(options);
  auto out = pipeline.writer();
  auto in = pipeline.reader();
  guarded([&] { out.data()[0] = 5; }).throw_if_failed();
  out.finish(1);
  guarded([&] { ASSERT_EQ(in.data()[0], 5U); }).throw_if_failed();
}

void use_commit_stream(const CommitStreamOptions& options) {
  CommitStream<Word> stream(options);
  guarded([&] { stream.writer_data()[0] = 5; }).throw_if_failed();
  stream.finish(1);
  guarded([&] { ASSERT_EQ(stream.reader_data()[0], 5U); }).throw_if_failed();
}

void use_pool(const BlockPoolOptions& options) {
  BlockPool pool(options);
  BlockQuota quota(pool, 1, 1, "test");
  const BlockGrant taken = quota.try_take();
  ASSERT_EQ(taken.error, 0);
  quota.give_back(taken.block);
}

void use_vanishing(const VanishingArrayOptions& options) {
  StreamPool pool(small_pool(), 8);
  VanishingArray<Word> array(pool, 4 * kBlock / sizeof(Word), options);
  guarded([&] {
    for (std::uint64_t i = 0; i < array.capacity(); ++i) array.data()[i] = word(i);
    array.finish_writing();
    for (std::uint64_t i = 0; i < array.capacity(); ++i) ASSERT_EQ(array.data()[i], word(i)) << i;
  }).throw_if_failed();
}

void use_bucket(const BucketStreamOptions& options) {
  StreamPool pool(small_pool(), 8);
  BucketStream bucket(pool, options);
  auto* const words = reinterpret_cast<Word*>(bucket.bytes());
  constexpr std::uint64_t kCount = 4 * kBlock / sizeof(Word);
  guarded([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) words[i] = word(i);
    for (std::uint64_t i = 0; i + kBlock / sizeof(Word) < kCount; ++i) {
      ASSERT_EQ(words[i], word(i)) << i;
    }
  }).throw_if_failed();
}

class PlainStream final : public Stream {
 public:
  explicit PlainStream(const AddressSpace& space) : Stream("plain", space) { open(); }
  ~PlainStream() override { close(); }

 protected:
  bool handle_fault(Access, std::uint64_t offset) noexcept override {
    return fail(EIO, "nothing is here", offset);
  }
};

void reserve(const AddressSpace& space) {
  const PlainStream stream(space);
  ASSERT_GE(stream.reserved_bytes(), std::min(space.least_bytes, space.bytes));
}

void open_a_disk(const DiskOptions& options) { open_disk(options); }

void measure(const DiskSpeedOptions& options) {
  const std::unique_ptr<Disk> disk = open_disk();
  measure_disk_speed(*disk, folder().path(), options);
  measure_request_cost(*disk, folder().path(), options);
}

void stripe(const StripedFileOptions& options) {
  const std::vector<StripedFile::Part> parts = {{folder().file("part1")}, {folder().file("part2")}};
  StripedFile file(parts, options);
  FileWriter<Word> out(file.writing_layout(), {.block_bytes = kBlock});
  guarded([&] {
    for (std::uint64_t i = 0; i < kWords; ++i) out.data()[i] = word(i);
  }).throw_if_failed();
  out.finish(kWords);
}

// What can be had: all of it, or a refusal of the memory for it.
const Ends kServed = {0};
const Ends kInvalid = {EINVAL};
const Ends kNoMemory = {ENOMEM};
const Ends kServedOrNoMemory = {0, ENOMEM};

const ExtremeNumber kOptions[] = {
    FIELD(BlockPoolOptions, pool_bytes, kNoMemory, use_pool),
    FIELD(BlockPoolOptions, block_bytes, kInvalid, use_pool),
    FIELD(BlockPoolOptions, most_placed, kServed, use_pool),
    FIELD(InputStreamOptions, comeback_blocks, kInvalid, read_callback),
    FIELD(InputStreamOptions, stale_blocks, kServedOrNoMemory, read_callback),
    FIELD(InputStreamOptions, reserve_bytes, kServed, read_callback),
    FIELD(InputStreamOptions, least_reserve_bytes, kServed, read_callback),
    FIELD(OutputStreamOptions, comeback_blocks, kInvalid, write_callback),
    FIELD(OutputStreamOptions, stale_blocks, kServedOrNoMemory, write_callback),
    FIELD(OutputStreamOptions, reserve_bytes, kServed, write_callback),
    FIELD(OutputStreamOptions, least_reserve_bytes, kServed, write_callback),
    FIELD(PipelineOptions, block_bytes, kInvalid, use_pipeline),
    FIELD(PipelineOptions, read_ahead_blocks, kInvalid, use_pipeline),
    FIELD(PipelineOptions, writer_comeback_blocks, kInvalid, use_pipeline),
    FIELD(PipelineOptions, reader_comeback_blocks, kInvalid, use_pipeline),
    FIELD(PipelineOptions, stale_blocks, kServedOrNoMemory, use_pipeline),
    FIELD(PipelineOptions, length_bytes, kInvalid, use_pipeline),
    FIELD(PipelineOptions, reserve_bytes, kServed, use_pipeline),
    FIELD(CommitStreamOptions, block_bytes, kInvalid, use_commit_stream),
    FIELD(CommitStreamOptions, read_ahead_blocks, kInvalid, use_commit_stream),
    FIELD(CommitStreamOptions, writer_comeback_blocks, kInvalid, use_commit_stream),
    FIELD(CommitStreamOptions, reader_comeback_blocks, kInvalid, use_commit_stream),
    FIELD(CommitStreamOptions, reserve_bytes, kServed, use_commit_stream),
    FIELD(CommitStreamOptions, least_reserve_bytes, kServed, use_commit_stream),
    FIELD(VanishingArrayOptions, comeback_blocks, kServed, use_vanishing),
    FIELD(BucketStreamOptions, reserve_bytes, kInvalid, use_bucket),
    FIELD(BucketStreamOptions, comeback_blocks, kServed, use_bucket),
    FIELD(AddressSpace, bytes, kInvalid, reserve),
    FIELD(AddressSpace, least_bytes, kServed, reserve),
    FIELD(FileReaderOptions, block_bytes, kInvalid, read_any_order),
    FIELD(FileReaderOptions, comeback_blocks, kInvalid, read_any_order),
    FIELD(FileReaderOptions, read_ahead, kInvalid, read_any_order),
    FIELD(FileReaderOptions, request_bytes, kServedOrNoMemory, read_any_order),
    FIELD(FileReaderOptions, memory_bytes, kServedOrNoMemory, read_any_order),
    FIELD(FileReaderOptions, cursors, kInvalid, read_any_order),
    FIELD(FileReaderOptions, unknown_length_bytes, kServed, read_pipe),
    FIELD(FileReaderOptions, block_bytes, kInvalid, read_forward),
    FIELD(FileReaderOptions, comeback_blocks, kInvalid, read_forward),
    FIELD(FileReaderOptions, read_ahead, kInvalid, read_forward),
    FIELD(FileReaderOptions, request_bytes, kServedOrNoMemory, read_forward),
    FIELD(FileReaderOptions, memory_bytes, kServedOrNoMemory, read_forward),
    FIELD(FileReaderOptions, cursors, kServed, read_forward),
    FIELD(FileWriterOptions, block_bytes, kInvalid, write_file),
    FIELD(FileWriterOptions, comeback_blocks, kInvalid, write_file),
    FIELD(FileWriterOptions, write_behind, kInvalid, write_file),
    FIELD(FileWriterOptions, request_bytes, kServedOrNoMemory, write_file),
    FIELD(FileWriterOptions, expected_bytes, Ends{EFBIG}, write_file),
    FIELD(FileWriterOptions, reserve_bytes, kServed, write_file),
    FIELD(FileWriterOptions, least_reserve_bytes, kServed, write_file),
    FIELD(FileArrayOptions, memory_bytes, kServedOrNoMemory, change_array),
    FIELD(FileArrayOptions, block_bytes, kInvalid, change_array),
    FIELD(FileArrayOptions, comeback_blocks, kInvalid, change_array),
    FIELD(FileArrayOptions, read_ahead, kInvalid, change_array),
    FIELD(FileArrayOptions, cursors, kInvalid, change_array),
    FIELD(FileArrayOptions, write_behind, kInvalid, change_array),
    FIELD(FileArrayOptions, request_bytes, kServedOrNoMemory, change_array),
    FIELD(FileArrayOptions, reserve_bytes, kServed, change_array),
    FIELD(DiskOptions, depth, kInvalid, open_a_disk),
    FIELD(DiskSpeedOptions, bytes, kInvalid, measure),
    FIELD(DiskSpeedOptions, most_ns, kServed, measure),
    FIELD(DiskSpeedOptions, request_bytes, kInvalid, measure),
    FIELD(DiskSpeedOptions, depth, kInvalid, measure),
    FIELD(StripedFileOptions, seed, kServed, stripe),
    FIELD(StripedFileOptions, sequence, kServed, stripe),
    FIELD(StripedFileOptions, unit_bytes, kInvalid, stripe),
    FIELD(StripedFileOptions, most_bytes, kInvalid, stripe),
};

// A range that says that it has so many words.
struct ClaimedRange {
  std::uint64_t count;

  const Word* begin() const { return nullptr; }
  const Word* end() const { return nullptr; }
  std::uint64_t size() const { return count; }
};

// The number of words whose bytes wrap around to those of one.
constexpr std::uint64_t kWraps = (std::uint64_t{1} << 61) + 1;

// An array that is as it was afterwards.
template <typename Use>
void with_array(const Use& use) {
  const std::string path = some_file();
  FileArray<Word> array(path, given<FileArrayOptions>());
  use(array);
  ASSERT_EQ(array.size(), kWords);
  ASSERT_EQ(length_of(path), kWords * sizeof(Word));
}

template <typename Use>
void with_reader(const Use& use) {
  FileReader<Word> in(some_file(), given<FileReaderOptions>());
  use(in);
}

template <typename Use>
void with_input(const Use& use) {
  auto in = input_from_callback<char>(small_pool(), fill_ones);
  use(in);
}

template <typename Use>
void with_output(const Use& use) {
  auto out =
      output_to_callback<Word>(small_pool(), [](std::span<const std::byte>, std::uint64_t) {});
  guarded([&] { out.data()[0] = 1; }).throw_if_failed();
  use(out);
}

template <typename Use>
void with_vanishing(const Use& use) {
  StreamPool pool(small_pool(), 8);
  VanishingArray<Word> array(pool, 100);
  array.load(std::vector<Word>(50, 3));
  use(array);
  ASSERT_EQ(array.data()[49], 3U);
}

template <typename Use>
void with_bucket(const Use& use) {
  StreamPool pool(small_pool(), 8);
  BucketStream bucket(pool);
  use(bucket);
}

const ExtremeNumber kCalls[] = {
    CALL("FileArray::allocate(count)", Ends{EFBIG},
         with_array([&](auto& array) { array.allocate(n); })),
    CALL("FileArray::resize(count)", Ends{EFBIG}, with_array([&](auto& array) {
           if (n > 1) array.resize(n);
         })),
    CALL("FileArray::flush(first, count)", kServed,
         with_array([&](auto& array) { array.flush(n, n, Flush::kWritten); })),
    CALL("FileArray::will_need(first, count)", kServed,
         with_array([&](auto& array) { array.will_need(n, n); })),
    CALL("FileArray::prefault(offset)", Ends{ERANGE},
         with_array([&](auto& array) { array.prefault(n, 1, Access::kRead); })),
    CALL("FileArray::prefault(bytes)", Ends{ERANGE},
         with_array([&](auto& array) { array.prefault(1, n, Access::kRead); })),
    CALL("FileArrayBase::blocks_needed(block_bytes)", kServed, FileArrayBase::blocks_needed({}, n)),
    CALL("FileReader::will_need(first, count)", kServed,
         with_reader([&](auto& in) { in.will_need(n, n); })),
    CALL("FileReader::prefault(offset)", Ends{ERANGE},
         with_reader([&](auto& in) { in.prefault(n, 1); })),
    CALL("FileReader::prefault(bytes)", Ends{ERANGE},
         with_reader([&](auto& in) { in.prefault(1, n); })),
    CALL("FileReader::readable_bytes(offset)", kServed,
         with_reader([&](auto& in) { ASSERT_EQ(in.readable_bytes(n), kWords * sizeof(Word)); })),
    CALL("FileReaderBase::blocks_needed(block_bytes)", kServed,
         FileReaderBase::blocks_needed({}, n)),
    CALL("write_from_stream(offset)", Ends{ERANGE},
         with_reader([&](auto& in) { write_from_stream(null_device(), in, n, n); })),
    CALL("FileWriterBase::blocks_needed(block_bytes)", kServed,
         FileWriterBase::blocks_needed({}, n)),
    CALL("InputStream::prefault(offset)", Ends{ERANGE},
         with_input([&](auto& in) { in.prefault(n, 1); })),
    CALL("InputStream::prefault(bytes)", (Ends{EINVAL, ERANGE}),
         with_input([&](auto& in) { in.prefault(1, n); })),
    CALL("InputStream::readable_bytes(offset)", Ends{ERANGE},
         with_input([&](auto& in) { in.readable_bytes(n); })),
    CALL("OutputStream::finish(count)", kInvalid, with_output([&](auto& out) { out.finish(n); })),
    CALL("OutputStream::prefault(offset)", Ends{ERANGE},
         with_output([&](auto& out) { out.prefault(n, 1); })),
    CALL("read_into_stream(offset, bytes)", (Ends{0, ERANGE}),
         with_output([&](auto& out) { read_into_stream(null_device(), out, n, n); })),
    CALL("CommitStream::finish(count)", kInvalid,
         {
           CommitStream<Word> stream(given<CommitStreamOptions>());
           guarded([&] { stream.writer_data()[0] = 5; }).throw_if_failed();
           stream.finish(n);
         }),
    CALL("callback_source(blocks)", kInvalid,
         callback_source(small_pool(), n, fill_ones, std::nullopt, "test")),
    CALL("callback_source(length_bytes)", kInvalid,
         input_from_callback<char>(small_pool(), fill_ones, {}, n)),
    CALL("callback_sink(blocks)", kInvalid,
         callback_sink(
             small_pool(), n, [](std::span<const std::byte>, std::uint64_t) {}, "test")),
    CALL("input_from_range(range)", kInvalid, input_from_range(small_pool(), ClaimedRange{n})),
    CALL("BlockQuota::BlockQuota(minimum)", kNoMemory, BlockQuota(small_pool(), n, kMost, "test")),
    CALL("BlockQuota::BlockQuota(maximum)", kServed, BlockQuota(small_pool(), 0, n, "test")),
    CALL("BlockPool::expect_placed(blocks)", kServed, small_pool().expect_placed(n)),
    CALL("BlockPool::maps_needed(blocks)", kServed, ASSERT_GE(BlockPool::maps_needed(n), n)),
    CALL("StreamPool::StreamPool(blocks)", kNoMemory, StreamPool(small_pool(), n)),
    CALL("VanishingArray::VanishingArray(capacity)", kInvalid,
         {
           StreamPool pool(small_pool(), 8);
           VanishingArray<Word> array(pool, n);
         }),
    CALL("VanishingArray::resize(count)", kInvalid,
         with_vanishing([&](auto& array) { array.resize(n); })),
    CALL("BucketStream::set_aside(offset, bytes)", kServed,
         with_bucket([&](auto& bucket) { ASSERT_EQ(bucket.set_aside(n, n), n > 1 ? ENOSPC : 0); })),
    CALL("BucketStream::truncate(bytes)", kServed,
         with_bucket([&](auto& bucket) { ASSERT_EQ(bucket.truncate(n), 0); })),
    CALL("BlockRanges::open(offset, bytes)", kServed, with_vanishing([&](auto& array) {
           ASSERT_EQ(detail::BlockRanges::open(array, n, n), n > 1 ? ENOSPC : 0);
         })),
    CALL("BlockRanges::give_back(begin, end)", kServed, with_vanishing([&](auto& array) {
           ASSERT_EQ(detail::BlockRanges::give_back(array, n, n), 0);
         })),
    CALL("BlockRanges::give_back(begin)", kServed, with_vanishing([&](auto& array) {
           if (n > 1) {
             ASSERT_EQ(detail::BlockRanges::give_back(array, n, kBlock), 0);
           }
         })),
    CALL("StripedFile::StripedFile(length)", kInvalid,
         {
           const std::vector<StripedFile::Part> parts = {{some_file()}};
           StripedFile(parts, {}, n);
         }),
    CALL("stripe_weights(total_bytes)", Ends{ENOSPC}, stripe_weights({1, 2}, {10, 20}, n)),
    CALL("stripe_weights(free_bytes)", kServed, stripe_weights({1, 2}, {n, n}, 1)),
    CALL("format_bytes(bytes)", kServed, ASSERT_FALSE(format_bytes(n).empty())),
};

class StreamNumber : public testing::TestWithParam<ExtremeNumber> {};

TEST_P(StreamNumber, IsRefusedOrServed) { try_extremes(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Options, StreamNumber, testing::ValuesIn(kOptions), name_of_row);
INSTANTIATE_TEST_SUITE_P(Calls, StreamNumber, testing::ValuesIn(kCalls), name_of_row);

// 2^61 + 1 words of 8 bytes are 8 bytes to arithmetic that wraps.
TEST(StreamNumber, OfElementsDoesNotWrap) {
  with_array([](auto& array) {
    std::string message;
    EXPECT_EQ(ending_of([&] { array.resize(kWraps); }, &message), EFBIG);
    EXPECT_EQ(ending_of([&] { array.allocate(kWraps); }, &message), EFBIG);
    array.flush(kWraps, kWraps, Flush::kWritten);
    array.will_need(kWraps, 1);
  });
  const std::string path = folder().file("wraps");
  {
    std::string message;
    FileWriter<Word> out(path, given<FileWriterOptions>());
    guarded([&] { out.data()[0] = 1; }).throw_if_failed();
    EXPECT_EQ(ending_of([&] { out.finish(kWraps); }, &message), EINVAL);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  with_output([](auto& out) {
    std::string message;
    EXPECT_EQ(ending_of([&] { out.finish(kWraps); }, &message), EINVAL);
  });
  CommitStream<Word> stream(given<CommitStreamOptions>());
  std::string message;
  guarded([&] { stream.writer_data()[0] = 5; }).throw_if_failed();
  EXPECT_EQ(ending_of([&] { stream.finish(kWraps); }, &message), EINVAL);
  StreamPool pool(small_pool(), 8);
  EXPECT_EQ(ending_of([&] { VanishingArray<Word>(pool, kWraps); }, &message), EINVAL);
}

// "Halved, down to the file's length": every size, up to what an address space has and beyond.
TEST(StreamNumber, OfBytesToReserveIsHalved) {
  for (int bit = 20; bit < 64; ++bit) {
    FileArrayOptions options = given<FileArrayOptions>();
    options.reserve_bytes = std::uint64_t{1} << bit;
    SCOPED_TRACE(format_bytes(options.reserve_bytes));
    FileArray<Word> array(some_file(), options);
    EXPECT_GT(array.stream().reserved_bytes(), kWords * sizeof(Word));
    EXPECT_LT(array.stream().reserved_bytes(), std::uint64_t{1} << 47);
    guarded([&] { EXPECT_EQ(array.data()[kWords - 1], word(kWords - 1)); }).throw_if_failed();
  }
}

// No file is made where the options are refused.
TEST(StreamNumber, ThatIsRefusedLeavesNoFile) {
  const std::string path = folder().file("not made");
  FileArrayOptions options{.cursors = SIZE_MAX, .make = true};
  std::string message;
  EXPECT_EQ(ending_of([&] { FileArray<Word>(path, options); }, &message), EINVAL);
  EXPECT_TRUE(contains(message, "cursors is 18446744073709551615"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace

}  // namespace vortex::test::stream_limits_test
