// Weights on their way to a warp: a ring in shared memory that bulk copies fill.
//
//   |  free  | used | arrives | arrives | arrives |   free   |
//             got ^                          put ^
//
// A warp asks for the pieces of its rows in the order in which it will multiply them, on over rows
// and over steps, as long as there is room. A piece that does not fit before the end of the ring
// begins at its start. It has a barrier that counts its bytes; barriers are taken in turn.
#pragma once

#include "kernels/cuda/persistent/chain.h"
#include "kernels/cuda/project/row_walk.h"

enum { PIECES = 32 }; // of a ring, under way
enum { WINDOW = 6 };  // steps that a block has in shared memory

// Where the bytes of a piece in one plane are: copies go from 16 bytes to 16 bytes.
struct Span {
    const uint8_t *from;
    unsigned before, bytes; // of what is copied, those before the piece; all
};

static __device__ __forceinline__ const uint8_t *plane_of(const Planes &w, int plane) {
    return plane == 0 ? w.low : plane == 1 ? w.high : plane == 2 ? w.scales : w.supers;
}

static __device__ __forceinline__ Span span_of(const Planes &w, const PieceSize &size, int plane,
                                               size_t row, unsigned piece) {
    if (!size.bytes[plane]) return Span{NULL, 0, 0};
    unsigned begin = piece * size.bytes[plane], left = w.row_bytes[plane] - begin;
    unsigned count = left < size.bytes[plane] ? left : size.bytes[plane];
    const uint8_t *from = plane_of(w, plane) + row * w.row_bytes[plane] + begin;
    unsigned before = (unsigned)(uintptr_t)from & 15;
    return Span{from - before, before, (before + count + 15) & ~15u};
}

// A piece of a row, and what it takes of a ring.
struct Piece {
    Span spans[N_PLANES];
    unsigned bytes;
};

// PLANES: a bit for each that there may be.
constexpr unsigned ALL_PLANES = (1u << N_PLANES) - 1;
template <unsigned PLANES = ALL_PLANES>
static __device__ __forceinline__ Piece piece_of(const Planes &w, const PieceSize &size, size_t row,
                                                 unsigned index) {
    Piece piece;
    piece.bytes = 0;
    UNROLL
    for (int p = 0; p < N_PLANES; p++) {
        piece.spans[p] = PLANES >> p & 1 ? span_of(w, size, p, row, index) : Span{NULL, 0, 0};
        piece.bytes += piece.spans[p].bytes;
    }
    return piece;
}

template <DType D> DEVICE_FUNCTION constexpr unsigned planes_of() {
    constexpr Layout L = layout_of(D);
    return 1u | (L.high_bits ? 2u : 0u) | (L.low_bits ? 4u : 0u) | (L.k ? 8u : 0u);
}

// A place in the ring: of piece `number`, counted from the first.
struct RingPlace {
    unsigned at, number;

    // Moves to where a piece of so many bytes begins: returns the bytes left free before it.
    __device__ __forceinline__ unsigned skip(unsigned bytes, unsigned size) {
        if (at + bytes <= size) return 0;
        unsigned skipped = size - at;
        at = 0;
        return skipped;
    }
};

// PLANES: those of all weights that come through it.
template <unsigned PLANES> struct Ring {
    uint8_t *memory;
    CopyBarrier *barriers;
    unsigned size, most; // bytes; of a piece at most
    // What is asked for next.
    int step;
    RowWalk walk;
    unsigned index; // of its piece
    RingPlace put, got;
    unsigned taken; // bytes from `got` to `put`

    __device__ __forceinline__ void begin(uint8_t *bytes, CopyBarrier *own, const Chain &chain) {
        memory = bytes, barriers = own;
        size = chain.ring_bytes, most = chain.piece_bytes;
        step = -1, walk = RowWalk{0, 0, 0}, index = 0;
        put = got = RingPlace{0, 0}, taken = 0;
    }

    // Whether a row is left in the steps before `known`.
    __device__ __forceinline__ bool find_row(const Step *window, int known) {
        while (!walk.is_there()) {
            if (step + 1 >= known) return false;
            const Step &next = window[++step % WINDOW];
            if (next.kind == STEP_PROJECT)
                walk = first_rows(next.project.work, share_of_block(next.project.work));
        }
        return true;
    }

    // Asks for what there is room for. `known`: the steps before that one are in the window.
    __device__ __forceinline__ void fill(const Step *window, int known) {
        // First whether any piece is sure to fit: mostly none does.
        while (taken + most <= size && put.number - got.number < PIECES &&
               find_row(window, known)) {
            const ProjectStep &next = window[step % WINDOW].project;
            const Planes &w = next.work.weights[walk.p];
            const PieceSize &sizes = next.pieces[walk.p];
            const Piece asked = piece_of<PLANES>(w, sizes, walk.row(next.work), index);
            RingPlace place = put;
            unsigned cost = place.skip(asked.bytes, size) + asked.bytes;
            if (taken + cost > size) return;
            copy(asked, place);
            put = RingPlace{place.at + asked.bytes, place.number + 1};
            taken += cost;
            if (++index * sizes.columns < w.cols) continue;
            index = 0;
            walk.next(next.work);
        }
    }

    __device__ __forceinline__ void copy(const Piece &asked, const RingPlace &place) {
        if (threadIdx.x % WARP) return;
        CopyBarrier *barrier = barriers + place.number % PIECES;
        uint8_t *to = memory + place.at;
        copies_expected(barrier, asked.bytes);
        UNROLL
        for (int p = 0; p < N_PLANES; p++) {
            if (PLANES >> p & 1 && asked.spans[p].bytes)
                copy_bulk(to, asked.spans[p].from, asked.spans[p].bytes, barrier);
            to += asked.spans[p].bytes;
        }
    }

    // Waits for the piece that was asked for first: a matrix of one row, of which its bytes are
    // the beginning. It is there until `give_back`.
    __device__ __forceinline__ Planes take(const Planes &w, const Piece &piece) {
        RingPlace place = got;
        place.skip(piece.bytes, size);
        const uint8_t *at = memory + place.at;
        Planes row = w;
        row.low = at + piece.spans[0].before, at += piece.spans[0].bytes;
        row.high = at + piece.spans[1].before, at += piece.spans[1].bytes;
        row.scales = at + piece.spans[2].before, at += piece.spans[2].bytes;
        row.supers = at + piece.spans[3].before;
        wait_for_bulk(barriers + place.number % PIECES, place.number / PIECES & 1);
        return row;
    }

    // No lane reads the piece any more.
    __device__ __forceinline__ void give_back(const Piece &piece) {
        __syncwarp();
        unsigned cost = got.skip(piece.bytes, size) + piece.bytes;
        got = RingPlace{got.at + piece.bytes, got.number + 1};
        taken -= cost;
    }
};
