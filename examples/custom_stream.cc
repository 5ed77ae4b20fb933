// A stream of your own: a large computed array, of which a few blocks are kept.
//
// Streams derive from vortex::Stream and receive the faults of their range (section 4.4 of the
// Vortex paper). This one is no sequential stream at all but a cache: any part of a large computed
// array may be read at any time, a fixed number of blocks is kept, and the block that was placed
// longest ago makes room for the next.
//
//   g++ -std=c++20 -O2 custom_stream.cc $(pkg-config --cflags --libs vortex) -o custom_stream
//   ./custom_stream
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/stream.h"

namespace {

// Element i is the number of steps the Collatz sequence takes from i to 1.
std::uint32_t collatz_steps(std::uint64_t value) {
  std::uint32_t steps = 0;
  for (; value > 1; ++steps) value = value % 2 == 0 ? value / 2 : 3 * value + 1;
  return steps;
}

class CollatzArray : public vortex::Stream {
 public:
  CollatzArray(vortex::BlockPool& pool, std::uint64_t size, std::size_t kept_blocks)
      : Stream("collatz", {.bytes = size * sizeof(std::uint32_t)}),
        quota_(pool, kept_blocks, kept_blocks, "the array 'collatz'"),
        placed_(kept_blocks) {
    open();  // last in the constructor: from here on faults arrive
  }

  ~CollatzArray() override {
    close();                  // first in the destructor: from here on none does
    if (inherited()) return;  // a forked child has no blocks, and other things where they were
    for (const Placed& placed : placed_) {
      if (placed.block && quota_.pool().withdraw(placed.block) == 0) quota_.give_back(placed.block);
    }
  }

  const std::uint32_t* data() const { return reinterpret_cast<const std::uint32_t*>(base()); }

 protected:
  // Runs inside the page fault, with the stream locked: no allocation, no exceptions.
  bool handle_fault(vortex::Access access, std::uint64_t offset) noexcept override {
    if (access == vortex::Access::kWrite) return fail(EACCES, "the array is read-only", offset);
    vortex::BlockPool& pool = quota_.pool();
    const std::uint64_t index = offset / pool.block_bytes();
    for (const Placed& placed : placed_) {
      if (placed.block && placed.index == index) {
        note_spurious_fault();  // another thread was faster
        return true;
      }
    }
    Placed& slot = placed_[next_slot_++ % placed_.size()];
    if (!slot.block) {
      const vortex::BlockGrant grant = quota_.try_take();
      if (grant.error != 0) return fail(grant.error, "no block left in the pool", offset);
      slot.block = grant.block;
    } else if (const int error = pool.withdraw(slot.block)) {
      return fail(error, "the kernel refuses to move a block", offset);
    }
    auto* numbers = reinterpret_cast<std::uint32_t*>(pool.home(slot.block));
    const std::size_t count = pool.block_bytes() / sizeof(std::uint32_t);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = collatz_steps(index * count + i);
    if (const int error = pool.place(slot.block, base() + index * pool.block_bytes())) {
      return fail(error, "the kernel refuses to move a block", offset);
    }
    slot.index = index;
    return true;
  }

 private:
  struct Placed {
    vortex::Block block;
    std::uint64_t index = 0;
  };
  vortex::BlockQuota quota_;
  std::vector<Placed> placed_;
  std::size_t next_slot_ = 0;
};

}  // namespace

int main() {
  vortex::BlockPool pool(
      {.pool_bytes = std::size_t{1} << 20, .block_bytes = std::size_t{64} << 10});
  const CollatzArray array(pool, std::uint64_t{1} << 36, 8);
  const std::uint32_t* steps = array.data();
  for (std::uint64_t start : {27ull, 837'799ull, 63'728'127ull, 27ull, 50'000'000'000ull}) {
    std::printf("%llu reaches 1 after %u steps\n", static_cast<unsigned long long>(start),
                steps[start]);
    if (steps[start] != collatz_steps(start)) return 1;
  }
  std::printf("%llu page faults\n", static_cast<unsigned long long>(array.statistics().faults));
  return 0;
}
