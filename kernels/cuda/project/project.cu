// out = W x. Weights are read once, as they are stored; reading them is most of the work.
//
// Each warp takes one row of weights, each of its lanes every 32nd chunk of it; the sums of the
// lanes are added by butterflies: a fixed order, the same for one row of x and for many. Quantised
// weights are multiplied by integer activations (precision.h): four products of signed bytes per
// instruction, twice for the two digits of z.
//
//   few rows of x, up to 32 (project_few.cu; project_one.cu): every block prepares its own copy of
//   x, norm and
//     integers, in shared memory, and does its neighbours' work on the way out
//   more rows (project_many.cu): x is prepared once, eight of its rows are multiplied at a time
//   a prompt's (project_blas.cu): cuBLASLt multiplies, on the tensor cores
#include "kernels/cuda/project/project.h"

// Whether one launch for n rows can take both types.
// The kernels for few rows branch on the type for each row of weights (project_few.cu); the others
// are compiled for one type.
static bool go_together(const Device *device, int n, DType a, DType b) {
    return a == b || (fits_few(device, n) && is_quantised(a) == is_quantised(b));
}

int project_work(const Device *device, ProjectWork *work, const ProjectOperation *op, int first) {
    DType dtype = op->projections[first].weight->planes.dtype;
    work->count = 0, work->n = op->n, work->x = op->x;
    work->nothing_ahead = device->switches.noprefetch;
    int i = first;
    for (; i < op->count; i++) {
        const Projection *p = &op->projections[i];
        if (!go_together(device, op->n, dtype, p->weight->planes.dtype)) break;
        int at = work->count++;
        work->weights[at] = p->weight->planes;
        work->out[at] = p->out;
        work->bias[at] = p->bias;
        work->first_row[at + 1] = work->first_row[at] + (unsigned)p->weight->planes.rows;
    }
    return i;
}

// Neighbours share a launch where they can.
void run_project(Device *device, const Operation *operation) {
    const ProjectOperation *op = &operation->project;
    bool quantised = false, by_blas = fits_blas(device, op->n);
    if (by_blas) blas_split(device, op->x, op->n, op->projections[0].weight->planes.cols);
    for (int i = 0, end; i < op->count; i = end) {
        ProjectWork work = {};
        end = project_work(device, &work, op, i);
        if (fits_few(device, op->n)) {
            launch_few(device, &work);
            continue;
        }
        if (by_blas) {
            launch_blas(device, &work);
            continue;
        }
        // x is quantised once for all matrices of the call.
        if (!quantised && meets_integers(device, work.weights[0].dtype)) {
            quantise_rows(device, op->x, op->n, work.weights[0].cols);
            quantised = true;
        }
        work.z = device->quantised;
        launch_many(device, &work);
    }
}

void project(Device *device, const float *x, int n, const Projection *projections, int count) {
    if (!n || !device_ok(device)) return;
    Operation operation = operation_of(OPERATION_PROJECT);
    ProjectOperation *op = &operation.project;
    op->x = x, op->n = n, op->count = count;
    for (int i = 0; i < count && i < MAX_PROJECTIONS; i++)
        op->projections[i] = projections[i];
    perform(device, &operation);
}

// One block of memory: the counters of EPILOGUE_HEADS, then the activations of max_rows rows as
// integers.
static size_t quantised_count(const Device *device, int max_rows) {
    return (size_t)max_rows * ((device->max_cols + CHUNK - 1) / CHUNK * CHUNK);
}

static constexpr size_t COUNTER_BYTES = MAX_HEAD_COUNTERS * sizeof(unsigned);

size_t project_bytes(const Device *device, int max_rows) {
    if (device->precision == PRECISION_F32) return COUNTER_BYTES;
    size_t count = quantised_count(device, max_rows);
    size_t digits = device->precision == PRECISION_A16 ? 2 : 1;
    return COUNTER_BYTES + count * digits + count / CHUNK * (sizeof(int2) + sizeof(float)) +
           (size_t)max_rows * OUTLIERS * sizeof(Outlier);
}

void project_reserve(Device *device) {
    project_blas_reserve(device);
    size_t count = quantised_count(device, device->max_rows);
    QuantisedRows *z = &device->quantised;
    uint8_t *at = (uint8_t *)device_alloc(device, project_bytes(device, device->max_rows));
    device->head_counters = (unsigned *)at;
    if (!at || device->precision == PRECISION_F32) return;
    at += COUNTER_BYTES;
    z->low = (int8_t *)at, at += count;
    if (device->precision == PRECISION_A16) z->high = (int8_t *)at, at += count;
    z->sums = (int2 *)at, at += count / CHUNK * sizeof(int2);
    z->scales = (float *)at, at += count / CHUNK * sizeof(float);
    z->outliers = (Outlier *)at;
}
