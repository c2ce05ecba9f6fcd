// What a device can do at most, measured on it: what `bench` compares the model with. One sample a
// call; the caller interleaves samples with its own measurements and takes medians. With one thread
// of a host, time is the processor time of that thread: what other programs take does not count.
//
// 0 means that the backend has none of it, or a failure, which is in device_error.
#pragma once

#include "kernels/kernels.h"

// Bytes per second of reading a buffer of so many bytes again and again with all threads; 0 stands
// for a buffer that no cache holds. A smaller buffer is used where there is no room for it.
double device_read_rate(Device *device, size_t bytes);

// The instructions that a multiply-add of a kernel is made of.
typedef enum PeakKind {
    PEAK_FLOAT32,    // float32 multiply-adds
    PEAK_FLOAT64,    // double multiply-adds
    PEAK_INT16,      // products of integers of up to 16 bits, summed in 32
    PEAK_INT8,       // products of signed and unsigned bytes
    PEAK_INT8_TILES, // products of signed bytes by a matrix unit: "int8 tiles"
    PEAK_BF16,       // products of 16-bit floats with float32 sums: tensor cores
    PEAK_COUNT
} PeakKind;

// Operations per second with all threads and everything in registers, a multiplication and an
// addition being two: no kernel made of these instructions is faster. 0 where no kernel of the
// backend is made of them.
double device_peak_rate(Device *device, PeakKind kind);

// What one multiply-add of the model is computed with: `products` multiply-adds of `kind`. An
// activation of 16 bits, for example, is multiplied with bytes as two digits of 8 bits.
typedef struct Arithmetic {
    PeakKind kind;
    int products;
} Arithmetic;
Arithmetic project_arithmetic(Device *device, const DeviceMatrix *weight, int n); // of n rows
Arithmetic attention_arithmetic(Device *device, const Kv *kv, int n);

// attention() with all scores in memory, as it is taught: every score and the softmax of its row
// are stored in weights (n, n_heads, max_seq_len), then multiplied with the values. What bench
// compares the online softmax of a backend with (Milakov and Gimelshein 2018, arXiv 1805.02867);
// reference/ has no other attention.
void attention_naive(Device *device, float *out, const float *q, const KvView *view,
                     const Rows *rows, const AttentionShape *shape, float *weights);

// Seconds that the product of a matrix (rows, cols) with n rows of input takes the vendor's
// library: bf16, float32 sums. 0 where there is no such library.
double device_product_seconds(Device *device, int n, int rows, int cols);

// Seconds since the previous call in which the device waited for the host, if that call set
// `watch`; else 0. A host that is the device itself never waits. Watching costs a microsecond or
// two per pass.
double device_idle_seconds(Device *device, bool watch);
