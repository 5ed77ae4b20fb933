#include "sort/split/sample.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "io/sequence/seeded_random.h"
#include "sort/runs/sort_watch.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"

namespace vortex { inline namespace v0 {

namespace {

// Of records in no order, so many for a part make its length right to a sixteenth.
constexpr std::uint64_t kRecordsOfPart = 256;
constexpr std::uint64_t kLeastRecords = 4096;
// Places that are gone to: each may cost the disk an arm's way, and of records in order all
// neighbours are as good as one.
constexpr std::uint64_t kPlacesOfPart = 4;
constexpr std::uint64_t kLeastPlaces = 256;
constexpr std::size_t kPlacesAhead = 8;
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

// Where the `part`-th of so many equal parts begins; without the overflow of all * part.
std::uint64_t begin_of(std::uint64_t part, std::uint64_t parts, std::uint64_t all) noexcept {
  return all / parts * part + all % parts * part / parts;
}

// Neighbours that are read, in all inputs joined.
struct Stretch {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

class Sample {
 public:
  explicit Sample(const SampleRequest& request)
      : request_(request), record_bytes_(request.order.record_bytes()) {
    for (const auto& input : request.inputs) total_ += *input->length_bytes() / record_bytes_;
  }

  SampledSplitters choose();

 private:
  std::vector<Stretch> places() const;
  void read(const std::vector<Stretch>& places);
  void read_from(SortInput& input, std::uint64_t begin, std::span<const Stretch> places);
  void sort();
  const std::byte* at(std::uint64_t rank) const noexcept {
    return records_.data() + ranks_[rank] * record_bytes_;
  }
  std::uint64_t rank_of(std::size_t splitter) const noexcept {
    return begin_of(splitter, request_.parts, ranks_.size());
  }
  void divide_equal(std::vector<DividedKey>& divided) const;

  const SampleRequest& request_;
  const std::size_t record_bytes_;
  std::uint64_t total_ = 0;  // records of all inputs
  std::vector<std::byte> records_;
  std::vector<std::uint32_t> ranks_;  // places of the records in their order
  std::uint64_t bytes_ = 0;
};

std::vector<Stretch> Sample::places() const {
  const std::uint64_t room =
      request_.memory_bytes / 4 / (record_bytes_ + sizeof(std::uint32_t) * 2);
  const std::uint64_t wanted = std::max(kLeastRecords, kRecordsOfPart * request_.parts);
  const std::uint64_t records = std::min({wanted, std::max<std::uint64_t>(room, 1), total_});
  std::vector<Stretch> places;
  if (records == total_) {
    places.push_back({0, total_});
    return places;
  }
  const std::uint64_t count =
      std::min(records, std::max(kLeastPlaces, kPlacesOfPart * request_.parts));
  SeededRandom random(request_.resources.seed);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t begin = begin_of(i, count, total_);
    const std::uint64_t length = begin_of(i + 1, count, total_) - begin;
    const std::uint64_t few =
        std::min(length, begin_of(i + 1, count, records) - begin_of(i, count, records));
    places.push_back({begin + random.below(length - few + 1), few});
  }
  return places;
}

void Sample::read(const std::vector<Stretch>& places) {
  std::uint64_t begin = 0;
  std::size_t next = 0;
  std::uint64_t taken = 0;  // of the next place, by inputs that end there
  for (const auto& input : request_.inputs) {
    const std::uint64_t end = begin + *input->length_bytes() / record_bytes_;
    std::vector<Stretch> here;
    while (next < places.size() && places[next].first + taken < end) {
      const Stretch& place = places[next];
      const std::uint64_t few = std::min(place.count - taken, end - place.first - taken);
      here.push_back({place.first + taken, few});
      taken += few;
      if (taken < place.count) break;
      taken = 0;
      ++next;
    }
    if (!here.empty()) read_from(*input, begin, here);
    begin = end;
  }
}

void Sample::read_from(SortInput& input, std::uint64_t begin, std::span<const Stretch> places) {
  FileReaderOptions options;
  options.block_bytes = kBlockBytes;
  options.read_ahead = 1;
  options.memory_bytes = static_cast<std::size_t>(
      std::clamp<std::uint64_t>(request_.memory_bytes / 4, 8 * kBlockBytes, 16 * kBlockBytes));
  options.caching = request_.resources.caching;
  options.disk = request_.disk;
  FileReaderBase reader = input.open_reader(options);
  const StreamStop stop(reader.stream(), request_.resources.stop);
  const auto offset = [&](const Stretch& place) { return (place.first - begin) * record_bytes_; };
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (request_.resources.stop.stop_requested()) throw Error(ECANCELED, kSortInterrupted);
    if (i + kPlacesAhead < places.size()) {
      const Stretch& ahead = places[i + kPlacesAhead];
      reader.will_need_bytes(offset(ahead), ahead.count * record_bytes_);
    }
    const std::size_t bytes = places[i].count * record_bytes_;
    const std::size_t done = records_.size();
    records_.resize(done + bytes);
    guarded([&] {
      std::memcpy(records_.data() + done, reader.bytes() + offset(places[i]), bytes);
    }).throw_if_failed();
  }
  bytes_ += reader.statistics().source.bytes;
}

void Sample::sort() {
  ranks_.resize(records_.size() / record_bytes_);
  std::iota(ranks_.begin(), ranks_.end(), 0U);
  std::sort(ranks_.begin(), ranks_.end(), [&](std::uint32_t left, std::uint32_t right) {
    return request_.order.less(records_.data() + left * record_bytes_,
                               records_.data() + right * record_bytes_);
  });
}

// Of a key that lies on both sides of borders, as many records in front of each as the sample has.
void Sample::divide_equal(std::vector<DividedKey>& divided) const {
  const RecordOrder& order = request_.order;
  const auto less = [&](std::uint32_t left, std::uint32_t right) {
    return order.less(records_.data() + left * record_bytes_,
                      records_.data() + right * record_bytes_);
  };
  const auto scale = static_cast<double>(total_) / static_cast<double>(ranks_.size());
  for (std::size_t i = 1; i < request_.parts;) {
    const auto [first, last] =
        std::equal_range(ranks_.begin(), ranks_.end(), ranks_[rank_of(i)], less);
    const auto begin = static_cast<std::uint64_t>(first - ranks_.begin());
    const auto end = static_cast<std::uint64_t>(last - ranks_.begin());
    DividedKey key;
    for (; i < request_.parts && rank_of(i) < end; ++i) {
      const std::uint64_t before = rank_of(i) - begin;
      if (before == 0) continue;
      if (key.ends.empty()) key.first = i - 1;
      key.ends.push_back(static_cast<std::uint64_t>(scale * static_cast<double>(before)));
    }
    if (!key.ends.empty()) divided.push_back(std::move(key));
  }
}

SampledSplitters Sample::choose() {
  SampledSplitters result;
  const std::vector<Stretch> places = this->places();
  std::uint64_t records = 0;
  for (const Stretch& place : places) records += place.count;
  records_.reserve(records * record_bytes_);
  read(places);
  sort();
  result.sampled = ranks_.size();
  result.bytes = bytes_;
  if (ranks_.empty()) return result;
  result.records.reserve((request_.parts - 1) * record_bytes_);
  for (std::size_t i = 1; i < request_.parts; ++i) {
    const std::byte* const record = at(rank_of(i));
    result.records.insert(result.records.end(), record, record + record_bytes_);
  }
  if (request_.divide_equal_keys) divide_equal(result.divided);
  return result;
}

}  // namespace

SampledSplitters sample_splitters(const SampleRequest& request) { return Sample(request).choose(); }

}}  // namespace vortex::v0
