#include "vortex/callback_sink.h"

#include <cerrno>
#include <exception>

#include "vortex/error.h"

namespace vortex::inline v0 {

CallbackSink::CallbackSink(BlockPool& pool, std::size_t blocks, DrainFunction drain_function,
                           const std::string& name)
    : quota_(pool, blocks, blocks, "stream '" + name + "'"),
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
  try {
    drain_function_({pool().home(block), bytes}, index * pool().block_bytes());
  } catch (const std::exception& exception) {
    exception_text_ = {};
    exception_text_.text("the function that takes the blocks threw: ");
    exception_text_.text(message_of(exception));
    status = {errno_of(exception, EIO), exception_text_.c_str()};
  } catch (...) {
    status = {EIO, "the function that takes the blocks threw an exception"};
  }
  quota_.give_back(std::exchange(draining_, Block{}));
  return status;
}

}  // namespace vortex::inline v0
