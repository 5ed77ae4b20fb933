#include "sort/job/output_parts.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"

namespace vortex { inline namespace v0 {

void work_in_parts(std::size_t parts, detail::ThreadTeam& team, SortWatch& watch,
                   const PartWork& work) {
  std::atomic<std::size_t> next{0}, ended{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  // The others end with an error of their own, which says nothing.
  const auto guard = [&](const auto& piece) {
    try {
      piece();
    } catch (...) {
      if (failed.exchange(true)) return;
      error = std::current_exception();
      watch.stop_now();
    }
  };
  const std::thread::id caller = std::this_thread::get_id();
  team.run(parts, [&](std::size_t) {
    const bool is_caller = std::this_thread::get_id() == caller;
    for (std::size_t part = next++; part < parts; part = next++) {
      guard([&] {
        watch.expect_going();
        work(part, is_caller ? Written::kCounts : Written::kCountsInPart);
      });
      ++ended;
      watch.end_part();
    }
    if (is_caller) guard([&] { watch.await_parts([&] { return ended == parts; }); });
  });
  if (error != nullptr) std::rethrow_exception(error);
  watch.add(0);  // what others have added when the caller got no part
  watch.expect_going();
}

OutputParts::OutputParts(SortFiles& files, BlockPool& pool, const FileWriterOptions& options,
                         std::span<const std::uint64_t> bytes_of_parts, const std::stop_token& stop)
    : written_(bytes_of_parts.size()),
      heads_(pool, blocks_for_heads(bytes_of_parts.size()), "heads of parts") {
  const std::uint64_t all =
      std::accumulate(bytes_of_parts.begin(), bytes_of_parts.end(), std::uint64_t{0});
  std::uint64_t begin = 0;
  for (const std::uint64_t bytes : bytes_of_parts) {
    const std::uint64_t border = detail::round_up(begin, pool.block_bytes());
    Part part;
    part.bytes = bytes;
    if (border != begin) {
      part.head = heads_.take().first(static_cast<std::size_t>(border - begin));
    }
    writers_.all.push_back(
        begin == 0 ? files.open_writer(pool, options, all)
                   : files.open_writer_behind(border, pool, options, bytes + pool.block_bytes()));
    part.behind_head = writers_.all.back().bytes();
    parts_.push_back(part);
    begin += bytes;
  }
  for (FileWriterBase& writer : writers_.all) {
    stops_.push_back(std::make_unique<StreamStop>(writer.stream(), stop));
  }
}

std::uint64_t OutputParts::bytes() const noexcept {
  return std::accumulate(written_.begin(), written_.end(), std::uint64_t{0});
}

void OutputParts::write(detail::ThreadTeam& team, SortWatch& watch, const Write& write) {
  work_in_parts(size(), team, watch,
                [&](std::size_t part, Written told) { written_[part] = write(part, told); });
}

void OutputParts::refuse() { throw Error(EIO, "runs are not read as they were written"); }

bool OutputParts::complete() const noexcept {
  return std::ranges::equal(written_, parts_, {}, {}, &Part::bytes);
}

// The end of a part is the head of the next one.
void OutputParts::finish() {
  if (!complete()) refuse();
  for (std::size_t i = size(); i-- > 0;) {
    const Part& part = parts_[i];
    std::uint64_t end = part.bytes - part.head.size();
    if (i + 1 < size()) {
      const std::span<const std::byte> next = parts_[i + 1].head;
      guarded([&] {
        if (!next.empty()) std::memcpy(part.behind_head + end, next.data(), next.size());
      }).throw_if_failed();
      end += next.size();
    }
    writers_.all[i].finish_bytes(i > 0 ? end : bytes());
  }
}

}}  // namespace vortex::v0
