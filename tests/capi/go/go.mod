module vortex.example/streams

go 1.18
