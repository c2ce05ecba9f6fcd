// Options: the command line, parsed once by one table of options.
//
// Numbers are decimal and independent of the locale (the program never calls setlocale). A value
// that is malformed or out of range is refused, with what the option wants: exit code 2.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_MAX_LIST = 32, OPTIONS_MAX_STOPS = 16 };

// Which commands an option belongs to; a command is one bit.
typedef enum CommandBit {
    FOR_GENERATE = 1,
    FOR_CHAT = 2,
    FOR_BENCH = 4,
    FOR_PERPLEXITY = 8,
    FOR_TOKENIZE = 16,
    FOR_INSPECT = 32,
    FOR_TRACE = 64,
    FOR_DIFF = 128,
    FOR_CONVERT = 256,
    FOR_SELFTEST = 4096,
    FOR_ATTENTION = 8192,
    FOR_COST = 16384,
    FOR_LENS = 32768,
    FOR_MASK = 65536,
    FOR_REPLAY = 131072,
    FOR_VIEW = 262144,
    FOR_MERGE = 524288,
} CommandBit;

typedef enum OptionId {
    OPTION_PROMPT,
    OPTION_FILE,
    OPTION_MODEL,
    OPTION_KEEP_NEWLINE,
    OPTION_PROMPT_IDS,
    OPTION_TEMPERATURE, // to OPTION_SEED: of the sampler
    OPTION_TOP_P,
    OPTION_TOP_K,
    OPTION_MIN_P,
    OPTION_TYPICAL_P,
    OPTION_REPEAT_PENALTY,
    OPTION_PRESENCE_PENALTY,
    OPTION_FREQUENCY_PENALTY,
    OPTION_REPEAT_LAST,
    OPTION_XTC_PROBABILITY,
    OPTION_XTC_THRESHOLD,
    OPTION_DRY_MULTIPLIER,
    OPTION_DRY_BASE,
    OPTION_DRY_ALLOWED_LENGTH,
    OPTION_DRY_LAST,
    OPTION_MIROSTAT,
    OPTION_MIROSTAT_LR,
    OPTION_MIROSTAT_ENT,
    OPTION_SEED,
    OPTION_LOGIT_BIAS,
    OPTION_DRY_BREAKERS,
    OPTION_STEPS,
    OPTION_MAX_TOKENS,
    OPTION_STOP,
    OPTION_GRAMMAR,
    OPTION_JSON_SCHEMA,
    OPTION_IGNORE_EOS,
    OPTION_MODE,
    OPTION_SYSTEM,
    OPTION_TEMPLATE,
    OPTION_TOKENIZER,
    OPTION_THREADS,
    OPTION_CONTEXT,
    OPTION_KV,
    OPTION_PRECISION,
    OPTION_NO_CACHE,
    OPTION_LOGPROBS,
    OPTION_IDS,
    OPTION_IDS_FILE,
    OPTION_SPECIAL,
    OPTION_WINDOW,
    OPTION_STRIDE,
    OPTION_WINDOWS,
    OPTION_SECOND_HALF,
    OPTION_SAVE_LOGITS,
    OPTION_KL,
    OPTION_LINES,
    OPTION_PIECES,
    OPTION_BOS,
    OPTION_DECODE,
    OPTION_PROMPT_LENGTHS,
    OPTION_GEN,
    OPTION_DEPTHS,
    OPTION_BATCHES,
    OPTION_REPETITIONS,
    OPTION_ONLY,
    OPTION_NO_LIMITS,
    OPTION_ALL_LOGITS,
    OPTION_OUT,
    OPTION_ONLY_NAMES,
    OPTION_NEW_TOKENS,
    OPTION_ATTENTION,
    OPTION_PROJECTIONS,
    OPTION_BUDGET,
    OPTION_ALL,
    OPTION_LAYER,
    OPTION_HEAD,
    OPTION_GRID,
    OPTION_MEAN,
    OPTION_ROLLOUT,
    OPTION_STAGE,
    OPTION_ENTROPY,
    OPTION_EXPLAIN,
    OPTION_ROPE,
    OPTION_SVG,
    OPTION_PNG,
    OPTION_HTML,
    OPTION_POSITION,
    OPTION_TOP,
    OPTION_ATTRIBUTE,
    OPTION_TOKEN,
    OPTION_PATTERN,
    OPTION_PATTERNS,
    OPTION_ABLATE,
    OPTION_ABLATE_TO,
    OPTION_ABLATE_EACH,
    OPTION_PATCH,
    OPTION_STEER,
    OPTION_MASK_SEQ,
    OPTION_LAYERS,
    OPTION_BIDIRECTIONAL,
    OPTION_TYPE,
    OPTION_HEAD_TYPE,
    OPTION_TENSOR_TYPE,
    OPTION_IMPORTANCE,
    OPTION_CHECK,
    OPTION_BIN,
    OPTION_SEQ,
    OPTION_COST_BATCH,
    OPTION_COST_TYPE,
    OPTION_MACHINE,
    OPTION_RIDGE,
    OPTION_INTENSITY,
    OPTION_SAVINGS,
    OPTION_SWEEP,
    OPTION_MAX_MEMORY,
    OPTION_MEASURE,
    OPTION_RECORD,
    OPTION_PROMPTS,
    OPTION_PARALLEL,
    OPTION_RESUME,
    OPTION_SHARD,
    OPTION_SPECULATE,
    OPTION_DRAFT,
    OPTION_DRAFT_TOKENS,
    OPTION_OTHER_MODEL,
    OPTION_ANY_MODEL,
    OPTION_PROMPT_ROWS,
    OPTION_AT,
    OPTION_NEW_TOKEN,
    OPTION_NO_HISTORY,
    OPTION_OVERFLOW,
    OPTION_TRANSCRIPT,
    OPTION_CACHE,
    OPTION_SESSION,
    OPTION_CACHE_READ_ONLY,
    OPTION_FORCE,
    OPTION_NO_SANDBOX,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_MARKDOWN,
    OPTION_GOLDEN,
    OPTION_COLOR,
    OPTION_TEXT_COLOR,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_HELP,
    OPTION_RANKS,
    OPTION_LAYERS_PER_RANK,
    OPTION_COUNT
} OptionId;

