// The library's arrays as ranges, and ranges as its inputs. The expected values come from
// std::stable_sort and from the ranges themselves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/pipeline.h"
#include "vortex/sort.h"
#include "vortex/sorter.h"
#include "vortex/vanishing_array.h"

namespace vortex::ranges_test { namespace {

template <typename T>
struct Part;

}  // namespace

}  // namespace vortex::ranges_test

template <typename T>
inline constexpr bool std::ranges::enable_borrowed_range<vortex::ranges_test::Part<T>> = true;

namespace vortex::ranges_test { namespace {

template <typename R, typename T>
concept ArrayOf = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                  std::same_as < std::ranges::range_reference_t<R>,
const T& > ;

static_assert(ArrayOf<FileReader<int>, int> && ArrayOf<const FileReader<int>, int>);
static_assert(std::ranges::contiguous_range<FileArray<int>> &&
              std::ranges::sized_range<FileArray<int>> &&
              std::same_as<std::ranges::range_reference_t<FileArray<int>>, int&>);

// Ranges that pass by can be gone through once.
template <typename R>
constexpr bool kOnePass = std::ranges::input_range<R> && !std::ranges::forward_range<R>;
static_assert(kOnePass<InputStream<int>> && kOnePass<const PipelineReader<int>>);
static_assert(kOnePass<Sorter<int>> && kOnePass<const Sorter<int>>);
static_assert(std::ranges::sized_range<const Sorter<int>>);
static_assert(!std::ranges::range<VanishingArray<int>> && !std::ranges::range<OutputStream<int>>);

template <typename T>
constexpr bool kMovesOnly =
    std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;

static_assert(kMovesOnly<FileReader<int>> && kMovesOnly<FileWriter<int>>);
static_assert(kMovesOnly<Sorter<int>> && kMovesOnly<RecordSorter>);
static_assert(kMovesOnly<PipelineReader<int>> && kMovesOnly<PipelineWriter<int>>);

struct Item {
  std::uint32_t name = 0;
  float price = 0;
  std::uint16_t shelf = 0;

  std::uint32_t twice() const noexcept { return 2 * name; }
  bool operator==(const Item&) const = default;
};

std::vector<std::uint64_t> random_numbers(std::size_t count) {
  std::mt19937_64 random = test::test_random();
  std::vector<std::uint64_t> numbers(count);
  for (auto& number : numbers) number = random() % 10000;
  return numbers;
}

std::vector<Item> random_items(std::size_t count) {
  std::mt19937_64 random = test::test_random();
  std::vector<Item> items(count);
  for (auto& item : items) {
    item = {static_cast<std::uint32_t>(random() % 500), static_cast<float>(random() % 1000) / 8,
            static_cast<std::uint16_t>(random())};
  }
  return items;
}

// Ranges of our own take the place of views: clang 14 does not compile those of libstdc++ 12.

// value(0), value(1), ... value(count - 1), to be gone through once; its length is not known.
template <typename Value>
class Computed {
 public:
  class Iterator {
   public:
    using value_type = std::remove_cvref_t<std::invoke_result_t<const Value&, std::size_t>>;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const Value& value, std::size_t left) : value_(&value), left_(left) {}
    value_type operator*() const { return (*value_)(at_); }
    Iterator& operator++() {
      ++at_;
      --left_;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return left_ == 0; }

   private:
    const Value* value_ = nullptr;
    std::size_t at_ = 0;
    std::size_t left_ = 0;
  };

