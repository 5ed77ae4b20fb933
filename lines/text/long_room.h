// Memory for long records and their keys, which the inputs of a merge or a check share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vortex { inline namespace v0 {

// A number of bytes that rooms may take together. One thread at a time.
class LongRoomBudget {
 public:
  explicit LongRoomBudget(std::uint64_t bytes);
  LongRoomBudget(const LongRoomBudget&) = delete;
  LongRoomBudget& operator=(const LongRoomBudget&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  friend class LongRoom;
  const std::uint64_t bytes_;
  std::uint64_t left_;
};

// Bytes that stay where they are while they become more. Their address space is taken at once: the
// size of the budget, or a part of what RLIMIT_AS leaves. It becomes resident where it is used. The
// budget outlives the room.
class LongRoom {
 public:
  explicit LongRoom(LongRoomBudget& budget) noexcept : budget_(&budget) {}
  ~LongRoom();
  LongRoom(const LongRoom&) = delete;
  LongRoom& operator=(const LongRoom&) = delete;

  // Returns false, with nothing changed, where the budget or the address space does not have that
  // many more bytes. Throws Error(ENOMEM) where the system refuses address space.
  bool grow(std::size_t bytes);
  // Takes the rest of the budget.
  void grow_to_most();
  // Gives back what lies behind the first bytes.
  void shrink(std::size_t bytes) noexcept;
  void swap(LongRoom& other) noexcept;

  char* data() const noexcept { return data_; }
  // In whole pages.
  std::size_t size() const noexcept { return size_; }
  std::span<char> span() const noexcept { return {data_, size_}; }

 private:
  void map(std::uint64_t least);

  LongRoomBudget* budget_;
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t capacity_ = 0;  // bytes that are mapped
};

}}  // namespace vortex::v0
