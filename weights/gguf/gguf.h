// Shared by the files of the GGUF reader. Internal to weights/.
//
// Keys: one that begins with '.' is prefixed with the architecture (".block_count" is
// "llama.block_count"). A getter whose key is absent leaves *out as it is and returns true, unless
// `need` is true; a value of another type is an error that names both types.
#pragma once

#include "base/bytes.h"
#include "weights/container.h"

// Value types as the file numbers them.
typedef enum GgufType {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} GgufType;

typedef struct GgufValue {
    uint32_t type;
    uint32_t element;     // of an array
    uint64_t count;       // elements of an array, bytes of a string
    const uint8_t *bytes; // the number, the text, the first element (checked to be in the file)
    size_t size;          // of an array: all its bytes
} GgufValue;

typedef struct Gguf {
    Checkpoint *checkpoint;
    const char *architecture;
    GgufValue *values; // (keys.count)
    NameIndex keys;
} Gguf;

const char *gguf_type_name(uint32_t type); // "u32"; "?" for an unknown one
size_t gguf_type_size(uint32_t type);      // bytes of one element; 0: string, array, unknown

const GgufValue *gguf_find(const Gguf *gguf, const char *key); // NULL: absent
bool gguf_u32(const Gguf *gguf, const char *key, bool need, uint32_t *out, Error *error);
bool gguf_int(const Gguf *gguf, const char *key, bool need, int *out, Error *error);
bool gguf_f32(const Gguf *gguf, const char *key, bool need, float *out, Error *error);
bool gguf_bool(const Gguf *gguf, const char *key, bool *out, Error *error);
bool gguf_text(const Gguf *gguf, const char *key, bool need, TextSpan *out, Error *error);
// *out = NULL where it is absent.
bool gguf_array(const Gguf *gguf, const char *key, uint32_t element, const GgufValue **out,
                Error *error);
// A number that may also be an array with one entry per layer; all of them must be equal.
bool gguf_per_layer(const Gguf *gguf, const char *key, bool need, int n_layers, int *out,
                    Error *error);
// error_set with exit code 3 and the key in front. Returns false.
bool gguf_fail(const Gguf *gguf, const char *key, Error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Sampling defaults: float32, but for top_k, an int32. config.c
typedef struct GgufSampling {
    const char *key; // "general.sampling.temp"
    size_t offset;   // in GenerationDefaults
} GgufSampling;
enum { GGUF_SAMPLING_KEYS = 5 };
extern const GgufSampling GGUF_SAMPLING[GGUF_SAMPLING_KEYS];

// Vocabulary and special ids -> checkpoint->vocabulary. vocabulary.c
bool gguf_read_vocabulary(const Gguf *gguf, Error *error);
// Hyper-parameters -> checkpoint->config. After the plan and the vocabulary. config.c
bool gguf_read_config(const Gguf *gguf, Error *error);
// What an architecture implies or has keys of its own for: windows, local and missing rope, scales.
// Part of gguf_read_config, after the sizes and the rope. families.c
bool gguf_read_family(const Gguf *gguf, Error *error);

// How the mathematics of an architecture may be scaled: those keys are read and written, in others
// they are refused. Numbers are what counts where the key is absent; 0 where it has no such key.
typedef struct GgufScales {
    bool granite;               // embedding_scale, attention.scale, residual_scale, logit_scale
    bool rope_switch;           // rope.scaling.finetuned false: no rope
    bool query_growth;          // attention.temperature_scale, rope.scaling.yarn_log_multiplier
    bool parallel;              // use_parallel_residual
    float score_cap, logit_cap; // attn_logit_softcapping, final_logit_softcapping
} GgufScales;
GgufScales gguf_scales(const char *architecture); // families.c

// What an architecture does with windows.
typedef struct GgufWindows {
    int window;      // where no key gives it; 0: none
    bool pattern;    // a key may choose the layers; false: all have the window
    bool local_rope; // layers with a window have a set of frequencies of their own,
    bool theta_key;  // whose theta is a number of its own
} GgufWindows;

// What no key says, for reader and writer alike (families.c): the scale of the embedding and
// the layers without rope, into `config`, which has its sizes and windows; which layers have the
// window where no key chooses; what longrope multiplies cos and sin by.
void gguf_implied(const char *architecture, Config *config);
GgufWindows gguf_implied_windows(const char *architecture, int n_layers, bool *slides);
float gguf_longrope_factor(const RopeConfig *rope);
