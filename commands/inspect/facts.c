// Facts of a model file as names and values, in the order in which they are read.
#include "commands/inspect/inspect.h"

#include "kernels/precision.h"
#include "model/cost.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

const char *norm_name(NormKind kind) {
    return kind == NORM_RMS ? "rms" : "layer";
}

const char *qk_norm_name(const Config *c) {
    if (c->qk_norm == QK_NORM_NONE) return "none";
    if (c->qk_norm == QK_NORM_FULL_WIDTH) return "full width, before rope";
    return c->qk_norm_after_rope ? "per head, after rope" : "per head, before rope";
}

// In the order of Activation.
const char *activation_name(Activation activation) {
    static const char *const NAMES[] = {"silu", "gelu (tanh)", "gelu (erf)", "relu^2"};
    return NAMES[activation];
}

// In the order of RopeScaling.
const char *scaling_name(RopeScaling scaling) {
    static const char *const NAMES[] = {"plain", "linear",      "llama3",
                                        "yarn",  "dynamic ntk", "longrope"};
    return NAMES[scaling];
}

int largest_window(const Config *c) {
    int window = 0;
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].window > window) window = c->layers[l].window;
    return window;
}

bool scale_by_layer(const Config *c) {
    for (int l = 1; l < c->n_layers; l++)
        if (c->layers[l].attention_scale != c->layers[0].attention_scale) return true;
    return false;
}

const ChatTemplate *known_template(const Session *s) {
    return chat_format(s->checkpoint, s->tokenizer);
}

LayerCounts count_layers(const Config *c) {
    LayerCounts counts = {0};
    for (int l = 0; l < c->n_layers; l++) {
        counts.windowed += c->layers[l].window > 0;
        counts.local_rope += c->layers[l].local_rope;
        counts.rope_less += c->layers[l].no_rope;
    }
    return counts;
}

bool head_is_tied(const Session *s) {
    const Weights *w = checkpoint_weights(s->checkpoint);
    return w->head.data == w->token_embedding.data;
}

// ---- totals ----

Totals inspect_totals(const Session *s) {
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    Totals totals = {.tensors = count};
    for (size_t i = 0; i < count; i++) {
        totals.parameters += plan_elements(&tensors[i]);
        totals.bytes += tensors[i].bytes;
    }
    return totals;
}

void totals_text(Buffer *out, const Session *s) {
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    Totals totals = inspect_totals(s);
    buffer_print(out, "%zu tensors, %" PRIu64 " parameters, %" PRIu64 " bytes", count,
                 totals.parameters, totals.bytes);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        uint64_t of_type = 0;
        for (size_t i = 0; i < count; i++)
            if (tensors[i].dtype == (DType)type) of_type += tensors[i].bytes;
        if (of_type)
            buffer_print(out, "; %s %.1f %%", dtype_info((DType)type)->name,
                         100.0 * (double)of_type / (double)totals.bytes);
    }
}

// ---- facts ----

// Begins a row, whose value is what is appended to the text until fact_end.
static void fact_begin(Facts *f, const char *name) {
    f->rows[f->count].name = name;
    f->rows[f->count].begin = f->text.size;
}

static void fact_end(Facts *f) {
    f->rows[f->count].length = f->text.size - f->rows[f->count].begin;
    f->count++;
}

// In the short form the row just added may be put behind the one before it.
static void fact_joins(Facts *f) {
    f->rows[f->count - 1].joins = true;
}

// A row of a formatted value: buffer_print with its arguments.
#define FACT(facts, name, ...)                                                                     \
    do {                                                                                           \
        fact_begin(facts, name);                                                                   \
        buffer_print(&(facts)->text, __VA_ARGS__);                                                 \
        fact_end(facts);                                                                           \
    } while (0)

static void add_bytes(Facts *f, const char *name, const char *text, size_t length) {
    fact_begin(f, name);
    buffer_put(&f->text, text, length);
    fact_end(f);
}

// The authors' texts: the license, which most files have and is short in most, or all others.
static void add_about(Facts *f, const Session *s, bool license) {
    for (int i = 0; i < ABOUT_KEYS; i++) {
        TextSpan text = checkpoint_about(s->checkpoint)[i];
        if (!text.length || license != !strcmp(ABOUT_NAMES[i], "license")) continue;
        add_bytes(f, ABOUT_NAMES[i], text.text, text.length);
        f->rows[f->count - 1].is_text = true;
        f->rows[f->count - 1].joins = license;
    }
}

static void add_file(Facts *f, const Session *s) {
    const Config *c = s->config;
    const char *path = checkpoint_path(s->checkpoint);
    add_bytes(f, "file", path, strlen(path));
    FACT(f, "container", "%s, %" PRIu64 " bytes", checkpoint_container_name(s->checkpoint),
         checkpoint_file_bytes(s->checkpoint));
    FACT(f, "family", c->name[0] ? "%s (%s)" : "%s", c->family, c->name);
    add_about(f, s, true);
    add_about(f, s, false);
}

