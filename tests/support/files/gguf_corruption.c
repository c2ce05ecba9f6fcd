#include "tests/support/files/gguf_corruption.h"
#include "tests/test.h"

void corrupt_as_it_is(GgufFile *f, const GgufCase *c) {
    (void)f;
    (void)c;
}

void corrupt_version(GgufFile *f, const GgufCase *c) {
    f->version = (uint32_t)c->a;
}

void corrupt_said_tensors(GgufFile *f, const GgufCase *c) {
    f->lies_of_tensors = true;
    f->said_tensors = c->a;
}

void corrupt_said_keys(GgufFile *f, const GgufCase *c) {
    f->lies_of_keys = true;
    f->said_keys = c->a;
}

void corrupt_tail(GgufFile *f, const GgufCase *c) {
    f->tail = c->a;
}

// The last key, so that nothing but the end of the file follows what it claims.
void corrupt_key_length(GgufFile *f, const GgufCase *c) {
    gguf_set_u32(f, "last", 0);
    f->keys[f->n_keys - 1].said_length = c->a;
}

void corrupt_key_text(GgufFile *f, const GgufCase *c) {
    const uint32_t zero = 0;
    gguf_add_raw(f, c->text, c->a ? c->a : strlen(c->text), GGUF_U32, &zero, 4);
}

void corrupt_long_key(GgufFile *f, const GgufCase *c) {
    char key[70000];
    const uint32_t zero = 0;
    memset(key, 'k', sizeof key);
    gguf_add_raw(f, key, c->a, GGUF_U32, &zero, 4);
}

void corrupt_value_type(GgufFile *f, const GgufCase *c) {
    gguf_set_raw(f, "last", (uint32_t)c->a, "12345678", 8);
}

void corrupt_string_length(GgufFile *f, const GgufCase *c) {
    gguf_set_raw(f, "last", GGUF_STRING, &c->a, 8);
}

// An array of type a that claims b elements.
void corrupt_array_length(GgufFile *f, const GgufCase *c) {
    uint8_t payload[12];
    memcpy(payload, &(uint32_t){(uint32_t)c->a}, 4);
    memcpy(payload + 4, &c->b, 8);
    gguf_set_raw(f, "last", GGUF_ARRAY, payload, sizeof payload);
}

void corrupt_nested_arrays(GgufFile *f, const GgufCase *c) {
    size_t size = (c->a + 1) * 12;
    uint8_t *payload = calloc(1, size);
    for (size_t i = 0; i <= c->a; i++) {
        payload[12 * i] = i < c->a ? GGUF_ARRAY : GGUF_U8;
        payload[12 * i + 4] = 1;
    }
    gguf_set_raw(f, "last", GGUF_ARRAY, payload, size);
    free(payload);
}

void corrupt_third_string_overruns(GgufFile *f, const GgufCase *c) {
    static const char *const TEXTS[] = {"one", "two", "three"};
    (void)c;
    gguf_set_strings(f, "last", TEXTS, 3);
    GgufKey *key = &f->keys[f->n_keys - 1];
    memset(key->payload + 12 + 2 * (8 + 3), 0xff, 4); // the length of "three"
}

void corrupt_set_u32(GgufFile *f, const GgufCase *c) {
    gguf_set_u32(f, c->name, (uint32_t)c->a);
}

void corrupt_set_f32(GgufFile *f, const GgufCase *c) {
    gguf_set_f32(f, c->name, (float)c->real);
}

void corrupt_set_text(GgufFile *f, const GgufCase *c) {
    gguf_set_text(f, c->name, c->text);
}

void corrupt_set_bool(GgufFile *f, const GgufCase *c) {
    gguf_set_bool(f, c->name, (uint8_t)c->a);
}

void corrupt_remove_key(GgufFile *f, const GgufCase *c) {
    gguf_remove_key(f, c->name);
}

