// Sorts, orders and selections of records, strings and lines in memory by the C interface, against
// plain ones. A call with a wrong argument returns an error and moves nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/c_arrays.h"
#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "vortex/c.h"

namespace vortex::test {
namespace {

// Records of five bytes, by the first two.
class RecordCalls {
 public:
  explicit RecordCalls(FuzzedBytes& bytes)
      : bytes_(bytes),
        key_{0, kKey, VTX_KEY_BYTES, 0, static_cast<int>(bytes.below(2))},
        options_(sort_options(bytes)) {}

  void run() {
    const unsigned call = bytes_.below(8);
    const bool wrong = bytes_.below(8) == 0;
    k_ = bytes_.byte();
    text_ = bytes_.take(bytes_.byte() * kRecord);
    count_ = text_.size() / kRecord;
    text_.resize(count_ * kRecord);
    if (wrong) return refused(call);
    order_ = places_in_order(count_, [&](std::uint32_t a, std::uint32_t b) {
      return (key_.descending == options_.descending) ? key_at(a) < key_at(b)
                                                      : key_at(b) < key_at(a);
    });
    for (const std::uint32_t at : order_) expected_ += text_.substr(at * kRecord, kRecord);
    sorted_ = text_;
    answered(call);
  }

 private:
  static constexpr std::size_t kRecord = 5, kKey = 2;

  std::string_view key_at(std::size_t at) const {
    return std::string_view(text_).substr(at * kRecord, kKey);
  }

  void answered(unsigned call) {
    switch (call) {
      case 0:
        EXPECT_EQ(vtx_sort_records(sorted_.data(), count_, &format_, &options_), 0);
        EXPECT_TRUE(sorted_ == expected_);
        break;
      case 1: {
        const std::string before = text_;
        EXPECT_EQ(vtx_sort_records_into(text_.data(), count_, &format_, sorted_.data(), &options_),
                  0);
        EXPECT_TRUE(sorted_ == expected_);
        EXPECT_TRUE(text_ == before);
        break;
      }
      case 2:
        argsort();
        break;
      case 3:
        EXPECT_EQ(vtx_select_records(sorted_.data(), count_, &format_, k_, &options_), 0);
        if (k_ < count_) {
          EXPECT_EQ(sorted_.substr(k_ * kRecord, kKey), expected_.substr(k_ * kRecord, kKey));
        }
        all_there();
        break;
      case 4:
        EXPECT_EQ(vtx_partial_sort_records(sorted_.data(), count_, &format_, k_, &options_), 0);
        for (std::size_t i = 0; i < std::min(k_, count_); ++i)
          ASSERT_EQ(sorted_.substr(i * kRecord, kKey), expected_.substr(i * kRecord, kKey));
        all_there();
        break;
      case 5:
        unique();
        break;
      default: {
        const std::vector<vtx_chunk> chunks = chunks_of(bytes_, sorted_.data(), count_, kRecord);
        EXPECT_EQ(vtx_sort_record_chunks(chunks.data(), chunks.size(), &format_, &options_), 0);
        EXPECT_TRUE(sorted_ == expected_);
      }
    }
  }
  void argsort() {
    Places places(bytes_, count_);
    const int result = vtx_argsort_records(text_.data(), count_, &format_, places.data(),
                                           places.bytes(), &options_);
    EXPECT_EQ(result, places.fit() ? 0 : -EINVAL);
    EXPECT_TRUE(expect(result) ? places.are(order_) : places.are_untouched());
  }
  void unique() {
    std::size_t kept = ~std::size_t{0};
    EXPECT_EQ(vtx_sort_unique_records(sorted_.data(), count_, &format_, &kept, &options_), 0);
    std::string first_ones;
    for (std::size_t i = 0; i < count_; ++i) {
      if (i == 0 || key_at(order_[i]) != key_at(order_[i - 1]))
        first_ones += expected_.substr(i * kRecord, kRecord);
    }
    ASSERT_EQ(kept * kRecord, first_ones.size());
    EXPECT_TRUE(std::string_view(sorted_).starts_with(first_ones));
  }
  void all_there() const {
    const auto whole = [](const std::string& text) {
      std::vector<std::string> records;
      for (std::size_t at = 0; at < text.size(); at += kRecord)
        records.push_back(text.substr(at, kRecord));
      std::sort(records.begin(), records.end());
      return records;
    };
    EXPECT_TRUE(whole(sorted_) == whole(text_));
  }

