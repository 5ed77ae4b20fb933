#include "sort/arrays/strings.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "sort/arrays/scratch.h"
#include "sort/memory/record_paths.h"
#include "vortex/array_calls.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace {

using detail::ThreadTeam;

// A part of an array that one thread works on.
struct Part {
  std::size_t begin;
  std::size_t done;  // the end of what it has made
  std::size_t end;
};
std::vector<Part> parts_of(std::size_t count, const ThreadTeam& team) {
  std::vector<Part> parts;
  const std::size_t size = parts_for(team);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = count * i / size;
    parts.push_back({begin, begin, count * (i + 1) / size});
  }
  return parts;
}

// Strings that have one text each.
class PlainStrings {
 public:
  struct Scratch {};

  PlainStrings(const SortOptions& options, bool unique) noexcept
      : flip_(options.order == Order::kDescending ? ~std::uint64_t{0} : 0),
        by_value_(options.stable),
        unique_(unique) {}

  std::uint64_t flip() const noexcept { return flip_; }
  bool by_value() const noexcept { return by_value_; }
  bool marks_unique() const noexcept { return unique_; }
  static bool marks_same() noexcept { return false; }
  static unsigned text_behind(unsigned) noexcept { return 0; }
  static bool is_long(const IndexEntry&) noexcept { return false; }
  static bool keeps_long(unsigned) noexcept { return false; }

 protected:
  int compare_from(std::size_t depth, std::string_view a, std::string_view b) const noexcept {
    const int compared = a.substr(depth).compare(b.substr(depth));
    return flip_ == 0 ? compared : (compared < 0) - (compared > 0);
  }

 private:
  const std::uint64_t flip_;
  const bool by_value_;
  const bool unique_;
};

// Strings whose entries have their places: strings[place] is one.
template <typename Source>
class PlacedStrings : public PlainStrings {
 public:
  PlacedStrings(Source strings, const SortOptions& options, bool unique) noexcept
      : PlainStrings(options, unique), strings_(strings) {}

  std::string_view text(const IndexEntry& entry, unsigned, Scratch&) const noexcept {
    return strings_[entry.value];
  }
  [[gnu::always_inline]] void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(strings_[entry.value].data()) + depth));
  }
  int compare(const IndexEntry& a, const IndexEntry& b, unsigned,
              std::size_t depth) const noexcept {
    return compare_from(depth, strings_[a.value], strings_[b.value]);
  }

 private:
  const Source strings_;
};

template <typename Source>
void index_and_sort(Source strings, std::span<IndexEntry> index, const SortOptions& options,
                    bool unique, ThreadTeam& team) {
  const PlacedStrings placed(strings, options, unique);
  in_parts(index.size(), team, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      index[i] = {chunk_at(strings[i], 0) ^ placed.flip(), i};
    }
  });
  StringSort(placed, team).sort(index);
}

// Objects of std::string have pointers into themselves, so they are not moved as bytes.
struct MovesOfStrings {
  // 4 million strings by one thread: 8 paths 0.27 s, 16 0.21 s, 32 0.18 s.
  static constexpr std::size_t kMost = 32;
  struct Slot {
    alignas(std::string) std::byte bytes[sizeof(std::string)];
  };

  static void move(std::string* from, std::string* to) noexcept {
    std::construct_at(to, std::move(*from));
    std::destroy_at(from);
  }
  std::string* held(std::size_t slot) const noexcept {
    return reinterpret_cast<std::string*>(slots[slot].bytes);
  }
  void lift(std::size_t place, std::size_t slot) const noexcept {
    move(strings + place, held(slot));
  }
  void move(std::size_t from, std::size_t to) const noexcept { move(strings + from, strings + to); }
  void lay(std::size_t slot, std::size_t to) const noexcept {
    move(std::launder(held(slot)), strings + to);
  }
  [[gnu::always_inline]] void prefetch(std::size_t place) const noexcept {
    detail::ask_for(strings + place, sizeof(std::string));
  }

  std::string* strings;
  Slot* slots;
};

