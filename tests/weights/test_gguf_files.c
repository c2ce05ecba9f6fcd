// Real GGUF files of ../shared/data: weights against another container, vocabularies against their
// published sizes.
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

static void same_rows(const Matrix *a, const Matrix *b, const char *name, int layer) {
    float row_a[512], row_b[512];
    CHECK(a->rows == b->rows && a->cols == b->cols && a->cols <= 512);
    for (size_t r = 0; r < a->rows; r++) {
        matrix_row(row_a, a, r);
        matrix_row(row_b, b, r);
        CHECK(!memcmp(row_a, row_b, a->cols * sizeof *row_a), "%s of layer %d, row %zu", name,
              layer, r);
    }
}

Test(gguf_files, stories260K_has_the_same_weights_in_both_containers) {
    const char *gguf_path = test_data("stories260K/stories260K.gguf");
    const char *bin_path = test_data("stories260K/stories260K.bin");
    Error error = {0};
    Checkpoint *gguf = NULL, *bin = NULL;
    CHECK(checkpoint_open(&gguf, gguf_path, &error), "%s", error.message);
    CHECK(checkpoint_open(&bin, bin_path, &error), "%s", error.message);
    const Weights *a = checkpoint_weights(gguf), *b = checkpoint_weights(bin);
    same_rows(&a->token_embedding, &b->token_embedding, "token_embedding", 0);
    same_rows(&a->head, &b->head, "head", 0);
    for (int l = 0; l < checkpoint_config(gguf)->n_layers; l++) {
        const LayerWeights *x = &a->layers[l], *y = &b->layers[l];
        same_rows(&x->wq, &y->wq, "wq", l);
        same_rows(&x->wk, &y->wk, "wk", l);
        same_rows(&x->wv, &y->wv, "wv", l);
        same_rows(&x->wo, &y->wo, "wo", l);
        same_rows(&x->w_gate, &y->w_gate, "w_gate", l);
        same_rows(&x->w_up, &y->w_up, "w_up", l);
        same_rows(&x->w_down, &y->w_down, "w_down", l);
        CHECK(!memcmp(x->att_norm, y->att_norm, 64 * sizeof(float)));
        CHECK(!memcmp(x->ffn_norm, y->ffn_norm, 64 * sizeof(float)));
    }
    CHECK_INT(checkpoint_vocabulary(gguf)->n_tokens, 512);
    CHECK_INT(checkpoint_vocabulary(gguf)->pad_id, -1);
    checkpoint_close(gguf);
    checkpoint_close(bin);
}

Test(gguf_files, public_vocabularies_open) {
    static const struct {
        const char *name, *model;
        size_t tokens, merges;
        int bos;
    } FILES[] = {
        {"ggml-vocab/ggml-vocab-gpt-2.gguf", "gpt2", 50257, 50000, 50256},
        {"ggml-vocab/ggml-vocab-llama-spm.gguf", "llama", 32000, 0, 1},
        {"ggml-vocab/ggml-vocab-phi-3.gguf", "llama", 32064, 0, 1},
    };
    for (size_t i = 0; i < 3; i++) {
        Error error = {0};
        Checkpoint *checkpoint = NULL;
        CHECK(checkpoint_open_vocabulary(&checkpoint, test_data(FILES[i].name), &error), "%s",
              error.message);
        const Vocabulary *v = checkpoint_vocabulary(checkpoint);
        CHECK_STRING(v->model, FILES[i].model);
        CHECK_INT(v->n_tokens, FILES[i].tokens);
        CHECK_INT(v->n_merges, FILES[i].merges);
        CHECK_INT(v->bos_id, FILES[i].bos);
        CHECK((v->scores != NULL) == !v->n_merges);
        checkpoint_close(checkpoint);
    }
}
