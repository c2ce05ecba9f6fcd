// What a good GGUF file becomes: config, weights by role, vocabulary.
#include "tests/support/gguf_writer.h"
#include "tests/test.h"
#include "weights/quant.h"

typedef struct Opened {
    uint8_t *bytes;
    Checkpoint *checkpoint;
} Opened;

// Writes, frees the description, and opens what was written.
static Opened open_file(GgufFile *file) {
    Opened o;
    size_t size;
    Error error = {0};
    o.bytes = gguf_write(file, &size);
    gguf_file_free(file);
    if (!checkpoint_open_memory(&o.checkpoint, "test.gguf", o.bytes, size, &error)) {
        free(o.bytes);
        TEST_FAIL("%s", error.message);
    }
    return o;
}

static void close_file(Opened *o) {
    checkpoint_close(o->checkpoint);
    free(o->bytes);
}

Test(gguf, config_has_what_the_keys_say) {
    Opened o = open_file(gguf_tiny_llama());
    const Config *c = checkpoint_config(o.checkpoint);
    CHECK_STRING(checkpoint_container(o.checkpoint), "GGUF v3");
    CHECK_STRING(c->family, "llama");
    CHECK_STRING(c->name, "tiny");
    CHECK_INT(c->dim, 4);
    CHECK_INT(c->hidden_dim, 6);
    CHECK_INT(c->n_layers, 2);
    CHECK_INT(c->n_heads, 2);
    CHECK_INT(c->n_kv_heads, 1);
    CHECK_INT(c->head_dim, 2);
    CHECK_INT(c->q_dim, 4);
    CHECK_INT(c->kv_dim, 2);
    CHECK_INT(c->vocab_size, 8);
    CHECK_INT(c->max_seq_len, 64);
    CHECK_INT(c->norm, NORM_RMS);
    CHECK_INT(c->activation, ACTIVATION_SILU);
    CHECK(c->gated_ffn && c->position == POSITION_ROPE && c->norm_eps == 1e-5f);
    CHECK_NEAR(c->layers[1].attention_scale, 0.70710678, 1e-7);
    CHECK_INT(c->bos_id, 1);
    CHECK_INT(c->n_eos_ids, 1);
    CHECK_INT(c->eos_ids[0], 2);
    close_file(&o);
}

Test(gguf, what_its_makers_wrote_about_it_is_handed_over) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.description", "tells\nstories");
    gguf_set_text(file, "general.license", "MIT");
    Opened o = open_file(file);
    const TextSpan *about = checkpoint_about(o.checkpoint);
    CHECK_INT(about[ABOUT_DESCRIPTION].length, 13);
    CHECK(!memcmp(about[ABOUT_DESCRIPTION].text, "tells\nstories", 13));
    CHECK_INT(about[ABOUT_LICENSE].length, 3);
    CHECK_INT(about[ABOUT_AUTHOR].length, 0);
    close_file(&o);
}

Test(gguf, absent_keys_have_the_defaults_of_the_format) {
    GgufFile *file = gguf_tiny_llama();
    gguf_remove_key(file, "llama.attention.head_count_kv");
    gguf_remove_key(file, "llama.rope.dimension_count");
    gguf_remove_key(file, "llama.rope.freq_base");
    gguf_remove_key(file, "general.alignment");
    gguf_remove_key(file, "tokenizer.ggml.eos_token_id");
    for (int layer = 0; layer < 2; layer++) { // keys and values of both heads
        static const char *const NAMES[] = {"attn_k", "attn_v"};
        for (int i = 0; i < 2; i++) {
            char name[40];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, NAMES[i]);
            gguf_remove_tensor(file, name);
            gguf_add_tensor(file, name, DTYPE_F32, 4, 4);
        }
    }
    Opened o = open_file(file);
    const Config *c = checkpoint_config(o.checkpoint);
    CHECK_INT(c->n_kv_heads, 2);
    CHECK_INT(c->rope_dim, 2);
    CHECK(c->rope.theta == 10000.0f && c->rope.scaling == ROPE_PLAIN);
    CHECK_INT(c->n_eos_ids, 0);
    close_file(&o);
}

