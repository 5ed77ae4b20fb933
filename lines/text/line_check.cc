#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "io/file/own_pool.h"
#include "lines/text/framed_input.h"
#include "lines/text/input_text.h"
#include "lines/text/line_inputs.h"
#include "lines/text/text_cursor.h"
#include "sort/plan/memory_limits.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kBlocksAhead = 4;
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
constexpr std::uint64_t kReaderBytes = 8 * kBlockBytes;
constexpr std::uint64_t kLeastLongRoom = 16 * kBlockBytes;

// Opens inputs one after the other, and makes the pool for the first of those that are long.
std::unique_ptr<InputText> open_input(LineInputs& inputs, std::size_t index,
                                      std::unique_ptr<BlockPool>& pool) {
  if (inputs.length(index).value_or(0) <= InputText::kShort) {
    return inputs.open(index, kBufferBytes);
  }
  const FileSourceOptions reading = FramedInput::reading(kBlocksAhead, kBlockBytes);
  if (!pool) {
    pool = make_own_pool(inputs.name(index), kBlockBytes,
                         FileSource::blocks_needed(reading, kBlockBytes));
  }
  return inputs.open(index, *pool, nullptr, reading);
}

}  // namespace

std::optional<LineDisorder> check_lines(const LineSortOptions& options, SortReport* report) {
  const std::uint64_t memory = with_memory(options.resources).memory_bytes;
  // The blocks of the reader are beside it.
  LongRoomBudget budget(std::max(memory - std::min(memory, kReaderBytes), kLeastLongRoom));
  LineInputs inputs(options);
  std::unique_ptr<BlockPool> pool;
  SortWatch watch(options.resources.stop, options.resources.progress);
  watch.begin(SortPhase::kReading, inputs.bytes());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    FramedInput input(open_input(inputs, i, pool), inputs.name(i), options.framing, budget.bytes(),
                      own_assembly_room(budget));
    TextCursor cursor(input, options, budget);
    const auto note = [&] {
      if (report == nullptr) return;
      report->records_in += cursor.records();
      report->input_bytes += input.bytes();
      report->invalid_records += input.invalid_records();
      report->unclosed_records += input.ends_in_quotes() ? 1 : 0;
    };
    std::uint64_t told = 0;
    while (cursor.advance()) {
      if (input.bytes() - told >= SortWatch::kNoteBytes) {
        watch.add(input.bytes() - std::exchange(told, input.bytes()));
      }
      if (cursor.in_order()) continue;
      note();
      cursor.leave_record_only();  // its copy takes as much memory
      return LineDisorder{options.inputs[i], cursor.number() + 1, cursor.offset(),
                          std::string(cursor.stored().record)};
    }
    note();
  }
  return std::nullopt;
}

}}  // namespace vortex::v0
