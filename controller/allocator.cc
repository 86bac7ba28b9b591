#include "allocator.h"

#ifdef SLUICE_MIMALLOC
#include <mimalloc.h>
#else
#include <malloc.h>
#endif

namespace sluice {

#ifdef SLUICE_MIMALLOC
// This call is also what links the library, and with it malloc and free, into the program.
void ReturnMemory() { mi_collect(true); }
#else
void ReturnMemory() { malloc_trim(0); }
#endif

}  // namespace sluice
