// A program of somebody who installed the library: it knows the installed headers and nothing else.
#include <cstdint>
#include <cstdio>
#include <span>

#include "vortex/block_pool.h"
#include "vortex/callback_sink.h"
#include "vortex/callback_source.h"
#include "vortex/guarded.h"

int main() {
  constexpr std::uint64_t kCount = 3'000'000;
  vortex::BlockPool pool({.pool_bytes = 1 << 20, .block_bytes = 64 << 10});

  auto fill = [](std::span<std::byte> block, std::uint64_t offset) {
    auto* numbers = reinterpret_cast<std::uint64_t*>(block.data());
    for (std::size_t i = 0; i < block.size() / 8; ++i) numbers[i] = offset / 8 + i;
    return block.size();
  };
  std::uint64_t drained_bytes = 0;
  auto drain = [&](std::span<const std::byte> block, std::uint64_t) {
    drained_bytes += block.size();
  };
  auto input = vortex::input_from_callback<std::uint64_t>(pool, fill, {}, kCount * 8);
  auto output = vortex::output_to_callback<std::uint64_t>(pool, drain);

  std::uint64_t sum = 0;
  const vortex::Failure failure = vortex::guarded([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      sum += input.data()[i];
      output.data()[i] = sum;
    }
  });
  failure.throw_if_failed();
  output.finish(kCount);

  const bool good = sum == kCount * (kCount - 1) / 2 && drained_bytes == kCount * 8;
  std::printf("sum %llu, %llu bytes written: %s\n", static_cast<unsigned long long>(sum),
              static_cast<unsigned long long>(drained_bytes), good ? "good" : "WRONG");
  return good ? 0 : 1;
}
