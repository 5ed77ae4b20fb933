#include "capi/sort/sort_resources.h"

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>

#include "capi/stream/file_options.h"
#include "vortex/error.h"
#include "vortex/guarded.h"

namespace vortex { inline namespace v0 { namespace capi {

namespace {

vtx_sort_phase phase_of(SortPhase phase) noexcept {
  switch (phase) {
    case SortPhase::kReading:
      return VTX_SORT_READING;
    case SortPhase::kMerging:
      return VTX_SORT_MERGING;
    case SortPhase::kWriting:
      break;
  }
  return VTX_SORT_WRITING;
}

// A guarded scope of its own, like every callback of the C interface.
SortProgressFunction progress_function(vtx_progress_function progress, void* context) {
  return [=](const SortProgress& made) {
    const vtx_sort_progress shown = {phase_of(made.phase), made.bytes,
                                     made.phase_bytes.value_or(0)};
    int result = 0;
    guarded([&] { result = progress(context, &shown); }).throw_if_failed();
    if (result != 0) {
      throw Error(errno_from(result, ECANCELED),
                  "the progress function returned " + std::to_string(result));
    }
  };
}

}  // namespace

SortResources sort_resources_of(const vtx_sort_resources* given) {
  SortResources resources;
  if (given == nullptr) return resources;
  resources.memory_bytes = given->memory_bytes;
  expect_array(given->folders, given->folder_count, sizeof(*given->folders), "the folders");
  for (std::size_t i = 0; i < given->folder_count; ++i) {
    resources.folders.push_back(required(given->folders[i], "the name of a folder"));
  }
  if (given->folder_speeds != nullptr) {
    resources.folder_speeds.assign(given->folder_speeds,
                                   given->folder_speeds + given->folder_count);
  }
  resources.block_bytes = given->block_bytes;
  resources.caching = caching_of(given->caching);
  resources.threads = given->threads;
  if (given->progress != nullptr) {
    resources.progress = progress_function(given->progress, given->progress_context);
  }
  if (given->stop != nullptr) resources.stop = given->stop->source.get_token();
  if (given->budget != nullptr) resources.budget = given->budget->shared;
  resources.least_memory_bytes = given->least_memory_bytes;
  return resources;
}

}}}  // namespace vortex::v0::capi

int vtx_stop_create(vtx_stop** stop) {
  return vortex::capi::answer_with(stop, [] { return std::make_unique<vtx_stop>(); });
}

void vtx_stop_request(vtx_stop* stop) { stop->source.request_stop(); }

void vtx_stop_close(vtx_stop* stop) { delete stop; }

int vtx_budget_create(uint64_t bytes, vtx_budget** budget) {
  return vortex::capi::answer_with(budget, [&] { return std::make_unique<vtx_budget>(bytes); });
}

uint64_t vtx_budget_free_bytes(const vtx_budget* budget) { return budget->shared->free_bytes(); }

void vtx_budget_close(vtx_budget* budget) { delete budget; }