static void add_positions(Facts *f, const Config *c) {
    LayerCounts counts = count_layers(c);
    if (c->position == POSITION_LEARNED) {
        FACT(f, "positions", "learned");
        return;
    }
    fact_begin(f, "rope");
    buffer_print(&f->text, "theta %g, %d of %d channels", (double)c->rope.theta, c->rope_dim,
                 c->head_dim);
    if (c->rope.scaling != ROPE_PLAIN)
        buffer_print(&f->text, ", scaling %s", scaling_name(c->rope.scaling));
    if (c->rope.scaling == ROPE_YARN)
        buffer_print(&f->text, ", %g times %d positions", (double)c->rope.factor,
                     c->rope.original_max_seq_len);
    if (counts.local_rope)
        buffer_print(&f->text, "; theta %g in %d of %d layers", (double)c->rope_local.theta,
                     counts.local_rope, c->n_layers);
    if (counts.rope_less)
        buffer_print(&f->text, "; none in %d of %d layers", counts.rope_less, c->n_layers);
    fact_end(f);
}

// What is multiplied, divided or bent beside norms and activations.
static void add_scales(Facts *f, const Config *c) {
    double scale = (double)c->layers[0].attention_scale;
    int first = f->count;
    if (c->embedding_scale != 1.0f) FACT(f, "embedding", "times %g", (double)c->embedding_scale);
    if (scale_by_layer(c))
        FACT(f, "scores", "times %g in layer 0 to %g in layer %d", scale,
             (double)c->layers[c->n_layers - 1].attention_scale, c->n_layers - 1);
    else if (fabs(scale * sqrt(c->head_dim) - 1.0) > 1e-6)
        FACT(f, "scores", "times %g", scale);
    if (c->parallel_residual) FACT(f, "residual", "both blocks read the same input");
    if (c->residual_scale != 1.0f)
        FACT(f, "residual", "blocks add %g times their output", (double)c->residual_scale);
    if (c->rope.query_growth != 0.0f)
        FACT(f, "queries", "times 1 + %g ln(1 + floor(position / %d))",
             (double)c->rope.query_growth, c->rope.original_max_seq_len);
    if (c->score_softcap != 0.0f) FACT(f, "score cap", "%g", (double)c->score_softcap);
    if (c->logit_divisor != 1.0f) FACT(f, "logits", "divided by %g", (double)c->logit_divisor);
    if (c->logit_softcap != 0.0f) FACT(f, "softcap", "%g", (double)c->logit_softcap);
    for (int i = first + 1; i < f->count; i++)
        f->rows[i].joins = true;
}

static void add_config(Facts *f, const Session *s) {
    const Config *c = s->config;
    KvType type = (KvType)s->options->kv;
    FACT(f, "layers", "%d of dim %d, hidden %d", c->n_layers, c->dim, c->hidden_dim);
    FACT(f, "heads", "%d of %d channels, %d for keys and values: %.0f bytes a token (%s)",
         c->n_heads, c->head_dim, c->n_kv_heads, kv_needed_bytes(c, NULL, 1, type), kv_name(type));
    FACT(f, "vocabulary", "%d, head %s", c->vocab_size,
         head_is_tied(s) ? "tied to the embedding" : "of its own");
    if (largest_window(c))
        FACT(f, "context", "%d, window %d in %d of %d layers", c->max_seq_len, largest_window(c),
             count_layers(c).windowed, c->n_layers);
    else
        FACT(f, "context", "%d", c->max_seq_len);
    FACT(f, "norm", "%s, eps %g; QK norm %s", norm_name(c->norm), (double)c->norm_eps,
         qk_norm_name(c));
    FACT(f, "activation", "%s%s", activation_name(c->activation), c->gated_ffn ? ", gated" : "");
    fact_joins(f);
    add_positions(f, c);
    add_scales(f, c);
}

// ---- memory ----

static double peak(const Session *s, int context, Error *error) {
    const Options *o = s->options;
    ModelOptions options = {.threads = o->threads.values[0],
                            .precision = (Precision)o->precision,
                            .kv_type = (KvType)o->kv,
                            .context = context};
    Model *planned = model_plan(s->config, checkpoint_weights(s->checkpoint), &options, error);
    double bytes = 0;
    // A device that cannot be used is no failure, threads that could not be made are.
    const Error *failure = planned ? device_error(planned->device) : NULL;
    if (failure && failure->code == ERROR_MEMORY) {
        error_copy(error, failure);
    } else if (planned) {
        ModelMemory memory = model_memory(planned, &options);
        bytes = model_memory_peak(&memory);
    }
    model_close(planned);
    return bytes;
}

