// Sources and sinks that call a function of the program's: Vortex-A.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <string_view>

#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/pool/block_memory.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

std::size_t checked(std::size_t blocks, const std::string& name) {
  expect_block_count("stream '" + name + "'", "its window in blocks", blocks);
  return blocks;
}

// The blocks of a stream, and the calls of the function that is given them.
class FunctionBlocks {
 public:
  FunctionBlocks(BlockPool& pool, std::size_t blocks, const std::string& name, const char* does)
      : quota_(pool, checked(blocks, name), blocks, "stream '" + name + "'"), does_(does) {}
  ~FunctionBlocks() {
    if (in_call_ && !quota_.pool().inherited()) quota_.give_back(in_call_);
  }

  BlockQuota& quota() noexcept { return quota_; }
  const BlockQuota& quota() const noexcept { return quota_; }
  static Status refused(int error) noexcept { return {error, "no block left in the pool"}; }

  template <typename Call>
  Status call(Block block, Call function) noexcept {
    Status status;
    in_call_ = block;
    os::before_waiting();
    exception_text_ = {};
    try {
      function();
    } catch (const std::exception& exception) {
      exception_text_.text(does_).text(" failed: ").text(message_of(exception));
      status = {errno_of(exception, EIO), exception_text_.c_str()};
    } catch (...) {
      exception_text_.text(does_).text(" threw an exception");
      status = {EIO, exception_text_.c_str()};
    }
    in_call_ = {};
    return status;
  }

 private:
  BlockQuota quota_;
  const std::string_view does_;  // "the function that ..."
  // The block that the function has at present. Still set at the end if the function never
  // returned, because a stream that it touched failed inside vortex::guarded().
  Block in_call_;
  CauseText exception_text_;
};

class CallbackSink final : public Sink {
 public:
  CallbackSink(BlockPool& pool, std::size_t blocks, DrainFunction drain, const std::string& name)
      : blocks_(pool, blocks, name, "the function that takes the blocks"),
        drain_(std::move(drain)) {}

  BlockPool& pool() noexcept override { return blocks_.quota().pool(); }
  std::size_t blocks_for_stream() const noexcept override { return blocks_.quota().minimum(); }
  Taken take(std::uint64_t /*index*/) noexcept override {
    const BlockGrant grant = blocks_.quota().try_take();
    if (grant.error != 0) return {{}, FunctionBlocks::refused(grant.error)};
    return {grant.block, {}};
  }
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override {
    const Status status = blocks_.call(block, [&] {
      drain_({pool().home(block), bytes}, index * pool().block_bytes());
    });
    discard(block);
    return status;
  }
  void discard(Block block) noexcept override { blocks_.quota().give_back(block); }

 private:
  FunctionBlocks blocks_;
  const DrainFunction drain_;
};

class CallbackSource final : public Source {
 public:
  CallbackSource(BlockPool& pool, std::size_t blocks, FillFunction fill,
                 std::optional<std::uint64_t> length_bytes, const std::string& name)
      : blocks_(pool, blocks, name, "the function that fills the blocks"),
        fill_(std::move(fill)),
        length_(length_bytes.value_or(kUnknown)) {
    if (length_bytes != kUnknown) return;
    throw Error(EINVAL, blocks_.quota().user() + ": no address space holds " +
                            std::to_string(kUnknown) + " bytes");
  }

  BlockPool& pool() noexcept override { return blocks_.quota().pool(); }
  std::size_t blocks_for_stream() const noexcept override { return blocks_.quota().minimum(); }
  Taken take(std::uint64_t index, std::uint64_t /*floor*/) noexcept override {
    const std::size_t block_bytes = pool().block_bytes();
    const std::uint64_t offset = index * block_bytes;
    const std::uint64_t length = length_.load(std::memory_order_relaxed);
    if (offset >= length) return {};
    const BlockGrant grant = blocks_.quota().try_take();
    if (grant.error != 0) return {{}, 0, FunctionBlocks::refused(grant.error)};
    const std::size_t wanted = std::min<std::uint64_t>(block_bytes, length - offset);
    std::size_t written = 0;
    Status status = blocks_.call(grant.block, [&] {
      written = fill_({pool().home(grant.block), wanted}, offset);
    });
    if (status.ok() && written > wanted) {
      status = {EIO,
                "the function that fills the blocks says that it wrote more than a block holds"};
    } else if (status.ok() && written < wanted && length != kUnknown) {
      status = {EIO, "the function that fills the blocks ended before the length it was given"};
    } else if (status.ok() && written < wanted) {
      length_.store(offset + written, std::memory_order_release);
    }
    if (status.ok() && written != 0) return {grant.block, written, {}};
    release(index, grant.block);
    return {{}, 0, status};
  }
  void release(std::uint64_t /*index*/, Block block) noexcept override {
    blocks_.quota().give_back(block);
  }
  std::optional<std::uint64_t> length() const noexcept override {
    const std::uint64_t length = length_.load(std::memory_order_acquire);
    return length == kUnknown ? std::nullopt : std::optional(length);
  }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  FunctionBlocks blocks_;
  const FillFunction fill_;
  std::atomic<std::uint64_t> length_;
};

}  // namespace

std::unique_ptr<Sink> callback_sink(BlockPool& pool, std::size_t blocks,
                                    DrainFunction drain_function, const std::string& name) {
  return std::make_unique<CallbackSink>(pool, blocks, std::move(drain_function), name);
}

std::unique_ptr<Source> callback_source(BlockPool& pool, std::size_t blocks,
                                        FillFunction fill_function,
                                        std::optional<std::uint64_t> length_bytes,
                                        const std::string& name) {
  return std::make_unique<CallbackSource>(pool, blocks, std::move(fill_function), length_bytes,
                                          name);
}

}}  // namespace vortex::v0