  // A key that leaves its record, or NULL where something is to be read.
  void refused(unsigned call) {
    sorted_ = text_;
    const bool wrong_key = bytes_.flag();
    vtx_key key = key_;
    if (wrong_key) key.offset = kRecord - 1 + bytes_.byte();
    const vtx_record_format format{kRecord, &key, 1};
    void* const records = wrong_key ? sorted_.data() : nullptr;
    const std::size_t count = wrong_key ? count_ : count_ + 1;
    std::vector<std::uint32_t> places(count);
    std::size_t kept = 0;
    const vtx_chunk chunk{records, count};
    int result = 0;
    switch (call) {
      case 0:
        result = vtx_sort_records(records, count, &format, &options_);
        break;
      case 1:
        result = vtx_sort_records_into(text_.data(), count, &format, records, &options_);
        break;
      case 2:
        result = vtx_argsort_records(records, count, &format, places.data(), 4, &options_);
        break;
      case 3:
        result = vtx_select_records(records, count, &format, k_, &options_);
        break;
      case 4:
        result = vtx_partial_sort_records(records, count, &format, k_, &options_);
        break;
      case 5:
        result = vtx_sort_unique_records(records, count, &format, &kept, &options_);
        break;
      default:
        result = vtx_sort_record_chunks(&chunk, 1, &format, &options_);
    }
    EXPECT_EQ(result, -EINVAL);
    expect(result);
    EXPECT_TRUE(sorted_ == text_);
  }

