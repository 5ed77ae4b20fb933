// Files of records: every form and distribution, each record a function of its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cli/records/distribution.h"
#include "cli/records/number_generator.h"
#include "cli/records/record_form.h"

namespace vortex::cli {

struct RecordGeneratorOptions {
  RecordForm form;
  Distribution distribution = Distribution::kUniform;
  std::uint64_t records = 0;   // of the whole file
  std::uint64_t distinct = 0;  // for kZipf and kFew; see NumberGeneratorOptions
  std::uint64_t seed = 0;
};

// Record i depends on the options and i alone, so that parts of a file can be made independently,
// by several threads or machines, and joined.
class RecordGenerator {
 public:
  // Throws Error(EINVAL) when form and distribution do not go together.
  explicit RecordGenerator(const RecordGeneratorOptions& options);

  std::size_t record_bytes() const noexcept { return record_bytes_; }

  // Writes records [first, first + count). Thread-safe, allocates nothing.
  void write(std::uint64_t first, std::size_t count, std::byte* to) const noexcept;

 private:
  RecordGeneratorOptions options_;
  std::size_t record_bytes_;
  std::uint64_t random_begin_;
  std::unique_ptr<NumberGenerator> numbers_;  // of kNumber, and the keys of kPair
};

}  // namespace vortex::cli