  explicit Computed(Value value, std::size_t count = ~std::size_t{0})
      : value_(std::move(value)), count_(count) {}
  Iterator begin() const { return {value_, count_}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  Value value_;
  std::size_t count_;
};
static_assert(std::ranges::input_range<Computed<int (*)(std::size_t)>> &&
              !std::ranges::forward_range<Computed<int (*)(std::size_t)>> &&
              !std::ranges::sized_range<Computed<int (*)(std::size_t)>>);

// A part of an array, which outlives it.
template <typename T>
struct Part {
  T* first;
  T* last;
  T* begin() const { return first; }
  T* end() const { return last; }
};

template <typename Key>
std::vector<Item> sorted_by(std::vector<Item> items, Key key) {
  std::ranges::stable_sort(items, {}, key);
  return items;
}

TEST(SortOfRanges, WhateverIsAnArrayDeduces) {
  const std::vector<std::uint64_t> numbers = random_numbers(5000);
  std::vector<std::uint64_t> expected = numbers;
  std::sort(expected.begin(), expected.end());

  std::vector<std::uint64_t> sorted = numbers;
  vortex::sort(sorted);
  EXPECT_EQ(sorted, expected);
  sorted = numbers;
  vortex::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, expected);
  sorted = numbers;
  vortex::sort(sorted.data(), sorted.data() + sorted.size(), {.threads = 1});
  EXPECT_EQ(sorted, expected);
  sorted = numbers;
  vortex::sort(std::span(sorted));
  EXPECT_EQ(sorted, expected);
  sorted = numbers;
  vortex::sort(Part<std::uint64_t>{sorted.data(), sorted.data() + sorted.size()},
               {.order = Order::kDescending});
  EXPECT_TRUE(std::equal(sorted.begin(), sorted.end(), expected.rbegin(), expected.rend()));

