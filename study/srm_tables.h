// The experiments of Barve and Vitter as Tables 1 and 2 print them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vortex { inline namespace v0 {

struct SrmColumn {
  std::uint64_t millions;  // of records
  std::uint64_t runs;      // U
  // As printed: what is to be compared, not what goes in.
  std::uint64_t srm_order;
  unsigned srm_passes, dsm_passes;
  double nu, srm_seconds, dsm_seconds;
};

struct SrmTable {
  const char* name;
  std::uint64_t dsm_order;
  // Blocks for input: the memory of 15 and 24 MB less 2 D blocks for output and one for forecasting
  // data and variables.
  std::size_t buffers;
  // The length of the runs is not printed; this one gives the printed run count in all ten columns
  // (in table 1 it is 34 blocks).
  std::uint64_t run_records;
  std::array<SrmColumn, 10> columns;
};

inline constexpr SrmTable kSrmTables[] = {{"table_1",
                                           3,
                                           47,
                                           85680,
                                           {{{1, 12, 12, 1, 3, 1.04, 6.3, 18.3},
                                             {2, 24, 5, 2, 3, 1.03, 26.6, 35.7},
                                             {3, 36, 6, 2, 4, 1.04, 39.2, 70.8},
                                             {4, 47, 7, 2, 4, 1.03, 52.0, 95.8},
                                             {5, 59, 8, 2, 4, 1.03, 65.8, 122},
                                             {6, 71, 9, 2, 4, 1.04, 79.2, 141.2},
                                             {7, 82, 10, 2, 5, 1.03, 91.0, 198.4},
                                             {8, 94, 10, 2, 5, 1.03, 104.8, 226.2},
                                             {9, 106, 11, 2, 5, 1.03, 119.2, 254.8},
                                             {10, 117, 11, 2, 5, 1.03, 138.4, 284.2}}}},
                                          {"table_2",
                                           5,
                                           83,
                                           152334,
                                           {{{1, 7, 7, 1, 2, 1.00, 6.0, 11.5},
                                             {2, 14, 14, 1, 2, 1.00, 20.0, 21.2},
                                             {3, 20, 5, 2, 2, 1.00, 36.0, 32.4},
                                             {4, 27, 6, 2, 3, 1.01, 48.8, 63.0},
                                             {5, 33, 6, 2, 3, 1.01, 62.4, 79.6},
                                             {6, 40, 7, 2, 3, 1.01, 75.4, 95.0},
                                             {7, 46, 7, 2, 3, 1.01, 89.2, 110.6},
                                             {8, 53, 8, 2, 3, 1.01, 100.4, 127.2},
                                             {9, 60, 8, 2, 3, 1.01, 114.6, 143.2},
                                             {10, 66, 9, 2, 3, 1.01, 126.0, 158.2}}}}};

}}  // namespace vortex::v0
