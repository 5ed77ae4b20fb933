// The merger that takes blocks in the order of their smallest keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace vortex { inline namespace v0 {

// The merging thread of SPAA, section 2.2: it knows nothing of runs, holds the first k blocks of
// the prediction sequence that still have unselected elements, and selects the smallest element in
// them; Lemma 3 says that no element elsewhere is smaller. When a block is used up, the next one of
// the sequence takes its place.
//
// Which of several equal elements comes first follows the places of the blocks in the sequence, so
// a merge by it is not stable. Only the comparison with the merge through plain run pointers uses
// it.
template <typename T, typename Less = std::less<T>>
class BlockMerger {
 public:
  explicit BlockMerger(Less less = {}) : less_(std::move(less)) {}

  // A block enters the merge buffers: at the start k of them, later one for each that was used up.
  void add(std::uint32_t position, std::span<const T> block) {
    if (block.empty()) return;
    blocks_.push_back({position, block.data(), block.data() + block.size()});
    std::push_heap(blocks_.begin(), blocks_.end(), Later{this});
  }

  bool empty() const noexcept { return blocks_.empty(); }

  struct Selected {
    const T* element = nullptr;
    std::uint32_t position = 0;  // of its block
    bool used_up = false;        // it was the block's last
  };

  // Selects the smallest element in the merge buffers, which must not be empty.
  Selected select() {
    std::pop_heap(blocks_.begin(), blocks_.end(), Later{this});
    Buffered& block = blocks_.back();
    const Selected selected = {block.next, block.position, block.next + 1 == block.end};
    ++block.next;
    if (selected.used_up) {
      blocks_.pop_back();
    } else {
      std::push_heap(blocks_.begin(), blocks_.end(), Later{this});
    }
    return selected;
  }

 private:
  struct Buffered {
    std::uint32_t position;
    const T* next;
    const T* end;
  };

  struct Later {
    const BlockMerger* merger;
    bool operator()(const Buffered& a, const Buffered& b) const {
      if (merger->less_(*b.next, *a.next)) return true;
      if (merger->less_(*a.next, *b.next)) return false;
      return b.position < a.position;
    }
  };

  Less less_;
  std::vector<Buffered> blocks_;
};

}}  // namespace vortex::v0
