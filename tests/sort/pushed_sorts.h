// Sorters of numbers and of lines as one interface: what is pushed comes back in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/sorter.h"

namespace vortex::test {

// A sort that takes between these shares of a budget.
inline SortResources resources_in(const TemporaryFolder& folder,
                                  const std::shared_ptr<MemoryBudget>& budget, std::uint64_t most,
                                  std::uint64_t least, unsigned threads) {
  SortResources resources;
  resources.memory_bytes = most;
  resources.budget = budget;
  resources.least_memory_bytes = least;
  resources.folders = {folder.path().string()};
  resources.threads = threads;
  return resources;
}
inline SortResources resources_in(const TemporaryFolder& folder,
                                  const std::shared_ptr<MemoryBudget>& budget, unsigned threads) {
  return resources_in(folder, budget, budget->bytes(), 0, threads);
}

inline std::vector<std::uint64_t> random_numbers(std::size_t count, std::uint64_t stream = 0) {
  auto random = test_random(stream);
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t& number : numbers) number = random();
  return numbers;
}

// Puts items in order, compiled without sanitizers.
void put_in_order(std::vector<std::uint64_t>& items);
void put_in_order(std::vector<std::string>& items);

// A kind: an item for each number, another order of items, and a sorter.
class PushedNumbers {
 public:
  using Item = std::uint64_t;
  static constexpr std::size_t kItemsOfBudget = 1'000'000;  // that fill 8 MiB
  // In runs, in most of the memory, and in little of it.
  static constexpr std::size_t kCounts[] = {1'500'000, 850'000, 950'000, 50'000};
  static constexpr unsigned kTurns = 1;  // for each

  static Item item_of(std::uint64_t number) { return number; }
  // Odd, so that no two numbers become one.
  static Item changed(Item item) { return item * 0x9E3779B97F4A7C15; }

  explicit PushedNumbers(const SortResources& resources) : sorter_(resources) {}
  void push(Item item) { sorter_.push(item); }
  void sort() {
    sorter_.sort();
    at_ = sorter_.begin();
  }
  std::optional<Item> next() {
    if (*at_ == sorter_.end()) return {};
    const Item item = **at_;
    ++*at_;
    return item;
  }

 private:
  Sorter<Item> sorter_;
  std::optional<detail::ArrayOnceIterator<Item>> at_;
};

class PushedLines {
 public:
  using Item = std::string;
  static constexpr std::size_t kItemsOfBudget = 70'000;
  static constexpr std::size_t kCounts[] = {1'000, 40'000, 60'000, 80'000, 200'000};
  static constexpr unsigned kTurns = 2;

  static Item item_of(std::uint64_t number) {
    return std::to_string(number) + std::string(number % 60, 'x');
  }
  static Item changed(std::string_view item) { return {item.rbegin(), item.rend()}; }

  explicit PushedLines(const SortResources& resources) : sorter_({}, resources) {}
  void push(std::string_view item) { sorter_.push(item); }
  // The first line is valid until the next one is asked for, whatever happens meanwhile.
  void sort() { is_there_ = sorter_.next(first_); }
  std::optional<std::string_view> next() {
    if (std::string_view line; first_was_given_ && sorter_.next(line)) return line;
    if (first_was_given_ || !is_there_) return {};
    first_was_given_ = true;
    return first_;
  }

 private:
  LineSorter sorter_;
  std::string_view first_;
  bool is_there_ = false;
  bool first_was_given_ = false;
};

struct PushedName {
  template <typename Kind>
  static std::string GetName(int) {
    return std::is_same_v<Kind, PushedLines> ? "Lines" : "Numbers";
  }
};

template <typename Kind>
std::vector<typename Kind::Item> random_items(std::size_t count) {
  std::vector<typename Kind::Item> items;
  for (const std::uint64_t number : random_numbers(count)) items.push_back(Kind::item_of(number));
  return items;
}

// How many of the sorted items from `first` up to `end` do not come next.
template <typename Kind, typename Item = typename Kind::Item>
std::size_t wrong_ones(Kind& sorter, const std::vector<Item>& sorted, std::size_t first = 0,
                       std::size_t end = ~std::size_t{0}) {
  std::size_t wrong = 0;
  for (end = std::min(end, sorted.size()); first < end; ++first) {
    const auto item = sorter.next();
    wrong += !item || *item != sorted[first];
  }
  return wrong;
}

}  // namespace vortex::test
