// Sorting a matrix of keys held in vector registers; included once for each instruction set.
//
// The includer defines VORTEX_NETWORK_TARGET, the function attribute of its instruction set, since
// code for different sets lives in one program and must not be shared between them.
//
// R registers of L lanes hold R * L records. Columns (one lane of all registers) are sorted first,
// by a network that needs no shuffles; then neighbouring columns are merged, two, four, ... at a
// time, by bitonic merging: one step between mirrored positions, then half-cleaners, between lanes
// while the distance is R or more and between registers below. In the end column after column is in
// order.
//
// `Lanes` supplies the instruction set and the record:
//   kLanes, Vector
//   exchange(a, b)                          a = min, b = max, lane by lane
//   exchange_mirrored<G>(a, b)              the same, the upper half of each group of G lanes the
//                                           other way round
//   keep_ordered<G>(a, b)                   min in the lower, max in the upper half of each group;
//                                           b is a with the halves exchanged
//   reverse<G>(a)                           lanes reversed in each group of G
//   exchange_halves<G>(a)                   the halves of each group of G exchanged
// G is a power of two from 2 to kLanes.

namespace vortex { inline namespace v0 { namespace detail { namespace {

template <typename Lanes, int R>
VORTEX_NETWORK_TARGET void sort_columns(typename Lanes::Vector* v) noexcept {
  static_assert(R == 1 || R == 2 || R == 4 || R == 8 || R == 16);
  // The networks with the fewest comparators for 4, 8 and 16 inputs (Knuth, volume 3, 5.3.4).
  if constexpr (R == 2) {
    Lanes::exchange(v[0], v[1]);
  } else if constexpr (R == 4) {
    constexpr unsigned char kPairs[][2] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}, {1, 2}};
#pragma GCC unroll 8
    for (const auto& pair : kPairs) Lanes::exchange(v[pair[0]], v[pair[1]]);
  } else if constexpr (R == 8) {
    constexpr unsigned char kPairs[][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6},
                                           {3, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5},
                                           {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
#pragma GCC unroll 32
    for (const auto& pair : kPairs) Lanes::exchange(v[pair[0]], v[pair[1]]);
  } else if constexpr (R == 16) {
    constexpr unsigned char kPairs[][2] = {
        {0, 13}, {1, 12}, {2, 15},  {3, 14},  {4, 8},   {5, 6},   {7, 11},  {9, 10},  {0, 5},
        {1, 7},  {2, 9},  {3, 4},   {6, 13},  {8, 14},  {10, 15}, {11, 12}, {0, 1},   {2, 3},
        {4, 5},  {6, 8},  {7, 9},   {10, 11}, {12, 13}, {14, 15}, {0, 2},   {1, 3},   {4, 10},
        {5, 11}, {6, 7},  {8, 9},   {12, 14}, {13, 15}, {1, 2},   {3, 12},  {4, 6},   {5, 7},
        {8, 10}, {9, 11}, {13, 14}, {1, 4},   {2, 6},   {5, 8},   {7, 10},  {9, 13},  {11, 14},
        {2, 4},  {3, 6},  {9, 12},  {11, 13}, {3, 5},   {6, 8},   {7, 9},   {10, 12}, {3, 4},
        {5, 6},  {7, 8},  {9, 10},  {11, 12}, {6, 7},   {8, 9}};
#pragma GCC unroll 64
    for (const auto& pair : kPairs) Lanes::exchange(v[pair[0]], v[pair[1]]);
  }
}

template <typename Lanes, int R>
VORTEX_NETWORK_TARGET void clean_between_registers(typename Lanes::Vector* v) noexcept {
#pragma GCC unroll 8
  for (int distance = R / 2; distance >= 1; distance /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      if ((i & distance) == 0) Lanes::exchange(v[i], v[i + distance]);
    }
  }
}

template <typename Lanes, int R, int G>
VORTEX_NETWORK_TARGET void clean_between_lanes(typename Lanes::Vector* v) noexcept {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    v[i] = Lanes::template keep_ordered<G>(v[i], Lanes::template exchange_halves<G>(v[i]));
  }
  if constexpr (G > 2) clean_between_lanes<Lanes, R, G / 2>(v);
}

// Merges the sorted halves of each group of G columns.
template <typename Lanes, int R, int G>
VORTEX_NETWORK_TARGET void merge_columns(typename Lanes::Vector* v) noexcept {
  if constexpr (R == 1)
    v[0] = Lanes::template keep_ordered<G>(v[0], Lanes::template reverse<G>(v[0]));
#pragma GCC unroll 8
  for (int i = 0; i < R / 2; ++i) {
    typename Lanes::Vector mirrored = Lanes::template reverse<G>(v[R - 1 - i]);
    Lanes::template exchange_mirrored<G>(v[i], mirrored);
    v[R - 1 - i] = Lanes::template reverse<G>(mirrored);
  }
  if constexpr (G > 2) clean_between_lanes<Lanes, R, G / 2>(v);
  clean_between_registers<Lanes, R>(v);
}

// Sorts v[0..R): afterwards lane 0 of v[0], v[1], ... then lane 1, and so on.
template <typename Lanes, int R>
VORTEX_NETWORK_TARGET void sort_registers(typename Lanes::Vector* v) noexcept {
  sort_columns<Lanes, R>(v);
  merge_columns<Lanes, R, 2>(v);
  if constexpr (Lanes::kLanes >= 4) merge_columns<Lanes, R, 4>(v);
  if constexpr (Lanes::kLanes >= 8) merge_columns<Lanes, R, 8>(v);
  if constexpr (Lanes::kLanes >= 16) merge_columns<Lanes, R, 16>(v);
}

}  // namespace

}}}  // namespace vortex::v0::detail