static MemoryFigures find_memory(const Session *s, Error *error) {
    enum { SHORT = 2048 };
    int most = s->config->max_seq_len;
    MemoryFigures m = {.context = most, .short_context = most < SHORT ? most : SHORT};
    m.kv_bytes_per_token = kv_needed_bytes(s->config, NULL, 1, (KvType)s->options->kv);
    m.short_peak = peak(s, m.short_context, error);
    m.peak = most > SHORT ? peak(s, most, error) : m.short_peak;
    m.known = m.short_peak > 0 && m.peak > 0;
    return m;
}

static void add_memory(Facts *f, const Session *s) {
    Error problem = {0};
    MemoryFigures m = f->memory = find_memory(s, &problem);
    if (problem.code == ERROR_MEMORY) f->text.failed = true;
    if (!m.known) {
        FACT(f, "memory", "%s", problem.message);
        return;
    }
    fact_begin(f, "memory");
    buffer_print(&f->text, "%.1f MB for %d tokens", m.short_peak / 1e6, m.short_context);
    if (m.context > m.short_context)
        buffer_print(&f->text, ", %.1f MB for %d", m.peak / 1e6, m.context);
    fact_end(f);
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (machine > 0 && m.peak > machine)
        FACT(f, "warning", "%d tokens need %.1f GB, this machine has %.1f GB of memory", m.context,
             m.peak / 1e9, machine / 1e9);
}

// ---- warnings ----

// llama.cpp computes YaRN's factor of cos and sin, and leaves out the one that config.json gives
// (in a GGUF yarn_attn_factor).
static void add_yarn_note(Facts *f, const RopeConfig *rope) {
    // Of Ministral 3 a GGUF has the quotient in a key of its own.
    if (rope->scaling != ROPE_YARN || rope->query_growth != 0.0f) return;
    RopeConfig paper = *rope;
    paper.attention_factor = paper.mscale = 0.0f;
    double magnitude = rope_magnitude(rope), plain = rope_magnitude(&paper);
    if (fabs(magnitude - plain) < 1e-6) return;
    FACT(f, "note",
         "cos and sin times %g, as in transformers; llama.cpp multiplies by another factor than "
         "%g only where a GGUF has rope.scaling.attn_factor",
         magnitude, plain);
}

static void add_warnings(Facts *f, const Session *s) {
    const Config *c = s->config;
    size_t unused = checkpoint_unused(s->checkpoint);
    if (c->window_dropped)
        FACT(f, "warning", "the container cannot say whether the model has a window");
    if (c->parallel_residual && c->activation == ACTIVATION_GELU_ERF)
        FACT(f, "note", "llama.cpp has the tanh form of GELU here; this is transformers' erf");
    add_yarn_note(f, &c->rope);
    if (session_guesses_split(s))
        FACT(f, "warning",
             "the file does not say how text is split (tokenizer.ggml.pre): llama.cpp's default is "
             "used; a newer conversion says it");
    if (unused)
        FACT(f, "warning", "%zu tensors are not used, the first is %s", unused,
             checkpoint_unused_name(s->checkpoint, 0));
    if (s->tokenizer && tokenizer_size(s->tokenizer) < c->vocab_size)
        FACT(f, "warning", "the tokenizer has %d tokens, the model %d: the others have no text",
             tokenizer_size(s->tokenizer), c->vocab_size);
}

static void add_tokenizer(Facts *f, const Session *s) {
    if (!s->tokenizer) {
        FACT(f, "tokenizer", "none: %s", s->file->no_tokenizer.message);
        return;
    }
    const ChatTemplate *t = known_template(s);
    const char *adds = tokenizer_adds_bos(s->tokenizer) ? " (added)" : "";
    if (tokenizer_bos(s->tokenizer) < 0)
        FACT(f, "tokenizer", "%s, BOS none%s", tokenizer_description(s->tokenizer), adds);
    else
        FACT(f, "tokenizer", "%s, BOS %d%s", tokenizer_description(s->tokenizer),
             tokenizer_bos(s->tokenizer), adds);
    fact_begin(f, "ends at");
    for (size_t i = 0; i < s->file->n_stops; i++)
        buffer_print(&f->text, "%s%" PRId32, i ? " " : "", s->file->stops[i]);
    fact_end(f);
    fact_joins(f);
    bool has_text = checkpoint_vocabulary(s->checkpoint)->chat_template.length;
    FACT(f, "template", "%s%s",
         t          ? chat_template_name(t)
         : has_text ? "not known"
                    : "none",
         t && !has_text ? " (by its tokens; the file has none)" : "");
    fact_joins(f);
}

void facts_collect(Facts *f, const Session *s) {
    _Static_assert(ABOUT_KEYS + 20 <= FACTS_MOST, "raise it");
    add_file(f, s);
    add_config(f, s);
    add_tokenizer(f, s);
    add_memory(f, s);
    add_warnings(f, s);
}
