#include "capi/sort/sort_resources.h"

#include <cerrno>
#include <memory>
#include <string>

#include "capi/sort/sort_fields.h"
#include "capi/stream/stream_fields.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

namespace {

// A guarded scope of its own, like every callback of the C interface.
template <typename Call>
void call_back(const char* what, const Call& call) {
  int result = 0;
  guarded([&] { result = call(); }).throw_if_failed();
  if (result != 0) {
    throw Error(errno_from(result, ECANCELED),
                std::string(what) + " returned " + std::to_string(result));
  }
}

SortProgressFunction progress_function(vtx_progress_function progress, void* context) {
  return [=](const SortProgress& made) {
    vtx_sort_progress shown;
    tell_fields(made, shown);
    call_back("the progress function", [&] { return progress(context, &shown); });
  };
}

SortDiskFunction disk_function(vtx_disk_function disk, void* context) {
  return [=](const std::string& folder) {
    vtx_disk_options options = {};
    call_back("the function of the disks", [&] { return disk(context, folder.c_str(), &options); });
    return open_disk_of(&options);
  };
}

}  // namespace

SortResources sort_resources_of(const vtx_sort_resources* given) {
  auto resources = options_of<SortResources>(given);
  if (given == nullptr) return resources;
  if (given->folder_speeds != nullptr) {
    resources.folder_speeds.assign(given->folder_speeds,
                                   given->folder_speeds + given->folder_count);
  }
  if (given->progress != nullptr) {
    resources.progress = progress_function(given->progress, given->progress_context);
  }
  if (given->disk != nullptr) {
    resources.open_disk = disk_function(given->disk, given->disk_context);
  }
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
