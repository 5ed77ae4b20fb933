// The record of an entry of an index, stored or viewed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lines/memory/string_sort.h"
#include "lines/record/key_chunk.h"
#include "lines/record/stored_record.h"

namespace vortex { inline namespace v0 {

class StoredStrings {
 public:
  explicit StoredStrings(bool has_keys) : has_keys_(has_keys) {}
  StoredRecord operator()(const IndexEntry& entry) const noexcept {
    return stored_record_at(stored_at(entry), has_keys_);
  }
  // The lengths, and the bytes at about `depth`.
  void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(stored_at(entry));
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(stored_at(entry)) + depth + kChunkBytes));
  }

 private:
  bool has_keys_;
};

class ViewedStrings {
 public:
  ViewedStrings(std::span<const std::string_view> keys, std::span<const std::string_view> records)
      : keys_(keys.empty() ? records : keys), records_(records) {}
  StoredRecord operator()(const IndexEntry& entry) const noexcept {
    return {keys_[entry.value], records_[entry.value]};
  }
  void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(keys_[entry.value].data()) + depth));
  }

 private:
  std::span<const std::string_view> keys_;
  std::span<const std::string_view> records_;
};

}}  // namespace vortex::v0