// Views whose entries have address and length: they take each other's place, and no memory. The
// few that do not fit are kept apart.
class PackedViews : public PlainStrings {
 public:
  PackedViews(const SortOptions& options, bool unique, const std::deque<std::string_view>& apart)
      : PlainStrings(options, unique), apart_(apart) {}

  std::string_view view(const IndexEntry& entry) const noexcept {
    const std::uint64_t low = entry.value & kLow;
    const std::size_t bytes = entry.value >> kLowBits;
    if (bytes == kApart) [[unlikely]]
      return apart_[low];
    return {reinterpret_cast<const char*>(low), bytes};
  }
  std::string_view text(const IndexEntry& entry, unsigned, Scratch&) const noexcept {
    return view(entry);
  }
  [[gnu::always_inline]] void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>((entry.value & kLow) + depth));
  }
  int compare(const IndexEntry& a, const IndexEntry& b, unsigned,
              std::size_t depth) const noexcept {
    return compare_from(depth, view(a), view(b));
  }

  // Whether the view need not be kept apart.
  static bool fits(std::string_view view) noexcept {
    return view.size() < kApart && reinterpret_cast<std::uintptr_t>(view.data()) <= kLow;
  }
  // The value of an entry of a view that fits, and of one that is kept apart.
  static std::uint64_t pack(std::string_view view) noexcept {
    return static_cast<std::uint64_t>(view.size()) << kLowBits |
           reinterpret_cast<std::uintptr_t>(view.data());
  }
  static std::uint64_t pack_apart(std::size_t place) noexcept {
    return std::uint64_t{kApart} << kLowBits | place;
  }

 private:
  static constexpr int kLowBits = 48;
  static constexpr std::uint64_t kLow = (std::uint64_t{1} << kLowBits) - 1;
  static constexpr std::size_t kApart = 0xffff;

  const std::deque<std::string_view>& apart_;
};

// Sorts views where they are.
class ViewSort {
 public:
  ViewSort(std::span<std::string_view> views, const SortOptions& options, bool unique,
           ThreadTeam& team)
      : views_(views),
        index_(reinterpret_cast<IndexEntry*>(views.data()), views.size()),
        team_(team),
        packed_(options, unique, apart_),
        parts_(parts_of(views.size(), team)) {}

  // Returns how many are in front. Throws std::bad_alloc with the views all there, in any order.
  std::size_t sort() {
    std::size_t kept = index_.size();
    try {
      team_.run(parts_.size(), [this](std::size_t i) { pack(parts_[i]); });
      StringSort(packed_, team_).sort(index_);
      if (packed_.marks_unique()) kept = marked_last(index_, team_);
    } catch (...) {
      for (const Part& part : parts_) unpack(part.begin, part.done);
      throw;
    }
    in_parts(kept, team_, [this](std::size_t begin, std::size_t end) { unpack(begin, end); });
    return kept;
  }

 private:
  static_assert(sizeof(IndexEntry) == sizeof(std::string_view) &&
                alignof(IndexEntry) == alignof(std::string_view));

  void pack(Part& part) {
    constexpr std::size_t kAhead = 48;
    for (std::size_t& i = part.done; i < part.end; ++i) {
      if (i + kAhead < part.end) detail::ask_for(views_[i + kAhead].data(), 1);
      const std::string_view view = views_[i];
      std::uint64_t value = PackedViews::pack(view);
      if (!PackedViews::fits(view)) [[unlikely]] {
        const std::lock_guard lock(mutex_);
        apart_.push_back(view);
        value = PackedViews::pack_apart(apart_.size() - 1);
      }
      new (&index_[i]) IndexEntry{chunk_at(view, 0) ^ packed_.flip(), value};
    }
  }

  // Makes entries views again.
  void unpack(std::size_t begin, std::size_t end) noexcept {
    for (; begin < end; ++begin) {
      const IndexEntry entry = index_[begin];
      new (&views_[begin]) std::string_view(packed_.view(entry));
    }
  }

  const std::span<std::string_view> views_;
  const std::span<IndexEntry> index_;  // the same memory
  ThreadTeam& team_;
  std::mutex mutex_;
  std::deque<std::string_view> apart_;
  const PackedViews packed_;
  std::vector<Part> parts_;
};

