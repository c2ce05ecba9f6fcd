// inspect: what is in a model file. Runs nothing: the container, the config and the tokenizer are
// read and checked as for a run, then printed as text or as JSON. The matrices are not read, so it
// is fast for a model of any size.
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "commands/shared/session.h"
#include "tokenizer/template/template.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The names in this file are part of the JSON output: scripts compare them.
static const char *norm_name(NormKind kind) {
    return kind == NORM_RMS ? "rms" : "layer";
}

static const char *qk_norm_name(const Config *c) {
    if (c->qk_norm == QK_NORM_NONE) return "none";
    if (c->qk_norm == QK_NORM_FULL_WIDTH) return "full width, before rope";
    return c->qk_norm_after_rope ? "per head, after rope" : "per head, before rope";
}

// In the order of Activation.
static const char *activation_name(Activation activation) {
    static const char *const NAMES[] = {"silu", "gelu (tanh)", "gelu (erf)", "relu^2"};
    return NAMES[activation];
}

// In the order of RopeScaling.
static const char *scaling_name(RopeScaling scaling) {
    static const char *const NAMES[] = {"plain", "linear",      "llama3",
                                        "yarn",  "dynamic ntk", "longrope"};
    return NAMES[scaling];
}

static int largest_window(const Config *c) {
    int window = 0;
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].window > window) window = c->layers[l].window;
    return window;
}

// NULL: no tokenizer, or no format that is known.
static const ChatTemplate *detect(const Session *s) {
    if (!s->tokenizer) return NULL;
    TextSpan text = checkpoint_vocabulary(s->checkpoint)->chat_template;
    return chat_template_detect(s->tokenizer, text, s->config->family);
}

// ---- text ----

// How many layers have a window, a RoPE table of their own, no RoPE.
typedef struct LayerCounts {
    int windowed, local_rope, rope_less;
} LayerCounts;

static LayerCounts count_layers(const Config *c) {
    LayerCounts counts = {0};
    for (int l = 0; l < c->n_layers; l++) {
        counts.windowed += c->layers[l].window > 0;
        counts.local_rope += c->layers[l].local_rope;
        counts.rope_less += c->layers[l].no_rope;
    }
    return counts;
}

static void print_positions(const Config *c) {
    LayerCounts counts = count_layers(c);
    if (c->position == POSITION_LEARNED) {
        output_print("positions    learned\n");
        return;
    }
    output_print("rope         theta %g, %d of %d channels, scaling %s", (double)c->rope.theta,
                 c->rope_dim, c->head_dim, scaling_name(c->rope.scaling));
    if (counts.local_rope)
        output_print("; theta %g in %d of %d layers", (double)c->rope_local.theta,
                     counts.local_rope, c->n_layers);
    if (counts.rope_less) output_print("; none in %d of %d layers", counts.rope_less, c->n_layers);
    output_print("\n");
}

static void print_config(const Config *c) {
    output_print("layers       %d\n", c->n_layers);
    output_print("dim          %d, hidden %d\n", c->dim, c->hidden_dim);
    output_print("heads        %d of %d channels, %d for keys and values\n", c->n_heads,
                 c->head_dim, c->n_kv_heads);
    output_print("vocabulary   %d\n", c->vocab_size);
    output_print("context      %d", c->max_seq_len);
    if (largest_window(c))
        output_print(", window %d in %d of %d layers", largest_window(c), count_layers(c).windowed,
                     c->n_layers);
    output_print("\nnorm         %s, eps %g; QK norm %s\n", norm_name(c->norm), (double)c->norm_eps,
                 qk_norm_name(c));
    output_print("activation   %s%s\n", activation_name(c->activation),
                 c->gated_ffn ? ", gated" : "");
    print_positions(c);
    if (c->logit_softcap != 0.0f) output_print("softcap      %g\n", (double)c->logit_softcap);
    if (c->window_dropped)
        output_print("note         the container cannot say whether the model has a window\n");
}

// In the order of the file. Names come from the file, so they are escaped.
static void print_tensors(const TensorPlan *tensors, size_t count) {
    output_print("\n%-44s %-8s %14s  %s\n", "tensor", "type", "bytes", "shape");
    for (size_t i = 0; i < count; i++) {
        const TensorPlan *t = &tensors[i];
        char name[160];
        output_print("%-44s %-8s %14" PRIu64 "  (",
                     escape_bytes(name, sizeof name, t->name, strlen(t->name)),
                     dtype_info(t->dtype)->name, t->bytes);
        for (uint32_t d = 0; d < t->n_dims; d++)
            output_print("%s%" PRIu64, d ? ", " : "", t->shape[d]);
        output_print(")\n");
    }
}

