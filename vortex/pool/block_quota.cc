#include "vortex/block_pool.h"

#include <cerrno>
#include <utility>

#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"

namespace vortex::inline v0 {

BlockQuota::BlockQuota(BlockPool& pool, std::size_t minimum, std::size_t maximum, std::string user)
    : pool_(pool), user_(std::move(user)), minimum_(minimum), maximum_(maximum) {
  if (maximum < minimum) {
    throw Error(EINVAL, user_ + ": a maximum of " + std::to_string(maximum) +
                            " blocks is below the minimum of " + std::to_string(minimum));
  }
  pool_.admit(*this);
}

BlockQuota::~BlockQuota() {
  if (pool_.inherited()) return;  // a forked child has the counts of another process's memory
  if (held() != lost()) {
    LineBuffer<256> line;
    line.text("vortex: ").text(user_).text(" ends while it still holds ").number(held() - lost());
    line.text(" blocks of pool '").text(pool_.name()).text("'");
    fatal(line.view());
  }
  pool_.dismiss(*this);
}

BlockGrant BlockQuota::try_take() noexcept { return pool_.take(*this); }

void BlockQuota::give_back(Block block) noexcept { pool_.give_back(*this, block); }

void BlockQuota::lower_to(std::size_t blocks) noexcept { pool_.lower(*this, blocks); }

}  // namespace vortex::inline v0