std::size_t sort_placed(std::span<std::string_view> views, const SortOptions& options, bool unique,
                        ThreadTeam& team) {
  const detail::Scratch<IndexEntry> memory(views.size());
  const std::span index(memory.get(), views.size());
  index_and_sort(views.data(), index, options, unique, team);
  return arrange_views(views, index, unique, team);
}

}  // namespace

unsigned threads_for_strings(std::size_t count, unsigned threads) {
  constexpr std::size_t kMinShare = std::size_t{1} << 15;
  if (threads == 1 || count < 2 * kMinShare) return 1;
  return static_cast<unsigned>(
      std::min<std::size_t>(ThreadTeam::resolve(threads), count / kMinShare));
}

std::size_t arrange_views(std::span<std::string_view> views, std::span<IndexEntry> index,
                          bool drops_same, ThreadTeam& team) {
  constexpr std::size_t kAhead = 48;
  // A view takes the place of the entry that has told it.
  auto* const arranged = reinterpret_cast<std::string_view*>(index.data());
  std::vector<Part> parts = parts_of(index.size(), team);
  team.run(parts.size(), [&](std::size_t i) {
    Part& part = parts[i];
    for (std::size_t at = part.begin; at < part.end; ++at) {
      if (at + kAhead < part.end) {
        detail::ask_for(&views[index[at + kAhead].value], sizeof(std::string_view));
      }
      const IndexEntry entry = index[at];
      if (drops_same && entry.key == kSameKey) continue;
      new (&arranged[part.done++]) std::string_view(views[entry.value]);
    }
  });
  std::size_t kept = 0;
  for (Part& part : parts) part.end = std::exchange(kept, kept + part.done - part.begin);
  team.run(parts.size(), [&](std::size_t i) {
    const Part& part = parts[i];
    std::copy(arranged + part.begin, arranged + part.done, views.data() + part.end);
  });
  return kept;
}

namespace detail {

std::size_t sort_strings(std::span<std::string_view> strings, const SortOptions& options,
                         bool unique) {
  ThreadTeam team(threads_for_strings(strings.size(), options.threads));
  // Equal views are told apart by their places alone.
  if (options.stable) return sort_placed(strings, options, unique, team);
  return ViewSort(strings, options, unique, team).sort();
}

std::size_t sort_strings(std::span<std::string> strings, const SortOptions& options, bool unique) {
  ThreadTeam team(threads_for_strings(strings.size(), options.threads));
  const Scratch<IndexEntry> memory(strings.size());
  const std::span index(memory.get(), strings.size());
  PathMover<MovesOfStrings> mover(MovesOfStrings::kMost, 4, team);
  const std::unique_ptr<MovesOfStrings::Slot[]> slots(new MovesOfStrings::Slot[mover.slots()]);
  index_and_sort(strings.data(), index, options, unique, team);
  // Those that are not the first of their kind come behind all others.
  const std::size_t kept = unique ? marked_last(index, team) : strings.size();
  mover.move({strings.data(), slots.get()}, index.data(), index.size());
  return kept;
}

namespace {

struct FoundStrings {
  const StringSource& source;
  std::string_view operator[](std::size_t place) const noexcept {
    return source.at(source.strings, place);
  }
};

template <typename Place>
void argsort_found(const StringSource& source, std::size_t count, Place* places,
                   SortOptions options) {
  options.stable = true;
  ThreadTeam team(threads_for_strings(count, options.threads));
  const Scratch<IndexEntry> memory(count);
  const std::span index(memory.get(), count);
  index_and_sort(FoundStrings{source}, index, options, false, team);
  in_parts(count, team, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) places[i] = static_cast<Place>(index[i].value);
  });
}

}  // namespace

void argsort_strings_32(const StringSource& strings, std::size_t count, void* places,
                        const SortOptions& options) {
  argsort_found(strings, count, static_cast<std::uint32_t*>(places), options);
}
void argsort_strings_64(const StringSource& strings, std::size_t count, void* places,
                        const SortOptions& options) {
  argsort_found(strings, count, static_cast<std::uint64_t*>(places), options);
}

}  // namespace detail

}}  // namespace vortex::v0
