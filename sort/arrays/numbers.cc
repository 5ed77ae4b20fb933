#include "sort/arrays/numbers.h"

#include "sort/kernels/wide_loops.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// A type that says how numbers are encoded.
template <KeyKind kKind, bool kDescending>
struct Form {
  static constexpr KeyCode kCode{kKind, kDescending};
};

// Calls use(bits, form) with a value of the unsigned type of the numbers and a Form.
template <typename Bits, KeyKind kKind, typename Use>
auto with_order(bool descending, const Use& use) {
  return descending ? use(Bits{}, Form<kKind, true>{}) : use(Bits{}, Form<kKind, false>{});
}

template <typename Bits, typename Use>
auto with_kind(const KeyCode& code, const Use& use) {
  if constexpr (sizeof(Bits) >= 4) {
    if (code.kind == KeyKind::kFloat)
      return with_order<Bits, KeyKind::kFloat>(code.descending, use);
  }
  return code.kind == KeyKind::kSigned ? with_order<Bits, KeyKind::kSigned>(code.descending, use)
                                       : with_order<Bits, KeyKind::kUnsigned>(code.descending, use);
}

template <typename Use>
auto with_form(const NumberForm& form, const Use& use) {
  switch (form.bytes) {
    case 1:
      return with_kind<std::uint8_t>(form.code, use);
    case 2:
      return with_kind<std::uint16_t>(form.code, use);
    case 4:
      return with_kind<std::uint32_t>(form.code, use);
    default:
      return with_kind<std::uint64_t>(form.code, use);
  }
}

template <typename Bits, typename FormOf>
void read(const void* numbers, std::size_t begin, std::size_t count, std::uint64_t* bits) noexcept {
  constexpr KeyEncoder<Bits> kEncoder(FormOf::kCode);
  const Bits* const from = static_cast<const Bits*>(numbers) + begin;
  // Whoever reads a block reads the next one, and the processor's own prefetching does not keep up.
  constexpr std::size_t kBlock = 256, kLine = 64 / sizeof(Bits);
  if (count >= kBlock) {
    for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(from + count + i);
  }
  for (std::size_t i = 0; i < count; ++i) bits[i] = kEncoder.encode(from[i]);
}

template <typename FormOf, std::size_t kCount, typename Bits>
[[gnu::always_inline]] inline bool any_less(const Bits* numbers, Bits bound) noexcept {
  constexpr KeyEncoder<Bits> kEncoder(FormOf::kCode);
  Bits any = 0;
  for (std::size_t i = 0; i < kCount; ++i)
    any |= static_cast<Bits>(kEncoder.encode(numbers[i]) < bound ? 1 : 0);
  return any != 0;
}

// Large steps, and small ones, so that little is read again one by one. The compiler makes vectors
// of them.
template <typename Bits, typename FormOf>
[[gnu::always_inline]] inline std::size_t skip(const Bits* numbers, std::size_t begin,
                                               std::size_t end, Bits bound) noexcept {
  constexpr std::size_t kMany = 256, kFew = 32, kLine = 64 / sizeof(Bits);
  for (; end - begin >= kMany; begin += kMany) {
    for (std::size_t i = 0; i < kMany; i += kLine)
      __builtin_prefetch(numbers + begin + 2 * kMany + i);
    if (any_less<FormOf, kMany>(numbers + begin, bound)) break;
  }
  while (end - begin >= kFew && !any_less<FormOf, kFew>(numbers + begin, bound)) begin += kFew;
  return begin;
}

}  // namespace

KeySource keys_of_numbers(const void* numbers, const NumberForm& form) noexcept {
  return with_form(form, [&](auto bits, auto form_of) -> KeySource {
    return {numbers, &read<decltype(bits), decltype(form_of)>};
  });
}

void write_numbers(void* numbers, const NumberForm& form, std::size_t begin, std::size_t count,
                   const std::uint64_t* bits) noexcept {
  with_form(form, [&](auto word, auto form_of) {
    using Bits = decltype(word);
    constexpr KeyEncoder<Bits> kEncoder(decltype(form_of)::kCode);
    Bits* const to = static_cast<Bits*>(numbers) + begin;
    for (std::size_t i = 0; i < count; ++i) to[i] = kEncoder.decode(static_cast<Bits>(bits[i]));
  });
}

std::size_t skip_not_less(const void* numbers, const NumberForm& form, std::size_t begin,
                          std::size_t end, std::uint64_t bound) noexcept {
  return with_form(form, [&](auto word, auto form_of) -> std::size_t {
    using Bits = decltype(word);
    using FormOf = decltype(form_of);
    const auto* const from = static_cast<const Bits*>(numbers);
    return with_wide_loops(
        [=] { return skip<Bits, FormOf>(from, begin, end, static_cast<Bits>(bound)); });
  });
}

void sort_numbers(void* numbers, const NumberForm& form, std::size_t count, unsigned threads) {
  sort_records(numbers, count, form.bytes,
               {.code = form.code, .place = {0, static_cast<int>(form.bytes)}}, threads);
}

}}}  // namespace vortex::v0::detail