Test(gguf, version_2_is_read_as_version_3) {
    GgufFile *file = gguf_tiny_llama();
    file->version = 2;
    Opened o = open_file(file);
    CHECK_STRING(checkpoint_container(o.checkpoint), "GGUF v2");
    close_file(&o);
}

Test(gguf, weights_have_their_roles) {
    Opened o = open_file(gguf_tiny_llama());
    const Weights *w = checkpoint_weights(o.checkpoint);
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(o.checkpoint, &count);
    CHECK_INT(count, 20);
    CHECK_STRING(tensors[0].name, "token_embd.weight");
    CHECK_INT(tensors[0].shape[0], 8);
    CHECK_INT(tensors[0].shape[1], 4);
    CHECK(w->token_embedding.data == tensors[0].data);
    CHECK(w->head.data == w->token_embedding.data, "a tied head");
    for (int l = 0; l < 2; l++) {
        const LayerWeights *layer = &w->layers[l];
        CHECK(layer->att_norm && layer->ffn_norm && !layer->bq && !layer->q_norm);
        CHECK_INT(layer->wk.rows, 2);
        CHECK_INT(layer->w_down.cols, 6);
        CHECK(layer->wq.rope_dim == 2 && layer->wk.rope_dim == 2 && !layer->wv.rope_dim);
    }
    CHECK(w->layers[0].w_gate.data == tensors[7].data, "blk.0.ffn_gate");
    CHECK_INT(checkpoint_unused(o.checkpoint), 0);
    close_file(&o);
}

Test(gguf, norms_are_float32_whatever_their_type) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_remove_tensor(file, "output_norm.weight");
        GgufTensor *norm = gguf_add_tensor(file, "output_norm.weight", TYPES[t], 4, 0);
        const float values[4] = {1, -2, 0.5f, 3};
        quantise(norm->data, TYPES[t], values, 4);
        Opened o = open_file(file);
        CHECK(!memcmp(checkpoint_weights(o.checkpoint)->final_norm, values, sizeof values));
        close_file(&o);
    }
}

Test(gguf, a_written_head_is_used) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "output.weight", DTYPE_F16, 4, 8);
    Opened o = open_file(file);
    const Weights *w = checkpoint_weights(o.checkpoint);
    CHECK(w->head.data != w->token_embedding.data);
    CHECK_INT(w->head.dtype, DTYPE_F16);
    close_file(&o);
}

// The tiny llama with another head_dim. Six wide, rows of q are stored 0 1 2 3 4 5 and mean
// 0 3 1 4 2 5.
static GgufFile *wide_heads(uint32_t width) {
    const struct {
        const char *name;
        uint64_t cols, rows;
    } TENSORS[] = {{"attn_q", 4, 2 * width},
                   {"attn_k", 4, width},
                   {"attn_v", 4, width},
                   {"attn_output", 2 * width, 4}};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_u32(file, "llama.attention.key_length", width);
    gguf_set_u32(file, "llama.attention.value_length", width);
    gguf_set_u32(file, "llama.rope.dimension_count", width);
    for (int layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < 4; i++) {
            char name[40];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, TENSORS[i].name);
            gguf_remove_tensor(file, name);
            gguf_add_tensor(file, name, DTYPE_F32, TENSORS[i].cols, TENSORS[i].rows);
        }
    return file;
}

static const int STORED_ROW[12] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};

Test(gguf, interleaved_rows_and_biases_are_put_in_order) {
    GgufFile *file = wide_heads(6);
    GgufTensor *bias = gguf_add_tensor(file, "blk.0.attn_q.bias", DTYPE_F32, 12, 0);
    float values[12], row[4];
    for (int i = 0; i < 12; i++)
        values[i] = (float)i;
    memcpy(bias->data, values, sizeof values);
    Opened o = open_file(file);
    const LayerWeights *layer = &checkpoint_weights(o.checkpoint)->layers[0];
    CHECK_INT(checkpoint_config(o.checkpoint)->head_dim, 6);
    for (size_t r = 0; r < 12; r++) {
        CHECK_INT(layer->bq[r], STORED_ROW[r]);
        matrix_row(row, &layer->wq, r);
        CHECK(!memcmp(row, (const float *)layer->wq.data + 4 * STORED_ROW[r], sizeof row));
    }
    CHECK(!layer->bk);
    close_file(&o);
}

