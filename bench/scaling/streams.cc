// Streams that threads use beside each other: a pipeline for each two threads, a file for each one.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include "bench/scaling/cell.h"
#include "bench/support/number_file.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/pipeline.h"

namespace vortex::bench {

namespace {

using Word = std::uint64_t;

// Several at a time add up with vector instructions.
__attribute__((noinline)) Word sum_of(const Word* in, Word words) {
  Word sum = 0;
  for (Word i = 0; i < words; ++i) sum += in[i];
  return sum;
}
__attribute__((noinline)) void write_words(Word* out, Word words) {
  for (Word i = 0; i < words; ++i) out[i] = i;
}

void expect(bool right) {
  if (!right) throw std::runtime_error("a stream holds something else than was written");
}

// Half of the threads write, half read.
void measure_pipelines(const Cell& cell, Result& result, PoolKind kind) {
  const unsigned pipelines = std::max(1U, cell.threads / 2);
  const Word words = cell.bytes / pipelines / sizeof(Word);
  result.bytes = words * sizeof(Word) * pipelines;
  PipelineOptions options;
  options.read_ahead_blocks = 3;
  options.pool_kind = kind;
  in_rounds(cell, result, [&] {
    std::vector<std::unique_ptr<Pipeline<Word>>> all;
    for (unsigned i = 0; i < pipelines; ++i) {
      all.push_back(std::make_unique<Pipeline<Word>>(options));
    }
    std::atomic<unsigned> right{0};
    result.time([&] {
      std::vector<std::jthread> threads;
      for (const auto& pipeline : all) {
        threads.emplace_back([&, writer = pipeline->writer()]() mutable {
          write_words(writer.data(), words);
          writer.finish(words);
        });
        threads.emplace_back([&, reader = pipeline->reader()]() mutable {
          right += sum_of(reader.data(), words) == sum_of_first(words) ? 1 : 0;
        });
      }
    });
    expect(right == pipelines);
  });
}

// Each thread has a file of its own.
void measure_file_streams(const Cell& cell, Result& result, bool reads) {
  const Word words = cell.bytes / cell.threads / sizeof(Word);
  result.bytes = words * sizeof(Word) * cell.threads;
  detail::ThreadTeam team(cell.threads);
  const auto path = [&](std::size_t i) {
    return cell.folder + "/scaling.stream." + std::to_string(i);
  };
  const auto write = [&](std::size_t i) {
    FileWriter<Word> file(path(i), {.expected_bytes = words * sizeof(Word)});
    write_words(file.data(), words);
    file.finish(words);
  };
  const auto read = [&](std::size_t i) {
    const FileReader<Word> file(path(i));
    expect(sum_of(file.data(), words) == sum_of_first(words));
  };
  if (reads) team.run(cell.threads, write);
  in_rounds(cell, result, [&] {
    result.time([&] {
      if (reads) {
        team.run(cell.threads, read);
      } else {
        team.run(cell.threads, write);
      }
    });
  });
  for (unsigned i = 0; i < cell.threads; ++i) unlink(path(i).c_str());
}

}  // namespace

bool measure_streams(const Cell& cell, Result& result) {
  if (cell.kind == "pipelines") {
    measure_pipelines(cell, result, PoolKind::kThreads);
  } else if (cell.kind == "pipelines_moves") {
    measure_pipelines(cell, result, PoolKind::kMoves);
  } else if (cell.kind == "stream_read" || cell.kind == "stream_write") {
    measure_file_streams(cell, result, cell.kind == "stream_read");
  } else {
    return false;
  }
  return true;
}

}  // namespace vortex::bench