  FuzzedBytes& bytes_;
  const vtx_key key_;
  const vtx_record_format format_{kRecord, &key_, 1};
  const vtx_sort_options options_;
  std::size_t k_ = 0, count_ = 0;
  std::string text_, expected_, sorted_;
  std::vector<std::uint32_t> order_;
};

// --- Strings

std::vector<std::string> some_texts(FuzzedBytes& bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty() && texts.size() < 200) texts.emplace_back(bytes.take(bytes.below(12)));
  return texts;
}

void order_of_strings(FuzzedBytes& bytes, const std::vector<std::string>& texts,
                      const std::vector<vtx_string>& views, const vtx_sort_options& options,
                      Places& places) {
  const int result =
      vtx_argsort_strings(views.data(), views.size(), places.data(), places.bytes(), &options);
  EXPECT_EQ(result, places.fit() ? 0 : -EINVAL);
  const std::vector<std::uint32_t> order =
      places_in_order(texts.size(), [&](std::uint32_t a, std::uint32_t b) {
        return options.descending != 0 ? texts[b] < texts[a] : texts[a] < texts[b];
      });
  EXPECT_TRUE(expect(result) ? places.are(order) : places.are_untouched());
  // A string that is not there is found before anything is written.
  std::vector<vtx_string> wrong = views;
  wrong.insert(wrong.begin() + bytes.below(static_cast<unsigned>(wrong.size() + 1)), {nullptr, 1});
  Places untouched(bytes, wrong.size());
  EXPECT_EQ(vtx_argsort_strings(wrong.data(), wrong.size(), untouched.data(), untouched.bytes(),
                                &options),
            -EINVAL);
  EXPECT_TRUE(untouched.are_untouched());
}

void strings(FuzzedBytes& bytes) {
  const vtx_sort_options options = sort_options(bytes);
  const unsigned call = bytes.below(3);
  Places places(bytes, 200);
  const std::vector<std::string> texts = some_texts(bytes);
  std::vector<vtx_string> views;
  for (const std::string& text : texts) views.push_back({text.data(), text.size()});
  if (call == 2) return order_of_strings(bytes, texts, views, options, places);
  std::size_t kept = views.size();
  EXPECT_EQ(call == 1 ? vtx_sort_unique_strings(views.data(), views.size(), &kept, &options)
                      : vtx_sort_strings(views.data(), views.size(), &options),
            0);
  std::vector<std::string> expected = texts, found;
  std::sort(expected.begin(), expected.end());
  if (call == 1) expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  if (options.descending != 0) std::reverse(expected.begin(), expected.end());
  for (std::size_t i = 0; i < kept; ++i)
    found.emplace_back(static_cast<const char*>(views[i].bytes), views[i].length);
  EXPECT_TRUE(found == expected);
}

// --- Lines

// The first two bytes, or an error for a line that begins with a byte that it is told of.
std::int64_t first_two(void* context, const char* text, std::size_t bytes, char* key,
                       std::size_t room) {
  const std::size_t length = std::min<std::size_t>(bytes, 2);
  if (bytes > 0 && text[0] == *static_cast<const char*>(context)) return -EDOM;
  if (length <= room) std::memcpy(key, text, length);
  return static_cast<std::int64_t>(length);
}

void lines(FuzzedBytes& bytes) {
  vtx_line_format format{};
  format.unique = bytes.flag();
  format.stable = bytes.flag();
  const bool by_function = bytes.flag(), descending = bytes.flag();
  const bool wrong = bytes.below(8) == 0;
  char refused = static_cast<char>(bytes.byte());
  if (by_function) {
    format.key = first_two;
    format.key_context = &refused;
    format.key_descending = descending;
    if (wrong) format.letters = "n";
  } else {
    format.letters = wrong ? "?" : descending ? "r" : nullptr;
  }
  const unsigned threads = bytes.below(4);
  const std::vector<std::string> texts = some_texts(bytes);
  const bool fails = by_function && std::any_of(texts.begin(), texts.end(), [&](const auto& text) {
                       return !text.empty() && text[0] == refused;
                     });
  std::vector<vtx_line> lines;
  for (const std::string& text : texts) lines.push_back({text.data(), text.size()});
  std::size_t kept = ~std::size_t{0};
  const int result = vtx_sort_lines_in_memory(lines.data(), lines.size(), &format, threads, &kept);
  EXPECT_EQ(result, wrong ? -EINVAL : fails ? -EDOM : 0);
  expect(result);
  std::vector<std::string> expected = texts, found;
  const auto key_of = [&](const std::string& text) {
    return std::string_view(text).substr(0, by_function ? 2 : text.size());
  };
  const bool lines_decide = format.stable == 0 && format.unique == 0;
  if (result == 0) {
    std::stable_sort(expected.begin(), expected.end(), [&](const auto& a, const auto& b) {
      const auto &first = descending ? b : a, &second = descending ? a : b;
      if (key_of(first) != key_of(second)) return key_of(first) < key_of(second);
      return lines_decide && first < second;
    });
    if (format.unique != 0) {
      const auto equal = [&](const auto& a, const auto& b) { return key_of(a) == key_of(b); };
      expected.erase(std::unique(expected.begin(), expected.end(), equal), expected.end());
    }
    ASSERT_EQ(kept, expected.size());
    lines.resize(kept);
  } else {
    EXPECT_EQ(kept, ~std::size_t{0});
  }
  for (const vtx_line& line : lines) found.emplace_back(line.text, line.bytes);
  EXPECT_TRUE(found == expected);
}

}  // namespace

void fuzz_c_records(std::string_view input) {
  FuzzedBytes bytes(input);
  switch (bytes.below(3)) {
    case 0:
      return RecordCalls(bytes).run();
    case 1:
      return strings(bytes);
    default:
      return lines(bytes);
  }
}

}  // namespace vortex::test