void corrupt_set_alignment(GgufFile *f, const GgufCase *c) { // and lay the file out by it
    gguf_set_u32(f, "general.alignment", (uint32_t)c->a);
    f->alignment = (uint32_t)c->a;
}

void corrupt_set_raw_type(GgufFile *f, const GgufCase *c) { // eight bytes of value 1
    gguf_set_raw(f, c->name, (uint32_t)c->a, "\x01\0\0\0\0\0\0\0", gguf_type_size((uint32_t)c->a));
}

void corrupt_long_text(GgufFile *f, const GgufCase *c) {
    char *text = malloc(c->a + 1);
    memset(text, 'x', c->a);
    text[c->a] = '\0';
    gguf_set_text(f, c->name, text);
    free(text);
}

void corrupt_add_key(GgufFile *f, const GgufCase *c) {
    const uint32_t value = (uint32_t)c->a;
    gguf_add_raw(f, c->name, strlen(c->name), GGUF_U32, &value, 4);
}

void corrupt_many_keys(GgufFile *f, const GgufCase *c) {
    char key[32];
    const uint8_t zero = 0;
    while (f->n_keys < c->a) {
        snprintf(key, sizeof key, "k%zu", f->n_keys);
        gguf_add_raw(f, key, strlen(key), GGUF_U8, &zero, 1);
    }
}

void corrupt_many_tensors(GgufFile *f, const GgufCase *c) {
    char name[32];
    f->alignment = 8;
    gguf_set_u32(f, "general.alignment", 8);
    while (f->n_tensors < c->a) {
        snprintf(name, sizeof name, "t%zu", f->n_tensors);
        gguf_add_tensor(f, name, DTYPE_F32, 1, 0);
    }
}

void corrupt_rename_tensor(GgufFile *f, const GgufCase *c) {
    GgufTensor *t = gguf_find_tensor(f, c->name);
    free(t->name);
    t->name_length = c->a ? c->a : strlen(c->text);
    t->name = calloc(1, t->name_length + 1);
    memcpy(t->name, c->text, t->name_length < strlen(c->text) ? t->name_length : strlen(c->text));
}

void corrupt_add_tensor_of_length(GgufFile *f, const GgufCase *c) {
    char name[70000];
    memset(name, 't', sizeof name);
    name[c->a] = '\0';
    gguf_add_tensor(f, name, DTYPE_F32, 4, 0);
}

void corrupt_twice_a_tensor(GgufFile *f, const GgufCase *c) {
    gguf_add_tensor(f, c->name, DTYPE_F32, 4, 0);
}

void corrupt_n_dims(GgufFile *f, const GgufCase *c) {
    gguf_find_tensor(f, c->name)->n_dims = (uint32_t)c->a;
}

void corrupt_dims(GgufFile *f, const GgufCase *c) {
    GgufTensor *t = gguf_find_tensor(f, c->name);
    t->dims[0] = c->a;
    t->dims[1] = c->b;
}

void corrupt_dims_and_type(GgufFile *f, const GgufCase *c) { // real: the type
    corrupt_dims(f, c);
    gguf_find_tensor(f, c->name)->type = (uint32_t)c->real;
}

// Two tensors whose sizes add up to more than 2^64.
void corrupt_sizes_that_sum_up(GgufFile *f, const GgufCase *c) {
    (void)c;
    for (int i = 0; i < 2; i++) {
        GgufTensor *t = gguf_find_tensor(f, i ? "blk.1.ffn_up.weight" : "blk.0.ffn_up.weight");
        t->dims[0] = 0x1fffffffffffffe0;
        t->dims[1] = 1;
    }
}

void corrupt_type_number(GgufFile *f, const GgufCase *c) {
    gguf_find_tensor(f, c->name)->type = (uint32_t)c->a;
}

void corrupt_offset(GgufFile *f, const GgufCase *c) {
    GgufTensor *t = gguf_find_tensor(f, c->name);
    t->fixed_offset = true;
    t->offset = c->a;
}

