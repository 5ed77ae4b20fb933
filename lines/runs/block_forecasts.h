// What foretells when a merge of lines needs the blocks of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lines/record/stored_record.h"

namespace vortex { inline namespace v0 {

// For each block of a run what orders the record in front of the first one that reaches into it:
// when a merge has used that record up, it goes to the next one, and touches its blocks.
//
// Keys have any length, and forecasts are kept in memory. So each is stored without what it shares
// with the one before it: a long prefix that keys have in common is there once. Each block adds a
// number of bytes to what forecasts may take; a key that needs more than is left is cut, and is a
// guess. Where whole keys are not kept (see RecordKeys::shortened()), the bytes of the records are
// taken for them, which is a guess, too. So a merge may need the blocks in another order.
class BlockForecasts {
 public:
  // At most this many bytes of what orders a record are known.
  static constexpr std::size_t kMaxKnown = std::size_t{8} << 10;
  // Bytes of a forecast beside those of the key.
  static constexpr std::size_t kHeadBytes = 3 * sizeof(std::uint16_t);

  // How many blocks the first record reaches into: they are needed when the merge begins.
  std::uint64_t first_blocks() const noexcept { return first_blocks_; }
  // Those of a run that comes behind this one, which foretells the first blocks of that.
  void append(const BlockForecasts& next) {
    bytes_.insert(bytes_.end(), next.bytes_.begin(), next.bytes_.end());
  }

 private:
  friend class ForecastWriter;
  friend class ForecastCursor;

  struct Head {
    static constexpr std::uint16_t kCut = 1 << 15;

    std::uint16_t shared = 0;  // bytes, with the forecast before
    std::uint16_t own = 0;     // bytes behind these
    std::uint16_t key = 0;     // how many of all are the key's, the rest is the record's; kCut
  };
  static_assert(sizeof(Head) == kHeadBytes);

  std::vector<char> bytes_;
  std::uint64_t first_blocks_ = 1;
};

// Which order forecasts have. By it records may be equal that the order of the sort tells apart.
StoredOrder forecast_order(const StoredOrder& order) noexcept;

// Takes the forecasts of a run while it is written.
class ForecastWriter {
 public:
  // A forecast has `bytes_of_block` of its own on average, and some more in all. Allocates for
  // `most_blocks`, and nothing later.
  ForecastWriter(const StoredOrder& order, std::size_t bytes_of_block, std::uint64_t most_blocks);

  // The record that was appended last.
  void note(const StoredRecord& stored) noexcept;
  // The first record reaches into another block.
  void add_first_block() noexcept { ++forecasts_.first_blocks_; }
  // The record behind the one that was noted does.
  void add_block();

  BlockForecasts finish();

 private:
  const bool records_decide_;
  const std::size_t bytes_of_block_;
  std::size_t bytes_left_ = BlockForecasts::kMaxKnown;  // for the next forecast
  BlockForecasts forecasts_;
  // What was noted of a record: as much of it as a forecast may have.
  std::vector<char> noted_;
  std::size_t noted_bytes_ = 0;
  std::size_t noted_key_ = 0;  // of these
  bool noted_cut_ = false;
  std::vector<char> known_;  // the forecast before
  std::size_t known_bytes_ = 0;
};

// The forecasts of some consecutive blocks of a run, one after the other. Not moved once it has
// advanced.
class ForecastCursor {
 public:
  // Forecasts of the blocks [begin, end) of the run, which has `blocks`. The forecasts outlive it.
  ForecastCursor(const BlockForecasts& forecasts, const StoredOrder& forecast_order,
                 std::uint64_t begin, std::uint64_t end, std::uint64_t blocks);

  // Goes to the next block; false behind the last.
  bool advance();
  const StoredRecord& stored() const noexcept { return stored_; }
  // The one that it went to.
  std::uint64_t block() const noexcept { return next_ - 1; }

 private:
  BlockForecasts::Head decode();
  StoredRecord shown(std::string& text, const BlockForecasts::Head& head) const;

  const StoredOrder order_;
  const std::uint64_t end_;
  const std::uint64_t blocks_;
  std::uint64_t next_;
  const char* at_;
  std::string known_;     // the last forecast as it is kept
  std::string texts_[2];  // those of stored_ and of the next one
  unsigned text_ = 0;
  StoredRecord stored_;
  bool first_ = true;
};

}}  // namespace vortex::v0
