// Strings sorted in memory, beside peers.
//
//   views, views_threads      vortex::sort of std::string_view, by one thread and on all cores
//   objects, objects_threads  the same of std::string
//   multikey                  caching multikey quicksort of views (Ng and Kakehi), as tlx has it
//   std_views, std_objects    std::sort
//
// Rows are CALL/LINES: random letters, words by Zipf, URLs. Arrays are filled before, which is not
// timed. By default there are 2^20 strings; VORTEX_BENCH_LG=24 makes 2^24.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/support/made_lines.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "vortex/sort.h"

namespace vortex { namespace {

struct Cached {
  std::uint64_t word;  // eight bytes of the view
  std::string_view view;
};

std::uint64_t word_at(std::string_view view, std::size_t depth) {
  std::uint64_t word = 0;
  if (view.size() <= depth) return 0;
  std::memcpy(&word, view.data() + depth, std::min<std::size_t>(8, view.size() - depth));
  return __builtin_bswap64(word);
}

// Texts without NULs whose first `depth` bytes are equal.
void multikey(std::span<Cached> strings, std::size_t depth) {
  constexpr std::size_t kFew = 16, kSample = 9;
  while (strings.size() > kFew) {
    std::uint64_t sample[kSample];
    for (std::size_t i = 0; i < kSample; ++i)
      sample[i] = strings[strings.size() * i / kSample].word;
    std::nth_element(sample, sample + kSample / 2, sample + kSample);
    const std::uint64_t pivot = sample[kSample / 2];
    std::size_t less = 0, at = 0, greater = strings.size();
    while (at < greater) {
      if (strings[at].word < pivot) {
        std::swap(strings[at++], strings[less++]);
      } else if (strings[at].word > pivot) {
        std::swap(strings[at], strings[--greater]);
      } else {
        ++at;
      }
    }
    multikey(strings.first(less), depth);
    multikey(strings.subspan(greater), depth);
    if ((pivot & 0xff) == 0) return;  // the strings end here
    strings = strings.subspan(less, greater - less);
    depth += 8;
    for (Cached& string : strings) string.word = word_at(string.view, depth);
  }
  for (std::size_t i = 1; i < strings.size(); ++i) {
    const Cached moved = strings[i];
    const auto rest = [&](const Cached& string) {
      return string.view.substr(std::min(depth, string.view.size()));
    };
    std::size_t to = i;
    for (; to > 0; --to) {
      const Cached& other = strings[to - 1];
      if (moved.word > other.word) break;
      if (moved.word == other.word && rest(moved) >= rest(other)) break;
      strings[to] = other;
    }
    strings[to] = moved;
  }
}
void sort_multikey(std::vector<std::string_view>& views) {
  std::vector<Cached> cached;
  cached.reserve(views.size());
  for (const std::string_view view : views) cached.push_back({word_at(view, 0), view});
  multikey(cached, 0);
  std::transform(cached.begin(), cached.end(), views.begin(),
                 [](const Cached& c) { return c.view; });
}

struct Lines {
  Lines(void (*make)(std::uint64_t, std::string&), std::size_t count) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < count; ++i) {
      make(i, text);
      ends.push_back(text.size());
    }
    for (std::size_t i = 0, begin = 0; i < count; begin = ends[i++]) {
      views.emplace_back(text.data() + begin, ends[i] - begin);
    }
  }
  std::string text;
  std::vector<std::string_view> views;
};

template <typename String>
void add(const std::string& name, const Lines& lines,
         std::function<void(std::vector<String>&)> sort) {
  bench::add_row(name, [&lines, sort](benchmark::State& state) {
    for (auto _ : state) {
      std::vector<String> strings(lines.views.begin(), lines.views.end());
      const double cpu = bench::cpu_seconds();
      state.SetIterationTime(bench::seconds_of([&] { sort(strings); }));
      state.counters["cpu_s"] = bench::cpu_seconds() - cpu;
      if (!std::is_sorted(strings.begin(), strings.end())) state.SkipWithError("not sorted");
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(lines.views.size()));
  });
}

void add_all(const std::string& kind, const Lines& lines, std::vector<bench::Ratio>& ratios) {
  using Views = std::vector<std::string_view>;
  using Objects = std::vector<std::string>;
  const std::string tail = "/" + kind;
  for (const unsigned threads : {1u, 0u}) {
    const std::string name = (threads == 1 ? "" : "_threads") + tail;
    add<std::string_view>("views" + name, lines,
                          [threads](Views& views) { vortex::sort(views, {.threads = threads}); });
    add<std::string>("objects" + name, lines,
                     [threads](Objects& objects) { vortex::sort(objects, {.threads = threads}); });
  }
  add<std::string_view>("multikey" + tail, lines, sort_multikey);
  add<std::string_view>("std_views" + tail, lines,
                        [](Views& views) { std::sort(views.begin(), views.end()); });
  add<std::string>("std_objects" + tail, lines,
                   [](Objects& objects) { std::sort(objects.begin(), objects.end()); });
  const auto against = [&](const std::string& ours, const std::string& theirs) {
    ratios.push_back({ours + " against " + theirs + tail, bench::shown(ours + tail),
                      bench::shown(theirs + tail)});
  };
  against("views", "multikey");
  against("views", "std_views");
  against("views_threads", "views");
  against("objects", "std_objects");
  against("objects_threads", "objects");
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  const char* wanted = std::getenv("VORTEX_BENCH_LG");
  const std::size_t count = std::size_t{1} << (wanted != nullptr ? std::atoi(wanted) : 20);
  const Lines letters(bench::random_line, count), words(bench::word_line, count),
      urls(bench::url_line, count);
  std::vector<bench::Ratio> ratios;
  add_all("letters", letters, ratios);
  add_all("words", words, ratios);
  add_all("urls", urls, ratios);
  return bench::run_with_ratios(argc, argv, ratios);
}
