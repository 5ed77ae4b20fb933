#include "lines/text/text_division.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lines/record/record_keys.h"
#include "sort/merge/merge_division.h"

namespace vortex { inline namespace v0 {

namespace {

// What is read at once; and a record that is longer takes reads that other parts save.
constexpr std::size_t kPieceBytes = std::size_t{8} << 10;
constexpr std::uint64_t kLongestSample = std::uint64_t{64} << 10;
// Places that a part may end at, of all texts together.
constexpr std::uint64_t kSamplesOfPart = 64;

// The records of a text around any place of it.
class TextProbe {
 public:
  TextProbe(const BlockFile& file, char delimiter) noexcept : file_(file), delimiter_(delimiter) {}

  std::uint64_t length() const noexcept { return file_.length(); }
  bool ends_with_delimiter() { return length() == 0 || text_from(length() - 1)[0] == delimiter_; }
  // The first record that begins at this place or behind it, without its delimiter; none: the text
  // has no further one.
  std::optional<TextRange> first_from(std::uint64_t place) {
    const std::uint64_t begin = place == 0 ? 0 : find_delimiter(place - 1) + 1;
    if (begin >= length()) return std::nullopt;
    return TextRange{begin, find_delimiter(begin)};
  }
  // Valid until the next call.
  std::string_view record(const TextRange& at) {
    load(at.begin, static_cast<std::size_t>(at.end - at.begin));
    return text_from(at.begin).substr(0, static_cast<std::size_t>(at.end - at.begin));
  }

 private:
  // Returns the place of the next delimiter, or of the end.
  std::uint64_t find_delimiter(std::uint64_t from) {
    for (std::uint64_t at = from; at < length();) {
      if (at - from > kLongestSample) throw NotInParts("long records");
      const std::string_view text = text_from(at);
      const std::size_t found = text.find(delimiter_);
      if (found != text.npos) return at + found;
      at += text.size();
    }
    return length();
  }
  // A byte at least.
  std::string_view text_from(std::uint64_t place) {
    load(place, 1);
    return std::string_view(piece_).substr(static_cast<std::size_t>(place - begin_));
  }
  void load(std::uint64_t place, std::size_t bytes) {
    if (place >= begin_ && place + bytes <= begin_ + piece_.size()) return;
    begin_ = place;
    piece_.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max(bytes, kPieceBytes), length() - place)));
    for (std::size_t done = 0; done < piece_.size();) {
      const ssize_t some = pread(file_.descriptor(), piece_.data() + done, piece_.size() - done,
                                 static_cast<off_t>(file_.begin() + place + done));
      if (some < 0 && errno == EINTR) continue;
      if (some < 0) {
        throw Error(errno,
                    "reading '" + file_.name() + "' at byte " + std::to_string(place + done));
      }
      if (some == 0) throw NotInParts("a text that became shorter");
      done += static_cast<std::size_t>(some);
    }
  }

  const BlockFile& file_;
  const char delimiter_;
  std::string piece_;
  std::uint64_t begin_ = 0;
};

// Places of a text, of which each part has one in each text.
using TextPlaces = std::vector<std::uint64_t>;

class TextDivision {
 public:
  TextDivision(std::span<const BlockFile> texts, const LineSortOptions& options,
               const StoredOrder& order, unsigned parts)
      : keys_(options.order.keys.get()), order_(order) {
    for (const BlockFile& text : texts) {
      probes_.emplace_back(text, options.framing.delimiter());
      all_ += text.length();
    }
    stride_ = std::max<std::uint64_t>(all_ / (kSamplesOfPart * parts), 1);
  }

  std::uint64_t bytes() const noexcept { return all_; }
  TextPlaces begin() const { return TextPlaces(probes_.size(), 0); }
  TextPlaces end() const {
    TextPlaces ends;
    for (const TextProbe& probe : probes_) ends.push_back(probe.length());
    return ends;
  }
  // The ends of a part that has about `wanted` bytes from the beginning on.
  TextPlaces cut(std::uint64_t wanted, std::uint64_t tolerance) {
    const auto splitter = find_splitter(*this, probes_.size(), wanted, tolerance);
    TextPlaces places = begin();
    for (std::size_t text = 0; text < probes_.size() && splitter; ++text) {
      places[text] = exact_place(*splitter, text);
    }
    return places;
  }
  TextPart between(const TextPlaces& begin, const TextPlaces& end) {
    TextPart part;
    for (std::size_t i = 0; i < begin.size(); ++i) {
      part.texts.push_back({begin[i], end[i]});
      part.bytes += end[i] - begin[i];
    }
    return part;
  }
  // The last record of a text gets a delimiter.
  void count_delimiters(TextPart& part) {
    for (std::size_t i = 0; i < probes_.size(); ++i) {
      const TextRange& of_text = part.texts[i];
      const bool is_last = !of_text.empty() && of_text.end == probes_[i].length();
      if (is_last && !probes_[i].ends_with_delimiter()) ++part.bytes;
    }
  }

