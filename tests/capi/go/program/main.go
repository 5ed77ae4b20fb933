// Goroutines that touch streams. Each case is a run of its own: program CASE.
package main

/*
#include <errno.h>
#include <string.h>
#include "vortex/c.h"

// Uses more stack than a goroutine or Go's signal stack has.
static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
	volatile char much[100 << 10];
	for (size_t i = 0; i < sizeof much; i += 512) much[i] = (char)i;
	memset(block, (int)(offset / bytes % 100) + much[0] + 1, bytes);
	return context == NULL || offset < 8 * bytes ? (int64_t)bytes : -EDOM;
}

enum { kBlockBytes = 16 << 10, kBlocks = 64 };

// With `broken`, no more than 8 blocks can be read.
static vtx_input* make_stream(int broken) {
	const vtx_stream_options options = {.block_bytes = kBlockBytes};
	vtx_input* input = NULL;
	return vtx_input_from_callback(fill, broken ? (void*)&fill : NULL, &options, &input) == 0 ? input : NULL;
}

static int32_t* nowhere(void) { return NULL; }
*/
import "C"

import (
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

func check(holds bool, what string) {
	if !holds {
		println("not so:", what)
		os.Exit(1)
	}
}

func open(broken C.int) (*C.vtx_input, []byte) {
	stream := C.make_stream(broken)
	check(stream != nil, "a stream was made")
	return stream, unsafe.Slice((*byte)(C.vtx_input_data(stream)), C.kBlocks*C.kBlockBytes)
}

// Deeper with every call, so that goroutines fault at all depths of their stacks.
//
//go:noinline
func readDeep(data []byte, block int) int {
	wrong := 0
	if data[block*C.kBlockBytes] != byte(block%100+1) {
		wrong = 1
	}
	if block+1 < len(data)/C.kBlockBytes {
		wrong += readDeep(data, block+1)
	}
	return wrong
}

func readStream() {
	stream, data := open(0)
	check(readDeep(data, 0) == 0, "a goroutine reads what the callback wrote")
	C.vtx_input_close(stream)
}

func dereference() (recovered bool) {
	defer func() {
		_, recovered = recover().(runtime.Error)
	}()
	*C.nowhere() = 1
	return false
}

// Many goroutines, while the collector and the scheduler interrupt them.
func readInGoroutines() {
	var done atomic.Bool
	go func() {
		for !done.Load() {
			runtime.GC()
		}
	}()
	runtime.SetCPUProfileRate(1000)
	var all sync.WaitGroup
	for i := 0; i < 100; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			readStream()
			check(dereference(), "a goroutine recovers from a nil pointer")
		}()
	}
	all.Wait()
	runtime.SetCPUProfileRate(0)
	done.Store(true)
}

func touchBroken() (address uintptr) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	stream, data := open(1)
	defer func() {
		check(C.vtx_input_failure(stream) == -C.EDOM, "the stream has its error")
		C.vtx_input_close(stream)
	}()
	defer func() {
		if fault, ok := recover().(interface{ Addr() uintptr }); ok {
			address = fault.Addr() - uintptr(unsafe.Pointer(&data[0]))
		}
	}()
	readDeep(data, 0)
	return 0
}

func main() {
	switch os.Args[1] {
	case "read":
		readInGoroutines()
	case "recover":
		readStream()
		for i := 0; i < 100; i++ {
			check(dereference(), "a nil pointer is an error of Go's")
		}
		readStream()
	case "broken":
		for i := 0; i < 20; i++ {
			check(touchBroken() == 8*C.kBlockBytes, "an error of a stream is a panic at its address")
		}
		readStream()
	case "notify":
		readStream()
		signal.Notify(make(chan os.Signal, 1), syscall.SIGSEGV)
		check(C.vtx_reclaim_faults() == 0, "the library is in front again")
		readInGoroutines()
	case "crash":
		readStream()
		*C.nowhere() = 1
	}
	println("done")
}
