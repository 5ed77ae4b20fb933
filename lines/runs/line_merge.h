// Merging sorted sequences of records, comparing what they do not have in common.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lines/record/stored_record.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// A loser tree over cursors whose records are compared by offset-value codes (Conner 1977; the
// longest common prefixes of Ng and Kakehi's merge are the same with single bytes). Each record in
// the tree has a code relative to one that came before both it and its rival: the number of chunks
// in common, and the chunk behind those. The record that has more in common with it comes
// first, and with equally much the one with the lesser chunk; only where these are equal, too, are
// further bytes looked at, once: what they have in common becomes the loser's code.
//
// Equal records come in the order of the cursors. A Cursor has advance(), stored(), in_common() and
// count(), as RunCursor does. Inside guarded().
template <typename Cursor>
class LineMerge {
 public:
  // The cursors stand in front of their first records, and outlive the merge.
  LineMerge(std::span<Cursor* const> cursors, const StoredOrder& order)
      : order_(order),
        cursors_(cursors.begin(), cursors.end()),
        leaves_(std::bit_ceil(std::max<std::size_t>(cursors.size(), 1))),
        losers_(leaves_),
        winners_(2 * leaves_) {}

  static constexpr SpanKind kWork = SpanKind::kMerge;

  // Reads the first records; next() can be called then.
  void start() {
    for (std::size_t i = 0; i < leaves_; ++i) {
      Player& player = winners_[leaves_ + i];
      player.cursor = player.chunk = i;
      if (i < cursors_.size() && cursors_[i]->advance()) {
        player.behind = behind(0);
        player.chunk = order_chunk(cursors_[i]->stored(), order_, 0);
      }
    }
    for (std::size_t node = leaves_; node-- > 1;) {
      winners_[node] = winners_[2 * node];
      losers_[node] = winners_[2 * node + 1];
      play(losers_[node], winners_[node]);
    }
    winner_ = winners_[1];
    fresh_ = true;
  }

  // Goes to the next record, with a unique order the next that is not equal to the one before;
  // false behind the last.
  bool next() {
    do {
      if (!fresh_ && winner_.behind != kNoRecord) replace();
      fresh_ = false;
      if (winner_.behind == kNoRecord) return false;
    } while (order_.unique && winner_.behind == kEqual);
    return true;
  }

  // The record that next() went to, valid until it is called again.
  const StoredRecord& stored() const noexcept { return cursors_[winner_.cursor]->stored(); }
  // How many times its cursor has it.
  std::uint64_t count() const noexcept { return cursors_[winner_.cursor]->count(); }
  // The chunks that it has in common with the one before.
  std::uint64_t in_common() const noexcept {
    return winner_.behind == kEqual ? order_chunks(stored(), order_) : behind(winner_.behind);
  }

 private:
  // How far behind a record is: the less it has in common, the further.
  static constexpr std::uint64_t kEqual = 0;
  static constexpr std::uint64_t kNoRecord = ~std::uint64_t{0};
  static constexpr std::uint64_t behind(std::uint64_t chunks) noexcept {
    return kNoRecord - 1 - chunks;
  }

  struct Player {
    std::uint64_t behind = kNoRecord;
    // The first that differs, turned round where the order is; of equal records, and where there is
    // none, the cursor.
    std::uint64_t chunk = 0;
    std::uint64_t cursor = 0;
  };

  // Puts the winner into `winner` and the other, with its code relative to it, into `loser`.
  void play(Player& loser, Player& winner) const {
    const bool same = loser.behind == winner.behind;
    if (same && loser.chunk == winner.chunk) [[unlikely]]
      return play_on(loser, winner);
    // Which one wins cannot be foreseen: no branch depends on it.
    const bool swaps = same ? loser.chunk < winner.chunk : loser.behind < winner.behind;
    const std::uint64_t mask = -std::uint64_t{swaps};
    exchange(loser.behind, winner.behind, mask);
    exchange(loser.chunk, winner.chunk, mask);
    exchange(loser.cursor, winner.cursor, mask);
  }
  static void exchange(std::uint64_t& a, std::uint64_t& b, std::uint64_t mask) noexcept {
    const std::uint64_t differing = (a ^ b) & mask;
    a ^= differing;
    b ^= differing;
  }

  // Nothing that is known tells them apart, and both have records.
  void play_on(Player& loser, Player& winner) const {
    const StoredRecord& a = cursors_[loser.cursor]->stored();
    const StoredRecord& b = cursors_[winner.cursor]->stored();
    // So far their codes are the same: the winner keeps it.
    const Difference differ = difference(a, b, order_, behind(loser.behind) + 1);
    if (differ.order == 0) {
      if (loser.cursor < winner.cursor) std::swap(loser, winner);
      loser.behind = kEqual;
      loser.chunk = loser.cursor;
      return;
    }
    loser.chunk = order_chunk(differ.order < 0 ? b : a, order_, differ.chunk);
    if (differ.order < 0) std::swap(loser.cursor, winner.cursor);
    loser.behind = behind(differ.chunk);
  }

  void replace() {
    Player player = winner_;
    Cursor& cursor = *cursors_[player.cursor];
    if (!cursor.advance()) {
      player.behind = kNoRecord;
      player.chunk = player.cursor;
    } else {
      const std::uint64_t chunks = cursor.in_common();
      if (chunks == order_chunks(cursor.stored(), order_)) {
        player.behind = kEqual;
        player.chunk = player.cursor;
      } else {
        player.behind = behind(chunks);
        player.chunk = order_chunk(cursor.stored(), order_, chunks);
      }
    }
    for (std::size_t node = (leaves_ + player.cursor) / 2; node > 0; node /= 2) {
      play(losers_[node], player);
    }
    winner_ = player;
  }

  const StoredOrder order_;
  const std::vector<Cursor*> cursors_;
  const std::size_t leaves_;
  std::vector<Player> losers_;
  std::vector<Player> winners_;  // of start(), which errors of streams leave by a jump
  Player winner_;
  bool fresh_ = true;
};

}}  // namespace vortex::v0
