// How Hugging Face stores GPT-2, Gemma 3 and nanochat, on models small enough to be written by
// hand: what is transposed, what is stored minus one, what is not there, and what may lie beside
// it.
#include "tests/support/files/safetensors_writer.h"
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <sys/stat.h>

// Tensors of a directory to be written: element i of the t-th tensor added is 100 t + i.
typedef struct Folder {
    WriterTensor tensors[40];
    size_t count;
    float numbers[40][64];
} Folder;

static void add(Folder *folder, const char *name, size_t rows, size_t cols) {
    size_t t = folder->count++, size = rows * (cols ? cols : 1);
    CHECK(t < 40 && size <= 64);
    for (size_t i = 0; i < size; i++)
        folder->numbers[t][i] = (float)(100 * t + i);
    WriterTensor *tensor = &folder->tensors[t];
    *tensor = (WriterTensor){.dtype = "F32", .rank = cols ? 2 : 1, .shape = {rows, cols}};
    tensor->data = folder->numbers[t];
    tensor->bytes = 4 * size;
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

// A buffer of bytes, (1, 1, 4, 4), as old checkpoints have their causal mask.
static void add_bytes(Folder *folder, const char *name, const char *dtype) {
    WriterTensor *tensor = &folder->tensors[folder->count];
    *tensor = (WriterTensor){.dtype = dtype, .rank = 4, .shape = {1, 1, 4, 4}, .bytes = 16};
    tensor->data = folder->numbers[folder->count++];
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

// Opens what is written there; a message that is not NULL is the refusal that is wanted.
static Checkpoint *open_written(const Folder *folder, const char *config, const char *message) {
    static int n;
    char path[700], name[30];
    snprintf(name, sizeof name, "hf-families-%d", n++);
    const char *directory = test_temporary(name);
    CHECK(!mkdir(directory, 0700));
    size_t size;
    char *bytes = safetensors_bytes(&size, folder->tensors, folder->count, 0);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    test_write_file(path, bytes, size);
    free(bytes);
    snprintf(path, sizeof path, "%s/config.json", directory);
    test_write_file(path, config, strlen(config));
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    bool opened = checkpoint_open(&checkpoint, directory, &error);
    if (opened && message) checkpoint_close(checkpoint);
    CHECK(opened == !message, "%s", error.message);
    CHECK(opened || strstr(error.message, message), "\"%s\" is not in \"%s\"", message,
          error.message);
    return checkpoint;
}

static void check_row(const Matrix *matrix, size_t row, const float *wanted, size_t cols) {
    float got[16];
    CHECK(matrix->cols == cols && cols <= 16 && row < matrix->rows);
    matrix_row(got, matrix, row);
    CHECK(!memcmp(got, wanted, cols * sizeof *got), "row %zu begins with %g", row, (double)got[0]);
}

// ---- GPT-2: width 2, one head ----

static const char GPT2[] = "{\"model_type\":\"gpt2\",\"n_embd\":2,\"n_head\":1,\"n_layer\":1,"
                           "\"vocab_size\":3,\"n_positions\":4,\"n_inner\":3}";

static void gpt2(Folder *folder, const char *prefix) {
    static const struct {
        const char *name;
        size_t rows, cols;
    } TENSORS[] = {
        {"wte.weight", 3, 2},
        {"wpe.weight", 4, 2},
        {"ln_f.weight", 2, 0},
        {"ln_f.bias", 2, 0},
        {"h.0.ln_1.weight", 2, 0},
        {"h.0.ln_1.bias", 2, 0},
        {"h.0.attn.c_attn.weight", 2, 6},
        {"h.0.attn.c_attn.bias", 6, 0},
        {"h.0.attn.c_proj.weight", 2, 2},
        {"h.0.attn.c_proj.bias", 2, 0},
        {"h.0.ln_2.weight", 2, 0},
        {"h.0.ln_2.bias", 2, 0},
        {"h.0.mlp.c_fc.weight", 2, 3},
        {"h.0.mlp.c_fc.bias", 3, 0},
        {"h.0.mlp.c_proj.weight", 3, 2},
        {"h.0.mlp.c_proj.bias", 2, 0},
    };
    memset(folder, 0, sizeof *folder);
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", prefix, TENSORS[i].name);
        add(folder, name, TENSORS[i].rows, TENSORS[i].cols);
    }
}

// c_attn is tensor 6, (2, 6): q k v of two columns each, element 600 + 6 in + column.
Test(hf_families, gpt2_is_turned_and_taken_apart) {
    static const char *const PREFIXES[] = {"", "transformer."};
    Folder folder;
    for (int i = 0; i < 2; i++) {
        gpt2(&folder, PREFIXES[i]);
        Checkpoint *checkpoint = open_written(&folder, GPT2, NULL);
        const Weights *w = checkpoint_weights(checkpoint);
        const LayerWeights *layer = w->layers;
        check_row(&layer->wq, 0, (float[]){600, 606}, 2);
        check_row(&layer->wq, 1, (float[]){601, 607}, 2);
        check_row(&layer->wk, 0, (float[]){602, 608}, 2);
        check_row(&layer->wv, 1, (float[]){605, 611}, 2);
        check_row(&layer->wo, 1, (float[]){801, 803}, 2);
        check_row(&layer->w_up, 2, (float[]){1202, 1205}, 2);
        check_row(&layer->w_down, 1, (float[]){1401, 1403, 1405}, 3);
        CHECK(layer->bq[1] == 701 && layer->bk[0] == 702 && layer->bv[1] == 705);
        CHECK(layer->b_up[2] == 1302 && layer->att_norm_bias[1] == 501 && !layer->w_gate.data);
        check_row(&w->position_embedding, 3, (float[]){106, 107}, 2); // as it is
        check_row(&w->head, 2, (float[]){4, 5}, 2);
        CHECK(checkpoint_config(checkpoint)->position == POSITION_LEARNED);
        checkpoint_close(checkpoint);
    }
}

Test(hf_families, gpt2_may_bring_its_mask) {
    Folder folder;
    gpt2(&folder, "");
    add_bytes(&folder, "h.0.attn.bias", "BOOL");
    add(&folder, "h.0.attn.masked_bias", 1, 0);
    Checkpoint *checkpoint = open_written(&folder, GPT2, NULL);
    CHECK_INT(checkpoint_unused(checkpoint), 0);
    checkpoint_close(checkpoint);
    gpt2(&folder, "");
    add_bytes(&folder, "h.0.attn.bias", "U8");
    checkpoint_close(open_written(&folder, GPT2, NULL));
    gpt2(&folder, "");
    add_bytes(&folder, "h.0.attn.mask", "BOOL");
    open_written(&folder, GPT2, "\"h.0.attn.mask\": dtype BOOL is not supported");
    gpt2(&folder, "");
    add_bytes(&folder, "h.x.attn.bias", "BOOL");
    open_written(&folder, GPT2, "\"h.x.attn.bias\": dtype BOOL is not supported");
}

Test(hf_families, gpt2_matrices_have_the_shape_that_is_stored) {
    Folder folder;
    gpt2(&folder, "");
    folder.tensors[6].shape[0] = 6;
    folder.tensors[6].shape[1] = 2; // as a Linear has it
    open_written(&folder, GPT2, "(layers.0.wq): wanted (2, 6), got (6, 2)");
    gpt2(&folder, "");
    folder.tensors[1].shape[0] = 3; // fewer positions than the config says
    folder.tensors[1].bytes = 24;
    open_written(&folder, GPT2, "(position_embedding): wanted (4, 2), got (3, 2)");
}

// ---- decoders of width 2, one head ----

static void decoder(Folder *folder, const char *prefix, const char *const *vectors,
                    const char *const *ffn) {
    static const char *const SQUARES[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    char name[80];
    memset(folder, 0, sizeof *folder);
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    add(folder, name, 3, 2);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%slayers.0.self_attn.%s.weight", prefix, SQUARES[i]);
        add(folder, name, 2, 2);
    }
    for (int i = 0; ffn[i]; i++) {
        snprintf(name, sizeof name, "%slayers.0.mlp.%s.weight", prefix, ffn[i]);
        add(folder, name, ffn[i + 1] ? 4 : 2, ffn[i + 1] ? 2 : 4);
    }
    for (int i = 0; vectors && vectors[i]; i++) {
        snprintf(name, sizeof name, "%s%s.weight", prefix, vectors[i]);
        add(folder, name, 2, 0);
    }
}

static const char *const GATED[] = {"gate_proj", "up_proj", "down_proj", NULL};
static const char *const PLAIN[] = {"fc1", "fc2", NULL};
#define SIZES                                                                                      \
    "\"hidden_size\":2,\"intermediate_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":1," \
    "\"num_key_value_heads\":1,\"head_dim\":2,\"vocab_size\":3,\"max_position_embeddings\":8"

// The final norm is tensor 8, and so on.
static const char *const GEMMA_NORMS[] = {"norm",
                                          "layers.0.input_layernorm",
                                          "layers.0.post_attention_layernorm",
                                          "layers.0.pre_feedforward_layernorm",
                                          "layers.0.post_feedforward_layernorm",
                                          "layers.0.self_attn.q_norm",
                                          "layers.0.self_attn.k_norm",
                                          NULL};

Test(hf_families, gemma_norms_get_their_one_wherever_the_text_model_lies) {
    static const struct {
        const char *prefix, *config;
    } FORMS[] = {
        {"model.", "{\"model_type\":\"gemma3_text\"," SIZES "}"},
        {"language_model.model.", "{\"model_type\":\"gemma3\",\"text_config\":{" SIZES "}}"},
        {"model.language_model.", "{\"model_type\":\"gemma3\",\"text_config\":{" SIZES "}}"},
    };
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        Folder folder;
        decoder(&folder, FORMS[i].prefix, GEMMA_NORMS, GATED);
        add(&folder, "vision_tower.embeddings.weight", 4, 4); // another model's
        Checkpoint *checkpoint = open_written(&folder, FORMS[i].config, NULL);
        const Weights *w = checkpoint_weights(checkpoint);
        const LayerWeights *layer = w->layers;
        CHECK(w->final_norm[1] == 802 && layer->att_norm[0] == 901);
        CHECK(layer->att_post_norm[0] == 1001 && layer->ffn_norm[0] == 1101);
        CHECK(layer->ffn_post_norm[1] == 1202 && layer->q_norm[0] == 1301);
        CHECK(layer->k_norm[1] == 1402);
        CHECK_NEAR(checkpoint_config(checkpoint)->embedding_scale, 1.41421356, 1e-7);
        CHECK_INT(checkpoint_unused(checkpoint), 1);
        checkpoint_close(checkpoint);
    }
}

