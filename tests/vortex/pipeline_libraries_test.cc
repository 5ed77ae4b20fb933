// Code that has never heard of blocks, at both ends of a pipeline.
#include <gtest/gtest.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "vortex/pipeline.h"

namespace vortex::pipeline_libraries_test { namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

PipelineOptions options(std::size_t block_bytes, std::size_t l, std::size_t m) {
  return {.block_bytes = block_bytes,
          .read_ahead_blocks = 2,
          .writer_comeback_blocks = l,
          .reader_comeback_blocks = m,
          .reserve_bytes = std::uint64_t{1} << 34};
}

std::uint64_t mixed(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15;
  return i ^ i >> 29;
}

// Eight bytes of something between noise and text: it shrinks to about a third.
std::uint64_t text_word(std::uint64_t i) {
  const std::uint64_t word = mixed(i);
  return (word & 0x0303030303030303) + 0x6161616161616161;
}

std::size_t text_bytes() {
  if (test::long_tests()) return 3584 * kMiB;  // zlib counts in 32 bits
  return (test::kShadowMemory ? 4 : 24) * kMiB;
}

void write_text(std::uint64_t* out, std::size_t bytes) {
  for (std::uint64_t i = 0; i < bytes / 8; ++i) out[i] = text_word(i);
}

std::uint64_t wrong_text(const std::uint64_t* in, std::size_t bytes) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < bytes / 8; ++i) wrong += in[i] != text_word(i);
  return wrong;
}

