// What the tensors of a good GGUF file become: weights by role, in limpid's order of rows.
#include "tests/support/files/opened_gguf.h"
#include "tests/test.h"
#include "weights/quant.h"

Test(gguf_weights, weights_have_their_roles) {
    OpenedGguf o = opened_gguf(gguf_tiny_llama());
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
    opened_gguf_close(&o);
}

Test(gguf_weights, norms_are_float32_whatever_their_type) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_remove_tensor(file, "output_norm.weight");
        GgufTensor *norm = gguf_add_tensor(file, "output_norm.weight", TYPES[t], 4, 0);
        const float values[4] = {1, -2, 0.5f, 3};
        quantise(norm->data, TYPES[t], values, 4);
        OpenedGguf o = opened_gguf(file);
        CHECK(!memcmp(checkpoint_weights(o.checkpoint)->final_norm, values, sizeof values));
        opened_gguf_close(&o);
    }
}

Test(gguf_weights, a_written_head_is_used) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "output.weight", DTYPE_F16, 4, 8);
    OpenedGguf o = opened_gguf(file);
    const Weights *w = checkpoint_weights(o.checkpoint);
    CHECK(w->head.data != w->token_embedding.data);
    CHECK_INT(w->head.dtype, DTYPE_F16);
    opened_gguf_close(&o);
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

Test(gguf_weights, interleaved_rows_and_biases_are_put_in_order) {
    GgufFile *file = wide_heads(6);
    GgufTensor *bias = gguf_add_tensor(file, "blk.0.attn_q.bias", DTYPE_F32, 12, 0);
    float values[12], row[4];
    for (int i = 0; i < 12; i++)
        values[i] = (float)i;
    memcpy(bias->data, values, sizeof values);
    OpenedGguf o = opened_gguf(file);
    const LayerWeights *layer = &checkpoint_weights(o.checkpoint)->layers[0];
    CHECK_INT(checkpoint_config(o.checkpoint)->head_dim, 6);
    for (size_t r = 0; r < 12; r++) {
        CHECK_INT(layer->bq[r], STORED_ROW[r]);
        matrix_row(row, &layer->wq, r);
        CHECK(!memcmp(row, (const float *)layer->wq.data + 4 * STORED_ROW[r], sizeof row));
    }
    CHECK(!layer->bk);
    opened_gguf_close(&o);
}

Test(gguf_weights, a_quantised_vector_is_refused) {
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

Test(gguf_weights, a_fused_qkv_is_cut_by_rows) {
    GgufFile *file = wide_heads(6);
    gguf_remove_tensor(file, "blk.1.attn_q.weight");
    gguf_remove_tensor(file, "blk.1.attn_k.weight");
    gguf_remove_tensor(file, "blk.1.attn_v.weight");
    gguf_add_tensor(file, "blk.1.attn_qkv.weight", DTYPE_F32, 4, 24);
    gguf_add_tensor(file, "blk.1.attn_qkv.bias", DTYPE_F32, 24, 0);
    OpenedGguf o = opened_gguf(file);
    const LayerWeights *layer = &checkpoint_weights(o.checkpoint)->layers[1];
    const float *data = layer->wq.data;
    CHECK(layer->wk.data == (const void *)(data + 4 * 12));
    CHECK(layer->wv.data == (const void *)(data + 4 * 18));
    CHECK_INT(layer->wv.rows, 6);
    CHECK(layer->wq.rope_dim == 6 && layer->wk.rope_dim == 6 && !layer->wv.rope_dim);
    CHECK(layer->bq && layer->bk && layer->bv);
    opened_gguf_close(&o);
}

Test(gguf_weights, every_type_is_read_as_its_blocks_say) {
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
        OpenedGguf o = opened_gguf(file);
        const Matrix *down = &checkpoint_weights(o.checkpoint)->layers[1].w_down;
        float row[256], wanted[256];
        CHECK_INT(down->dtype, dtype);
        CHECK_INT(down->cols, 256);
        matrix_row(row, down, 3);
        dequantise(wanted, (DType)dtype,
                   (const uint8_t *)down->data + 3 * dtype_row_bytes((DType)dtype, width), width);
        CHECK(!memcmp(row, wanted, sizeof row));
        opened_gguf_close(&o);
    }
}

Test(gguf_weights, rope_freqs_are_the_divisors) {
    GgufFile *file = wide_heads(6);
    GgufTensor *freqs = gguf_add_tensor(file, "rope_freqs.weight", DTYPE_F32, 3, 0);
    const float values[3] = {1, 2.5f, 8};
    memcpy(freqs->data, values, sizeof values);
    OpenedGguf o = opened_gguf(file);
    const float *divisors = checkpoint_config(o.checkpoint)->rope.divisors;
    CHECK(divisors && !memcmp(divisors, values, sizeof values));
    opened_gguf_close(&o);
}

Test(gguf_weights, tensors_known_to_be_of_no_use_are_passed_over) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "blk.0.attn_rot_embd.weight", DTYPE_F32, 7, 0);
    OpenedGguf o = opened_gguf(file);
    CHECK_INT(checkpoint_unused(o.checkpoint), 0);
    opened_gguf_close(&o);
}

Test(gguf_weights, tensors_of_layers_that_do_not_exist_are_listed) {
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "blk.99.attn_q.weight", DTYPE_F32, 4, 4);
    gguf_add_tensor(file, "something.else", DTYPE_F32, 4, 0);
    OpenedGguf o = opened_gguf(file);
    CHECK_INT(checkpoint_unused(o.checkpoint), 2);
    CHECK_STRING(checkpoint_unused_name(o.checkpoint, 0), "blk.99.attn_q.weight");
    CHECK_STRING(checkpoint_unused_name(o.checkpoint, 1), "something.else");
    CHECK(!checkpoint_unused_name(o.checkpoint, 2));
    opened_gguf_close(&o);
}

Test(gguf_weights, a_file_is_mapped_and_its_pages_come_back_after_release) {
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
