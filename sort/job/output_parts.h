// An output that threads write side by side, each a part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sort/job/sort_files.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/file_writer.h"
#include "vortex/pool/plain_blocks.h"

namespace vortex { inline namespace v0 {

// Calls work(part, told) for each part, in threads of the team, and the caller's watch is told by
// those of `told`. The first error ends all of them, and is thrown.
using PartWork = std::function<void(std::size_t part, Written told)>;
void work_in_parts(std::size_t parts, detail::ThreadTeam& team, SortWatch& watch,
                   const PartWork& work);

// The parts of a file, one behind the other, whose lengths are known. Each has a writer that begins
// at the border of a block: what lies in front of that, its head, is put aside in a block of the
// pool, and written behind the part in front when all are complete.
class OutputParts {
 public:
  // The first bytes of a part go to its head, those behind them to its array. Written inside
  // guarded(), from front to back.
  struct Part {
    std::uint64_t bytes = 0;  // both
    std::span<std::byte> head;
    std::byte* behind_head = nullptr;
  };

  // The output has places, and all that is named outlives this. Takes of the pool what as many
  // writers do, and blocks_for_heads(). Throws Error as these.
  OutputParts(SortFiles& files, BlockPool& pool, const FileWriterOptions& options,
              std::span<const std::uint64_t> bytes_of_parts, const std::stop_token& stop);
  OutputParts(const OutputParts&) = delete;
  OutputParts& operator=(const OutputParts&) = delete;

  static std::size_t blocks_for_heads(std::size_t parts) noexcept { return parts - 1; }

  std::size_t size() const noexcept { return parts_.size(); }
  const Part& operator[](std::size_t part) const noexcept { return parts_[part]; }
  std::uint64_t bytes() const noexcept;

  // As work_in_parts(). It returns how many bytes it has written.
  using Write = std::function<std::uint64_t(std::size_t part, Written told)>;
  void write(detail::ThreadTeam& team, SortWatch& watch, const Write& write);
  // Whether each part has the length that it was to have.
  bool complete() const noexcept;
  // The output is complete. Throws as refuse(), when a part has another length than it was to have,
  // and as FileWriterBase.
  void finish();
  // Throws Error(EIO): the runs were divided by other records than they have.
  [[noreturn]] static void refuse();

 private:
  // The first is destroyed last: the others write to its file.
  struct Writers {
    ~Writers() {
      while (!all.empty()) all.pop_back();
    }
    std::vector<FileWriterBase> all;
  };

  std::vector<Part> parts_;
  std::vector<std::uint64_t> written_;
  PlainBlocks heads_;
  Writers writers_;
  std::vector<std::unique_ptr<StreamStop>> stops_;
};

}}  // namespace vortex::v0
