// What a benchmark of sorts larger than memory is told.
#pragma once

#include <cstdint>
#include <string>

#include "bench/support/own_options.h"

namespace vortex::bench {

struct SortSettings {
  std::string folder = ".";  // of the input, the runs and the output: it decides the disk
  std::uint64_t input_bytes = std::uint64_t{1} << 30;
  std::uint64_t memory_bytes = std::uint64_t{128} << 20;

  // --folder=DIR, --mib=N of input, --memory-mib=N. They refer to this object.
  OwnOptions options() {
    return {{"--folder=", text(folder)},
            {"--mib=", number(input_bytes, kMiB)},
            {"--memory-mib=", number(memory_bytes, kMiB)}};
  }
};

}  // namespace vortex::bench
