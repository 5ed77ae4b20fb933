// Streams in C whose faults a function of the program serves, by right calls and wrong ones: each
// returns what a plain model says, and what is read is what was written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "vortex/c.h"

namespace vortex::test {
namespace {

constexpr std::size_t kB = std::size_t{16} << 10;

// A stream of a few parts, whose function does right and wrong things with its blocks. The model
// has what each part holds, and where each block is.
class OwnStreamCalls {
 public:
  explicit OwnStreamCalls(FuzzedBytes& bytes) : bytes_(bytes) {
    for (std::size_t i = 0; i < kParts; ++i)
      model_.push_back(std::string(kB, static_cast<char>('a' + i)));
  }
  ~OwnStreamCalls() { vtx_stream_close(stream_); }
  OwnStreamCalls(const OwnStreamCalls&) = delete;
  OwnStreamCalls& operator=(const OwnStreamCalls&) = delete;

  void run(vtx_pool* pool, std::size_t pool_blocks) {
    if (!create(pool, pool_blocks)) return;
    EXPECT_EQ(vtx_stream_block_bytes(stream_), kB);
    EXPECT_EQ(vtx_stream_reserved_bytes(stream_), kParts * kB);
    for (int calls = 0; calls < 60 && !bytes_.empty(); ++calls) {
      if (bytes_.below(64) == 0) {
        const int error = static_cast<int>(bytes_.byte());
        vtx_stream_cancel(stream_, bytes_.flag() ? -error : error, bytes_.flag() ? "why" : nullptr);
        fail(error == 0 ? -ECANCELED : -error);
      } else {
        touch_part();
      }
      EXPECT_EQ(vtx_stream_failure(stream_), failure_);
    }
    vtx_stream_counts counts{};
    EXPECT_TRUE(expect(vtx_stream_statistics(stream_, &counts), stream_));
    EXPECT_GE(counts.faults, served_);
    EXPECT_EQ(vtx_stream_statistics(stream_, nullptr), -EINVAL);
  }

 private:
  static constexpr std::size_t kParts = 9;
  static constexpr std::size_t kResting = ~std::size_t{0};
  struct Held {
    std::uint32_t block;
    std::size_t part;
  };

  bool create(vtx_pool* pool, std::size_t pool_blocks) {
    vtx_own_stream_options options{};
    options.blocks = bytes_.below(5);
    options.pool = pool;
    options.block_bytes = pool != nullptr ? 0 : kB;
    options.reserve_bytes = kParts * kB - bytes_.byte();
    most_ = std::max<std::size_t>(options.blocks, 1);
    const unsigned wrong = bytes_.below(16);
    if (wrong == 0) options.reserve_bytes = ~std::uint64_t{0};
    const int result = vtx_stream_create(wrong == 1 ? nullptr : serve, this, &options,
                                         wrong == 2 ? nullptr : &stream_);
    EXPECT_EQ(result == 0, wrong > 2 && (pool == nullptr || pool_blocks >= most_));
    EXPECT_EQ(result == 0, stream_ != nullptr);
    return expect(result);
  }

  // The first error stays.
  void fail(int error) {
    if (failure_ == 0) failure_ = error;
  }
  bool is_placed(std::size_t part) const {
    return std::any_of(held_.begin(), held_.end(),
                       [part](const Held& held) { return held.part == part; });
  }

  static void touch(void* context) {
    auto& calls = *static_cast<OwnStreamCalls*>(context);
    volatile char& at = static_cast<volatile char*>(vtx_stream_data(calls.stream_))[calls.at_];
    if (calls.writes_) {
      at = calls.byte_;
    } else {
      calls.byte_ = at;
    }
  }
  void touch_part() {
    const std::size_t part = bytes_.below(kParts + 1);
    at_ = part * kB + bytes_.byte() * (kB / 256);
    writes_ = bytes_.flag();
    byte_ = static_cast<char>(bytes_.byte());
    const bool is_there = is_placed(part);
    const int result = vtx_guarded(touch, this);
    if (part == kParts) fail(-ENOSPC);
    EXPECT_EQ(result, is_there ? 0 : failure_);
    if (!expect(result)) return;
    char& expected = model_.at(part).at(at_ % kB);
    if (writes_) expected = byte_;
    EXPECT_EQ(byte_, expected);
  }

