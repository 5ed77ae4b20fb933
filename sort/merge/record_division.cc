#include "sort/merge/record_division.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "sort/merge/merge_division.h"
#include "sort/record/forecast_keys.h"

namespace vortex { inline namespace v0 {

namespace {

// How many records of each sequence are in front of a cut: of the runs, and of those behind them.
using Places = std::vector<std::uint64_t>;

// Samples of each run are the last records of its blocks, and of other sequences as far apart.
class Division {
 public:
  // The runs and other sequences, of so many records each.
  Division(const RecordOrder& order, std::span<const Run> runs, Places others,
           const ReadRecord& read_other, std::size_t block_bytes)
      : order_(order),
        keys_(order),
        runs_(runs),
        others_(std::move(others)),
        read_other_(read_other),
        block_bytes_(block_bytes),
        record_(order.record_bytes()) {}

  Places cut(std::uint64_t wanted, std::uint64_t tolerance) {
    Places places(runs_.size() + others_.size());
    const std::optional<Splitter> splitter = find_splitter(*this, places.size(), wanted, tolerance);
    for (std::size_t run = 0; run < places.size() && splitter; ++run) {
      const std::size_t samples = before(*splitter, run, 0, size(run));
      places[run] = place(*splitter, run, samples);
    }
    return places;
  }

  struct Splitter {
    std::size_t run = 0;
    std::uint64_t index = 0;  // in its run
    std::vector<std::byte> record;
    std::vector<std::byte> key;
  };

  std::size_t size(std::size_t run) const noexcept {
    if (run >= runs_.size()) return static_cast<std::size_t>(records(run) / records_apart());
    return static_cast<std::size_t>(runs_[run].blocks()) - first_block(run);
  }
  Splitter at(std::size_t run, std::size_t sample) {
    Splitter splitter;
    splitter.run = run;
    splitter.index = up_to(run, sample + 1) - 1;
    const std::byte* const record = this->record(run, splitter.index);
    splitter.record.assign(record, record + record_.size());
    splitter.key.resize(keys_.bytes());
    keys_.make(record, splitter.key.data());
    if (run < runs_.size()) expect_forecast(splitter, first_block(run) + sample);
    return splitter;
  }
  std::size_t before(const Splitter& splitter, std::size_t run, std::size_t first,
                     std::size_t last) {
    return first_not(first, last,
                     [&](std::size_t sample) { return is_sample_before(splitter, run, sample); });
  }
  // A splitter is as likely to be anywhere up to the next sample.
  std::uint64_t amount(std::size_t run, std::size_t samples) const noexcept {
    return (up_to(run, samples) + last_up_to(run, samples)) / 2;
  }

