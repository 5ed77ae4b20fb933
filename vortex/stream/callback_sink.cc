#include "vortex/output_stream.h"

#include <cerrno>
#include <exception>

#include "vortex/error.h"
#include "vortex/pool/block_counts.h"
#include "vortex/thread/waiting.h"

namespace vortex { inline namespace v0 {

namespace {

class CallbackSink final : public Sink {
 public:
  CallbackSink(BlockPool& pool, std::size_t blocks, DrainFunction drain_function,
               const std::string& name);
  ~CallbackSink() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }
  Taken take(std::uint64_t index) noexcept override;
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override;
  void discard(Block block) noexcept override { quota_.give_back(block); }

 private:
  BlockQuota quota_;
  DrainFunction drain_function_;
  // The block the function reads at present. Still set at the end if the function never returned,
  // because a stream that it touched failed inside vortex::guarded().
  Block draining_;
  CauseText exception_text_;
};

std::size_t checked(std::size_t blocks, const std::string& name) {
  expect_block_count("stream '" + name + "'", "its window in blocks", blocks);
  return blocks;
}

CallbackSink::CallbackSink(BlockPool& pool, std::size_t blocks, DrainFunction drain_function,
                           const std::string& name)
    : quota_(pool, checked(blocks, name), blocks, "stream '" + name + "'"),
      drain_function_(std::move(drain_function)) {}

CallbackSink::~CallbackSink() {
  if (draining_) quota_.give_back(draining_);
}

Sink::Taken CallbackSink::take(std::uint64_t /*index*/) noexcept {
  const auto [block, error] = quota_.try_take();
  if (error != 0) return {{}, {error, "no block left in the pool"}};
  return {block, {}};
}

Status CallbackSink::complete(std::uint64_t index, Block block, std::size_t bytes) noexcept {
  Status status;
  draining_ = block;
  os::before_waiting();
  try {
    drain_function_({pool().home(block), bytes}, index * pool().block_bytes());
  } catch (const std::exception& exception) {
    exception_text_ = {};
    exception_text_.text("the function that takes the blocks failed: ");
    exception_text_.text(message_of(exception));
    status = {errno_of(exception, EIO), exception_text_.c_str()};
  } catch (...) {
    status = {EIO, "the function that takes the blocks threw an exception"};
  }
  quota_.give_back(std::exchange(draining_, Block{}));
  return status;
}

}  // namespace

std::unique_ptr<Sink> callback_sink(BlockPool& pool, std::size_t blocks,
                                    DrainFunction drain_function, const std::string& name) {
  return std::make_unique<CallbackSink>(pool, blocks, std::move(drain_function), name);
}

}}  // namespace vortex::v0
