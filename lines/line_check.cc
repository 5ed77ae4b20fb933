#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "lines/framed_input.h"
#include "lines/text_cursor.h"
#include "vortex/file_reader.h"
#include "vortex/line_sort.h"

namespace vortex::inline v0 {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kReadAhead = 4;
constexpr std::uint64_t kReaderBytes = 8 * kBlockBytes;
constexpr std::uint64_t kLeastLongRoom = 16 * kBlockBytes;

FileReaderBase open_reader(const std::string& input, const SortResources& resources) {
  FileReaderOptions options = FramedInput::reader_options(kReadAhead, kBlockBytes);
  options.block_bytes = kBlockBytes;
  options.caching = resources.caching;
  return input == "-" ? FileReaderBase(STDIN_FILENO, options) : FileReaderBase(input, options);
}

}  // namespace

std::optional<LineDisorder> check_lines(const LineSortOptions& options, LineSortReport* report) {
  const std::uint64_t memory = with_memory(options.resources).memory_bytes;
  // The blocks of the reader are beside it.
  LongRoomBudget budget(std::max(memory - std::min(memory, kReaderBytes), kLeastLongRoom));
  for (const std::string& name : options.inputs) {
    FramedInput input(open_reader(name, options.resources), name == "-" ? "standard input" : name,
                      options.framing, budget.bytes(), own_assembly_room(budget),
                      options.resources.stop);
    TextCursor cursor(input, options, budget);
    const auto note = [&] {
      if (report == nullptr) return;
      report->records_in += cursor.records();
      report->input_bytes += input.bytes();
      report->invalid_records += input.invalid_records();
      report->unclosed_records += input.ends_in_quotes() ? 1 : 0;
    };
    while (cursor.advance()) {
      if (cursor.in_order()) continue;
      note();
      cursor.leave_record_only();  // its copy takes as much memory
      return LineDisorder{name, cursor.number() + 1, cursor.offset(),
                          std::string(cursor.stored().record)};
    }
    note();
  }
  return std::nullopt;
}

}  // namespace vortex::inline v0
