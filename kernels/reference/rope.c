// Rotary positions, half-split pairing:
//
//   one head   0 .. half-1 | half .. rope_dim-1 | rope_dim .. head_dim-1
//              a           | b                  | stays as it is
//
// channel j of a and channel j of b are the two coordinates of one point in a plane, rotated by the
// angle position * frequency[j]. Rotating queries by p and keys by t makes their product depend on
// p - t alone: (R_p q) . (R_t k) = q . (R_(t-p) k). Low j have high frequencies and distinguish
// neighbouring positions, high j have low frequencies and distinguish distant ones.
#include "kernels/reference/device.h"

void rope(Device *device, float *x, int n_heads, int head_dim, const RopeTable *table,
          const Rows *rows) {
    if (device->error.code) return;
    int half = table->rope_dim / 2;
    for (int i = 0; i < rows->n; i++) {
        const float *c = table->cos + (size_t)rows->positions[i] * (size_t)half;
        const float *s = table->sin + (size_t)rows->positions[i] * (size_t)half;
        for (int h = 0; h < n_heads; h++, x += head_dim) {
            for (int j = 0; j < half; j++) {
                float a = x[j], b = x[j + half];
                x[j] = a * c[j] - b * s[j];
                x[j + half] = b * c[j] + a * s[j];
            }
        }
    }
}
