#include "vortex/pool/block_counts.h"

#include <cerrno>

#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

void expect_block_count(const std::string& who, const char* option, std::size_t blocks) {
  if (blocks <= kMaxPoolBlocks) return;
  throw Error(EINVAL, who + ": " + option + " is " + std::to_string(blocks) + "; the most is " +
                          std::to_string(kMaxPoolBlocks));
}

}}  // namespace vortex::v0
