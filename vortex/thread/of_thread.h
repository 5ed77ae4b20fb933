// What each thread has for itself.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <new>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// An object of each thread, which goes when the thread ends. For a thread_local one with a
// destructor the C library ends the process where there is no memory to note it; here an exception
// tells of it. Of static storage: where that ends, with the process or with a library that is
// unloaded, threads have none any more, and what they had stays.
template <typename Object>
class OfThread {
 public:
  OfThread() noexcept
      : has_key_(pthread_key_create(
                     &key_, [](void* object) { delete static_cast<Object*>(object); }) == 0) {}
  // Nothing of what may be unloaded now is called when threads end; some may go on meanwhile.
  ~OfThread() {
    if (has_key_.exchange(false)) pthread_key_delete(key_);
  }
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;

  // The calling thread's; null while it has none.
  Object* find() const noexcept {
    return has_key_ ? static_cast<Object*>(pthread_getspecific(key_)) : nullptr;
  }
  // The calling thread's, which it gets when it asks first. Throws std::bad_alloc: no memory, or no
  // key of a thread is left.
  Object& get() const {
    if (Object* const object = find(); object != nullptr) return *object;
    auto made = std::make_unique<Object>();
    if (!has_key_ || pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }
  // The same; null where there is none to be had.
  Object* get_if_any() const noexcept {
    try {
      return &get();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

 private:
  pthread_key_t key_ = 0;
  std::atomic<bool> has_key_;
};

}}  // namespace vortex::v0