typedef struct IntegerList {
    int values[OPTIONS_MAX_LIST];
    int count;
} IntegerList;

typedef struct TextList { // borrowed from argv
    const char *texts[OPTIONS_MAX_STOPS];
    int count;
} TextList;

typedef enum Mode { MODE_GENERATE, MODE_CHAT } Mode;
typedef enum Color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER, COLOR_SURPRISE } Color;
// What happens where the context is full: the text ends; its oldest tokens leave, and the others
// are read again; or from the beginning no token sees more than the first few and the newest.
typedef enum Overflow { OVERFLOW_STOP, OVERFLOW_SHIFT, OVERFLOW_SINKS } Overflow;
typedef enum BenchOnly { BENCH_PREFILL, BENCH_DECODE, BENCH_BOTH } BenchOnly;

// Every field has its default; `given` says which options were on the command line. Texts are
// borrowed from argv.
typedef struct Options {
    bool given[OPTION_COUNT];
    const char *model; // "builtin" if none is given; diff, convert, mask, replay: NULL
    const char *other; // diff, view: the second file; convert: the output

    const char *prompt, *file, *prompt_ids, *ids_file, *tokenizer, *system, *chat_template;
    const char *grammar, *json_schema; // files
    TextList stops;
    double temperature, top_p, min_p, typical_p;
    double repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last;
    double xtc_probability, xtc_threshold, dry_multiplier, dry_base, mirostat_lr, mirostat_ent;
    int64_t dry_allowed_length, dry_last;
    int mirostat; // 0: off, 1: mirostat 2
    TextList logit_biases, dry_breakers;
    uint64_t seed;
    int64_t steps, max_tokens, context, logprobs;
    int mode, kv, precision, color; // Mode, KvType, Precision, Color
    bool ignore_eos, no_cache, ids, special, keep_newline, json, csv, markdown, golden, quiet,
        verbose, help;

    IntegerList threads; // bench: several
    int64_t window, stride, windows;
    const char *save_logits, *kl;
    bool second_half;
    bool lines, pieces, bos, decode;
    IntegerList prompt_lengths, depths, batches;
    int64_t gen, repetitions;
    int only; // BenchOnly
    bool no_limits, projections, all_logits;

    const char *out, *budget;
    TextList only_names;
    int64_t new_tokens;
    bool attention, all;

    int64_t layer, head;
    int grid, stage; // attention: heads or layers; AttentionStage
    bool mean, rollout, entropy, rope;
    int64_t explain; // a position; below 0 from the end
    const char *svg, *png;
    const char *html; // inspect

    int64_t seq, batch; // cost
    int machine;        // cost: MachineKind
    double ridge;       // FLOP per byte
    bool intensity, savings, sweep, measure;
    const char *max_memory;
    int64_t ranks;               // cost: 0: not asked for
    IntegerList layers_per_rank; // of each process that has a part of the model

    int64_t position, top, token; // lens; attention --explain: top
    bool attribute;
    const char *pattern, *patterns; // mask: the pattern is the first word
    const char *ablate;
    int ablate_to; // 0: zero, 1: mean
    bool ablate_each;
    TextList patches, steers;
    int64_t mask_seq; // attention --rope too
    bool bidirectional;
    const char *layers; // view

    bool no_history;                  // chat
    int overflow;                     // generate, chat: Overflow
    const char *transcript, *session; // chat
    const char *record, *cache;       // generate
    bool cache_read_only;
    const char *prompts, *shard; // generate
    int64_t parallel;
    bool resume;
    int speculate;                       // 0: off, 1: lookup
    const char *draft;                   // a model
    int64_t draft_tokens;                // 0: measured
    const char *other_model, *new_token; // replay
    int64_t prompt_rows, at;
    bool any_model;

    int type; // convert, cost, bench: an index of OPTION_DTYPES; convert: or behind them, a mix
    int head_type;                  // convert: an index of OPTION_DTYPES
    int64_t bin_version;            // convert: 0, 1, 2
    TextList tensor_types;          // convert: PATTERN=TYPE
    const char *importance, *check; // convert: files of text
    bool force;                     // replace files that are there
    bool no_sandbox;
} Options;

