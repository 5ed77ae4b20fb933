// Sorts, orders and selections of numbers by the C interface, against plain ones. A call with a
// wrong argument returns an error and moves nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/c_arrays.h"
#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "vortex/c.h"

namespace vortex::test {
namespace {

// The calls for numbers whose type the name of the call tells.
int sort_of_type(void* keys, std::size_t count, int number, const vtx_sort_options* options) {
  switch (number) {
    case VTX_I32:
      return vtx_sort_i32(static_cast<std::int32_t*>(keys), count, options);
    case VTX_U32:
      return vtx_sort_u32(static_cast<std::uint32_t*>(keys), count, options);
    case VTX_F32:
      return vtx_sort_f32(static_cast<float*>(keys), count, options);
    case VTX_I64:
      return vtx_sort_i64(static_cast<std::int64_t*>(keys), count, options);
    case VTX_U64:
      return vtx_sort_u64(static_cast<std::uint64_t*>(keys), count, options);
    default:
      return vtx_sort_f64(static_cast<double*>(keys), count, options);
  }
}
int sort_pairs_of_type(void* pairs, std::size_t count, int number,
                       const vtx_sort_options* options) {
  switch (number) {
    case VTX_I32:
      return vtx_sort_pairs_i32(static_cast<vtx_pair_i32*>(pairs), count, options);
    case VTX_U32:
      return vtx_sort_pairs_u32(static_cast<vtx_pair_u32*>(pairs), count, options);
    case VTX_F32:
      return vtx_sort_pairs_f32(static_cast<vtx_pair_f32*>(pairs), count, options);
    case VTX_I64:
      return vtx_sort_pairs_i64(static_cast<vtx_pair_i64*>(pairs), count, options);
    case VTX_U64:
      return vtx_sort_pairs_u64(static_cast<vtx_pair_u64*>(pairs), count, options);
    default:
      return vtx_sort_pairs_f64(static_cast<vtx_pair_f64*>(pairs), count, options);
  }
}

// Numbers of one type, by their bits.
template <typename Bits>
class NumberCalls {
 public:
  NumberCalls(FuzzedBytes& bytes, int number)
      : bytes_(bytes), number_(number), options_(sort_options(bytes)) {}