  // For find_splitter(): samples are the records behind places that lie equally far from each
  // other. A splitter without a record is the end of a text, which comes behind all.
  struct Splitter {
    bool is_end = false;
    KeptRecord record;
  };
  std::size_t size(std::size_t text) const noexcept {
    return static_cast<std::size_t>(probes_[text].length() / stride_);
  }
  Splitter at(std::size_t text, std::size_t sample) {
    Splitter splitter;
    const auto found = probes_[text].first_from(place_of(sample));
    splitter.is_end = !found;
    if (found) splitter.record.keep(stored(text, *found), order_.has_keys);
    return splitter;
  }
  std::size_t before(const Splitter& splitter, std::size_t text, std::size_t first,
                     std::size_t last) {
    while (first < last) {
      const std::size_t middle = first + (last - first) / 2;
      const auto found = probes_[text].first_from(place_of(middle));
      if (found && precedes(text, *found, splitter)) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }
  std::uint64_t amount(std::size_t text, std::size_t before) const noexcept {
    return before < size(text) ? place_of(before) : probes_[text].length();
  }

 private:
  std::uint64_t place_of(std::size_t sample) const noexcept { return sample * stride_; }

  // Valid until the next call.
  StoredRecord stored(std::size_t text, const TextRange& at) {
    const std::string_view record = probes_[text].record(at);
    if (!order_.has_keys) return {record, record};
    make_keys(*keys_, {&record, 1}, made_);
    return {made_.key(0), record};
  }
  bool precedes(std::size_t text, const TextRange& at, const Splitter& splitter) {
    return splitter.is_end ||
           difference(stored(text, at), splitter.record.stored(), order_, 0).order < 0;
  }

  // Where the first record begins that does not precede the splitter, or the end: a binary search,
  // in which those that begin in front of `low` do, and the one behind `high` does not.
  std::uint64_t exact_place(const Splitter& splitter, std::size_t text) {
    TextProbe& probe = probes_[text];
    const std::size_t before_it = before(splitter, text, 0, size(text));
    std::uint64_t low = before_it == 0 ? 0 : place_of(before_it - 1);
    std::uint64_t high = before_it < size(text) ? place_of(before_it) : probe.length();
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      const auto found = probe.first_from(middle);
      if (found && precedes(text, *found, splitter)) {
        low = std::min(found->end + 1, probe.length());
      } else {
        high = middle;
      }
    }
    const auto found = probe.first_from(low);
    return found ? found->begin : probe.length();
  }

  const RecordKeys* const keys_;
  const StoredOrder order_;
  std::vector<TextProbe> probes_;
  std::uint64_t all_ = 0;
  std::uint64_t stride_ = 1;
  KeyBatch made_;
};

}  // namespace

std::vector<TextPart> divide_texts(std::span<const BlockFile> texts, const LineSortOptions& options,
                                   const StoredOrder& order, unsigned parts,
                                   std::uint64_t least_bytes) {
  TextDivision division(texts, options, order, parts);
  // Of texts in no order a part may end in front of where it begins.
  const auto amount = [](const TextPart& part) {
    const bool turns = std::ranges::any_of(
        part.texts, [](const TextRange& of_text) { return of_text.end < of_text.begin; });
    return turns ? ~std::uint64_t{0} : part.bytes;
  };
  std::vector<TextPart> result = cut_into_parts(
      division.bytes(), parts, least_bytes, division.begin(), division.end(),
      [&](std::uint64_t bytes, std::uint64_t tolerance) { return division.cut(bytes, tolerance); },
      [&](const TextPlaces& begin, const TextPlaces& end) { return division.between(begin, end); },
      amount);
  for (TextPart& part : result) division.count_delimiters(part);
  return result;
}

}}  // namespace vortex::v0
