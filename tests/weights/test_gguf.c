// What the keys of a good GGUF file become: config and vocabulary.
#include "tests/support/files/opened_gguf.h"
#include "tests/test.h"

Test(gguf, config_has_what_the_keys_say) {
    OpenedGguf o = opened_gguf(gguf_tiny_llama());
    const Config *c = checkpoint_config(o.checkpoint);
    CHECK_STRING(checkpoint_container_name(o.checkpoint), "GGUF v3");
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
    opened_gguf_close(&o);
}

Test(gguf, what_its_makers_wrote_about_it_is_handed_over) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.description", "tells\nstories");
    gguf_set_text(file, "general.license", "MIT");
    gguf_set_text(file, test_text("general.%s", ABOUT_NAMES[ABOUT_KEYS - 1]), "the last one");
    OpenedGguf o = opened_gguf(file);
    const TextSpan *about = checkpoint_about(o.checkpoint);
    CHECK_INT(about[ABOUT_DESCRIPTION].length, 13);
    CHECK(!memcmp(about[ABOUT_DESCRIPTION].text, "tells\nstories", 13));
    CHECK_INT(about[ABOUT_LICENSE].length, 3);
    CHECK_INT(about[ABOUT_AUTHOR].length, 0);
    CHECK_INT(about[ABOUT_KEYS - 1].length, 12);
    opened_gguf_close(&o);
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
    OpenedGguf o = opened_gguf(file);
    const Config *c = checkpoint_config(o.checkpoint);
    CHECK_INT(c->n_kv_heads, 2);
    CHECK_INT(c->rope_dim, 2);
    CHECK(c->rope.theta == 10000.0f && c->rope.scaling == ROPE_PLAIN);
    CHECK_INT(c->n_eos_ids, 0);
    opened_gguf_close(&o);
}

Test(gguf, version_2_is_read_as_version_3) {
    GgufFile *file = gguf_tiny_llama();
    file->version = 2;
    OpenedGguf o = opened_gguf(file);
    CHECK_STRING(checkpoint_container_name(o.checkpoint), "GGUF v2");
    opened_gguf_close(&o);
}

Test(gguf, per_layer_arrays_stand_for_one_number) {
    GgufFile *file = gguf_tiny_llama();
    const int32_t kv[2] = {1, 1}, ffn[2] = {6, 6};
    gguf_set_array(file, "llama.attention.head_count_kv", GGUF_I32, kv, 2);
    gguf_set_array(file, "llama.feed_forward_length", GGUF_U32, ffn, 2);
    OpenedGguf o = opened_gguf(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->n_kv_heads, 1);
    CHECK_INT(checkpoint_config(o.checkpoint)->hidden_dim, 6);
    opened_gguf_close(&o);
}

Test(gguf, rope_scaling_is_read) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_f32(file, "llama.rope.scaling.factor", 4); // without a type: linear
    OpenedGguf o = opened_gguf(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->rope.scaling, ROPE_LINEAR);
    CHECK(checkpoint_config(o.checkpoint)->rope.factor == 4);
    opened_gguf_close(&o);

    file = gguf_tiny_llama();
    gguf_set_text(file, "llama.rope.scaling.type", "none");
    gguf_set_f32(file, "llama.rope.scaling.factor", 4);
    o = opened_gguf(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->rope.scaling, ROPE_PLAIN);
    opened_gguf_close(&o);

    file = gguf_tiny_llama();
    gguf_set_text(file, "llama.rope.scaling.type", "yarn");
    gguf_set_f32(file, "llama.rope.scaling.factor", 8);
    gguf_set_u32(file, "llama.rope.scaling.original_context_length", 16);
    gguf_set_f32(file, "llama.rope.scaling.attn_factor", 0.5f);
    o = opened_gguf(file);
    const RopeConfig *rope = &checkpoint_config(o.checkpoint)->rope;
    CHECK_INT(rope->scaling, ROPE_YARN);
    CHECK_INT(rope->original_max_seq_len, 16);
    CHECK(rope->beta_fast == 32 && rope->beta_slow == 1);
    CHECK_NEAR(rope->attention_factor, 0.5 * (0.1 * log(8) + 1), 1e-6);
    opened_gguf_close(&o);

    file = gguf_tiny_llama(); // by no factor: the formula has no part in it
    gguf_set_text(file, "llama.rope.scaling.type", "yarn");
    gguf_set_f32(file, "llama.rope.scaling.factor", 1);
    gguf_set_f32(file, "llama.rope.scaling.attn_factor", 0.5f);
    o = opened_gguf(file);
    CHECK(checkpoint_config(o.checkpoint)->rope.attention_factor == 0.5f);
    opened_gguf_close(&o);
}

