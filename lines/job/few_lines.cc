#include "lines/job/few_lines.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lines/record/record_keys.h"
#include "sort/plan/memory_limits.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kLeastRoom = std::uint64_t{64} << 10;
// The arena of text that is mostly empty lines: a length and an entry of the index for each byte.
constexpr std::uint64_t kArenaOfText = 18;
// The same with keys, which are longer than their lines in some orders.
constexpr std::uint64_t kArenaOfKeys = 32;
constexpr std::uint64_t kMostArena = std::uint64_t{48} << 20;
// The arena takes an eighth of the memory at most, since it stays until a job has taken all
// records, and the job's own memory is full of them by then. Where no memory was named, a smaller
// arena is a small part of whatever there is, and asking takes longer than a sort that small.
constexpr std::uint64_t kShareOfMemory = 8;
constexpr std::uint64_t kArenaToAskFor = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastMemory = std::uint64_t{1} << 20;

std::uint64_t most_text_of(const LineSortOptions& options) noexcept {
  const std::uint64_t memory = options.resources.memory_bytes;
  return memory == 0 ? FewLines::kMostText : std::min(FewLines::kMostText, memory / kShareOfMemory);
}

// As far as it is known before a pipe is read.
std::uint64_t known_bytes(const LineInputs& inputs) noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bytes = detail::saturating_sum(bytes, inputs.length(i).value_or(0));
  }
  return bytes;
}

std::size_t arena_bytes(const LineSortOptions& options, const LineInputs& inputs) {
  const std::uint64_t wanted =
      known_bytes(inputs) * (options.order.keys ? kArenaOfKeys : kArenaOfText) + kLeastRoom;
  const std::uint64_t at_least = inputs.bytes() ? 0 : kArenaToAskFor;
  std::uint64_t memory = options.resources.memory_bytes;
  std::uint64_t most = kMostArena;
  if (memory != 0) {
    most = std::min(most, memory / kShareOfMemory);
  } else if (wanted > kArenaToAskFor) {
    most = std::clamp(default_memory_bytes() / kShareOfMemory, kArenaToAskFor, most);
  }
  return static_cast<std::size_t>(std::min(std::max(wanted, at_least), most));
}

// Of a write, which a stop has to end.
bool may_wait(const std::string& output) noexcept {
  struct stat status {};
  const int error = output == "-" ? fstat(STDOUT_FILENO, &status) : stat(output.c_str(), &status);
  return error == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

bool FewLines::may_do(const LineSortOptions& options, const LineInputs& inputs) {
  const SortResources& resources = options.resources;
  return !options.merge_inputs && resources.budget == nullptr && options.trace.empty() &&
         !resources.progress && !resources.open_disk && resources.block_bytes == 0 &&
         resources.caching == Caching::kAuto &&
         (resources.memory_bytes == 0 || resources.memory_bytes >= kLeastMemory) &&
         !resources.stop.stop_requested() &&
         !(resources.stop.stop_possible() && may_wait(options.output)) &&
         known_bytes(inputs) <= most_text_of(options);
}

FewLines::FewLines(const LineSortOptions& options, const LineInputs& inputs)
    : keys_(options.order.keys.get()),
      order_(options.order),
      most_text_(most_text_of(options)),
      memory_(arena_bytes(options, inputs), PageKind::kSmall),
      arena_({memory_.data(), memory_.size()}, order_) {}

std::size_t FewLines::take(std::span<const std::string_view> records) {
  std::size_t taken = 0;
  if (keys_ == nullptr) {
    while (taken < records.size() && arena_.push({}, records[taken])) ++taken;
    return taken;
  }
  while (taken < records.size()) {
    const auto left = records.subspan(taken);
    const auto together = left.first(std::max<std::size_t>(records_together(left), 1));
    if (together.front().size() > kLongest) return taken;
    make_keys(*keys_, together, batch_);
    for (std::size_t i = 0; i < together.size(); ++i, ++taken) {
      if (!arena_.push(batch_.key(i), together[i])) return taken;
    }
  }
  return taken;
}

void FewLines::sort() {
  detail::ThreadTeam alone(1);
  arena_.sort(alone);
}

}}  // namespace vortex::v0