 private:
  // The first number in [first, last) for which `is_before` does not hold, or `last`.
  template <typename Number, typename IsBefore>
  static Number first_not(Number first, Number last, const IsBefore& is_before) {
    while (first < last) {
      const Number middle = first + (last - first) / 2;
      if (is_before(middle)) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }

  // The records up to the last of so many samples, which is one of them; and up to the next one,
  // which is not.
  std::uint64_t up_to(std::size_t run, std::size_t samples) const noexcept {
    if (run >= runs_.size()) return samples * records_apart();
    if (samples == 0) return 0;
    const std::uint64_t end = (first_block(run) + samples) * block_bytes_;
    return std::min((end - runs_[run].skipped) / record_.size(), runs_[run].records);
  }
  std::uint64_t last_up_to(std::size_t run, std::size_t samples) const noexcept {
    if (samples < size(run)) return up_to(run, samples + 1) - 1;
    return records(run);
  }
  std::uint64_t records(std::size_t run) const noexcept {
    return run < runs_.size() ? runs_[run].records : others_[run - runs_.size()];
  }

  // No record ends in the first block where the first one goes on in the second.
  std::size_t first_block(std::size_t run) const noexcept {
    return runs_[run].begins_in_two(record_.size()) ? 1 : 0;
  }
  std::uint64_t records_apart() const noexcept {
    return std::max<std::uint64_t>(block_bytes_ / record_.size(), 1);
  }

  // The last record of a block was the forecast when it was written: others are of a disk that
  // lies.
  void expect_forecast(const Splitter& splitter, std::size_t block) const {
    const auto& kept = runs_[splitter.run].forecast_keys;
    if ((block + 1) * keys_.bytes() > kept.size()) return;
    const std::byte* const key = kept.data() + block * keys_.bytes();
    if (keys_.less(key, splitter.key.data()) || keys_.less(splitter.key.data(), key)) {
      throw reader_->failed(EBADMSG);
    }
  }

  // Valid until the next call.
  const std::byte* record(std::size_t run, std::uint64_t index) {
    if (run >= runs_.size()) return read_other_(run - runs_.size(), index);
    if (reading_ != run) reader_.emplace(runs_[run]);
    reading_ = run;
    const std::uint64_t offset = runs_[run].skipped + index * record_.size();
    if (const int error = reader_->read(offset, record_)) throw reader_->failed(error);
    return record_.data();
  }

  // Equal records come in the order of the runs.
  bool is_before(const Splitter& splitter, std::size_t run, std::uint64_t index) {
    if (run == splitter.run) return index < splitter.index;
    const std::byte* const here = record(run, index);
    return run < splitter.run ? !order_.less(splitter.record.data(), here)
                              : order_.less(here, splitter.record.data());
  }
  bool is_sample_before(const Splitter& splitter, std::size_t run, std::size_t sample) {
    const std::uint64_t index = up_to(run, sample + 1) - 1;
    if (run >= runs_.size() || run == splitter.run) return is_before(splitter, run, index);
    const std::byte* const key =
        runs_[run].forecast_keys.data() + (first_block(run) + sample) * keys_.bytes();
    if (keys_.less(key, splitter.key.data())) return true;
    if (keys_.less(splitter.key.data(), key)) return false;
    return keys_.exact() ? run < splitter.run : is_before(splitter, run, index);
  }

  // How many records of the run come before the splitter, where so many samples do.
  std::uint64_t place(const Splitter& splitter, std::size_t run, std::size_t samples) {
    return first_not(up_to(run, samples), last_up_to(run, samples),
                     [&](std::uint64_t index) { return is_before(splitter, run, index); });
  }

  const RecordOrder& order_;
  const ForecastKeys keys_;
  const std::span<const Run> runs_;
  const Places others_;
  const ReadRecord& read_other_;
  const std::size_t block_bytes_;
  std::optional<RunBytes> reader_;  // one, which may have an unpacker
  std::size_t reading_ = ~std::size_t{0};
  std::vector<std::byte> record_;
};

RecordPart part_between(const Places& begin, const Places& end, const MergeInput& in_memory,
                        std::size_t record_bytes) {
  RecordPart part;
  for (std::size_t run = 0; run + 1 < begin.size(); ++run) {
    part.runs.push_back({begin[run], end[run]});
    part.records += end[run] - begin[run];
  }
  const std::uint64_t records = end.back() - begin.back();
  part.in_memory = {in_memory.begin + begin.back() * record_bytes, records};
  part.records += records;
  return part;
}

Places ends_of(std::span<const Run> runs, const MergeInput& in_memory) {
  Places ends;
  for (const Run& run : runs) ends.push_back(run.records);
  ends.push_back(in_memory.records);
  return ends;
}

std::vector<RecordPart> divide(Division& division, const Places& ends, unsigned parts,
                               std::uint64_t least_records, std::uint64_t most_records,
                               const MergeInput& in_memory, std::size_t record_bytes) {
  const Places begin(ends.size());
  const std::uint64_t all = part_between(begin, ends, in_memory, record_bytes).records;
  const std::uint64_t wanted = most_records == 0 ? all : std::min(all, most_records);
  std::vector<RecordPart> result = cut_into_parts(
      wanted, parts, std::max<std::uint64_t>(least_records, 1), begin, ends,
      [&](std::uint64_t some, std::uint64_t tolerance) { return division.cut(some, tolerance); },
      [&](const Places& from, const Places& to) {
        return part_between(from, to, in_memory, record_bytes);
      },
      // A cut behind the next one in any run, or in memory, is none, whatever they are together.
      [&](const RecordPart& part) {
        const bool falls = part.in_memory.records > in_memory.records ||
                           std::ranges::any_of(part.runs, [](const RecordPart::Range& run) {
                             return run.end < run.begin;
                           });
        return falls ? std::numeric_limits<std::uint64_t>::max() : part.records;
      });
  result.back().records -= all - wanted;
  return result;
}

}  // namespace

RecordPart whole_merge(std::span<const Run> runs, const MergeInput& in_memory) {
  return part_between(Places(runs.size() + 1), ends_of(runs, in_memory), in_memory, 0);
}

std::vector<RecordPart> divide_runs(const RecordOrder& order, std::span<const Run> runs,
                                    const MergeInput& in_memory, unsigned parts,
                                    std::uint64_t least_records, std::uint64_t most_records) {
  const std::size_t record_bytes = order.record_bytes();
  const ReadRecord read_in_memory = [&](std::size_t, std::uint64_t index) {
    return in_memory.begin + index * record_bytes;
  };
  Division division(order, runs, {in_memory.records}, read_in_memory,
                    runs.empty() ? record_bytes : runs.front().store->block_bytes());
  return divide(division, ends_of(runs, in_memory), parts, least_records, most_records, in_memory,
                record_bytes);
}

// The last place is that of what is in memory: nothing.
std::vector<RecordPart> divide_sequences(const RecordOrder& order,
                                         std::span<const std::uint64_t> records,
                                         const ReadRecord& read, std::size_t block_bytes,
                                         unsigned parts, std::uint64_t least_records,
                                         std::uint64_t most_records) {
  Places ends(records.begin(), records.end());
  ends.push_back(0);
  Division division(order, {}, ends, read, block_bytes);
  return divide(division, ends, parts, least_records, most_records, {}, order.record_bytes());
}

}}  // namespace vortex::v0