Test(gguf, a_quantised_vector_is_refused) {
    GgufFile *file = wide_heads(16);
    size_t size;
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    gguf_add_tensor(file, "blk.0.attn_q.bias", DTYPE_Q8_0, 32, 0);
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    CHECK(!checkpoint_open_memory(&checkpoint, "test.gguf", bytes, size, &error));
    free(bytes);
    CHECK_STRING(error.message, "test.gguf: tensor \"blk.0.attn_q.bias\" (bq): type Q8_0, wanted "
                                "F32, F16 or BF16");
}

Test(gguf, a_fused_qkv_is_cut_by_rows) {
    GgufFile *file = wide_heads(6);
    gguf_remove_tensor(file, "blk.1.attn_q.weight");
    gguf_remove_tensor(file, "blk.1.attn_k.weight");
    gguf_remove_tensor(file, "blk.1.attn_v.weight");
    gguf_add_tensor(file, "blk.1.attn_qkv.weight", DTYPE_F32, 4, 24);
    gguf_add_tensor(file, "blk.1.attn_qkv.bias", DTYPE_F32, 24, 0);
    Opened o = open_file(file);
    const LayerWeights *layer = &checkpoint_weights(o.checkpoint)->layers[1];
    const float *data = layer->wq.data;
    CHECK(layer->wk.data == (const void *)(data + 4 * 12));
    CHECK(layer->wv.data == (const void *)(data + 4 * 18));
    CHECK_INT(layer->wv.rows, 6);
    CHECK(layer->wq.rope_dim == 6 && layer->wk.rope_dim == 6 && !layer->wv.rope_dim);
    CHECK(layer->bq && layer->bk && layer->bv);
    close_file(&o);
}

Test(gguf, every_type_is_read_as_its_blocks_say) {
    for (int dtype = 0; dtype < DTYPE_Q8_GROUP; dtype++) {
        uint64_t width = 256;
        GgufFile *file = gguf_tiny_llama();
        gguf_set_u32(file, "llama.feed_forward_length", 256);
        for (int layer = 0; layer < 2; layer++) {
            char name[40];
            static const char *const NAMES[] = {"ffn_gate", "ffn_up", "ffn_down"};
            for (int i = 0; i < 3; i++) {
                snprintf(name, sizeof name, "blk.%d.%s.weight", layer, NAMES[i]);
                gguf_remove_tensor(file, name);
                if (i < 2)
                    gguf_add_tensor(file, name, DTYPE_F32, 4, width);
                else
                    gguf_add_tensor(file, name, (DType)dtype, width, 4);
            }
        }
        Opened o = open_file(file);
        const Matrix *down = &checkpoint_weights(o.checkpoint)->layers[1].w_down;
        float row[256], wanted[256];
        CHECK_INT(down->dtype, dtype);
        CHECK_INT(down->cols, 256);
        matrix_row(row, down, 3);
        dequantise(wanted, (DType)dtype,
                   (const uint8_t *)down->data + 3 * dtype_row_bytes((DType)dtype, width), width);
        CHECK(!memcmp(row, wanted, sizeof row));
        close_file(&o);
    }
}

Test(gguf, per_layer_arrays_stand_for_one_number) {
    GgufFile *file = gguf_tiny_llama();
    const int32_t kv[2] = {1, 1}, ffn[2] = {6, 6};
    gguf_set_array(file, "llama.attention.head_count_kv", GGUF_I32, kv, 2);
    gguf_set_array(file, "llama.feed_forward_length", GGUF_U32, ffn, 2);
    Opened o = open_file(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->n_kv_heads, 1);
    CHECK_INT(checkpoint_config(o.checkpoint)->hidden_dim, 6);
    close_file(&o);
}