// Without zlib's header and checksum: inflate() reads all that it wrote in a call once more to add
// it up, and that lies far behind any window.
TEST(PipelineLibrariesTest, ZlibThereAndBackInOneCallEach) {
  const std::size_t bytes = text_bytes();
  PipelineOptions known = options(256 * kKiB, 1, 1);
  known.length_bytes = bytes;
  Pipeline<std::uint64_t> original(known);
  // The length is known to nobody before the compressor returns, so the decompressor gets a bound.
  Pipeline<unsigned char> packed(options(128 * kKiB, 1, 1));
  Pipeline<std::uint64_t> restored(known);

  std::thread producer([out = original.writer(), bytes]() mutable {
    write_text(out.data(), bytes);
    out.finish(bytes / 8);
  });
  uLong packed_bytes = 0;
  std::thread compressor(
      [in = original.reader(), out = packed.writer(), bytes, &packed_bytes]() mutable {
        z_stream zlib = {};
        ASSERT_EQ(deflateInit2(&zlib, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
        zlib.next_in = reinterpret_cast<unsigned char*>(const_cast<std::uint64_t*>(in.data()));
        zlib.avail_in = static_cast<uInt>(bytes);
        zlib.next_out = out.data();
        zlib.avail_out = static_cast<uInt>(compressBound(bytes));
        EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
        packed_bytes = zlib.total_out;
        deflateEnd(&zlib);
        out.finish(packed_bytes);
      });
  uLong unpacked_from = 0;
  std::thread decompressor(
      [in = packed.reader(), out = restored.writer(), bytes, &unpacked_from]() mutable {
        z_stream zlib = {};
        ASSERT_EQ(inflateInit2(&zlib, -MAX_WBITS), Z_OK);
        zlib.next_in = const_cast<unsigned char*>(in.data());
        zlib.avail_in = static_cast<uInt>(compressBound(bytes));
        zlib.next_out = reinterpret_cast<unsigned char*>(out.data());
        zlib.avail_out = static_cast<uInt>(bytes);
        EXPECT_EQ(inflate(&zlib, Z_FINISH), Z_STREAM_END);
        unpacked_from = zlib.total_in;
        EXPECT_EQ(zlib.total_out, bytes);
        inflateEnd(&zlib);
        out.finish(bytes / 8);
      });
  auto in = restored.reader();
  EXPECT_EQ(wrong_text(in.data(), bytes), 0u);
  producer.join();
  compressor.join();
  decompressor.join();
  EXPECT_EQ(unpacked_from, packed_bytes);
  EXPECT_LT(packed_bytes, bytes / 2);
}

TEST(PipelineLibrariesTest, ZstdCompressesAStreamInOneCall) {
  const std::size_t bytes = text_bytes();
  // The compressor looks back as far as its window.
  constexpr int kWindowLog = 19;
  PipelineOptions known = options(256 * kKiB, 1, (std::size_t{1} << kWindowLog) / (256 * kKiB) + 1);
  known.length_bytes = bytes;
  Pipeline<std::uint64_t> original(known);
  Pipeline<char> packed(options(256 * kKiB, 1, 1));
  std::thread producer([out = original.writer(), bytes]() mutable {
    write_text(out.data(), bytes);
    out.finish(bytes / 8);
  });
  std::thread compressor([in = original.reader(), out = packed.writer(), bytes]() mutable {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, kWindowLog);
    const std::size_t size =
        ZSTD_compress2(context, out.data(), ZSTD_compressBound(bytes), in.data(), bytes);
    ZSTD_freeCCtx(context);
    ASSERT_FALSE(ZSTD_isError(size)) << ZSTD_getErrorName(size);
    out.finish(size);
  });
  // An independent way back, piece by piece into ordinary memory.
  auto in = packed.reader();
  ZSTD_DStream* stream = ZSTD_createDStream();
  std::vector<std::uint64_t> piece(kMiB / 8);
  std::uint64_t words = 0;
  std::uint64_t wrong = 0;
  std::size_t consumed = 0;
  std::size_t hint = 1;
  while (hint != 0) {
    ZSTD_outBuffer to = {piece.data(), kMiB, 0};
    while (hint != 0 && to.pos < to.size) {
      ZSTD_inBuffer from = {in.data() + consumed, hint, 0};
      hint = ZSTD_decompressStream(stream, &to, &from);
      ASSERT_FALSE(ZSTD_isError(hint)) << ZSTD_getErrorName(hint);
      consumed += from.pos;
    }
    for (std::size_t i = 0; i < to.pos / 8; ++i) wrong += piece[i] != text_word(words++);
  }
  ZSTD_freeDStream(stream);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(words * 8, bytes);
  EXPECT_EQ(in.wait_size(), consumed);
  producer.join();
  compressor.join();
}

TEST(PipelineLibrariesTest, MergeOfTwoStreamsIntoAThird) {
  constexpr std::uint64_t kCount = test::kShadowMemory ? 300'001 : 2'000'001;
  Pipeline<std::uint64_t> left(options(64 * kKiB, 0, 0));
  Pipeline<std::uint64_t> right(options(16 * kKiB, 1, 1));
  Pipeline<std::uint64_t> merged(options(32 * kKiB, 0, 1));
  // Two rising sequences whose terms fall anywhere in each other's gaps. They end together: what is
  // left of one, std::merge copies with memmove, and that begins by looking at the end.
  const auto term = [](std::uint64_t side, std::uint64_t i) {
    return i * (side == 0 ? 2000 : 1000) + mixed(2 * i + side) % 1000;
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&, out = left.writer()]() mutable {
    for (std::uint64_t i = 0; i < kCount; ++i) out.data()[i] = term(0, i);
    out.finish(kCount);
  });
  threads.emplace_back([&, out = right.writer()]() mutable {
    for (std::uint64_t i = 0; i < 2 * kCount; ++i) out.data()[i] = term(1, i);
    out.finish(2 * kCount);
  });
  threads.emplace_back([a = left.reader(), b = right.reader(), out = merged.writer()]() mutable {
    const std::uint64_t* end =
        std::merge(a.data(), a.data() + kCount, b.data(), b.data() + 2 * kCount, out.data());
    out.finish(static_cast<std::uint64_t>(end - out.data()));
  });
  auto in = merged.reader();
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < 3 * kCount; ++i) {
    const bool from_left = a < kCount && (b == 2 * kCount || term(0, a) <= term(1, b));
    wrong += in.data()[i] != (from_left ? term(0, a++) : term(1, b++));
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(in.wait_size(), 3 * kCount);
  for (std::thread& thread : threads) thread.join();
}

TEST(PipelineLibrariesTest, MemmemFindsWhatStraddlesBorders) {
  constexpr std::size_t kBlock = 16 * kKiB;
  constexpr std::size_t kBlocks = 200;
  const std::string needle = "a needle that straddles a border";
  std::mt19937_64 random = test::test_random();
  std::vector<std::size_t> places;
  for (std::size_t block = 3; block + 1 < kBlocks; block += 1 + random() % 9) {
    places.push_back(block * kBlock - 1 - random() % (needle.size() - 1));
  }
  Pipeline<char> pipeline(options(kBlock, 1, 1));
  std::thread producer([&, out = pipeline.writer()]() mutable {
    std::size_t at = 0;
    for (const std::size_t place : places) {
      std::memset(out.data() + at, 'a', place - at);
      std::memcpy(out.data() + place, needle.data(), needle.size());
      at = place + needle.size();
    }
    std::memset(out.data() + at, 'a', kBlocks * kBlock - at);
    out.finish(kBlocks * kBlock);
  });
  auto in = pipeline.reader();
  const char* const end = in.data() + kBlocks * kBlock;
  const char* from = in.data();
  for (const std::size_t place : places) {
    const auto* found = static_cast<const char*>(
        memmem(from, static_cast<std::size_t>(end - from), needle.data(), needle.size()));
    ASSERT_EQ(found, in.data() + place);
    from = found + 1;
  }
  EXPECT_EQ(memmem(from, static_cast<std::size_t>(end - from), needle.data(), needle.size()),
            nullptr);
  producer.join();
}