static const char NANOCHAT[] =
    "{\"model_type\":\"nanochat\",\"tie_word_embeddings\":true," SIZES "}";

Test(hf_families, nanochat_norms_are_ones) {
    Folder folder;
    decoder(&folder, "model.", NULL, PLAIN);
    Checkpoint *checkpoint = open_written(&folder, NANOCHAT, NULL);
    const Weights *w = checkpoint_weights(checkpoint);
    const LayerWeights *layer = w->layers;
    const float *ones[] = {w->embedding_norm, w->final_norm, layer->att_norm,
                           layer->ffn_norm,   layer->q_norm, layer->k_norm};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        CHECK(ones[i] && ones[i][0] == 1.0f && ones[i][1] == 1.0f);
    const Config *c = checkpoint_config(checkpoint);
    CHECK(c->rope.sign == -1.0f && c->qk_norm_after_rope && c->logit_softcap == 15.0f);
    CHECK(!layer->att_post_norm && !layer->w_gate.data && c->activation == ACTIVATION_RELU2);
    checkpoint_close(checkpoint);
}

// Later versions have tensors of their own, and are another model.
Test(hf_families, what_nanochat_had_later_is_refused) {
    static const char *const LATER[] = {"model.resid_lambdas", "model.x0_lambdas",
                                        "value_embeds.0.weight", "model.norm.weight"};
    for (size_t i = 0; i < sizeof LATER / sizeof *LATER; i++) {
        Folder folder;
        decoder(&folder, "model.", NULL, PLAIN);
        add(&folder, LATER[i], 2, 0);
        open_written(&folder, NANOCHAT, LATER[i]);
    }
}

static const char *const OLMO2_NORMS[] = {"norm",
                                          "layers.0.post_attention_layernorm",
                                          "layers.0.post_feedforward_layernorm",
                                          "layers.0.self_attn.q_norm",
                                          "layers.0.self_attn.k_norm",
                                          NULL};

Test(hf_families, olmo2_has_norms_behind_its_blocks_alone) {
    static const char CONFIG[] =
        "{\"model_type\":\"olmo2\",\"tie_word_embeddings\":true," SIZES "}";
    Folder folder;
    decoder(&folder, "model.", OLMO2_NORMS, GATED);
    Checkpoint *checkpoint = open_written(&folder, CONFIG, NULL);
    const LayerWeights *layer = checkpoint_weights(checkpoint)->layers;
    CHECK(!layer->att_norm && !layer->ffn_norm);
    CHECK(layer->att_post_norm[0] == 900 && layer->ffn_post_norm[0] == 1000);
    checkpoint_close(checkpoint);
    add(&folder, "model.layers.0.input_layernorm.weight", 2, 0);
    open_written(&folder, CONFIG, "has no use in architecture \"olmo2\"");
}
