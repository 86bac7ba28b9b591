// The allocator of the process. Objects are decoded on one thread and dropped on another, all the
// time; mimalloc does that with less work than the C library. Builds with sanitizers keep their
// own.
#pragma once

namespace sluice {

// Gives back to the system what decoding needed for a moment. From the loop's thread, now and then.
void ReturnMemory();

}  // namespace sluice