// The share of each type is by bytes: what it costs to store and to read.
static void print_totals(const TensorPlan *tensors, size_t count) {
    uint64_t parameters = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        parameters += plan_elements(&tensors[i]);
        bytes += tensors[i].bytes;
    }
    output_print("\n%zu tensors, %" PRIu64 " parameters, %" PRIu64 " bytes", count, parameters,
                 bytes);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        uint64_t of_type = 0;
        for (size_t i = 0; i < count; i++)
            if (tensors[i].dtype == (DType)type) of_type += tensors[i].bytes;
        if (of_type)
            output_print("; %s %.1f %%", dtype_info((DType)type)->name,
                         100.0 * (double)of_type / (double)bytes);
    }
    output_print("\n");
}

// The text of the template only with -v: it may be thousands of lines.
static void print_tokenizer(const Session *s) {
    if (!s->tokenizer) {
        output_print("tokenizer    none: %s\n", s->tokenizer_problem);
        return;
    }
    const ChatTemplate *t = detect(s);
    output_print("tokenizer    %s, BOS ", tokenizer_description(s->tokenizer));
    output_print(tokenizer_bos(s->tokenizer) < 0 ? "none" : "%d", tokenizer_bos(s->tokenizer));
    output_print(tokenizer_adds_bos(s->tokenizer) ? " (added)\n" : "\n");
    output_print("ends at     ");
    for (size_t i = 0; i < s->n_stops; i++)
        output_print(" %" PRId32, s->stops[i]);
    output_print("\ntemplate     %s\n", t ? chat_template_name(t) : "none");
    TextSpan text = checkpoint_vocabulary(s->checkpoint)->chat_template;
    if (!s->options->verbose || !text.length) return;
    output_print("\n");
    output_text(text.text, text.length);
    output_print("\n");
}

// The authors' texts (name, license ...), line by line, escaped for a terminal.
static void print_about(const Session *s) {
    for (int i = 0; i < ABOUT_KEYS; i++) {
        TextSpan text = checkpoint_about(s->checkpoint)[i];
        for (size_t begin = 0, end; begin < text.length; begin = end + 1) {
            char escaped[512];
            const char *line = text.text + begin, *stop = memchr(line, '\n', text.length - begin);
            end = stop ? (size_t)(stop - text.text) : text.length;
            output_print("%-12s %s\n", begin ? "" : ABOUT_NAMES[i],
                         escape_bytes(escaped, sizeof escaped, line, end - begin));
        }
    }
}

static void print_text(const Session *s) {
    char escaped[256];
    const Config *c = s->config;
    const char *path = checkpoint_path(s->checkpoint);
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    output_print("file         %s\n", escape_bytes(escaped, sizeof escaped, path, strlen(path)));
    output_print("container    %s, %" PRIu64 " bytes\n", checkpoint_container_name(s->checkpoint),
                 checkpoint_file_bytes(s->checkpoint));
    output_print("family       %s", c->family);
    output_print(c->name[0] ? " (%s)\n" : "\n", c->name);
    print_about(s);
    print_config(c);
    print_tokenizer(s);
    print_tensors(tensors, count);
    print_totals(tensors, count);
}

// ---- JSON ----

