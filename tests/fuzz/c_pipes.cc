// Pipes in C between two threads: what is read is what was written, up to where an end gave up, and
// each end learns of that.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "vortex/c.h"

namespace vortex::test {
namespace {

constexpr std::size_t kB = std::size_t{16} << 10;

// What each end does is decided before two threads do it, and neither waits for the other in a
// circle: so every input ends, and ends alike.
class PipeCalls {
 public:
  explicit PipeCalls(FuzzedBytes& bytes) : bytes_(bytes) {}
  ~PipeCalls() {
    vtx_output_close(writer_);
    vtx_input_close(reader_);
  }
  PipeCalls(const PipeCalls&) = delete;
  PipeCalls& operator=(const PipeCalls&) = delete;

  void run() {
    text_.resize(bytes_() % (12 * kB));
    if (!create()) return;
    std::mt19937_64 random(bytes_());
    for (char& byte : text_) byte = static_cast<char>('a' + random() % 20);
    plan(writing_, options_.zero_gaps != 0);
    plan(reading_, false);
    writer_end_ = bytes_.below(8);
    reader_end_ = bytes_.below(8);
    leaves_at_ = bytes_() % (text_.size() + 1);
    std::thread writer([this] { write_all(); });
    read_all();
    vtx_input_close(std::exchange(reader_, nullptr));
    writer.join();
  }

 private:
  enum End { kCancels, kLeaves };  // and all others go on to the end
  struct Step {
    std::size_t begin, end;
    unsigned kind;  // 0: left out; others: see the ends
  };

  bool create() {
    options_.block_bytes = kB;
    options_.read_ahead_blocks = bytes_.below(4);
    options_.writer_comeback_blocks = bytes_.below(3);
    options_.reader_comeback_blocks = bytes_.below(3);
    options_.zero_gaps = bytes_.flag();
    options_.exact = bytes_.flag();
    options_.length_bytes = bytes_.flag() ? text_.size() : 0;
    ahead_ = options_.read_ahead_blocks == 0 ? 2 : options_.read_ahead_blocks;
    const unsigned wrong = bytes_.below(32);
    if (wrong == 0) options_.block_bytes = kB + 1;
    if (wrong == 1) options_.pool_kind = VTX_POOL_ALIASES + 1;
    if (wrong == 2) options_.read_ahead_blocks = ~std::size_t{0};
    const int result = vtx_pipe_create(&options_, wrong == 3 ? nullptr : &writer_,
                                       wrong == 4 ? nullptr : &reader_);
    EXPECT_EQ(result, wrong < 5 ? -EINVAL : 0);
    EXPECT_EQ(writer_ != nullptr, result == 0);
    EXPECT_EQ(reader_ != nullptr, result == 0);
    return expect(result);
  }
  void plan(std::vector<Step>& steps, bool gaps) {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min<std::size_t>(text_.size(), at + 1 + bytes_() % (3 * kB));
      const unsigned kind = bytes_.below(6);
      // A pipe has no zeros for a block that its writer never touches.
      const bool may_be_gap =
          gaps && end - at < kB && end < text_.size() && (steps.empty() || steps.back().kind != 0);
      steps.push_back({at, end, kind == 0 && !may_be_gap ? 1 : kind});
      if (steps.back().kind == 0) std::fill(text_.begin() + at, text_.begin() + end, '\0');
      at = end;
    }
  }
  // The first byte that an end may touch again when it has come to `end`.
  static std::size_t window(const Step& step, std::size_t comeback) {
    const std::size_t block = (step.end - 1) / kB, back = std::max<std::size_t>(comeback, 1);
    return std::max(step.begin, block > back ? (block - back) * kB : 0);
  }
  bool reader_goes() const { return reader_end_ <= kLeaves; }
  bool writer_goes() const { return writer_end_ <= kLeaves; }
  // What a call may return when the other end may have gone, or this one was cancelled.
  bool may_be(int result) const {
    return (reader_goes() && (result == -EPIPE || result == -EXDEV)) ||
           (writer_goes() && (result == -EPIPE || result == -EDOM));
  }
  bool went_well(int result, const void* handle = nullptr) const {
    EXPECT_TRUE(result == 0 || may_be(result)) << result << ": " << vtx_strerror(handle);
    return expect(result, handle);
  }

