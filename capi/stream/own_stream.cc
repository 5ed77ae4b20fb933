// Streams whose faults a function of a C program serves.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "capi/stream/pool.h"
#include "capi/stream/stream_handle.h"
#include "vortex/block_pool.h"
#include "vortex/c.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

constexpr std::uint64_t kResting = ~std::uint64_t{0};

// The room for whole blocks, however many bytes are asked for.
AddressSpace space_of(const vtx_own_stream_options& given, std::size_t block_bytes) {
  const auto whole = [&](std::uint64_t bytes) { return detail::round_up(bytes, block_bytes); };
  return {whole(given.reserve_bytes != 0 ? given.reserve_bytes : std::uint64_t{1} << 40),
          whole(given.least_reserve_bytes)};
}

class OwnStream final : public Stream {
 public:
  OwnStream(vtx_serve_function serve, void* context, const vtx_own_stream_options& given,
            std::shared_ptr<BlockPool> pool, vtx_stream* handle)
      : Stream(given.name != nullptr ? given.name : "stream", space_of(given, pool->block_bytes())),
        serve_(serve),
        context_(context),
        handle_(handle),
        pool_(std::move(pool)),
        quota_(*pool_, most_of(given), most_of(given), "the stream '" + name() + "'") {
    held_.reserve(most_of(given));
    open();
  }
  ~OwnStream() override {
    close();
    if (inherited()) return;
    for (const HeldBlock& held : held_) {
      if (held.part != kResting && pool_->withdraw(held.block) != 0) pool_->give_up(held.block);
      quota_.give_back(held.block);
    }
  }

  static std::size_t most_of(const vtx_own_stream_options& given) noexcept {
    return std::max<std::size_t>(given.blocks, 1);
  }

  std::byte* bytes() const noexcept { return base(); }
  std::size_t block_bytes() const noexcept override { return pool_->block_bytes(); }

  int take(std::uint32_t* block) noexcept {
    const BlockGrant grant = quota_.try_take();
    if (grant.error != 0) return -grant.error;
    held_.push_back({grant.block});
    *block = grant.block.index;
    return 0;
  }
  void* home(std::uint32_t block) noexcept {
    const HeldBlock* const held = find(block);
    return held != nullptr && held->part == kResting ? pool_->home(held->block) : nullptr;
  }
  int place(std::uint32_t block, std::uint64_t offset) noexcept {
    HeldBlock* const held = find(block);
    if (held == nullptr || held->part != kResting) return -EINVAL;
    const std::uint64_t part = offset / block_bytes();
    if (part >= reserved_bytes() / block_bytes()) return -ERANGE;
    if (is_placed(part)) return -EEXIST;
    const int error = pool_->place(held->block, base() + part * block_bytes());
    if (error == 0) held->part = part;
    return -error;
  }
  int withdraw(std::uint32_t block) noexcept {
    HeldBlock* const held = find(block);
    if (held == nullptr) return -EINVAL;
    if (held->part == kResting) return 0;
    // Other threads may read the part, and must not find zeros there.
    const int error = pool_->withdraw_from_readers(held->block);
    if (error == 0) held->part = kResting;
    return -error;
  }
  int give_back(std::uint32_t block) noexcept {
    HeldBlock* const held = find(block);
    if (held == nullptr) return -EINVAL;
    if (held->part != kResting) return -EBUSY;
    quota_.give_back(held->block);
    *held = held_.back();
    held_.pop_back();
    return 0;
  }

 protected:
  bool handle_fault(Access access, std::uint64_t offset) noexcept override {
    const std::uint64_t part = offset / block_bytes();
    if (is_placed(part)) {
      note_spurious_fault();
      return true;
    }
    int result = 0;
    int told = 0;
    tell(access, told);
    const Failure failure = guarded([&] { result = serve_(context_, handle_, told, offset); });
    if (failure) return fail(failure.error, failure.cause.view(), offset);
    if (result != 0) {
      return fail(errno_from(result, EIO), "the function that serves it has returned an error",
                  offset);
    }
    if (is_placed(part)) return true;
    return fail(EFAULT, "the function that serves it has placed no block there", offset);
  }

 private:
  struct HeldBlock {
    Block block;
    std::uint64_t part = kResting;  // of the stream, where it is placed
  };

  HeldBlock* find(std::uint32_t block) noexcept {
    const auto found = std::find_if(held_.begin(), held_.end(), [&](const HeldBlock& held) {
      return held.block.index == block;
    });
    return found != held_.end() ? &*found : nullptr;
  }
  bool is_placed(std::uint64_t part) const noexcept {
    return std::any_of(held_.begin(), held_.end(),
                       [&](const HeldBlock& held) { return held.part == part; });
  }

  const vtx_serve_function serve_;
  void* const context_;
  vtx_stream* const handle_;
  const std::shared_ptr<BlockPool> pool_;
  BlockQuota quota_;
  std::vector<HeldBlock> held_;  // with room for all that it may hold
};

}  // namespace

}}}  // namespace vortex::v0::capi

struct vtx_stream : vortex::capi::StreamHandle {
  vtx_stream(vtx_serve_function serve, void* context, const vtx_own_stream_options& given)
      : own(serve, context, given,
            vortex::capi::pool_or_own(given.pool, vortex::capi::OwnStream::most_of(given),
                                      given.block_bytes),
            this) {}

  vortex::Stream& stream() noexcept override { return own; }

  vortex::capi::OwnStream own;
};

int vtx_stream_create(vtx_serve_function serve, void* context,
                      const vtx_own_stream_options* options, vtx_stream** stream) {
  return vortex::capi::answer_with(stream, [&] {
    if (serve == nullptr) throw vortex::Error(EINVAL, "the function that serves faults is NULL");
    return std::make_unique<vtx_stream>(serve, context,
                                        options != nullptr ? *options : vtx_own_stream_options{});
  });
}

void* vtx_stream_data(const vtx_stream* stream) { return stream->own.bytes(); }

uint64_t vtx_stream_reserved_bytes(const vtx_stream* stream) {
  return stream->own.reserved_bytes();
}

size_t vtx_stream_block_bytes(const vtx_stream* stream) { return stream->own.block_bytes(); }

int vtx_stream_take(vtx_stream* stream, uint32_t* block) {
  return block != nullptr ? stream->own.take(block) : -EINVAL;
}

void* vtx_stream_home(vtx_stream* stream, uint32_t block) { return stream->own.home(block); }

int vtx_stream_place(vtx_stream* stream, uint32_t block, uint64_t offset) {
  return stream->own.place(block, offset);
}

int vtx_stream_withdraw(vtx_stream* stream, uint32_t block) { return stream->own.withdraw(block); }

int vtx_stream_give_back(vtx_stream* stream, uint32_t block) {
  return stream->own.give_back(block);
}

DEFINE_STREAM_CALLS(stream)