Test(gguf, rope_freqs_are_the_divisors) {
    GgufFile *file = wide_heads(6);
    GgufTensor *freqs = gguf_add_tensor(file, "rope_freqs.weight", DTYPE_F32, 3, 0);
    const float values[3] = {1, 2.5f, 8};
    memcpy(freqs->data, values, sizeof values);
    Opened o = open_file(file);
    const float *divisors = checkpoint_config(o.checkpoint)->rope.divisors;
    CHECK(divisors && !memcmp(divisors, values, sizeof values));
    close_file(&o);
}

Test(gguf, rope_scaling_is_read) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_f32(file, "llama.rope.scaling.factor", 4); // without a type: linear
    Opened o = open_file(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->rope.scaling, ROPE_LINEAR);
    CHECK(checkpoint_config(o.checkpoint)->rope.factor == 4);
    close_file(&o);

    file = gguf_tiny_llama();
    gguf_set_text(file, "llama.rope.scaling.type", "none");
    gguf_set_f32(file, "llama.rope.scaling.factor", 4);
    o = open_file(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->rope.scaling, ROPE_PLAIN);
    close_file(&o);

    file = gguf_tiny_llama();
    gguf_set_text(file, "llama.rope.scaling.type", "yarn");
    gguf_set_f32(file, "llama.rope.scaling.factor", 8);
    gguf_set_u32(file, "llama.rope.scaling.original_context_length", 16);
    gguf_set_f32(file, "llama.rope.scaling.attn_factor", 0.5f);
    o = open_file(file);
    const RopeConfig *rope = &checkpoint_config(o.checkpoint)->rope;
    CHECK_INT(rope->scaling, ROPE_YARN);
    CHECK_INT(rope->original_max_seq_len, 16);
    CHECK(rope->beta_fast == 32 && rope->beta_slow == 1);
    CHECK_NEAR(rope->attention_factor, 0.5 * (0.1 * log(8) + 1), 1e-6);
    close_file(&o);
}

Test(gguf, a_template_is_kept_up_to_its_limit) {
    for (size_t length = LIMIT_TEMPLATE; length <= LIMIT_TEMPLATE + 1; length++) {
        char *text = malloc(length + 1);
        memset(text, 'x', length);
        text[length] = '\0';
        GgufFile *file = gguf_tiny_llama();
        gguf_set_text(file, "tokenizer.chat_template", text);
        Opened o = open_file(file);
        size_t kept = checkpoint_vocabulary(o.checkpoint)->chat_template.length;
        CHECK_INT(kept, length > LIMIT_TEMPLATE ? 0 : length);
        close_file(&o);
        free(text);
    }
}

Test(gguf, vocabulary_is_handed_over_as_it_stands) {
    static const char TEMPLATE[] = "{% include '/etc/passwd' %}";
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "tokenizer.chat_template", TEMPLATE);
    gguf_set_text(file, "tokenizer.ggml.pre", "smollm");
    gguf_set_bool(file, "tokenizer.ggml.add_bos_token", 0);
    gguf_set_u32(file, "tokenizer.ggml.padding_token_id", UINT32_MAX);
    gguf_set_u32(file, "tokenizer.ggml.eot_token_id", 7);
    Opened o = open_file(file);
    const Vocabulary *v = checkpoint_vocabulary(o.checkpoint);
    CHECK_STRING(v->model, "llama");
    CHECK_STRING(v->pre, "smollm");
    CHECK_INT(v->n_tokens, 8);
    CHECK(v->tokens[6].length == 2 && !memcmp(v->tokens[6].text, "ab", 2));
    CHECK(v->scores[5] == -3 && v->types[7] == TOKEN_BYTE && !v->n_merges);
    CHECK(v->bos_id == 1 && v->eos_id == 2 && v->eot_id == 7 && v->unk_id == 0);
    CHECK(v->pad_id == -1 && v->eom_id == -1, "outside the vocabulary: absent");
    CHECK(v->add_bos == 0 && v->add_eos == -1 && v->add_space_prefix == -1);
    CHECK_INT(v->chat_template.length, sizeof TEMPLATE - 1);
    const Config *c = checkpoint_config(o.checkpoint);
    CHECK(c->n_eos_ids == 2 && c->eos_ids[1] == 7);
    close_file(&o);
    file = gguf_tiny_llama();
    gguf_set_u32(file, "tokenizer.ggml.eot_token_id", 2); // the same as eos
    o = open_file(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->n_eos_ids, 1);
    close_file(&o);
}