  void write_all() {
    auto* const data = static_cast<char*>(vtx_output_data(writer_));
    bool goes_well = true;
    for (const Step& step : writing_) {
      if (!goes_well || (writer_goes() && step.end > leaves_at_)) break;
      if (step.kind != 0) goes_well = write(data, step);
    }
    if (writer_end_ == kCancels) {
      vtx_output_cancel(writer_, EDOM, "enough is written");
      EXPECT_NE(vtx_output_failure(writer_), 0);
    } else if (!writer_goes()) {
      const bool finished = went_well(vtx_output_finish(writer_, text_.size()), writer_);
      EXPECT_TRUE(goes_well || !finished);
      EXPECT_NE(vtx_output_finish(writer_, text_.size()), 0) << "a second time";
    }
    vtx_stream_counts counts{};
    EXPECT_EQ(vtx_output_statistics(writer_, &counts), 0);
    vtx_output_close(std::exchange(writer_, nullptr));
  }
  bool write(char* data, const Step& step) const {
    const std::size_t again = window(step, options_.writer_comeback_blocks);
    if (step.kind == 1) {
      // No more than the window, of which none is behind the end.
      const std::size_t bytes = std::min(kB, step.end - step.begin);
      if (!went_well(vtx_output_prefault(writer_, step.begin, bytes), writer_)) return false;
      const void* const home = vtx_output_home(writer_, data + step.begin);
      EXPECT_TRUE(home != nullptr || reader_goes() || writer_goes());
    }
    if (step.kind == 2) {
      // What is written twice is handed over as it was written last.
      if (!went_well(
              guarded_copy(text_.data() + step.begin, data + step.begin, again - step.begin)))
        return false;
      const std::string other(step.end - again, '?');
      if (!went_well(guarded_copy(other.data(), data + again, other.size()))) return false;
      return went_well(guarded_copy(text_.data() + again, data + again, other.size()));
    }
    return went_well(
        guarded_copy(text_.data() + step.begin, data + step.begin, step.end - step.begin));
  }

  void read_all() {
    const auto* const data = static_cast<const char*>(vtx_input_data(reader_));
    bool goes_well = true;
    for (const Step& step : reading_) {
      if (!goes_well || (reader_goes() && step.end > leaves_at_)) break;
      goes_well = read(data, step);
    }
    if (reader_end_ == kCancels) {
      vtx_input_cancel(reader_, -EXDEV, "enough is read");
      EXPECT_NE(vtx_input_failure(reader_), 0);
    }
    std::uint64_t end = 0;
    if (goes_well && !reader_goes()) {
      if (went_well(vtx_input_wait_length(reader_, &end), reader_)) {
        EXPECT_EQ(end, text_.size());
        EXPECT_EQ(vtx_input_length(reader_, &end), 0);
        EXPECT_EQ(end, text_.size());
      }
      if (!writer_goes()) {
        EXPECT_EQ(vtx_input_failure(reader_), 0);
      }
    }
    EXPECT_EQ(vtx_input_wait_length(reader_, nullptr), -EINVAL);
    vtx_stream_counts counts{};
    EXPECT_EQ(vtx_input_statistics(reader_, &counts), 0);
  }
  bool read(const char* data, const Step& step) const {
    std::uint64_t told = 0;
    if (step.kind == 1) {
      if (!went_well(vtx_input_readable(reader_, step.begin, &told), reader_)) return false;
      EXPECT_GT(told, step.begin);
      EXPECT_LE(told, std::max((step.begin / kB + 1) * kB, text_.size()));
    }
    std::string read(step.end - step.begin, ' ');
    if (!went_well(guarded_copy(data + step.begin, read.data(), read.size()))) return false;
    EXPECT_TRUE(read == text_.substr(step.begin, read.size()));
    if (writer_goes() && options_.length_bytes == 0) {
      EXPECT_LE(step.end, leaves_at_ / kB * kB) << "more than was handed over";
    }
    const std::size_t again = window(step, options_.reader_comeback_blocks);
    if (step.kind == 2) {
      std::fill(read.begin(), read.end(), ' ');
      EXPECT_EQ(guarded_copy(data + again, read.data(), step.end - again), 0);
      EXPECT_EQ(read.compare(0, step.end - again, text_, again, step.end - again), 0);
    }
    // A writer that can come to its end without this one says how much there is.
    if (step.kind == 3 && (text_.size() - 1) / kB <= (step.end - 1) / kB + ahead_ &&
        went_well(vtx_input_wait_length(reader_, &told), reader_)) {
      EXPECT_EQ(told, text_.size());
    }
    return true;
  }

  FuzzedBytes& bytes_;
  std::string text_;
  vtx_pipe_options options_{};
  std::vector<Step> writing_, reading_;
  std::size_t ahead_ = 0, leaves_at_ = 0;
  unsigned writer_end_ = 0, reader_end_ = 0;
  vtx_output* writer_ = nullptr;
  vtx_input* reader_ = nullptr;
};

}  // namespace

void fuzz_c_pipes(std::string_view input) {
  FuzzedBytes bytes(input);
  PipeCalls(bytes).run();
}

}  // namespace vortex::test