void corrupt_all_on_one_range(GgufFile *f, const GgufCase *c) {
    (void)c;
    for (size_t i = 0; i < f->n_tensors; i++)
        f->tensors[i].fixed_offset = true;
}

void corrupt_gap(GgufFile *f, const GgufCase *c) {
    f->gap_after = 3;
    f->gap = c->a;
}

void corrupt_remove_tensor(GgufFile *f, const GgufCase *c) {
    gguf_remove_tensor(f, c->name);
}

void corrupt_add_tensor(GgufFile *f, const GgufCase *c) {
    gguf_add_tensor(f, c->name, DTYPE_F32, c->a, c->b);
}

void corrupt_layer_array(GgufFile *f, const GgufCase *c) { // a elements of 1, the last one b
    int32_t values[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    values[c->a - 1] = (int32_t)c->b;
    gguf_set_array(f, c->name, GGUF_I32, values, c->a);
}

void corrupt_yarn(GgufFile *f, const GgufCase *c) {
    gguf_set_text(f, "llama.rope.scaling.type", "yarn");
    gguf_set_f32(f, "llama.rope.scaling.factor", 2);
    gguf_set_f32(f, "llama.rope.scaling.yarn_ext_factor", (float)c->real);
}

void corrupt_tokens(GgufFile *f, const GgufCase *c) {
    const char *texts[64];
    for (int i = 0; i < 64; i++)
        texts[i] = "t";
    gguf_set_strings(f, "tokenizer.ggml.tokens", texts, c->a);
    gguf_remove_key(f, "tokenizer.ggml.scores");
    gguf_remove_key(f, "tokenizer.ggml.token_type");
}

void corrupt_numbers(GgufFile *f, const GgufCase *c) { // a zeros of type b
    const uint8_t zeros[512] = {0};
    gguf_set_array(f, c->name, (uint32_t)c->b, zeros, c->a);
}

void corrupt_one_score(GgufFile *f, const GgufCase *c) {
    float scores[8] = {0};
    scores[5] = (float)c->real;
    gguf_set_array(f, "tokenizer.ggml.scores", GGUF_F32, scores, 8);
}

void corrupt_one_type(GgufFile *f, const GgufCase *c) {
    int32_t types[8] = {2, 3, 3, 1, 1, 1, 1, (int32_t)c->a};
    gguf_set_array(f, "tokenizer.ggml.token_type", GGUF_I32, types, 8);
}

void corrupt_one_token(GgufFile *f, const GgufCase *c) { // text, or `a` letters
    char *letters = malloc(c->a + 1);
    memset(letters, 'x', c->a);
    letters[c->a] = '\0';
    const char *texts[8] = {"<unk>", "<s>", "</s>", "a", "b", "c", "d", c->text};
    if (!c->text) texts[7] = letters;
    gguf_set_strings(f, "tokenizer.ggml.tokens", texts, 8);
    free(letters);
}

void corrupt_nul_in_token(GgufFile *f, const GgufCase *c) {
    (void)c;
    GgufKey *key = f->keys;
    while (strcmp(key->name, "tokenizer.ggml.tokens") != 0)
        key++;
    key->payload[12 + 8] = '\0'; // the first letter of the first token
}

void corrupt_merges(GgufFile *f, const GgufCase *c) {
    gguf_set_strings(f, "tokenizer.ggml.merges", (const char *const[]){c->text, c->text}, 2);
}

void corrupt_charsmap(GgufFile *f, const GgufCase *c) {
    gguf_set_array(f, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, "\xff\xff\xff\xff", c->a);
}

void corrupt_split(GgufFile *f, const GgufCase *c) {
    const uint16_t count = (uint16_t)c->a, number = (uint16_t)c->b;
    gguf_set_raw(f, "split.count", GGUF_U16, &count, 2);
    gguf_set_raw(f, "split.no", GGUF_U16, &number, 2);
}
