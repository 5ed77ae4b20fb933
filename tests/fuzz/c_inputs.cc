// Inputs and outputs in C over descriptors, and over functions that fail: what is read is what the
// descriptor has from where it stands, and behind an error touches find zeros where that is wanted.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/c.h"

namespace vortex::test {
namespace {

constexpr std::size_t kB = std::size_t{16} << 10;

std::string some_text(FuzzedBytes& bytes, std::size_t most) {
  std::string text(bytes() % most, ' ');
  std::mt19937_64 random(bytes());
  for (char& byte : text) byte = static_cast<char>('a' + random() % 20);
  return text;
}

// --- Descriptors

// A descriptor that is closed with it.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

// All of a pipe is in it before it is opened, so that no read of it waits.
void read_descriptor(FuzzedBytes& bytes, const TemporaryFolder& folder) {
  const std::string text = some_text(bytes, 4 * kB), path = folder.file("read");
  const std::size_t stands_at = bytes() % (text.size() + 1);
  const bool is_pipe = bytes.flag();
  std::array<int, 2> ends{-1, -1};
  if (is_pipe) {
    ASSERT_EQ(pipe(ends.data()), 0);
    ASSERT_EQ(::write(ends[1], text.data() + stands_at, text.size() - stands_at),
              static_cast<ssize_t>(text.size() - stands_at));
    ::close(ends[1]);
  } else {
    put_file_text(path, text);
    ends[0] = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::lseek(ends[0], static_cast<off_t>(stands_at), SEEK_SET),
              static_cast<off_t>(stands_at));
  }
  Descriptor descriptor(ends[0]);
  const unsigned wrong = bytes.below(16);
  if (wrong == 0) descriptor.close();
  vtx_file_options options{};
  options.block_bytes = kB;
  options.forward = bytes.flag();
  options.read_ahead = bytes.below(3);
  options.caching = static_cast<int>(bytes.below(3));
  vtx_input* input = nullptr;
  const int result =
      vtx_input_open_descriptor(descriptor.number(), &options, wrong == 1 ? nullptr : &input);
  EXPECT_EQ(result, wrong == 0 ? -EBADF : wrong == 1 ? -EINVAL : 0);
  EXPECT_EQ(result == 0, input != nullptr);
  if (!expect(result)) return;
  const std::string expected = text.substr(stands_at);
  const auto* const data = static_cast<const char*>(vtx_input_data(input));
  std::uint64_t end = 0, length = 0;
  EXPECT_EQ(vtx_input_readable(input, 0, nullptr), -EINVAL);
  for (std::uint64_t at = 0;; at = end) {
    ASSERT_EQ(vtx_input_readable(input, at, &end), 0) << vtx_strerror(input);
    if (end <= at) break;
    ASSERT_LE(at, expected.size());
    end = std::min<std::uint64_t>(end, at + 1 + bytes() % kB);
    EXPECT_EQ(vtx_input_will_need(input, at, bytes.number()), 0);
    const std::size_t some = std::min<std::uint64_t>(end, expected.size()) - at;
    if (some == 0) break;
    std::string read(some, ' ');
    ASSERT_EQ(guarded_copy(data + at, read.data(), read.size()), 0);
    EXPECT_TRUE(read == expected.substr(at, read.size()));
    EXPECT_NE(vtx_input_home(input, data + at), nullptr);
  }
  EXPECT_EQ(vtx_input_wait_length(input, &length), 0);
  EXPECT_EQ(length, expected.size());
  vtx_stream_counts counts{};
  EXPECT_EQ(vtx_input_statistics(input, &counts), 0);
  EXPECT_GE(counts.read.bytes, expected.size());
  vtx_input_close(input);
  EXPECT_EQ(::fcntl(descriptor.number(), F_GETFD) & ~FD_CLOEXEC, 0) << "it stays the caller's";
}

void write_descriptor(FuzzedBytes& bytes, const TemporaryFolder& folder) {
  const std::string text = some_text(bytes, 3 * kB), path = folder.file("written");
  const std::string head = some_text(bytes, kB);
  const bool is_pipe = bytes.flag();
  std::array<int, 2> ends{-1, -1};
  if (is_pipe) {
    ASSERT_EQ(pipe(ends.data()), 0);
  } else {
    put_file_text(path, head);
    ends[1] = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(::lseek(ends[1], 0, SEEK_END), 0);
  }
  Descriptor from(ends[0]), to(ends[1]);
  const unsigned wrong = bytes.below(16);
  if (wrong == 0) to.close();
  vtx_new_file_options options{};
  options.block_bytes = kB;
  options.write_behind = bytes.below(3);
  options.reserve_bytes = 64 * kB;
  vtx_output* output = nullptr;
  const int result =
      vtx_output_open_descriptor(to.number(), &options, wrong == 1 ? nullptr : &output);
  EXPECT_EQ(result, wrong == 0 ? -EBADF : wrong == 1 ? -EINVAL : 0);
  EXPECT_EQ(result == 0, output != nullptr);
  if (!expect(result)) return;
  auto* const data = static_cast<char*>(vtx_output_data(output));
  for (std::size_t at = 0, some = 0; at < text.size(); at += some) {
    some = std::min<std::size_t>(text.size() - at, 1 + bytes() % kB);
    ASSERT_EQ(guarded_copy(text.data() + at, data + at, some), 0);
  }
  const std::size_t finished = bytes.below(4) == 0 ? bytes() % (text.size() + 1) : text.size();
  // Whole blocks that were handed over are written.
  const bool cuts = finished / kB + 2 > text.size() / kB;
  EXPECT_EQ(vtx_output_failure(output), 0);
  const int end = vtx_output_finish(output, finished);
  EXPECT_TRUE(end == 0 || !cuts) << vtx_strerror(output);
  EXPECT_EQ(vtx_output_finish(output, finished), end == 0 ? -EALREADY : end);
  vtx_stream_counts counts{};
  EXPECT_EQ(vtx_output_statistics(output, &counts), 0);
  vtx_output_close(output);
  if (end != 0) return;
  to.close();
  if (is_pipe) {
    std::string read(text.size() + 1, ' ');
    const ssize_t count = ::read(from.number(), read.data(), read.size());
    ASSERT_GE(count, 0);
    read.resize(static_cast<std::size_t>(count));
    EXPECT_TRUE(read == text.substr(0, finished));
  } else {
    EXPECT_TRUE(file_text(path) == head + text.substr(0, finished));
  }
}

// --- What touches find behind an error

struct Told {
  int calls = 0, error = 0;
};
void tell(void* context, int error, const char* line) {
  auto& told = *static_cast<Told*>(context);
  ++told.calls;
  told.error = error;
  EXPECT_STRNE(line, "");
}

constexpr std::size_t kBlocks = 12;

std::int64_t fill(void* context, void* block, std::size_t bytes, std::uint64_t offset) {
  const std::size_t at = offset / kB;
  if (at >= *static_cast<const std::size_t*>(context)) return -EDOM;
  std::memset(block, static_cast<int>('a' + at), bytes);
  return static_cast<std::int64_t>(bytes);
}
int drain(void* context, const void* /*block*/, std::size_t /*bytes*/, std::uint64_t offset) {
  return offset / kB >= *static_cast<const std::size_t*>(context) ? -ENOSPC : 0;
}

// Touches an input upwards, some in a guarded scope. The function is told of the others, once for
// each place until the zeros are taken away.
void filled_input(FuzzedBytes& bytes) {
  std::size_t fails_at = bytes.below(kBlocks + 1);
  vtx_stream_options options{};
  options.block_bytes = kB;
  options.length_bytes = kBlocks * kB;
  vtx_input* input = nullptr;
  ASSERT_EQ(vtx_input_from_callback(fill, &fails_at, &options, &input), 0);
  Told told;
  std::set<std::size_t> zeros;
  ASSERT_EQ(vtx_input_fill_on_failure(input, tell, &told), 0);
  const auto* const data = static_cast<const char*>(vtx_input_data(input));
  int calls = 0;
  for (std::size_t at = 0; at < kBlocks && !bytes.empty();) {
    const bool fails = at >= fails_at, filled = zeros.count(at) != 0;
    const std::size_t byte = at * kB + bytes.byte();
    char read = '?';
    if (bytes.below(3) == 0) {
      EXPECT_EQ(guarded_copy(data + byte, &read, 1), fails && !filled ? -EDOM : 0);
    } else {
      read = static_cast<const volatile char*>(data)[byte];
      calls += fails && !filled ? 1 : 0;
      if (fails) zeros.insert(at);
    }
    const bool is_there = !fails || zeros.count(at) != 0;
    EXPECT_EQ(read, !is_there ? '?' : fails ? '\0' : static_cast<char>('a' + at));
    EXPECT_EQ(told.calls, calls);
    EXPECT_EQ(told.error, calls == 0 ? 0 : -EDOM);
    if (bytes.below(4) == 0) {
      EXPECT_EQ(vtx_input_clear_filler(input), 0);
      zeros.clear();
    }
    at += bytes.below(3);
  }
  EXPECT_EQ(vtx_input_fill_on_failure(input, nullptr, nullptr), 0);
  vtx_input_close(input);
}

// The same for an output, whose blocks flow away behind the window of two.
void filled_output(FuzzedBytes& bytes) {
  std::size_t fails_at = bytes.below(kBlocks + 1);
  vtx_stream_options options{};
  options.block_bytes = kB;
  options.reserve_bytes = 2 * kBlocks * kB;
  vtx_output* output = nullptr;
  ASSERT_EQ(vtx_output_to_callback(drain, &fails_at, &options, &output), 0);
  Told told;
  ASSERT_EQ(vtx_output_fill_on_failure(output, tell, &told), 0);
  auto* const data = static_cast<char*>(vtx_output_data(output));
  std::size_t end = 0;
  int calls = 0;
  for (; end < kBlocks && (!bytes.empty() || end == 0); ++end) {
    const bool fails = end >= fails_at + 2;
    if (bytes.below(4) == 0) {
      const char written = 'w';
      EXPECT_EQ(guarded_copy(&written, data + end * kB, 1), fails ? -ENOSPC : 0);
    } else {
      static_cast<volatile char*>(data)[end * kB + bytes.byte()] = 'w';
      calls += fails ? 1 : 0;
    }
    EXPECT_EQ(told.calls, calls);
    if (bytes.below(4) == 0) {
      EXPECT_EQ(vtx_output_clear_filler(output), 0);
    }
  }
  EXPECT_EQ(vtx_output_failure(output), end >= fails_at + 3 ? -ENOSPC : 0);
  EXPECT_EQ(vtx_output_finish(output, end * kB), end > fails_at ? -ENOSPC : 0);
  EXPECT_EQ(vtx_output_fill_on_failure(output, nullptr, nullptr), 0);
  vtx_output_close(output);
}

}  // namespace

void fuzz_c_inputs(std::string_view input) {
  static const TemporaryFolder folder(fast_folder());
  FuzzedBytes bytes(input);
  switch (bytes.below(4)) {
    case 0:
      return read_descriptor(bytes, folder);
    case 1:
      return write_descriptor(bytes, folder);
    case 2:
      return filled_input(bytes);
    default:
      return filled_output(bytes);
  }
}

}  // namespace vortex::test
