// For llama.cpp with g++ 12, which takes _tile_loadconfig for a function that reads 8 of the 64
// bytes and leaves out the stores to the rest: on a processor with AMX the program then ends by a
// general protection fault.
#if defined(__cplusplus) && defined(__AMX_TILE__)
#include <immintrin.h>
static inline void tile_load_whole_config(const void *config) {
    __asm__ volatile("ldtilecfg %0" : : "m"(*(const char(*)[64])config));
}
#define _tile_loadconfig tile_load_whole_config
#endif