  std::array<int, 5> few{3, -1, 2, 0, -7};
  vortex::sort(few);
  EXPECT_EQ(few, (std::array{-7, -1, 0, 2, 3}));
  double plain[] = {2.5, -1.5, 0};
  vortex::sort(plain);
  EXPECT_EQ(plain[0], -1.5);
  EXPECT_EQ(plain[2], 2.5);
  vortex::sort(std::span<int, 5>(few), {.order = Order::kDescending});
  EXPECT_EQ(few, (std::array{3, 2, 0, -1, -7}));
}

TEST(SortOfRanges, OnlyThePartThatIsNamed) {
  const std::vector<std::uint64_t> numbers = random_numbers(300);
  std::vector<std::uint64_t> sorted = numbers;
  std::vector<std::uint64_t> expected = numbers;
  vortex::sort(sorted.begin() + 7, sorted.begin() + 250);
  std::sort(expected.begin() + 7, expected.begin() + 250);
  EXPECT_EQ(sorted, expected);
  vortex::sort(sorted.begin(), sorted.begin());
  EXPECT_EQ(sorted, expected);
}

TEST(SortOfRanges, Projections) {
  const std::vector<Item> items = random_items(5000);
  std::vector<Item> sorted = items;
  vortex::sort(sorted, &Item::price);
  EXPECT_EQ(sorted, sorted_by(items, &Item::price));
  sorted = items;
  vortex::sort(sorted, &Item::twice);
  EXPECT_EQ(sorted, sorted_by(items, &Item::name));
  sorted = items;
  vortex::sort(sorted.begin(), sorted.end(), &Item::shelf);
  EXPECT_EQ(sorted, sorted_by(items, &Item::shelf));
  sorted = items;
  vortex::sort(sorted, [](const Item& item) { return item.name; }, {.order = Order::kDescending});
  EXPECT_EQ(sorted, sorted_by(items, [](const Item& item) { return ~item.name; }));
}

TEST(Ranges, OfFiles) {
  const test::TemporaryFolder folder;
  const std::vector<std::uint64_t> numbers = random_numbers(100'000);
  FileWriter<std::uint64_t> writer(folder.file("numbers"));
  std::ranges::copy(numbers, writer.data());
  writer.finish(numbers.size());

  const FileReader<std::uint64_t> reader(folder.file("numbers"), {.block_bytes = 64 << 10});
  EXPECT_TRUE(std::ranges::equal(reader, numbers));
  EXPECT_TRUE(std::equal(std::make_reverse_iterator(reader.end()),
                         std::make_reverse_iterator(reader.begin()), numbers.rbegin(),
                         numbers.rend()));
  EXPECT_EQ(reader.span().size(), numbers.size());
  EXPECT_EQ(std::reduce(reader.begin(), reader.end()), std::reduce(numbers.begin(), numbers.end()));
  std::vector<std::uint64_t> copied(reader.begin(), reader.end());
  EXPECT_EQ(copied, numbers);
}

TEST(Ranges, ReadersAndWritersAreAssigned) {
  const test::TemporaryFolder folder;
  for (const std::string name : {"first", "second"}) {
    FileWriter<char> writer(folder.file("none"));
    writer.data()[0] = 'x';
    writer = FileWriter<char>(folder.file(name));  // with a pool of its own, like the one before
    std::ranges::copy(name, writer.data());
    writer.finish(name.size());
  }
  EXPECT_EQ(folder.entries(), 2U);  // what was replaced has not appeared
  FileReader<char> reader(folder.file("first"));
  EXPECT_EQ(std::string(reader.begin(), reader.end()), "first");
  reader = FileReader<char>(folder.file("second"));
  EXPECT_EQ(std::string(reader.begin(), reader.end()), "second");
}

TEST(Ranges, OfSorters) {
  const std::vector<std::uint64_t> numbers = random_numbers(50'000);
  std::vector<std::uint64_t> expected = numbers;
  std::sort(expected.begin(), expected.end());
  Sorter<std::uint64_t> sorter({.memory_bytes = 4 << 20});
  sorter.push(7);
  Sorter<std::uint64_t> moved = std::move(sorter);
  EXPECT_EQ(moved.size(), 1U);
  sorter = Sorter<std::uint64_t>({.memory_bytes = 4 << 20});
  sorter.push_range(std::span(numbers).first(100));
  sorter.push_range(std::vector(numbers.begin() + 100, numbers.begin() + 20'000));
  sorter.push_range(
      Computed([&](std::size_t i) { return numbers[20'000 + i]; }, numbers.size() - 20'000));
  sorter.sort();
  EXPECT_TRUE(std::ranges::equal(sorter, expected));
  moved.sort();
  EXPECT_EQ(moved.data()[0], 7U);
}

// Longer than all windows, in every way that may look at the end first.
TEST(Ranges, OfSortersAreCopiedWhole) {
  std::vector<std::uint64_t> expected = random_numbers(700'000);
  const auto make = [&] {
    auto sorter = std::make_unique<Sorter<std::uint64_t>>(SortResources{.memory_bytes = 2 << 20});
    sorter->push(expected);
    sorter->sort();
    return sorter;
  };
  std::vector<std::unique_ptr<Sorter<std::uint64_t>>> sorters;
  for (int i = 0; i < 4; ++i) sorters.push_back(make());
  std::sort(expected.begin(), expected.end());

  const std::vector constructed(sorters[0]->begin(), sorters[0]->end());
  EXPECT_TRUE(constructed == expected);
  std::vector<std::uint64_t> copied(expected.size());
  std::copy(sorters[1]->begin(), sorters[1]->end(), copied.begin());
  EXPECT_TRUE(copied == expected);
  std::ranges::fill(copied, 0);
  EXPECT_EQ(std::ranges::copy(*sorters[2], copied.begin()).out, copied.end());
  EXPECT_TRUE(copied == expected);
  std::ranges::fill(copied, 0);
  std::uint64_t* const to = copied.data();
  auto at = sorters[3]->begin();
  EXPECT_EQ(static_cast<std::size_t>(sorters[3]->end() - at), expected.size());
  for (std::size_t i = 0; i < copied.size(); ++i) to[i] = *at++;
  EXPECT_TRUE(copied == expected);
  // Algorithms that would copy by memcpy(), or begin at the end, are not offered one.
  static_assert(std::ranges::input_range<const Sorter<std::uint64_t>>);
  static_assert(
      std::sized_sentinel_for<decltype(sorters[0]->end()), decltype(sorters[0]->begin())>);
  static_assert(!std::ranges::forward_range<const Sorter<std::uint64_t>>);
}

TEST(Ranges, OfStreamsAreCopiedWhole) {
  const std::vector<std::uint64_t> expected = random_numbers(300'000);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(expected));
  BlockPool pool({.pool_bytes = 2 * kMinBlockBytes, .block_bytes = kMinBlockBytes});
  const auto fill = [&](std::span<std::byte> block, std::uint64_t offset) {
    const auto part = bytes.subspan(offset, std::min(block.size(), bytes.size() - offset));
    std::memcpy(block.data(), part.data(), part.size());
    return part.size();
  };
  for (const auto length :
       {std::optional<std::uint64_t>(bytes.size()), std::optional<std::uint64_t>()}) {
    auto stream = input_from_callback<std::uint64_t>(pool, fill, {}, length);
    std::vector<std::uint64_t> copied(expected.size());
    EXPECT_EQ(std::ranges::copy(stream, copied.begin()).out, copied.end());
    EXPECT_TRUE(copied == expected);
  }
  Pipeline<std::uint64_t> pipeline({.block_bytes = kMinBlockBytes});
  std::thread producer([&, out = pipeline.writer()]() mutable {
    for (std::size_t i = 0; i < expected.size(); i += 1000) {
      std::memcpy(out.data() + i, expected.data() + i, 1000 * sizeof(std::uint64_t));
    }
    out.finish(expected.size());
  });
  std::vector<std::uint64_t> copied;
  std::ranges::copy(pipeline.reader(), std::back_inserter(copied));
  producer.join();
  EXPECT_TRUE(copied == expected);
}

// A file is read in the order in which memcpy() likes it, or is no range.
TEST(Ranges, OfFilesAreCopiedWhole) {
  const test::TemporaryFolder folder;
  const std::vector<std::uint64_t> expected = random_numbers(700'000);
  {
    FileWriter<std::uint64_t> writer(folder.file("numbers"));
    for (std::size_t i = 0; i < expected.size(); i += 1000) {
      std::memcpy(writer.data() + i, expected.data() + i, 1000 * sizeof(std::uint64_t));
    }
    writer.finish(expected.size());
  }
  const FileReader<std::uint64_t> reader(folder.file("numbers"), {.block_bytes = 64 << 10});
  std::vector<std::uint64_t> copied(expected.size());
  std::memcpy(copied.data(), reader.data(), copied.size() * sizeof(std::uint64_t));
  EXPECT_TRUE(copied == expected);
  std::ranges::fill(copied, 0);
  std::ranges::copy(reader, copied.begin());
  EXPECT_TRUE(copied == expected);
  EXPECT_TRUE(std::vector(reader.begin(), reader.end()) == expected);
  const std::span<const std::uint64_t> span = reader.span();
  EXPECT_TRUE(std::vector(span.begin(), span.end()) == expected);

  const FileReader<std::uint64_t> forward(folder.file("numbers"),
                                          {.block_bytes = 64 << 10, .order = ReadOrder::kForward});
  for (const bool as_span : {false, true}) {
    EXPECT_TRUE(test::fails(
        [&] { as_span ? static_cast<void>(forward.span()) : static_cast<void>(forward.end()); },
        EINVAL, "kAny"));
  }
  EXPECT_EQ(forward.size(), expected.size());
  EXPECT_EQ(forward.data()[0], expected[0]);
}

TEST(Ranges, OfArraysThatAreLoadedAreCopiedWhole) {
  const std::vector<std::uint64_t> expected = random_numbers(100'000);
  BlockPool blocks({.pool_bytes = 4 << 20, .block_bytes = kMinBlockBytes});
  StreamPool pool(blocks, blocks.block_count());
  VanishingArray<std::uint64_t> array(pool, expected.size());
  array.load(expected);
  const std::span<std::uint64_t> span = array.span();
  EXPECT_TRUE(std::vector(span.begin(), span.end()) == expected);
  std::vector<std::uint64_t> copied(expected.size());
  std::memcpy(copied.data(), span.data(), span.size_bytes());
  EXPECT_TRUE(copied == expected);
}

TEST(Ranges, EndsOfPipelinesAreAssigned) {
  const PipelineOptions options{.block_bytes = kMinBlockBytes};
  Pipeline<int> first(options);
  Pipeline<int> second(options);
  PipelineWriter<int> writer = first.writer();
  PipelineReader<int> reader = first.reader();
  writer.data()[0] = 1;
  writer = second.writer();  // the first reader finds nobody
  const Failure failure =
      guarded([&] { static_cast<void>(*const_cast<const volatile int*>(reader.data())); });
  EXPECT_NE(failure.error, 0);
  reader = second.reader();
  std::thread consumer([&] {
    EXPECT_EQ(reader.data()[0], 5);
    EXPECT_EQ(reader.wait_size(), 1U);
  });
  writer.data()[0] = 5;
  writer.finish(1);
  consumer.join();
}

BlockPoolOptions small_pool() {
  return {.pool_bytes = 2 * kMinBlockBytes, .block_bytes = kMinBlockBytes};
}

TEST(InputFromRange, AnEndlessRange) {
  BlockPool pool(small_pool());
  auto stream = input_from_range(pool, Computed([](std::uint64_t i) { return i * i; }));
  static_assert(std::same_as<decltype(stream), InputStream<std::uint64_t>>);
  EXPECT_FALSE(stream.size());
  for (std::uint64_t i = 0; i < 50'000; ++i) ASSERT_EQ(stream.data()[i], i * i);
  EXPECT_EQ(stream.data()[1'000'000], std::uint64_t{1'000'000} * 1'000'000);  // jumps forward
  EXPECT_FALSE(stream.size());
}

// Elements straddle blocks, and the container stays where it is.
TEST(InputFromRange, AContainerOfKnownSize) {
  const std::vector<Item> items = random_items(10'001);
  static_assert(kMinBlockBytes % sizeof(Item) != 0);
  BlockPool pool(small_pool());
  auto stream = input_from_range(pool, items);
  ASSERT_EQ(stream.size(), items.size());
  EXPECT_TRUE(std::equal(items.begin(), items.end(), stream.data()));
}

// An input range, which can be gone through once only and does not know its size.
TEST(InputFromRange, ASinglePass) {
  std::istringstream text("11 22 33 44");
  BlockPool pool(small_pool());
  auto stream = input_from_range(pool, Computed(
                                           [&text](std::size_t) {
                                             int number = 0;
                                             text >> number;
                                             return number;
                                           },
                                           4));
  EXPECT_EQ(stream.data()[0], 11);
  EXPECT_EQ(stream.data()[3], 44);
  EXPECT_EQ(stream.data()[4], 0);
  EXPECT_EQ(stream.size(), 4U);
}

#ifdef __cpp_impl_coroutine
// The simplest coroutine that yields: std::generator comes with C++23.
template <typename T>
class Generator {
 public:
  struct promise_type {
    const T* yielded = nullptr;
    std::exception_ptr thrown;

    Generator get_return_object() {
      return Generator(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(const T& value) noexcept {
      yielded = &value;
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { thrown = std::current_exception(); }
  };

  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(std::coroutine_handle<promise_type> body) : body_(body) {}
    const T& operator*() const { return *body_.promise().yielded; }
    Iterator& operator++() {
      body_.resume();
      if (body_.promise().thrown) std::rethrow_exception(body_.promise().thrown);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return body_.done(); }

   private:
    std::coroutine_handle<promise_type> body_;
  };

  explicit Generator(std::coroutine_handle<promise_type> body) : body_(body) {}
  Generator(Generator&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  Generator& operator=(Generator&&) = delete;
  ~Generator() {
    if (body_) body_.destroy();
  }
  Iterator begin() { return ++Iterator(body_); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::coroutine_handle<promise_type> body_;
};

Generator<std::uint64_t> collatz(std::uint64_t number) {
  for (;;) {
    co_yield number;
    if (number == 1) co_return;
    number = number % 2 == 0 ? number / 2 : 3 * number + 1;
  }
}

TEST(InputFromRange, ACoroutine) {
  std::vector<std::uint64_t> expected{837'799};
  while (expected.back() != 1) {
    const std::uint64_t last = expected.back();
    expected.push_back(last % 2 == 0 ? last / 2 : 3 * last + 1);
  }
  BlockPool pool(small_pool());
  auto stream = input_from_range(pool, collatz(837'799));
  std::vector<std::uint64_t> found;
  for (const std::uint64_t number : stream) found.push_back(number);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(stream.size(), 525U);  // the steps that are known of this number, and itself
}
#endif

// Lengths around the borders of blocks, of elements that straddle them, known and not known before.
template <typename T>
void go_through_once(std::size_t count, std::size_t bytes_more, bool known) {
  std::vector<std::byte> bytes(count * sizeof(T) + bytes_more);
  std::mt19937_64 random = test::test_random();
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  BlockPool pool(small_pool());
  const auto stream = input_from_callback<T>(
      pool,
      [&bytes](std::span<std::byte> block, std::uint64_t offset) {
        const std::size_t here =
            std::min(block.size(), bytes.size() - std::min(bytes.size(), offset));
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), here, block.begin());
        return here;
      },
      {}, known ? std::optional<std::uint64_t>(bytes.size()) : std::nullopt);
  std::size_t at = 0;
  for (const T& element : stream) {
    ASSERT_LT(at, count);
    ASSERT_EQ(std::memcmp(&element, bytes.data() + at * sizeof(T), sizeof(T)), 0) << at;
    ++at;
  }
  EXPECT_EQ(at, count);
  EXPECT_EQ(stream.size(), count);
}

TEST(Ranges, OfStreamsAreGoneThroughOnce) {
  struct Seven {
    char bytes[7];
  };
  for (const bool known : {true, false}) {
    for (const std::size_t blocks : {0, 1, 3}) {
      const std::size_t numbers = blocks * kMinBlockBytes / 8;
      go_through_once<std::uint64_t>(numbers, 0, known);
      go_through_once<std::uint64_t>(numbers, 5, known);
      go_through_once<std::uint64_t>(numbers + 1, 0, known);
      const std::size_t sevens = blocks * kMinBlockBytes / 7;
      go_through_once<Seven>(sevens, 0, known);
      go_through_once<Seven>(sevens, 6, known);
      go_through_once<Seven>(sevens + 1, 0, known);
    }
  }
}

TEST(Ranges, OfPipesAreGoneThroughOnce) {
  constexpr std::uint64_t kCount = 3 * kMinBlockBytes / 8 + 1;
  Pipeline<std::uint64_t> pipeline({.block_bytes = kMinBlockBytes});
  std::thread producer([out = pipeline.writer()]() mutable {
    std::iota(out.data(), out.data() + kCount, std::uint64_t{0});
    out.finish(kCount);
  });
  const auto reader = pipeline.reader();
  std::uint64_t next = 0;
  for (const std::uint64_t number : reader) ASSERT_EQ(number, next++);
  producer.join();
  EXPECT_EQ(next, kCount);

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text = "what comes out of a pipe";
  std::thread writer([&] {
    EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends[1]);
  });
  {
    const FileReader<char> file(ends[0]);
    EXPECT_EQ(file.readable_bytes(0), text.size());
    EXPECT_EQ(file.readable_bytes(text.size()), text.size());
    EXPECT_EQ(std::string(file.begin(), file.end()), text);
  }
  writer.join();
  close(ends[0]);
}

TEST(Ranges, WhatAVanishingArrayHolds) {
  const std::vector<std::uint64_t> numbers = random_numbers(10'000);
  BlockPool blocks({.pool_bytes = 8 * kMinBlockBytes, .block_bytes = kMinBlockBytes});
  StreamPool pool(blocks, 8);
  // Neighbours are compared across the borders of blocks.
  VanishingArray<std::uint64_t> array(pool, numbers.size(), {.comeback_blocks = 1});
  EXPECT_TRUE(array.span().empty());
  array.load(numbers);
  EXPECT_TRUE(std::ranges::equal(array.span(), numbers));
  EXPECT_TRUE(std::ranges::equal(array.span(), numbers));  // nothing has vanished
  vortex::sort(array.span());
  EXPECT_TRUE(std::ranges::is_sorted(array.span()));
  array.seal();
  EXPECT_TRUE(std::ranges::is_sorted(array.span()));
  EXPECT_LE(array.held_blocks(), 2U);  // read, and given back
}

TEST(InputFromRange, WhatItThrowsAndWhatItCannotDo) {
  if (test::kThreadSanitizer) {
    GTEST_SKIP()
        << "throwing allocates, which the thread sanitizer reports inside any signal handler";
  }
  BlockPool pool(small_pool());
  auto bad = input_from_range(pool, Computed([](std::size_t i) {
                                if (i == 10'000) throw Error(EDOM, "ten thousand");
                                return static_cast<int>(i);
                              }));
  const Failure thrown = guarded([&] {
    for (int i = 0; i < 20'000; ++i) ASSERT_EQ(bad.data()[i], i);
  });
  EXPECT_EQ(thrown.error, EDOM);
  EXPECT_TRUE(thrown.cause.view().ends_with("ten thousand"));

  BlockPool second(small_pool());
  auto stream =
      input_from_range(second, Computed([](std::size_t i) { return static_cast<int>(i); }));
  const volatile int* const data = stream.data();
  constexpr std::size_t kBlock = kMinBlockBytes / sizeof(int);
  EXPECT_EQ(data[5 * kBlock], static_cast<int>(5 * kBlock));
  const Failure back = guarded([&] { static_cast<void>(data[4 * kBlock]); });
  EXPECT_EQ(back.error, EINVAL);
  EXPECT_TRUE(back.cause.view().find("forward only") != std::string_view::npos);
}

}  // namespace

}  // namespace vortex::ranges_test
