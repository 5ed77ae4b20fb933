#include "sort/job/sort_context.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "sort/job/sort_folders.h"
#include "sort/plan/memory_limits.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

SortContext::SortContext(const SortResources& resources, std::vector<std::string> folders)
    : resources_(with_memory(resources)),
      most_memory_bytes_(resources_.memory_bytes),
      share_(take_memory_share(resources_)),
      folders_(std::move(folders)),
      watch_(resources.stop, resources.progress) {}

RunStoreOptions SortContext::run_store_options() const {
  RunStoreOptions options;
  options.folders = folders_;
  options.weights = resources_.folder_speeds;
  options.seed = resources_.seed;
  options.direct = resources_.caching != Caching::kBuffered;
  if (!resources_.open_disk) {
    options.copiers = Disk::copiers_for(resources_.threads);
  }
  options.open_disk = [this](std::size_t index) {
    return open_sort_disk(resources_.open_disk, resources_.backend, folders_[index]);
  };
  return options;
}

std::uint64_t SortContext::request_cost(std::optional<std::uint64_t> bytes) const {
  constexpr std::uint64_t kWorthMeasuring = std::uint64_t{4} << 30;
  if (resources_.request_cost_bytes) return *resources_.request_cost_bytes;
  if (!bytes || *bytes < std::max(kWorthMeasuring, resources_.memory_bytes)) return 0;
  return resources_.block_bytes != 0 ? 0 : request_cost_of(resources_, folders_);
}

void SortContext::make_pool(std::size_t block_bytes, std::size_t blocks, Warming warming,
                            const char* name) {
  pool_options_.block_bytes = block_bytes;
  pool_options_.pool_bytes = blocks * block_bytes;
  pool_options_.warming = warming;
  pool_options_.name = name;
  pool_.reset();
  pool_ = std::make_shared<BlockPool>(pool_options_);
  given_back_ = 0;
}

void SortContext::note_user() noexcept { share_.adopt(); }

void SortContext::release(std::uint64_t bytes) noexcept {
  const std::uint64_t now = share_.bytes();
  share_.shrink_to(now - std::min(now, bytes));
}

void SortContext::give_back_retired() noexcept {
  const std::size_t retired = pool_->statistics().blocks_retired;
  release((retired - std::exchange(given_back_, retired)) * pool_->block_bytes());
}

void SortContext::give_back_unused() noexcept {
  pool_->retire(std::numeric_limits<std::size_t>::max());
  give_back_retired();
}

void SortContext::forget_unused() noexcept {
  pool_->retire(std::numeric_limits<std::size_t>::max());
  given_back_ = pool_->statistics().blocks_retired;
}

bool SortContext::give_back_read_ahead() noexcept {
  const bool more = running_.give_back();
  give_back_retired();
  return more;
}

bool SortContext::give_back(std::uint64_t wanted) noexcept {
  const std::lock_guard lock(lending_mutex_);
  return lender_ && lender_(wanted);
}

void SortContext::change_lender(GiveBack give_back, const std::function<void()>& first) {
  const std::lock_guard lock(lending_mutex_);
  if (first) first();
  lender_ = std::move(give_back);
}

void SortContext::lend(GiveBack give_back, const std::function<void()>& first) {
  if (!shares_memory()) return;
  change_lender(std::move(give_back), first);
  share_.lend_by(*this);
}

bool SortContext::grow_pool(const std::function<std::size_t(std::uint64_t more)>& blocks_with) {
  const std::uint64_t before = share_.bytes();
  const std::uint64_t more = share_.grow_to(most_memory_bytes_);
  if (more == 0) return false;
  const std::size_t blocks = more >= before / 8 ? blocks_with(more) : 0;
  if (blocks != 0) {
    try {
      BlockPoolOptions options = pool_options_;
      options.pool_bytes = blocks * options.block_bytes;
      options.warming = Warming::kOnDemand;
      pool_ = std::make_shared<BlockPool>(options);
      given_back_ = 0;
      return true;
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
  }
  share_.shrink_to(before);
  return false;
}

void SortContext::end() noexcept {
  watch_.stop_now();
  end_lending();
}

}}  // namespace vortex::v0