Test(gguf, a_vocabulary_alone_is_a_tokenizer_source) {
    GgufFile *file = gguf_tiny_llama();
    while (file->n_tensors)
        gguf_remove_tensor(file, file->tensors[0].name);
    gguf_set_text(file, "general.architecture", "something-else");
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("vocabulary.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    CHECK(checkpoint_open_vocabulary(&checkpoint, path, &error), "%s", error.message);
    CHECK_INT(checkpoint_vocabulary(checkpoint)->n_tokens, 8);
    checkpoint_close(checkpoint);
    CHECK(!checkpoint_open(&checkpoint, path, &error) && !checkpoint);
    CHECK(strstr(error.message, "unsupported architecture \"something-else\""), "%s",
          error.message);
}

Test(gguf, a_vocabulary_alone_is_no_model) {
    GgufFile *file = gguf_tiny_llama();
    while (file->n_tensors)
        gguf_remove_tensor(file, file->tensors[0].name);
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    CHECK(!checkpoint_open_memory(&checkpoint, "v.gguf", bytes, size, &error));
    free(bytes);
    CHECK_STRING(error.message, "v.gguf: no tensors: this file holds a vocabulary alone");
}

Test(gguf, tensors_known_to_be_of_no_use_are_passed_over) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "blk.0.attn_rot_embd.weight", DTYPE_F32, 7, 0);
    Opened o = open_file(file);
    CHECK_INT(checkpoint_unused(o.checkpoint), 0);
    close_file(&o);
}

Test(gguf, tensors_of_layers_that_do_not_exist_are_listed) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "blk.99.attn_q.weight", DTYPE_F32, 4, 4);
    gguf_add_tensor(file, "something.else", DTYPE_F32, 4, 0);
    Opened o = open_file(file);
    CHECK_INT(checkpoint_unused(o.checkpoint), 2);
    CHECK_STRING(checkpoint_unused_name(o.checkpoint, 0), "blk.99.attn_q.weight");
    CHECK_STRING(checkpoint_unused_name(o.checkpoint, 1), "something.else");
    CHECK(!checkpoint_unused_name(o.checkpoint, 2));
    close_file(&o);
}

Test(gguf, a_mistral_says_that_its_window_may_be_lost) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.name", "some Mistral 7B");
    Opened o = open_file(file);
    CHECK(checkpoint_config(o.checkpoint)->window_dropped);
    close_file(&o);
    file = gguf_tiny_llama();
    gguf_set_text(file, "general.name", "some Mistral 7B");
    gguf_set_u32(file, "llama.attention.sliding_window", 16);
    o = open_file(file);
    CHECK(!checkpoint_config(o.checkpoint)->window_dropped);
    CHECK_INT(checkpoint_config(o.checkpoint)->layers[1].window, 16);
    close_file(&o);
}

Test(gguf, a_file_is_mapped_and_its_pages_come_back_after_release) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "output.weight", DTYPE_F32, 4, 8);
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("mapped.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s", error.message);
    CHECK_STRING(checkpoint_path(checkpoint), path);
    CHECK_INT(checkpoint_file_bytes(checkpoint), size);
    CHECK(checkpoint_generation(checkpoint)->temperature < 0, "a GGUF does not say");
    const Weights *w = checkpoint_weights(checkpoint);
    float before[4], after[4];
    matrix_row(before, &w->head, 7);
    w->release(w->owner, &w->head);
    w->release(w->owner, &(Matrix){.data = before, .rows = 1, .cols = 4}); // of no file
    matrix_row(after, &w->head, 7);
    CHECK(!memcmp(before, after, sizeof before));
    checkpoint_close(checkpoint);
    checkpoint_close(NULL);
}
