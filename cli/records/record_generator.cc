#include "cli/records/record_generator.h"

#include <cerrno>
#include <string>

#include "cli/records/benchmark_record.h"
#include "vortex/error.h"

namespace vortex::cli {

RecordGenerator::RecordGenerator(const RecordGeneratorOptions& options)
    : options_(options),
      record_bytes_(record_format(options.form).record_bytes()),
      random_begin_(mix_bits(options.seed)) {
  if (options.form.kind == RecordKind::kPair || options.form.kind == RecordKind::kNumber) {
    numbers_ = std::make_unique<NumberGenerator>(
        NumberGeneratorOptions{.type = options.form.type,
                               .distribution = options.distribution,
                               .count = options.records,
                               .distinct = options.distinct,
                               .seed = options.seed});
  } else if (options.distribution != Distribution::kUniform &&
             options.distribution != Distribution::kSkewed) {
    throw Error(EINVAL, "distribution '" + std::string(to_string(options.distribution)) +
                            "' is one of numbers; " + to_string(options.form) +
                            " have 'uniform' and 'skewed'");
  }
}

void RecordGenerator::write(std::uint64_t first, std::size_t count, std::byte* to) const noexcept {
  if (numbers_) {
    numbers_->write(first, count, to, record_bytes_);
    if (options_.form.kind != RecordKind::kPair) return;
    constexpr KeyType kNumberType = {KeyKind::kUnsigned, 8, ByteOrder::kLittleEndian};
    for (std::size_t i = 0; i < count; ++i) store_bits(to + 16 * i + 8, kNumberType, first + i);
    return;
  }
  const auto each = [&](auto write_record) {
    std::uint64_t counter = random_begin_ + first * 2 * kGoldenRatio;
    for (std::size_t i = 0; i < count; ++i) {
      const RecordBits bits = {mix_bits(counter), mix_bits(counter + kGoldenRatio)};
      write_record(to + i * kBenchmarkRecordBytes, first + i, bits);
      counter += 2 * kGoldenRatio;
    }
  };
  const bool skewed = options_.distribution == Distribution::kSkewed;
  if (options_.form.kind == RecordKind::kBinary) {
    skewed ? each(write_skewed_binary_record) : each(write_binary_record);
  } else {
    skewed ? each(write_skewed_ascii_record) : each(write_ascii_record);
  }
}

}  // namespace vortex::cli
