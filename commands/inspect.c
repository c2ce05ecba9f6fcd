// inspect: what is in a model file. Runs nothing: the container, the config and the tokenizer are
// read and checked as for a run, then printed as text or as JSON, or written as a page. The
// matrices are not read, so it is fast for a model of any size.
#include "commands/inspect/inspect.h"
#include "commands/commands.h"
#include "commands/shared/inputs.h"
#include "commands/shared/output.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// ---- text ----

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the report");
}

// The text of the template only with -v: it may be thousands of lines.
static void print_template(const Session *s) {
    TextSpan text = checkpoint_vocabulary(s->checkpoint)->chat_template;
    if (!s->tokenizer || !s->options->verbose || !text.length) return;
    output_print("\n");
    output_text(text.text, text.length);
    output_print("\n");
}

static bool print_text(const Session *s, const Facts *facts, Error *error) {
    // A terminal of 24 lines less those of the prompt and the table's heading; rows of the table.
    enum { LINES = 21, FEWEST = 3 };
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    Buffer totals = {0};
    totals_text(&totals, s);
    buffer_put(&totals, "", 1);
    bool good = !totals.failed || no_memory(error);
    if (good) {
        int room = LINES - totals_print((const char *)totals.bytes, false);
        room -= facts_print(facts, s->options->all, room - FEWEST);
        print_template(s);
        if (room < FEWEST) room = FEWEST;
        good = inspect_print_tensors(tensors, count, s->options->all ? 0 : room, error);
    }
    if (good) totals_print((const char *)totals.bytes, true);
    buffer_free(&totals);
    return good;
}

// ---- JSON ----

static void write_positions(JsonWriter *w, const Config *c) {
    LayerCounts counts = count_layers(c);
    bool none = c->position == POSITION_ROPE && counts.rope_less == c->n_layers;
    writer_string(w, "position",
                  c->position == POSITION_LEARNED ? "learned"
                  : none                          ? "none"
                                                  : "rope");
    if (c->position == POSITION_LEARNED || none) return;
    writer_number(w, "rope_theta", (double)c->rope.theta);
    writer_integer(w, "rope_dim", c->rope_dim);
    writer_string(w, "rope_scaling", scaling_name(c->rope.scaling));
    if (c->rope.scaling != ROPE_PLAIN) {
        writer_number(w, "rope_factor", (double)c->rope.factor);
        writer_integer(w, "rope_original_max_seq_len", c->rope.original_max_seq_len);
        writer_number(w, "rope_magnitude", rope_magnitude(&c->rope));
    }
    writer_integer(w, "rope_less_layers", counts.rope_less);
    if (counts.local_rope) writer_number(w, "rope_theta_local", (double)c->rope_local.theta);
}

static void write_config(JsonWriter *w, const Session *s) {
    const Config *c = s->config;
    LayerCounts counts = count_layers(c);
    writer_begin(w, "config", '{');
    writer_integer(w, "dim", c->dim);
    writer_integer(w, "hidden_dim", c->hidden_dim);
    writer_integer(w, "n_layers", c->n_layers);
    writer_integer(w, "n_heads", c->n_heads);
    writer_integer(w, "n_kv_heads", c->n_kv_heads);
    writer_integer(w, "head_dim", c->head_dim);
    writer_integer(w, "vocab_size", c->vocab_size);
    writer_bool(w, "tied", head_is_tied(s));
    writer_integer(w, "max_seq_len", c->max_seq_len);
    writer_integer(w, "window", largest_window(c));
    writer_integer(w, "windowed_layers", counts.windowed);
    writer_string(w, "norm", norm_name(c->norm));
    writer_number(w, "norm_eps", (double)c->norm_eps);
    writer_string(w, "qk_norm", qk_norm_name(c));
    writer_string(w, "activation", activation_name(c->activation));
    writer_bool(w, "gated_ffn", c->gated_ffn);
    write_positions(w, c);
    writer_number(w, "embedding_scale", (double)c->embedding_scale);
    writer_number(w, "attention_scale", (double)c->layers[0].attention_scale);
    if (scale_by_layer(c)) {
        writer_begin(w, "attention_scales", '[');
        for (int l = 0; l < c->n_layers; l++)
            writer_number(w, NULL, (double)c->layers[l].attention_scale);
        writer_end(w, ']');
    }
    writer_number(w, "logit_softcap", (double)c->logit_softcap);
    writer_number(w, "logit_divisor", (double)c->logit_divisor);
    writer_number(w, "score_softcap", (double)c->score_softcap);
    writer_number(w, "residual_scale", (double)c->residual_scale);
    writer_bool(w, "parallel_residual", c->parallel_residual);
    if (c->rope.query_growth != 0.0f)
        writer_number(w, "query_growth", (double)c->rope.query_growth);
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
        writer_string(w, "no_tokenizer", s->file->no_tokenizer.message);
        return;
    }
    writer_begin(w, "tokenizer", '{');
    writer_string(w, "description", tokenizer_description(s->tokenizer));
    writer_integer(w, "size", tokenizer_size(s->tokenizer));
    writer_integer(w, "bos_id", tokenizer_bos(s->tokenizer));
    writer_bool(w, "adds_bos", tokenizer_adds_bos(s->tokenizer));
    writer_ids(w, "stop_ids", s->file->stops, s->file->n_stops);
    writer_end(w, '}');
}

