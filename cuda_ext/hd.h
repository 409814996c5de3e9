// Functions that exist once for host and device; always inlined, so that each caller's instruction set applies.
#pragma once
#ifdef __CUDACC__
#define FOX_HD __host__ __device__ __forceinline__
#else
#define FOX_HD inline __attribute__((always_inline))
#endif
