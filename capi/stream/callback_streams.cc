// Functions of a C program behind arrays.
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "capi/stream/input_output.h"
#include "capi/stream/pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

// The error of a stream that a callback touches ends the callback alone, and becomes the error of
// this stream.
FillFunction fill_function(vtx_fill_function fill, void* context) {
  if (fill == nullptr) throw Error(EINVAL, "the function that fills the blocks is NULL");
  return [=](std::span<std::byte> block, std::uint64_t offset) {
    const std::int64_t filled =
        call_back([&] { return fill(context, block.data(), block.size(), offset); });
    if (filled < 0) throw_returned("it", filled, EIO);
    return static_cast<std::size_t>(filled);
  };
}

DrainFunction drain_function(vtx_drain_function drain, void* context) {
  if (drain == nullptr) throw Error(EINVAL, "the function that takes the blocks is NULL");
  return [=](std::span<const std::byte> block, std::uint64_t offset) {
    const int result =
        call_back([&] { return drain(context, block.data(), block.size(), offset); });
    if (result < 0) throw_returned("it", result, EIO);
  };
}

// The options of a C stream for one of C++, and the pool of it.
template <typename Options>
struct StreamSetup {
  explicit StreamSetup(const vtx_stream_options* given)
      : wanted(given != nullptr ? *given : vtx_stream_options{}),
        options(options_of<Options>(given)),
        pool(pool_or_own(wanted.pool, detail::saturating_sum(options.comeback_blocks, 1),
                         wanted.block_bytes)) {}

  const vtx_stream_options wanted;
  const Options options;
  const std::shared_ptr<BlockPool> pool;
};

// The members of CallbackInput that must be there before its base.
struct OwnedInput {
  std::shared_ptr<BlockPool> pool;
  InputStream<std::byte> stream;
};

class CallbackInput final : private OwnedInput, public StreamInput {
 public:
  CallbackInput(FillFunction fill, const StreamSetup<InputStreamOptions>& setup)
      : OwnedInput{setup.pool,
                   input_from_callback<std::byte>(*setup.pool, std::move(fill), setup.options,
                                                  setup.wanted.length_bytes != 0
                                                      ? std::optional(setup.wanted.length_bytes)
                                                      : std::nullopt)},
        StreamInput(OwnedInput::stream) {}
};

class CallbackOutput final : public vtx_output {
 public:
  CallbackOutput(DrainFunction drain, const StreamSetup<OutputStreamOptions>& setup)
      : pool_(setup.pool),
        stream_(output_to_callback<std::byte>(*pool_, std::move(drain), setup.options)) {}

  OutputStreamBase& stream() noexcept override { return stream_; }

 private:
  const std::shared_ptr<BlockPool> pool_;
  OutputStream<std::byte> stream_;
};

}  // namespace

}}}  // namespace vortex::v0::capi

int vtx_input_from_callback(vtx_fill_function fill, void* context,
                            const vtx_stream_options* options, vtx_input** input) {
  using namespace vortex::capi;
  return answer_with(input, [&] {
    return std::make_unique<CallbackInput>(fill_function(fill, context),
                                           StreamSetup<vortex::InputStreamOptions>(options));
  });
}

int vtx_output_to_callback(vtx_drain_function drain, void* context,
                           const vtx_stream_options* options, vtx_output** output) {
  using namespace vortex::capi;
  return answer_with(output, [&] {
    return std::make_unique<CallbackOutput>(drain_function(drain, context),
                                            StreamSetup<vortex::OutputStreamOptions>(options));
  });
}
