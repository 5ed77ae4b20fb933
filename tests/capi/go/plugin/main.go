// A library in Go, whose runtime begins to handle signals when a program loads it.
package main

import "C"

import "unsafe"

//export SumInGoroutine
func SumInGoroutine(data *C.char, blocks, blockBytes C.long) C.long {
	sums := make(chan C.long)
	go func() {
		sum := C.long(0)
		for block := C.long(0); block < blocks; block++ {
			sum += C.long(*(*byte)(unsafe.Add(unsafe.Pointer(data), block*blockBytes)))
		}
		sums <- sum
	}()
	return <-sums
}

//export RecoverNil
func RecoverNil() (recovered C.int) {
	defer func() {
		if recover() != nil {
			recovered = 1
		}
	}()
	var nowhere *int32
	*nowhere = 1
	return 0
}

func main() {}