// `offset`: of the tensor's data, in bytes from the beginning of its file.
static void write_tensors(JsonWriter *w, const TensorPlan *tensors, size_t count) {
    writer_begin(w, "tensors", '[');
    for (size_t i = 0; i < count; i++) {
        const TensorPlan *t = &tensors[i];
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
}

static void write_totals(JsonWriter *w, const Session *s) {
    Totals totals = inspect_totals(s);
    writer_begin(w, "totals", '{');
    writer_integer(w, "tensors", (int64_t)totals.tensors);
    writer_integer(w, "parameters", (int64_t)totals.parameters);
    writer_integer(w, "bytes", (int64_t)totals.bytes);
    writer_end(w, '}');
}

static void write_memory(JsonWriter *w, const MemoryFigures *m) {
    writer_begin(w, "memory", '{');
    writer_number(w, "kv_bytes_per_token", m->kv_bytes_per_token);
    writer_integer(w, "tokens", m->context);
    if (m->known) // a whole number, also where it is a round one
        writer_integer(w, "peak_memory_bytes", (int64_t)m->peak);
    else
        writer_number(w, "peak_memory_bytes", NAN);
    if (m->known && m->short_context < m->context) {
        writer_integer(w, "short_tokens", m->short_context);
        writer_integer(w, "short_peak_memory_bytes", (int64_t)m->short_peak);
    }
    writer_end(w, '}');
}

// The rows of that name: "note" or "warning".
static void write_rows(JsonWriter *w, const char *key, const Facts *f, const char *name) {
    writer_begin(w, key, '[');
    for (int i = 0; i < f->count; i++)
        if (!strcmp(f->rows[i].name, name))
            writer_text(w, NULL, fact_text(f, i), f->rows[i].length);
    writer_end(w, ']');
}

static void print_json(const Session *s, const Facts *facts) {
    JsonWriter w = {0};
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    const ChatTemplate *t = known_template(s);
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
    write_config(&w, s);
    write_tokenizer(&w, s);
    writer_string(&w, "template", t ? chat_template_name(t) : NULL);
    TextSpan text = checkpoint_vocabulary(s->checkpoint)->chat_template;
    if (text.length) writer_text(&w, "chat_template", text.text, text.length);
    write_tensors(&w, tensors, count);
    write_totals(&w, s);
    write_memory(&w, &facts->memory);
    write_rows(&w, "notes", facts, "note");
    write_rows(&w, "warnings", facts, "warning");
    writer_begin(&w, "unused", '[');
    for (size_t i = 0; i < checkpoint_unused(s->checkpoint); i++)
        writer_string(&w, NULL, checkpoint_unused_name(s->checkpoint, i));
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

static bool report(const Session *s, const OutputFile *page, Error *error) {
    Facts facts = {0};
    facts_collect(&facts, s);
    bool good = !facts.text.failed || no_memory(error);
    if (good && page->path) good = inspect_write_html(s, &facts, page, error);
    if (good && s->options->json)
        print_json(s, &facts);
    else if (good && !page->path)
        good = print_text(s, &facts, error);
    buffer_free(&facts.text);
    return good;
}

bool inspect_command(const Options *o, Error *error) {
    Session s = {0};
    FileSet inputs = {0};
    OutputFile page = {.path = o->html, .inputs = &inputs, .force = o->force};
    bool good = !o->html || (inputs_find(&inputs, o, error) && inputs_check(&page, o, error));
    good = good && session_open_quietly(&s, o, error) && report(&s, &page, error);
    session_close(&s);
    file_set_free(&inputs);
    return good;
}
