// The library for C, and for languages that call C: streams, files and sorts behind opaque handles.
//
//   vtx_input* numbers;
//   if (vtx_input_open("numbers", NULL, &numbers) != 0) return puts(vtx_strerror(NULL));
//   const uint64_t* data = vtx_input_data(numbers);  // the whole file, whatever its size
//
// The contract, which the calls below do not repeat:
//
// - It is C11, it is part of the library `vortex`, and its symbols have the version VORTEX_C_0.1.
//   While the major version is 0, a minor version may break it, and the soname says so.
// - Calls that can fail return 0 or a negative errno value (-ENOMEM where an allocation fails), and
//   write results only when they return 0. vtx_strerror() has the whole text.
// - No C++ exception leaves a call. Callbacks must not throw any.
// - A handle comes from a call that makes one and is given back by the close call of its type. That
//   takes NULL as well, and waits for what is still under way.
// - Strings end with NUL. What a call is given (paths, options, keys) is copied. Pools, disks and
//   blocks may be closed before the handles that use them; callbacks and their contexts must stay
//   as long as their handle.
// - Options may be NULL, and each field of them may be 0: that is the default, which its comment
//   names. Clear the struct first, as `vtx_file_options options = {0};` does.
// - Counts are bytes unless a name says records or blocks. Flags are int: 0 or 1.
// - Numbers that are too large for what they mean are -EINVAL, and so is the largest number of its
//   type, unless a comment says that it stands for as much as can be had. Numbers within the
//   limits, and bytes of pools and blocks, that ask for more than the system has are -ENOMEM, for a
//   file -ENOSPC or -EFBIG. The ranges of flush and will_need calls may go beyond the end.
// - NULL is -EINVAL where something is to be read or written there: a name, an array whose count
//   is not 0, the place for a result. Of arrays with a count of 0 the pointer is not looked at.
// - One thread at a time uses a handle, except where a call says otherwise; different handles are
//   independent. The memory behind a pointer may be touched by several threads as the C++ headers
//   say: input_stream.h, output_stream.h, file_reader.h.
// - Touching that memory raises SIGSEGV, which the library serves. A touch that it cannot serve (an
//   I/O error, a place outside the window) ends the process with a line that says why, unless it
//   happens in vtx_guarded().
// - A touch is served on the stack of the thread; in a thread with an alternate signal stack
//   (sigaltstack(2)) on a stack of the library's as large as a thread's, callbacks included. So
//   goroutines may touch streams, as may threads whose stacks are small once they have one of 16
//   KiB. Callbacks must be functions of C or the like, which no other language's runtime has to
//   know of. docs/limits.md, "Small stacks, and other languages", has the rules for each.
// - The kernel cannot read or write stream memory that nobody has touched: before read(2), write(2)
//   and the like call vtx_input_prefault() or vtx_output_prefault().
// - A forked child must not use the handles of its parent, except that it may close them.
#pragma once

#include "vortex/c/arrays.h"
#include "vortex/c/base.h"
#include "vortex/c/files.h"
#include "vortex/c/sorts.h"
#include "vortex/c/streams.h"