  void run() {
    const unsigned call = bytes_.below(8);
    const bool wrong = bytes_.below(8) == 0;
    const bool few = bytes_.flag();
    keys_.resize(bytes_.number() % 3000);
    std::mt19937_64 random(bytes_());
    for (Bits& key : keys_) key = static_cast<Bits>(few ? random() % 5 * kFactor : random());
    order_ = places_in_order(keys_.size(), [&](std::uint32_t a, std::uint32_t b) {
      return options_.descending != 0 ? rank(keys_[b]) < rank(keys_[a])
                                      : rank(keys_[a]) < rank(keys_[b]);
    });
    for (const std::uint32_t place : order_) sorted_.push_back(keys_[place]);
    if (bytes_.below(8) == 0) vtx_release_sort_memory();
    if (wrong) return refused(call);
    answered(call);
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;

  // In the order of the numbers.
  Bits rank(Bits key) const {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
    if (number_ < VTX_I8) return key;
    const bool turns = number_ >= VTX_F32 && (key & kSign) != 0;
    return static_cast<Bits>(turns ? ~key : key ^ kSign);
  }

  void answered(unsigned call) {
    switch (call) {
      case 0:
        return argsort();
      case 1:
        return by_key();
      case 2:
      case 3:
        return first_ones(call == 2);
      case 4:
        return unique();
      case 5: {
        const std::vector<vtx_chunk> chunks =
            chunks_of(bytes_, keys_.data(), keys_.size(), sizeof(Bits));
        EXPECT_EQ(vtx_sort_chunks(chunks.data(), chunks.size(), number_, &options_), 0);
        EXPECT_TRUE(keys_ == sorted_);
        return;
      }
      case 6:
        if (sizeof(Bits) < 4) return;
        EXPECT_EQ(sort_of_type(keys_.data(), keys_.size(), number_, &options_), 0);
        EXPECT_TRUE(keys_ == sorted_);
        return;
      default:
        if constexpr (sizeof(Bits) >= 4) pairs();
    }
  }
  void argsort() {
    const std::vector<Bits> before = keys_;
    Places places(bytes_, keys_.size());
    const int result =
        vtx_argsort(keys_.data(), keys_.size(), number_, places.data(), places.bytes(), &options_);
    EXPECT_EQ(result, places.fit() ? 0 : -EINVAL);
    EXPECT_TRUE(expect(result) ? places.are(order_) : places.are_untouched());
    EXPECT_TRUE(keys_ == before);
  }
  void by_key() {
    std::array<std::string, 2> values;
    std::array<vtx_column, 2> columns{};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      columns[i].bytes = 1 + bytes_.below(20);
      values[i].resize(keys_.size() * columns[i].bytes);
      for (char& byte : values[i]) byte = static_cast<char>(bytes_());
      columns[i].values = values[i].data();
    }
    const std::array<std::string, 2> before = values;
    const std::size_t used = bytes_.below(3);
    EXPECT_EQ(vtx_sort_by_key(keys_.data(), keys_.size(), number_, columns.data(), used, &options_),
              0);
    EXPECT_TRUE(keys_ == sorted_);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::string expected;
      for (const std::uint32_t place : order_)
        expected += before[i].substr(place * columns[i].bytes, columns[i].bytes);
      EXPECT_TRUE(values[i] == (i < used ? expected : before[i]));
    }
  }
  void first_ones(bool one) {
    const std::size_t k = bytes_.number(), in_order = std::min(k, keys_.size());
    if (one) {
      EXPECT_EQ(vtx_select(keys_.data(), keys_.size(), number_, k, &options_), 0);
      if (k < keys_.size()) {
        EXPECT_EQ(keys_[k], sorted_[k]);
      }
      std::sort(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(in_order), by_rank());
    } else {
      EXPECT_EQ(vtx_partial_sort(keys_.data(), keys_.size(), number_, k, &options_), 0);
    }
    // What belongs in front is there, and nothing is lost.
    const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(in_order);
    EXPECT_TRUE(std::equal(keys_.begin(), end, sorted_.begin()));
    std::sort(end, keys_.end(), by_rank());
    EXPECT_TRUE(keys_ == sorted_);
  }
  auto by_rank() const {
    return [this](Bits a, Bits b) {
      return options_.descending != 0 ? rank(b) < rank(a) : rank(a) < rank(b);
    };
  }
  void unique() {
    std::size_t kept = ~std::size_t{0};
    EXPECT_EQ(vtx_sort_unique(keys_.data(), keys_.size(), number_, &kept, &options_), 0);
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    ASSERT_EQ(kept, sorted_.size());
    EXPECT_TRUE(std::equal(sorted_.begin(), sorted_.end(), keys_.begin()));
  }
  void pairs() {
    struct Pair {
      Bits key, value;
    };
    std::vector<Pair> pairs;
    for (const Bits key : keys_) pairs.push_back({key, static_cast<Bits>(pairs.size())});
    EXPECT_EQ(sort_pairs_of_type(pairs.data(), pairs.size(), number_, &options_), 0);
    if (options_.stable == 0) {
      std::sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) {
        return a.key != b.key ? by_rank()(a.key, b.key) : a.value < b.value;
      });
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_EQ(pairs[i].key, sorted_[i]);
      ASSERT_EQ(pairs[i].value, order_[i]);
    }
  }

  // The same calls, each with an argument that is wrong.
  void refused(unsigned call) {
    const std::vector<Bits> before = keys_;
    const std::size_t count = keys_.size() + 1;  // of an array that is NULL
    const bool wrong_type = bytes_.flag();
    const int number = wrong_type ? (bytes_.flag() ? VTX_F64 + 1 : -1) : number_;
    void* const keys = wrong_type ? keys_.data() : nullptr;
    const vtx_column column{keys, 0};
    std::size_t kept = 0;
    int result = 0;
    switch (call) {
      case 0:
        result = vtx_argsort(keys, count, number, keys, sizeof(Bits), &options_);
        break;
      case 1:
        result = vtx_sort_by_key(keys_.data(), keys_.size(), number, &column, 1, &options_);
        break;
      case 2:
        result = vtx_select(keys, count, number, bytes_.byte(), &options_);
        break;
      case 3:
        result = vtx_partial_sort(keys, count, number, bytes_.byte(), &options_);
        break;
      case 4:
        result = vtx_sort_unique(keys_.data(), keys_.size(), number, wrong_type ? &kept : nullptr,
                                 &options_);
        break;
      case 5: {
        const vtx_chunk chunk{keys, count};
        result = vtx_sort_chunks(&chunk, 1, number, &options_);
        break;
      }
      default:  // whose names tell the type
        result = call == 6 ? sort_of_type(nullptr, count, number_, &options_)
                           : sort_pairs_of_type(nullptr, count, number_, &options_);
    }
    EXPECT_EQ(result, -EINVAL);
    expect(result);
    EXPECT_TRUE(keys_ == before);
  }

  FuzzedBytes& bytes_;
  const int number_;
  vtx_sort_options options_;
  std::vector<Bits> keys_, sorted_;
  std::vector<std::uint32_t> order_;
};

// An array of numbers, and one call.
void numbers(FuzzedBytes& bytes) {
  const int number = static_cast<int>(bytes.below(VTX_F64 + 1));
  switch (number >= VTX_F32 ? number - VTX_F32 + 2 : number % 4) {
    case 0:
      return NumberCalls<std::uint8_t>(bytes, number).run();
    case 1:
      return NumberCalls<std::uint16_t>(bytes, number).run();
    case 2:
      return NumberCalls<std::uint32_t>(bytes, number).run();
    default:
      return NumberCalls<std::uint64_t>(bytes, number).run();
  }
}

}  // namespace

void fuzz_c_numbers(std::string_view input) {
  FuzzedBytes bytes(input);
  for (int arrays = 0; arrays < 40 && !bytes.empty(); ++arrays) numbers(bytes);
}

}  // namespace vortex::test
