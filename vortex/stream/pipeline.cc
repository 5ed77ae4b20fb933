#include "vortex/pipeline.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/pool/block_counts.h"
#include "vortex/stream/channel.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// N + L + M + 1.
std::size_t blocks_of(const PipelineOptions& options) {
  const std::string who = "pipeline '" + options.name + "'";
  expect_block_count(who, "read_ahead_blocks", options.read_ahead_blocks);
  expect_block_count(who, "writer_comeback_blocks", options.writer_comeback_blocks);
  expect_block_count(who, "reader_comeback_blocks", options.reader_comeback_blocks);
  const std::size_t windows =
      saturating_sum(options.writer_comeback_blocks, options.reader_comeback_blocks);
  const std::size_t blocks = saturating_sum(saturating_sum(windows, options.read_ahead_blocks), 1);
  expect_block_count(who, "its number of blocks", blocks);
  return blocks;
}

}  // namespace

std::shared_ptr<Channel> make_channel(const PipelineOptions& options) {
  const std::size_t blocks = blocks_of(options);
  if (options.length_bytes == ~std::uint64_t{0}) {
    throw Error(EINVAL, "pipeline '" + options.name + "': no address space holds " +
                            std::to_string(*options.length_bytes) + " bytes");
  }
  std::shared_ptr<BlockPool> pool = options.pool;
  if (!pool) {
    pool = std::make_shared<BlockPool>(BlockPoolOptions{
        .pool_bytes = detail::saturating_product(blocks, options.block_bytes),
        .block_bytes = options.block_bytes,
        .kind = options.pool_kind,
        .name = options.name,
    });
  }
  return std::make_shared<Channel>(
      std::move(pool), ChannelOptions{.name = options.name,
                                      .read_ahead_blocks = options.read_ahead_blocks,
                                      .writer_comeback_blocks = options.writer_comeback_blocks,
                                      .reader_comeback_blocks = options.reader_comeback_blocks,
                                      .handover = options.handover,
                                      .length_bytes = options.length_bytes});
}

std::unique_ptr<Sink> writing_end_of(const std::shared_ptr<Channel>& channel) {
  return Channel::writing_end(channel);
}

std::unique_ptr<Source> reading_end_of(const std::shared_ptr<Channel>& channel) {
  return Channel::reading_end(channel);
}

std::uint64_t wait_channel_length(Channel& channel) { return channel.wait_length(); }

void break_off_channel(Channel& channel, int error, std::string_view cause) noexcept {
  channel.break_off(error, cause);
}

bool await_channel_room(Channel& channel, std::uint64_t block,
                        const std::atomic<bool>& given_up) noexcept {
  return channel.await_room(block, given_up);
}

void wake_channel_writer(Channel& channel) noexcept { channel.wake_writer(); }

void cancel_channel(Channel& channel, int error, std::string_view cause) noexcept {
  channel.cancel(error, cause);
}

OutputStreamOptions writer_options(const PipelineOptions& options) {
  constexpr std::uint64_t kMinReservation = std::uint64_t{1} << 30;
  OutputStreamOptions result{
      .name = options.name + " (writer)",
      .comeback_blocks = options.writer_comeback_blocks,
      .stale_blocks = options.stale_blocks,
      .reserve_bytes = options.reserve_bytes,
      .least_reserve_bytes = std::min(kMinReservation, options.reserve_bytes),
      .gaps = options.gaps};
  if (options.length_bytes) {
    // A block more than the data need, so that a write past the end is our error to report.
    result.reserve_bytes = saturating_sum(*options.length_bytes, 2 * kMaxBlockBytes);
    result.least_reserve_bytes = result.reserve_bytes;
  }
  return result;
}

InputStreamOptions reader_options(const PipelineOptions& options) {
  InputStreamOptions result{.name = options.name + " (reader)",
                            .comeback_blocks = options.reader_comeback_blocks,
                            .stale_blocks = options.stale_blocks};
  if (!options.length_bytes) {
    result.reserve_bytes = options.reserve_bytes;
    result.least_reserve_bytes =
        std::min<std::uint64_t>(std::uint64_t{1} << 30, options.reserve_bytes);
  }
  return result;
}

}}}  // namespace vortex::v0::detail