Test(gguf, a_context_is_kept_up_to_its_limit) {
    for (uint32_t context = LIMIT_CONTEXT - 1; context <= LIMIT_CONTEXT + 1u; context++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_set_u32(file, "llama.context_length", context);
        OpenedGguf o = opened_gguf(file);
        CHECK_INT(checkpoint_config(o.checkpoint)->max_seq_len,
                  context < LIMIT_CONTEXT ? context : LIMIT_CONTEXT);
        opened_gguf_close(&o);
    }
}

Test(gguf, a_text_may_end_with_token_0) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_u32(file, "tokenizer.ggml.eos_token_id", 0);
    OpenedGguf o = opened_gguf(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->n_eos_ids, 1);
    CHECK_INT(checkpoint_config(o.checkpoint)->eos_ids[0], 0);
    opened_gguf_close(&o);
}

Test(gguf, a_template_is_kept_up_to_its_limit) {
    for (size_t length = LIMIT_TEMPLATE; length <= LIMIT_TEMPLATE + 1; length++) {
        char *text = malloc(length + 1);
        memset(text, 'x', length);
        text[length] = '\0';
        GgufFile *file = gguf_tiny_llama();
        gguf_set_text(file, "tokenizer.chat_template", text);
        OpenedGguf o = opened_gguf(file);
        size_t kept = checkpoint_vocabulary(o.checkpoint)->chat_template.length;
        CHECK_INT(kept, length > LIMIT_TEMPLATE ? 0 : length);
        opened_gguf_close(&o);
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
    OpenedGguf o = opened_gguf(file);
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
    opened_gguf_close(&o);
    file = gguf_tiny_llama();
    gguf_set_u32(file, "tokenizer.ggml.eot_token_id", 2); // the same as eos
    o = opened_gguf(file);
    CHECK_INT(checkpoint_config(o.checkpoint)->n_eos_ids, 1);
    opened_gguf_close(&o);
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

Test(gguf, a_mistral_says_that_its_window_may_be_lost) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.name", "some Mistral 7B");
    OpenedGguf o = opened_gguf(file);
    CHECK(checkpoint_config(o.checkpoint)->window_dropped);
    opened_gguf_close(&o);
    file = gguf_tiny_llama();
    gguf_set_text(file, "general.name", "some Mistral 7B");
    gguf_set_u32(file, "llama.attention.sliding_window", 16);
    o = opened_gguf(file);
    CHECK(!checkpoint_config(o.checkpoint)->window_dropped);
    CHECK_INT(checkpoint_config(o.checkpoint)->layers[1].window, 16);
    opened_gguf_close(&o);
}

// What follows the name is the next key's length, 108: an 'l'.
Test(gguf, a_name_ends_where_it_ends) {
    GgufFile *file = gguf_tiny_llama();
    char next[109];
    memset(next, 'x', 108);
    next[108] = '\0';
    gguf_remove_key(file, "general.name");
    gguf_set_text(file, "general.name", "a Mistra");
    gguf_set_u32(file, next, 1);
    OpenedGguf o = opened_gguf(file);
    CHECK_STRING(checkpoint_config(o.checkpoint)->name, "a Mistra");
    CHECK(!checkpoint_config(o.checkpoint)->window_dropped);
    opened_gguf_close(&o);
}
