#include "vortex/input_stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>

#include "vortex/error.h"
#include "vortex/pool/block_counts.h"
#include "vortex/thread/waiting.h"

namespace vortex { inline namespace v0 {

namespace {

class CallbackSource final : public Source {
 public:
  CallbackSource(BlockPool& pool, std::size_t blocks, FillFunction fill_function,
                 std::optional<std::uint64_t> length_bytes, const std::string& name);
  ~CallbackSource() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }
  Taken take(std::uint64_t index, std::uint64_t floor) noexcept override;
  void release(std::uint64_t index, Block block) noexcept override;
  std::optional<std::uint64_t> length() const noexcept override;

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  BlockQuota quota_;
  FillFunction fill_function_;
  // The block the function fills at present. Still set at the end if the function never returned,
  // because a stream that it read failed inside vortex::guarded().
  Block filling_;
  std::atomic<std::uint64_t> length_;
  CauseText exception_text_;
};

std::size_t checked(std::size_t blocks, std::optional<std::uint64_t> length_bytes,
                    const std::string& name) {
  const std::string who = "stream '" + name + "'";
  expect_block_count(who, "its window in blocks", blocks);
  if (length_bytes == ~std::uint64_t{0}) {
    throw Error(EINVAL,
                who + ": no address space holds " + std::to_string(*length_bytes) + " bytes");
  }
  return blocks;
}

CallbackSource::CallbackSource(BlockPool& pool, std::size_t blocks, FillFunction fill_function,
                               std::optional<std::uint64_t> length_bytes, const std::string& name)
    : quota_(pool, checked(blocks, length_bytes, name), blocks, "stream '" + name + "'"),
      fill_function_(std::move(fill_function)),
      length_(length_bytes.value_or(kUnknown)) {}

CallbackSource::~CallbackSource() {
  if (filling_) quota_.give_back(filling_);
}

std::optional<std::uint64_t> CallbackSource::length() const noexcept {
  const std::uint64_t length = length_.load(std::memory_order_acquire);
  if (length == kUnknown) return std::nullopt;
  return length;
}

Source::Taken CallbackSource::take(std::uint64_t index, std::uint64_t /*floor*/) noexcept {
  const std::size_t block_bytes = pool().block_bytes();
  const std::uint64_t offset = index * block_bytes;
  const std::uint64_t length = length_.load(std::memory_order_relaxed);
  if (offset >= length) return {};
  const auto [block, error] = quota_.try_take();
  if (error != 0) return {{}, 0, {error, "no block left in the pool"}};
  const std::size_t wanted = std::min<std::uint64_t>(block_bytes, length - offset);
  std::size_t written = 0;
  const char* cause = "the function that fills the blocks threw an exception";
  int error_thrown = EIO;
  bool failed = false;
  filling_ = block;
  os::before_waiting();
  try {
    written = fill_function_({pool().home(block), wanted}, offset);
  } catch (const std::exception& exception) {
    exception_text_ = {};
    exception_text_.text("the function that fills the blocks failed: ");
    exception_text_.text(message_of(exception));
    cause = exception_text_.c_str();
    error_thrown = errno_of(exception, EIO);
    failed = true;
  } catch (...) {
    failed = true;
  }
  filling_ = {};
  if (!failed && written > wanted) {
    cause = "the function that fills the blocks says that it wrote more than a block holds";
    failed = true;
  }
  if (!failed && written < wanted && length != kUnknown) {
    cause = "the function that fills the blocks ended before the length it was given";
    failed = true;
  }
  if (failed) {
    quota_.give_back(block);
    return {{}, 0, {error_thrown, cause}};
  }
  if (length == kUnknown && written < block_bytes) {
    length_.store(offset + written, std::memory_order_release);
    if (written == 0) {
      quota_.give_back(block);
      return {};
    }
  }
  return {block, written, {}};
}

void CallbackSource::release(std::uint64_t /*index*/, Block block) noexcept {
  quota_.give_back(block);
}

}  // namespace

std::unique_ptr<Source> callback_source(BlockPool& pool, std::size_t blocks,
                                        FillFunction fill_function,
                                        std::optional<std::uint64_t> length_bytes,
                                        const std::string& name) {
  return std::make_unique<CallbackSource>(pool, blocks, std::move(fill_function), length_bytes,
                                          name);
}

}}  // namespace vortex::v0
