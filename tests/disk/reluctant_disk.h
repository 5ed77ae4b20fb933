// A disk that carries out nothing by itself.
#pragma once

#include <gtest/gtest.h>

#include "io/disk/disk.h"

namespace vortex::test {

// Keeps what it is given until it is told to carry it out.
class ReluctantDisk final : public Disk {
 public:
  ReluctantDisk() : Disk(DiskOptions{}, 32) {}
  ~ReluctantDisk() override { EXPECT_TRUE(kept_.empty()); }
  void carry_out() {
    while (Request* const request = kept_.pop()) arrived(*request, transfer(request->attempt()));
  }

 private:
  const char* backend() const noexcept override { return "reluctant"; }
  void start(Request& request) noexcept override { kept_.push(request); }

  RequestQueue kept_;
};

}  // namespace vortex::test
