#include "tests/support/files/safetensors_writer.h"

#include "tests/test.h"

#include <sys/stat.h>

char *safetensors_bytes(size_t *size, const WriterTensor *tensors, size_t count, size_t pad) {
    size_t room = 64 + count * 256 + pad, length = 0, data = 0;
    for (size_t i = 0; i < count; i++)
        data += tensors[i].bytes;
    char *file = malloc(8 + room + data), *json = file + 8;
    json[length++] = '{';
    for (size_t i = 0, begin = 0; i < count; begin += tensors[i++].bytes) {
        const WriterTensor *t = &tensors[i];
        length += (size_t)sprintf(json + length, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                                  i ? "," : "", t->name, t->dtype);
        for (size_t d = 0; d < t->rank; d++)
            length += (size_t)sprintf(json + length, "%s%zu", d ? "," : "", t->shape[d]);
        length += (size_t)sprintf(json + length, "],\"data_offsets\":[%zu,%zu]}", begin,
                                  begin + t->bytes);
    }
    json[length++] = '}';
    for (size_t i = 0; i < pad; i++)
        json[length++] = ' ';
    for (size_t i = 0; i < 8; i++)
        file[i] = (char)(length >> (8 * i));
    char *at = json + length;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].bytes) memcpy(at, tensors[i].data, tensors[i].bytes);
        at += tensors[i].bytes;
    }
    *size = (size_t)(at - file);
    return file;
}

typedef struct Llama2c {
    int32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
} Llama2c;

// rows of heads, from (0, 1), (2, 3), .. to first halves, then second halves.
static float *half_split(const float *rows, size_t n_heads, size_t head_dim, size_t cols) {
    float *out = malloc(n_heads * head_dim * cols * sizeof *out);
    for (size_t h = 0; h < n_heads; h++)
        for (size_t i = 0; i < head_dim / 2; i++)
            for (size_t a = 0; a < 2; a++)
                memcpy(out + (h * head_dim + a * head_dim / 2 + i) * cols,
                       rows + (h * head_dim + 2 * i + a) * cols, cols * sizeof *out);
    return out;
}

static WriterTensor *add(WriterTensor *list, size_t *count, const char *name, int layer,
                         size_t rows, size_t cols, const float *data) {
    WriterTensor *t = &list[(*count)++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "model.layers.%d.%s", layer, name);
    t->dtype = "F32";
    t->rank = cols ? 2 : 1;
    t->shape[0] = rows;
    t->shape[1] = cols;
    t->data = data;
    t->bytes = rows * (cols ? cols : 1) * sizeof *data;
    return t;
}

static const char CONFIG[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":%d,"
    "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
    "\"num_key_value_heads\":%d,\"vocab_size\":%d,\"max_position_embeddings\":%d,"
    "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"hidden_act\":\"silu\","
    "\"tie_word_embeddings\":%s,\"bos_token_id\":1,\"eos_token_id\":[1,2],"
    "\"torch_dtype\":\"float32\"}\n";

static void write_files(const char *directory, const Llama2c *h, const WriterTensor *list,
                        size_t count) {
    char path[600], config[1024];
    mkdir(directory, 0700);
    int vocab = abs(h->vocab_size);
    int length =
        snprintf(config, sizeof config, CONFIG, h->dim, h->hidden_dim, h->n_layers, h->n_heads,
                 h->n_kv_heads, vocab, h->seq_len, h->vocab_size > 0 ? "true" : "false");
    snprintf(path, sizeof path, "%s/config.json", directory);
    test_write_file(path, config, (size_t)length);
    size_t size;
    char *file = safetensors_bytes(&size, list, count, 3);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    test_write_file(path, file, size);
    free(file);
}

// In place of float32 data: the upper halves, owned by the caller as t->data.
static void cut_to_bf16(WriterTensor *t) {
    uint16_t *halves = malloc(t->bytes / 2);
    for (size_t i = 0; i < t->bytes / 4; i++)
        memcpy(&halves[i], (const char *)t->data + 4 * i + 2, 2); // little-endian
    t->dtype = "BF16";
    t->data = halves;
    t->bytes /= 2;
}

static void write_model(const char *directory, const char *bin, size_t size, bool bf16) {
    Llama2c h;
    memcpy(&h, bin, sizeof h);
    size_t d = (size_t)h.dim, f = (size_t)h.hidden_dim, n = (size_t)h.n_layers;
    size_t head_dim = d / (size_t)h.n_heads, kv = head_dim * (size_t)h.n_kv_heads;
    size_t vocab = (size_t)abs(h.vocab_size), count = 0;
    const float *embedding = (const float *)(bin + sizeof h);
    const float *att_norm = embedding + vocab * d, *wq = att_norm + n * d, *wk = wq + n * d * d;
    const float *wv = wk + n * kv * d, *wo = wv + n * kv * d, *ffn_norm = wo + n * d * d;
    const float *w1 = ffn_norm + n * d, *w2 = w1 + n * f * d, *w3 = w2 + n * f * d;
    const float *norm = w3 + n * f * d, *head = norm + d + (size_t)h.seq_len * head_dim;
    const float *end = head + (h.vocab_size < 0 ? vocab * d : 0);
    CHECK_INT((const char *)end - bin, size);

    WriterTensor *list = calloc(3 + 9 * n, sizeof *list);
    float **reordered = calloc(2 * n, sizeof *reordered);
    add(list, &count, "model.embed_tokens.weight", -1, vocab, d, embedding);
    for (size_t l = 0; l < n; l++) {
        int layer = (int)l;
        reordered[2 * l] = half_split(wq + l * d * d, (size_t)h.n_heads, head_dim, d);
        reordered[2 * l + 1] = half_split(wk + l * kv * d, (size_t)h.n_kv_heads, head_dim, d);
        add(list, &count, "input_layernorm.weight", layer, d, 0, att_norm + l * d);
        add(list, &count, "self_attn.q_proj.weight", layer, d, d, reordered[2 * l]);
        add(list, &count, "self_attn.k_proj.weight", layer, kv, d, reordered[2 * l + 1]);
        add(list, &count, "self_attn.v_proj.weight", layer, kv, d, wv + l * kv * d);
        add(list, &count, "self_attn.o_proj.weight", layer, d, d, wo + l * d * d);
        add(list, &count, "post_attention_layernorm.weight", layer, d, 0, ffn_norm + l * d);
        add(list, &count, "mlp.gate_proj.weight", layer, f, d, w1 + l * f * d);
        add(list, &count, "mlp.down_proj.weight", layer, d, f, w2 + l * f * d);
        add(list, &count, "mlp.up_proj.weight", layer, f, d, w3 + l * f * d);
    }
    add(list, &count, "model.norm.weight", -1, d, 0, norm);
    if (h.vocab_size < 0) add(list, &count, "lm_head.weight", -1, vocab, d, head);
    for (size_t i = 0; bf16 && i < count; i++)
        cut_to_bf16(&list[i]);
    write_files(directory, &h, list, count);
    for (size_t i = 0; bf16 && i < count; i++)
        free((void *)(uintptr_t)list[i].data);
    for (size_t i = 0; i < 2 * n; i++)
        free(reordered[i]);
    free(reordered);
    free(list);
}

void write_hugging_face(const char *directory, const char *bin, size_t size) {
    write_model(directory, bin, size, false);
}

void write_hugging_face_bf16(const char *directory, const char *bin, size_t size) {
    write_model(directory, bin, size, true);
}
