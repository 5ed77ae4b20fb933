#include "bench/scaling/traced.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace vortex::bench {

namespace {

using Json = nlohmann::ordered_json;

struct Interval {
  double begin = 0;
  double end = 0;
};

// A span with all that lies within it.
struct TracedSpan {
  Interval interval;
  std::string name;
  double waited = 0;
  double freed = 0;
  TracedWork faults = {};

  bool is_fault() const { return name == "fault"; }
  double seconds() const { return interval.end - interval.begin; }
};

// Spans of a thread lie within each other, and are kept when they end: those within one come before
// it.
class TracedThread {
 public:
  void add(TracedSpan span) {
    while (!ended_.empty() && ended_.back().interval.begin >= span.interval.begin) {
      const TracedSpan& within = ended_.back();
      span.waited += within.name == "wait" ? within.seconds() : within.waited;
      span.freed += within.name == "free" ? within.seconds() : within.freed;
      span.faults.faults += within.faults.faults;
      span.faults.fault_seconds += within.faults.fault_seconds;
      ended_.pop_back();
    }
    if (span.is_fault()) {
      ++span.faults.faults;
      span.faults.fault_seconds = span.seconds() - span.waited - span.freed;
    }
    ended_.push_back(std::move(span));
  }
  const std::vector<TracedSpan>& spans() const { return ended_; }

 private:
  std::vector<TracedSpan> ended_;
};

TracedDisk busy(std::vector<Interval> requests, double bytes) {
  std::ranges::sort(requests, {}, &Interval::begin);
  TracedDisk disk{.bytes = bytes};
  double end = 0;
  for (const Interval& request : requests) {
    disk.seconds += std::max(0.0, request.end - std::max(request.begin, end));
    end = std::max(end, request.end);
  }
  return disk;
}

// Of a disk, in a phase.
struct Requests {
  std::vector<Interval> intervals;
  double bytes = 0;
};

void add_work(TracedPhase& phase, const TracedSpan& span) {
  TracedWork& work = phase.work[span.name];
  work.faults += span.faults.faults;
  work.fault_seconds += span.faults.fault_seconds;
  work.seconds +=
      std::max(0.0, span.seconds() - span.waited - span.freed - span.faults.fault_seconds);
  phase.work["free"].seconds += span.freed;
}

}  // namespace

TracedWork TracedPhase::of(std::string_view name) const {
  const auto found = work.find(name);
  return found == work.end() ? TracedWork{} : found->second;
}

std::pair<TracedPhase, TracedPhase> traced_phases(const std::string& path, double forming_seconds,
                                                  double merging_seconds) {
  std::ifstream file(path);
  const Json trace = Json::parse(file);
  if (trace.at("otherData").at("spans_lost") != 0) throw std::runtime_error("the trace is cut off");
  TracedPhase phases[2];
  phases[0].seconds_alone = forming_seconds;
  phases[1].seconds_alone = merging_seconds;
  const auto phase_at = [&](double seconds) { return seconds <= forming_seconds ? 0 : 1; };
  std::map<int, TracedThread> threads;
  std::map<int, Interval> requests;
  std::map<std::pair<int, std::string>, Requests> disks[2];
  for (const Json& event : trace.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind == "M") continue;
    const double begin = event.at("ts").get<double>() * 1e-6;
    const std::string name = event.at("name");
    if (kind == "X") {
      const Interval interval{begin, begin + event.at("dur").get<double>() * 1e-6};
      threads[event.at("tid")].add({interval, name});
      continue;
    }
    Interval& request = requests[event.at("id")];
    if (kind == "b") request.begin = begin;
    Requests& disk = disks[phase_at(request.begin)][{event.at("pid"), name}];
    if (kind == "b") {
      disk.bytes += event.at("args").at("bytes").get<double>();
    } else {
      disk.intervals.push_back({request.begin, begin});
    }
  }
  for (const auto& [id, thread] : threads) {
    for (const TracedSpan& span : thread.spans()) {
      TracedPhase& phase = phases[phase_at(span.interval.end)];
      phase.seconds_alone = std::max(0.0, phase.seconds_alone - span.seconds());
      if (span.name != "wait") add_work(phase, span);
    }
  }
  for (int phase = 0; phase < 2; ++phase) {
    for (const auto& [disk, made] : disks[phase]) {
      (disk.second == "read" ? phases[phase].reads : phases[phase].writes)
          .push_back(busy(made.intervals, made.bytes));
    }
  }
  return {phases[0], phases[1]};
}

}  // namespace vortex::bench
