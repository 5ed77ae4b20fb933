// The text of a file, device or pipe, to its end, and the signal that stops the reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "io/sequence/single_file.h"
#include "io/stream/file_source.h"
#include "vortex/block_pool.h"
#include "vortex/os/descriptor.h"

namespace vortex { inline namespace v0 {

// Wakes those who wait for a descriptor of their own and for this one (poll(2)). One thread at a
// time waits; any thread may request the stop.
class StopSignal {
 public:
  explicit StopSignal(std::stop_token stop) : stop_(std::move(stop)) {}
  const std::stop_token& token() const noexcept { return stop_; }
  // In place of the one before. Nobody waits.
  void follow(std::stop_token stop);
  // The descriptor can be read once a stop has been requested; it is -1, which poll(2) passes over,
  // where nobody can request one. The first call makes it. Throws Error.
  int descriptor();
  // Throws Error(ECANCELED) when a stop has been requested.
  void expect_going() const;

 private:
  std::stop_token stop_;
  std::optional<os::Event> event_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

// How an input is read that has more text than is worth plain calls: ahead, into blocks of a pool.
// The pool and the disk outlive it.
struct BlockReading {
  BlockPool* pool = nullptr;
  Disk* disk = nullptr;
  FileSourceOptions options;
};

// A part of a text, in bytes from its beginning.
struct TextRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool empty() const noexcept { return begin == end; }
};

// The text to its end, a piece at a time, wherever the end is by the time it is reached: a file may
// grow while it is read. One that has become shorter than it was when it was opened is an error.
//
// What is short, and the beginning of what does not tell its length, is read with plain calls into
// a buffer: nothing is begun for it. The rest is read ahead, if the reading names blocks, and found
// at their homes: it takes no address space, so a pipe has no longest length. One thread at a time;
// after an exception the text can only be destroyed.
class InputText {
 public:
  // Files that are not longer are not worth more than plain calls.
  static constexpr std::uint64_t kShort = std::uint64_t{1} << 20;

  // The buffer has `buffer_bytes`. The signal outlives this. With `part_begin` the text is what
  // lies between that place and the length of the file when it was opened, which has offsets.
  InputText(BlockFile file, std::size_t buffer_bytes, std::optional<BlockReading> blocks,
            StopSignal& stop, std::optional<std::uint64_t> part_begin = std::nullopt);
  ~InputText();

  // Returns the next piece, valid until the following call; an empty one: the text has ended. The
  // first one holds four bytes, unless the text is shorter. Waits for it, so not inside guarded().
  // Throws Error: ECANCELED; ENODATA that says where a file ends now; what reading reports.
  std::string_view next();
  // The same, and the pieces before stay valid until next(), or until pass_first() has been called
  // for each; an empty one: there is no room for more of them, or it comes from next() alone.
  std::string_view next_beside();
  // The first piece that is there is not needed any more.
  void pass_first() noexcept;

  // A pipe is read with plain calls until there are blocks for the rest.
  void read_rest_ahead(BlockReading blocks) {
    if (!source_ && !file_.seekable()) reading_ = std::move(blocks);
  }

  // Fills the buffer of a file that is read with plain calls. Once its end has been read it is
  // closed.
  void read_first();

 private:
  bool wants_blocks() const noexcept;
  const BlockFile& file() const noexcept { return layout_ != nullptr ? layout_->file() : file_; }
  void begin_blocks();
  bool next_block();
  std::string_view fill();
  std::size_t read_some(char* to, std::size_t bytes);
  void wait_until_readable();
  void expect_whole() const;

  StopSignal& stop_;
  BlockFile file_;
  std::optional<BlockReading> reading_;
  std::size_t buffer_bytes_;
  std::unique_ptr<char[]> buffer_;
  std::string_view piece_;
  bool read_first_ = false;  // the piece has not been handed out yet
  const bool is_part_;
  const std::uint64_t begin_;
  std::uint64_t read_;  // bytes, of a part those in front of it, too
  bool ended_ = false;
  // While blocks are read.
  SingleFile* layout_ = nullptr;  // the source's
  std::unique_ptr<FileSource> source_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  std::uint64_t block_ = 0;  // the number of the next one
  std::size_t skipped_ = 0;  // bytes of that, which lie in front of a part
  std::vector<Block> held_;  // the ones in front of it that are there
  bool blocks_ended_ = false;
};

}}  // namespace vortex::v0