// Reads argv[1 ..] for one command. In the names of long options underscores become dashes, in
// argv too. Options of other programs that change nothing are noted on standard error. False: exit
// code 2.
bool options_parse(Options *options, CommandBit command, int argc, char **argv, Error *error);

// The types that --type names, in the order of its choices: OPTION_TYPES, "f32|f16|..". Behind them
// --type has q4_k_m and q5_k_m.
enum { N_OPTION_DTYPES = 13 };
extern const DType OPTION_DTYPES[N_OPTION_DTYPES];
extern const char OPTION_TYPES[];

// Whether any of these commands (CommandBit) has an option of this long name, `length` bytes.
bool option_is_of(const char *name, size_t length, int commands);

// The long name of the first of these `count` options that was given; NULL: none was.
const char *options_first_given(const Options *options, const OptionId *ids, size_t count);

static inline bool option_given(const Options *options, OptionId id) {
    return options->given[id];
}

// Parses a decimal integer or number. False unless the whole text is one.
bool parse_integer(int64_t *out, const char *text);
bool parse_unsigned(uint64_t *out, const char *text);
bool parse_number(double *out, const char *text);
// *out = the index of `text` in "f32|f16|bf16". False: it is none of them.
bool parse_choice(int *out, const char *choices, const char *text);

// Does `name` match one of --only's patterns (name_matches, base/text.h)? Without patterns every
// name does.
bool only_matches(const TextList *patterns, const char *name);
