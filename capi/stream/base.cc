// What all calls share: the version, errors, guarded scopes, how faults reach the library, pools
// and disks.

#include <cerrno>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "capi/stream/handle.h"
#include "capi/stream/pool.h"
#include "capi/stream/stream_fields.h"
#include "capi/stream/stream_handle.h"
#include "vortex/c.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/memory_budget.h"
#include "vortex/pool/block_memory.h"
#include "vortex/thread/of_thread.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace capi {

namespace {

// The thread's last call found no memory for a text of its own.
constinit thread_local bool has_no_text = false;

const OfThread<ErrorText>& texts_of_threads() noexcept {
  static const OfThread<ErrorText> texts;
  return texts;
}
ErrorText& text_of_all() noexcept {
  static ErrorText text = ErrorText::of_all();
  return text;
}

const char* text_of_thread() noexcept {
  if (has_no_text) return text_of_all().c_str();
  const ErrorText* const text = texts_of_threads().find();
  return text == nullptr ? "" : text->c_str();
}

}  // namespace

ErrorText& thread_error() noexcept {
  ErrorText* const text = texts_of_threads().get_if_any();
  has_no_text = text == nullptr;
  return has_no_text ? text_of_all() : *text;
}

Stream::FailureCall failure_call(vtx_failure_function tell, void* context) {
  if (tell == nullptr) return {};
  struct Told {
    vtx_failure_function function;
    void* context;
  };
  static std::mutex mutex;
  static auto& all = *new std::map<std::pair<std::uintptr_t, void*>, Told>;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(reinterpret_cast<std::uintptr_t>(tell), context);
  Told& told = all.try_emplace(key, Told{tell, context}).first->second;
  return {[](void* to, const Failure& failure) noexcept {
            const Told& function = *static_cast<Told*>(to);
            function.function(function.context, -failure.error, failure.line().c_str());
          },
          &told};
}

std::unique_ptr<Disk> open_disk_of(const vtx_disk_options* options) {
  return open_disk(options_of<DiskOptions>(options));
}

std::shared_ptr<BlockPool> pool_or_own(const vtx_pool* pool, std::size_t blocks,
                                       std::size_t block_bytes) {
  if (pool != nullptr) return pool->blocks;
  if (block_bytes == 0) block_bytes = kDefaultBlockBytes;
  BlockPoolOptions options;
  // A window that is too large for memory is refused with the memory.
  constexpr std::size_t kNoWindow = std::numeric_limits<std::size_t>::max();
  if (blocks == kNoWindow) expect_block_count("a stream", "comeback_blocks", blocks);
  options.pool_bytes = detail::saturating_product(blocks, block_bytes);
  options.block_bytes = block_bytes;
  return std::make_shared<BlockPool>(options);
}

}}}  // namespace vortex::v0::capi

using vortex::Engine;
using vortex::FaultDispatcher;
using namespace vortex::capi;

const char* vtx_version(void) { return vortex::version(); }

const char* vtx_strerror(const void* handle) {
  if (handle == nullptr) return text_of_thread();
  return static_cast<const Handle*>(handle)->error().c_str();
}

// The jump ends in this frame, which has nothing to destroy. It goes over the body alone: other
// code of the library that runs on the way is inside an UnguardedScope, or calls back into a
// guarded scope of its own.
int vtx_guarded(void (*body)(void* context), void* context) {
  const vortex::Failure failure = vortex::guarded([=] { body(context); });
  if (!failure) return 0;
  return answer(thread_error(), [&] { failure.throw_if_failed(); });
}

int vtx_receive_faults(int engine) {
  return answer(thread_error(), [engine] {
    FaultDispatcher& dispatcher = FaultDispatcher::instance();
    switch (engine) {
      case VTX_ENGINE_DEFAULT:
        return dispatcher.start();
      case VTX_ENGINE_SIGNAL:
        return dispatcher.start(FaultDispatcher::compiled_in(Engine::kLibsigsegv)
                                    ? Engine::kLibsigsegv
                                    : Engine::kNative);
      case VTX_ENGINE_USERFAULTFD:
        return dispatcher.start(Engine::kUserfaultfd);
      default:
        throw vortex::Error(EINVAL, "an engine is a vtx_engine, not " + std::to_string(engine));
    }
  });
}

int vtx_reclaim_faults(void) {
  return answer(thread_error(), [] { FaultDispatcher::instance().reclaim(); });
}

int vtx_release_faults(void) {
  return answer(thread_error(), [] { FaultDispatcher::instance().stop(); });
}

int vtx_fault_statistics(vtx_fault_counts* counts) {
  return answer_told(thread_error(), counts,
                     [] { return FaultDispatcher::instance().statistics(); });
}

// ---- Memory and disks.

int vtx_pool_create(const vtx_pool_options* options, vtx_pool** pool) {
  return answer_with(pool, [&] {
    return std::make_unique<vtx_pool>(options_of<vortex::BlockPoolOptions>(options));
  });
}

size_t vtx_pool_block_bytes(const vtx_pool* pool) { return pool->blocks->block_bytes(); }

int vtx_pool_statistics(const vtx_pool* pool, vtx_pool_counts* counts) {
  return answer_told(*pool, counts, [&] { return pool->blocks->statistics(); });
}

int vtx_pool_wait_until_warm(vtx_pool* pool) {
  return answer(*pool, [&] { pool->blocks->wait_until_warm(); });
}

int vtx_pool_retire(vtx_pool* pool, size_t blocks, size_t* retired) {
  return answer(*pool, [&] {
    expect_place(retired);
    *retired = pool->blocks->retire(blocks);
  });
}

void vtx_pool_close(vtx_pool* pool) { delete pool; }

int vtx_process_memory(vtx_memory_counts* counts) {
  return answer_told(thread_error(), counts, [] { return vortex::process_memory(); });
}

int vtx_disk_open(const vtx_disk_options* options, vtx_disk** disk) {
  return answer_with(disk, [&] { return std::make_unique<vtx_disk>(options); });
}

void vtx_disk_close(vtx_disk* disk) { delete disk; }

int vtx_measure_disk_speed(vtx_disk* disk, const char* folder,
                           const vtx_disk_speed_options* options, vtx_disk_speed* speed) {
  return answer_told(*disk, speed, [&] {
    return vortex::measure_disk_speed(*disk->queue, required(folder, "the folder"),
                                      options_of<vortex::DiskSpeedOptions>(options));
  });
}

int vtx_measure_request_cost(vtx_disk* disk, const char* folder,
                             const vtx_disk_speed_options* options, double* bytes) {
  return answer(*disk, [&] {
    expect_place(bytes);
    *bytes = vortex::measure_request_cost(*disk->queue, required(folder, "the folder"),
                                          options_of<vortex::DiskSpeedOptions>(options));
  });
}