static void write_config(JsonWriter *w, const Config *c) {
    LayerCounts counts = count_layers(c);
    writer_begin(w, "config", '{');
    writer_integer(w, "dim", c->dim);
    writer_integer(w, "hidden_dim", c->hidden_dim);
    writer_integer(w, "n_layers", c->n_layers);
    writer_integer(w, "n_heads", c->n_heads);
    writer_integer(w, "n_kv_heads", c->n_kv_heads);
    writer_integer(w, "head_dim", c->head_dim);
    writer_integer(w, "vocab_size", c->vocab_size);
    writer_integer(w, "max_seq_len", c->max_seq_len);
    writer_integer(w, "window", largest_window(c));
    writer_integer(w, "windowed_layers", counts.windowed);
    writer_string(w, "norm", norm_name(c->norm));
    writer_number(w, "norm_eps", (double)c->norm_eps);
    writer_string(w, "qk_norm", qk_norm_name(c));
    writer_string(w, "activation", activation_name(c->activation));
    writer_bool(w, "gated_ffn", c->gated_ffn);
    writer_string(w, "position", c->position == POSITION_LEARNED ? "learned" : "rope");
    writer_number(w, "rope_theta", (double)c->rope.theta);
    writer_integer(w, "rope_dim", c->rope_dim);
    writer_string(w, "rope_scaling", scaling_name(c->rope.scaling));
    writer_integer(w, "rope_less_layers", counts.rope_less);
    if (counts.local_rope) writer_number(w, "rope_theta_local", (double)c->rope_local.theta);
    writer_number(w, "embedding_scale", (double)c->embedding_scale);
    writer_number(w, "logit_softcap", (double)c->logit_softcap);
    writer_integer(w, "bos_id", c->bos_id);
    writer_begin(w, "eos_ids", '[');
    for (int i = 0; i < c->n_eos_ids; i++)
        writer_integer(w, NULL, c->eos_ids[i]);
    writer_end(w, ']');
    writer_end(w, '}');
}

static void write_tokenizer(JsonWriter *w, const Session *s) {
    if (!s->tokenizer) {
        writer_string(w, "tokenizer", NULL);
        return;
    }
    writer_begin(w, "tokenizer", '{');
    writer_string(w, "description", tokenizer_description(s->tokenizer));
    writer_integer(w, "size", tokenizer_size(s->tokenizer));
    writer_integer(w, "bos_id", tokenizer_bos(s->tokenizer));
    writer_bool(w, "adds_bos", tokenizer_adds_bos(s->tokenizer));
    writer_ids(w, "stop_ids", s->stops, s->n_stops);
    writer_end(w, '}');
}

// `offset`: of the tensor's data, in bytes from the beginning of its file.
static void write_tensors(JsonWriter *w, const TensorPlan *tensors, size_t count) {
    uint64_t parameters = 0, bytes = 0;
    writer_begin(w, "tensors", '[');
    for (size_t i = 0; i < count; i++) {
        const TensorPlan *t = &tensors[i];
        parameters += plan_elements(t);
        bytes += t->bytes;
        writer_begin(w, NULL, '{');
        writer_string(w, "name", t->name);
        writer_string(w, "dtype", dtype_info(t->dtype)->name);
        writer_begin(w, "shape", '[');
        for (uint32_t d = 0; d < t->n_dims; d++)
            writer_integer(w, NULL, (int64_t)t->shape[d]);
        writer_end(w, ']');
        writer_integer(w, "bytes", (int64_t)t->bytes);
        writer_integer(w, "offset", (int64_t)t->offset);
        writer_end(w, '}');
    }
    writer_end(w, ']');
    writer_begin(w, "totals", '{');
    writer_integer(w, "tensors", (int64_t)count);
    writer_integer(w, "parameters", (int64_t)parameters);
    writer_integer(w, "bytes", (int64_t)bytes);
    writer_end(w, '}');
}

static void print_json(const Session *s) {
    JsonWriter w = {0};
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    const ChatTemplate *t = detect(s);
    writer_begin(&w, NULL, '{');
    writer_string(&w, "file", checkpoint_path(s->checkpoint));
    writer_string(&w, "container", checkpoint_container_name(s->checkpoint));
    writer_integer(&w, "file_bytes", (int64_t)checkpoint_file_bytes(s->checkpoint));
    writer_string(&w, "family", s->config->family);
    writer_string(&w, "name", s->config->name);
    for (int i = 0; i < ABOUT_KEYS; i++) {
        TextSpan text = checkpoint_about(s->checkpoint)[i];
        if (text.length) writer_text(&w, ABOUT_NAMES[i], text.text, text.length);
    }
    write_config(&w, s->config);
    write_tokenizer(&w, s);
    writer_string(&w, "template", t ? chat_template_name(t) : NULL);
    write_tensors(&w, tensors, count);
    writer_begin(&w, "unused", '[');
    for (size_t i = 0; i < checkpoint_unused(s->checkpoint); i++)
        writer_string(&w, NULL, checkpoint_unused_name(s->checkpoint, i));
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

bool inspect_command(const Options *options, Error *error) {
    Session s = {0};
    bool good = session_open(&s, options, error);
    if (good && options->json)
        print_json(&s);
    else if (good)
        print_text(&s);
    session_close(&s);
    return good;
}
