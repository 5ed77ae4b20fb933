// Where sorted runs are cut, whatever their records are, so that the parts can be merged side by
// side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace vortex { inline namespace v0 {

// Multiway selection on samples of the runs (Varman et al. 1991): the sample that has about
// `wanted` in front of it in all runs, to `tolerance` if there is such a one; none: there is no
// sample. Samples of a run are numbered, in its order.
//
// Of Samples it takes
//   size(run)                          how many samples the run has;
//   at(run, sample)                    a splitter, which may take a read;
//   before(splitter, run, first, last) how many samples of the run come before it, where the first
//                                      `first` do, and those from `last` on do not;
//   amount(run, before)                what lies in front of that place of the run.
template <typename Samples>
auto find_splitter(Samples& samples, std::size_t runs, std::uint64_t wanted,
                   std::uint64_t tolerance) {
  std::vector<std::size_t> first(runs, 0), last, before(runs);
  for (std::size_t run = 0; run < runs; ++run) last.push_back(samples.size(run));
  std::optional<decltype(samples.at(0, 0))> best;
  std::uint64_t best_distance = ~std::uint64_t{0};
  for (;;) {
    std::size_t widest = 0;
    for (std::size_t run = 1; run < runs; ++run) {
      if (last[run] - first[run] > last[widest] - first[widest]) widest = run;
    }
    if (first[widest] == last[widest]) break;
    const std::size_t middle = first[widest] + (last[widest] - first[widest]) / 2;
    auto splitter = samples.at(widest, middle);
    std::uint64_t amount = 0;
    for (std::size_t run = 0; run < runs; ++run) {
      before[run] = samples.before(splitter, run, first[run], last[run]);
      amount += samples.amount(run, before[run]);
    }
    const bool too_little = amount < wanted;
    (too_little ? first : last).swap(before);
    if (too_little) first[widest] = std::max(first[widest], middle + 1);
    if (!too_little) last[widest] = std::min(last[widest], middle);
    const std::uint64_t distance = too_little ? wanted - amount : amount - wanted;
    if (distance < best_distance) {
      best_distance = distance;
      best = std::move(splitter);
    }
    if (best_distance <= tolerance) break;
  }
  return best;
}

// Cuts what has `whole` in all into `parts` parts at most, none with less than `least`:
// cut(wanted, tolerance) gives the places that have about so much in front of them, and
// between(begin, end) the part between two of them, of which amount() tells how much it has. Parts
// that differ by a sixteenth are equal enough.
template <typename Places, typename Cut, typename Between, typename Amount>
auto cut_into_parts(std::uint64_t whole, unsigned parts, std::uint64_t least, Places begin,
                    const Places& end, const Cut& cut, const Between& between,
                    const Amount& amount) {
  std::vector<decltype(between(begin, end))> result;
  std::uint64_t left = whole;
  for (unsigned i = 1; i < parts; ++i) {
    Places next = cut(whole / parts * i, whole / parts / 32);
    auto part = between(begin, next);
    // A cut in front of the one before gives numbers that wrap around.
    const std::uint64_t in_part = amount(part);
    if (in_part > left || in_part < least || left - in_part < least) continue;
    left -= in_part;
    result.push_back(std::move(part));
    begin = std::move(next);
  }
  result.push_back(between(begin, end));
  return result;
}

}}  // namespace vortex::v0
