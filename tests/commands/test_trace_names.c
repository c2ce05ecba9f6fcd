// trace: the names of stages, as docs/trace.md lists them, for every family.
#include "tests/support/traces.h"
#include "weights/checkpoint.h"

// In the order of computation; the names `inside` follow the name of the layer and a dot.
typedef struct Expected {
    const char *model, *before, *layer, *inside, *after; // names separated by blanks
} Expected;

static const Expected EXPECTED[] = {
    {"llama-tied", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_rotated "
     "self_attn.k_rotated self_attn.attn_weights self_attn.heads self_attn.o_proj attn_residual "
     "post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.activated mlp.down_proj",
     "model.norm lm_head"},
    {"gpt2", "transformer.drop", "transformer.h.",
     "ln_1 attn.c_attn.q attn.c_attn.k attn.c_attn.v attn.attn_weights attn.heads attn.c_proj "
     "attn_residual ln_2 mlp.c_fc mlp.activated mlp.c_proj",
     "transformer.ln_f lm_head"},
    {"qwen3", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_norm "
     "self_attn.k_norm self_attn.q_rotated self_attn.k_rotated self_attn.attn_weights "
     "self_attn.heads self_attn.o_proj attn_residual post_attention_layernorm mlp.gate_proj "
     "mlp.up_proj mlp.activated mlp.down_proj",
     "model.norm lm_head"},
    {"gemma3", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_norm "
     "self_attn.k_norm self_attn.q_rotated self_attn.k_rotated self_attn.attn_weights "
     "self_attn.heads self_attn.o_proj post_attention_layernorm attn_residual "
     "pre_feedforward_layernorm mlp.gate_proj mlp.up_proj mlp.activated mlp.down_proj "
     "post_feedforward_layernorm",
     "model.norm lm_head"},
    {"olmo2", "model.embed_tokens", "model.layers.",
     "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_norm self_attn.k_norm "
     "self_attn.q_rotated self_attn.k_rotated self_attn.attn_weights self_attn.heads "
     "self_attn.o_proj post_attention_layernorm attn_residual mlp.gate_proj mlp.up_proj "
     "mlp.activated mlp.down_proj post_feedforward_layernorm",
     "model.norm lm_head"},
    {"hunyuan_v1_dense", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_rotated "
     "self_attn.k_rotated self_attn.query_layernorm self_attn.key_layernorm "
     "self_attn.attn_weights self_attn.heads self_attn.o_proj attn_residual "
     "post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.activated mlp.down_proj",
     "model.norm lm_head"},
    {"arcee", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_rotated "
     "self_attn.k_rotated self_attn.attn_weights self_attn.heads self_attn.o_proj attn_residual "
     "post_attention_layernorm mlp.up_proj mlp.activated mlp.down_proj",
     "model.norm lm_head"},
    {"granite", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_rotated "
     "self_attn.k_rotated self_attn.attn_weights self_attn.heads self_attn.o_proj "
     "self_attn.scaled attn_residual post_attention_layernorm mlp.gate_proj mlp.up_proj "
     "mlp.activated mlp.down_proj mlp.scaled",
     "model.norm lm_head logits"},
    {"gpt_neox", "gpt_neox.embed_in", "gpt_neox.layers.",
     "input_layernorm attention.query_key_value.q attention.query_key_value.k "
     "attention.query_key_value.v attention.q_rotated attention.k_rotated attention.attn_weights "
     "attention.heads attention.dense attn_residual post_attention_layernorm mlp.dense_h_to_4h "
     "mlp.activated mlp.dense_4h_to_h",
     "gpt_neox.final_layer_norm lm_head"},
    {"phi3", "model.embed_tokens", "model.layers.",
     "input_layernorm self_attn.qkv_proj.q self_attn.qkv_proj.k self_attn.qkv_proj.v "
     "self_attn.q_rotated self_attn.k_rotated self_attn.attn_weights self_attn.heads "
     "self_attn.o_proj attn_residual post_attention_layernorm mlp.gate_up_proj.gate "
     "mlp.gate_up_proj.up mlp.activated mlp.down_proj",
     "model.norm lm_head"},
    {"nanochat", "model.embed_tokens model.embed_norm", "model.layers.",
     "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.q_rotated "
     "self_attn.k_rotated self_attn.q_norm self_attn.k_norm self_attn.attn_weights "
     "self_attn.heads self_attn.o_proj attn_residual post_attention_layernorm mlp.fc1 "
     "mlp.activated mlp.fc2",
     "model.norm lm_head logits"},
};

// Appends `prefix` + each name of a list as lines.
static void add_names(char *text, const char *prefix, const char *names) {
    for (; *names; names += strspn(names, " ")) {
        int length = (int)strcspn(names, " ");
        sprintf(text + strlen(text), "%s%.*s\n", prefix, length, names);
        names += length;
    }
}

static int by_offset(const void *a, const void *b) {
    const SafetensorsTensor *x = a, *y = b;
    return (x->plan.offset > y->plan.offset) - (x->plan.offset < y->plan.offset);
}

static int layers_of(const char *model) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, model, &error), "%s", error.message);
    int n_layers = checkpoint_config(checkpoint)->n_layers;
    checkpoint_close(checkpoint);
    return n_layers;
}

static void check_names(const Expected *expected) {
    static char wanted[40000], got[40000];
    char prefix[80];
    const char *model = test_reference_model(expected->model);
    int n_layers = layers_of(model);
    *wanted = *got = '\0';
    add_names(wanted, "", "input_ids");
    add_names(wanted, "", expected->before);
    for (int l = 0; l < n_layers; l++) {
        snprintf(prefix, sizeof prefix, "%s%d.", expected->layer, l);
        add_names(wanted, prefix, expected->inside);
        snprintf(prefix, sizeof prefix, "%s%d", expected->layer, l);
        add_names(wanted, "", prefix);
    }
    add_names(wanted, "", expected->after);
    char *path = write_trace(model, "--prompt-ids|3,1,2|--attention", "names.safetensors");
    SafetensorsFile file = open_trace(path);
    qsort(file.tensors, file.count, sizeof *file.tensors, by_offset);
    for (size_t i = 0; i < file.count; i++)
        sprintf(got + strlen(got), "%s\n", file.tensors[i].plan.name);
    CHECK_STRING(got, wanted);
    safetensors_close(&file);
    free(path);
}

Test(trace, names_are_those_of_the_modules_in_the_order_of_computation) {
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++)
        check_names(&EXPECTED[i]);
}

// SmolLM3 has layers without RoPE: layer 3 of the public reference model, layer 1 of the tiny one.
Test(trace, a_layer_without_rope_has_no_rotated_stage) {
    const char *model = test_reference_model("smollm3");
    bool tiny = strstr(model, "tiny-models") != NULL;
    char *path = write_trace(model, "--prompt-ids|3,1,2|--only|*_rotated", "nope.safetensors");
    SafetensorsFile file = open_trace(path);
    CHECK_INT(file.count, 1 + 2 * 3);
    CHECK(safetensors_find(&file, "model.layers.2.self_attn.k_rotated"), "layer 2 has RoPE");
    CHECK(!safetensors_find(&file, test_text("model.layers.%d.self_attn.k_rotated", tiny ? 1 : 3)),
          "a layer without RoPE has a rotated stage");
    safetensors_close(&file);
    free(path);
}