TEST(PipelineLibrariesTest, QsortInsideTheWindow) {
  constexpr std::size_t kBlock = 16 * kKiB;
  constexpr std::size_t kWindow = 4 * kBlock / 8;  // L + 1 blocks of words
  constexpr std::size_t kWindows = 30;
  Pipeline<std::uint64_t> pipeline(options(kBlock, 3, 0));
  std::thread producer([out = pipeline.writer()]() mutable {
    for (std::size_t window = 0; window < kWindows; ++window) {
      std::uint64_t* const begin = out.data() + window * kWindow;
      for (std::size_t i = 0; i < kWindow; ++i) begin[i] = mixed(window * kWindow + i);
      std::qsort(begin, kWindow, sizeof *begin, [](const void* a, const void* b) {
        const auto x = *static_cast<const std::uint64_t*>(a);
        const auto y = *static_cast<const std::uint64_t*>(b);
        return x < y ? -1 : x > y ? 1 : 0;
      });
    }
    out.finish(kWindows * kWindow);
  });
  auto in = pipeline.reader();
  for (std::size_t window = 0; window < kWindows; ++window) {
    std::vector<std::uint64_t> expected(kWindow);
    for (std::size_t i = 0; i < kWindow; ++i) expected[i] = mixed(window * kWindow + i);
    std::sort(expected.begin(), expected.end());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), in.data() + window * kWindow));
  }
  producer.join();
}

// Counts of the entries that the parser's callbacks saw.
struct Seen {
  std::uint64_t entries = 0;
  std::uint64_t wrong = 0;
  std::size_t characters = 0;
};

TEST(PipelineLibrariesTest, YajlParsesAStreamInOneCall) {
  const std::uint64_t elements = test::kShadowMemory ? 50'000 : 500'000;
  const auto text_of = [](std::uint64_t i) { return std::string(i % 37, 'x'); };
  Pipeline<char> pipeline(options(64 * kKiB, 1, 1));
  std::uint64_t bytes = 0;
  std::thread producer([&, out = pipeline.writer()]() mutable {
    char* to = out.data();
    *to++ = '[';
    for (std::uint64_t i = 0; i < elements; ++i) {
      const std::string text =
          (i == 0 ? "" : ",\n") + std::to_string(i) + ", \"" + text_of(i) + "\"";
      to = std::copy(text.begin(), text.end(), to);
    }
    *to++ = ']';
    bytes = static_cast<std::uint64_t>(to - out.data());
    out.finish(bytes);
  });

  yajl_callbacks callbacks = {};
  callbacks.yajl_integer = [](void* context, long long value) {
    auto* seen = static_cast<Seen*>(context);
    seen->wrong += static_cast<std::uint64_t>(value) != seen->entries++;
    return 1;
  };
  callbacks.yajl_string = [](void* context, const unsigned char* text, std::size_t size) {
    static_cast<Seen*>(context)->characters +=
        static_cast<std::size_t>(std::count(text, text + size, 'x'));
    return 1;
  };
  Seen seen;
  yajl_handle parser = yajl_alloc(&callbacks, nullptr, &seen);
  // Nobody knows the length yet. The parser stops at the first character after the list.
  yajl_config(parser, yajl_allow_trailing_garbage, 1);
  auto in = pipeline.reader();
  const auto* text = reinterpret_cast<const unsigned char*>(in.data());
  EXPECT_EQ(yajl_parse(parser, text, std::size_t{1} << 33), yajl_status_ok);
  EXPECT_EQ(yajl_get_bytes_consumed(parser), in.wait_size());
  yajl_free(parser);
  producer.join();
  EXPECT_EQ(in.size(), bytes);
  std::size_t characters = 0;
  for (std::uint64_t i = 0; i < elements; ++i) characters += text_of(i).size();
  EXPECT_EQ(seen.entries, elements);
  EXPECT_EQ(seen.wrong, 0u);
  EXPECT_EQ(seen.characters, characters);
}

}  // namespace

}  // namespace vortex::pipeline_libraries_test