  // The function of the stream.
  static int serve(void* context, vtx_stream* stream, int access, std::uint64_t offset) {
    auto& calls = *static_cast<OwnStreamCalls*>(context);
    EXPECT_EQ(stream, calls.stream_);
    EXPECT_EQ(offset / kB, calls.at_ / kB);
    EXPECT_TRUE(access == VTX_ACCESS_UNKNOWN ||
                access == (calls.writes_ ? VTX_ACCESS_WRITE : VTX_ACCESS_READ));
    EXPECT_EQ(calls.failure_, 0) << "a stream that has failed serves nothing";
    for (unsigned i = calls.bytes_.below(4); i > 0; --i) calls.use_blocks(offset);
    switch (calls.bytes_.below(32)) {
      case 0:
        calls.fail(-EFAULT);
        return 0;
      case 1: {
        const int error = 1 + static_cast<int>(calls.bytes_.byte());
        calls.fail(-error);
        return -error;
      }
      case 2:
        calls.fail(-EIO);
        return 1;
      default:
        calls.bring(offset);
        return 0;
    }
  }
  void bring(std::uint64_t offset) {
    if (held_.size() < most_) {
      take();
    } else {
      withdraw(held_.front());
    }
    const auto resting =
        std::find_if(held_.begin(), held_.end(), [](auto& held) { return held.part == kResting; });
    ASSERT_TRUE(resting != held_.end());
    resting->part = offset / kB;
    std::memcpy(vtx_stream_home(stream_, resting->block), model_.at(resting->part).data(), kB);
    EXPECT_EQ(vtx_stream_place(stream_, resting->block, offset), 0);
    ++served_;
  }
  void take() {
    std::uint32_t block = 0;
    const int result = vtx_stream_take(stream_, &block);
    EXPECT_EQ(result, held_.size() < most_ ? 0 : -EAGAIN);
    if (result == 0) held_.push_back({block, kResting});
  }
  void withdraw(Held& held) {
    EXPECT_EQ(vtx_stream_withdraw(stream_, held.block), 0);
    if (held.part == kResting) return;
    const void* const home = vtx_stream_home(stream_, held.block);
    ASSERT_NE(home, nullptr);
    EXPECT_EQ(std::memcmp(home, model_.at(held.part).data(), kB), 0);
    held.part = kResting;
  }
  void give_back(std::size_t which) {
    const Held held = held_[which];
    const int result = vtx_stream_give_back(stream_, held.block);
    EXPECT_EQ(result, held.part == kResting ? 0 : -EBUSY);
    if (result == 0) held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  // Any call, right or wrong, that leaves the part at `offset` empty.
  void use_blocks(std::uint64_t offset) {
    const unsigned call = bytes_.below(8);
    if (call == 0) return take();
    if (call == 1) return is_no_block();
    if (held_.empty()) return;
    const std::size_t which = bytes_.below(static_cast<unsigned>(held_.size()));
    Held& held = held_[which];
    const bool rests = held.part == kResting;
    switch (call) {
      case 2:
        return withdraw(held);
      case 3:
        return give_back(which);
      case 4:
        EXPECT_EQ(vtx_stream_home(stream_, held.block) != nullptr, rests);
        return;
      case 5: {
        // At most 2^63 further, so that neither this nor its complement is a part's.
        const std::uint64_t beyond = kParts * kB + bytes_.number() / 2;
        EXPECT_EQ(vtx_stream_place(stream_, held.block, bytes_.flag() ? beyond : ~beyond),
                  rests ? -ERANGE : -EINVAL);
        return;
      }
      default: {
        const std::size_t part = bytes_.below(kParts);
        if (part == offset / kB) return;
        const int expected = !rests ? -EINVAL : is_placed(part) ? -EEXIST : 0;
        if (rests) {
          std::memcpy(vtx_stream_home(stream_, held.block), model_.at(part).data(), kB);
        }
        EXPECT_EQ(vtx_stream_place(stream_, held.block, part * kB + bytes_.byte()), expected);
        if (expected == 0) held.part = part;
      }
    }
  }
  void is_no_block() {
    std::uint32_t block = static_cast<std::uint32_t>(bytes_.number());
    while (std::any_of(held_.begin(), held_.end(), [&](auto& held) { return held.block == block; }))
      ++block;
    EXPECT_EQ(vtx_stream_take(stream_, nullptr), -EINVAL);
    EXPECT_EQ(vtx_stream_home(stream_, block), nullptr);
    EXPECT_EQ(vtx_stream_place(stream_, block, 0), -EINVAL);
    EXPECT_EQ(vtx_stream_withdraw(stream_, block), -EINVAL);
    EXPECT_EQ(vtx_stream_give_back(stream_, block), -EINVAL);
  }

  FuzzedBytes& bytes_;
  std::vector<std::string> model_;
  std::vector<Held> held_;
  std::size_t most_ = 1, at_ = 0;
  std::uint64_t served_ = 0;
  bool writes_ = false;
  char byte_ = 0;
  int failure_ = 0;
  vtx_stream* stream_ = nullptr;
};

}  // namespace

void fuzz_c_streams(std::string_view input) {
  FuzzedBytes bytes(input);
  vtx_pool_options options{};
  const std::size_t blocks = 1 + bytes.below(6);
  options.pool_bytes = blocks * kB;
  options.block_bytes = kB;
  vtx_pool* pool = nullptr;
  if (bytes.flag()) {
    ASSERT_EQ(vtx_pool_create(&options, &pool), 0);
    EXPECT_EQ(vtx_pool_block_bytes(pool), kB);
  }
  OwnStreamCalls(bytes).run(pool, blocks);
  if (pool == nullptr) return;
  vtx_pool_counts counts{};
  EXPECT_EQ(vtx_pool_statistics(pool, &counts), 0);
  EXPECT_EQ(counts.blocks_in_use, 0U);
  EXPECT_EQ(counts.blocks_guaranteed, 0U);
  vtx_pool_close(pool);
}

}  // namespace vortex::test
