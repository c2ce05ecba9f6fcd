// config.json and generation_config.json: any text becomes a Config in range or one message.
// Exercises: weights/hf/config.c weights/hf/positions.c weights/hf/families.c weights/hf/keys.c
// base/json.c
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "weights/hf/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":7,\"vocab_size\":99,"       \
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"max_position_embeddings\":128,"

static const char *const BASES[] = {
    "{" SIZES
    "\"model_type\":\"llama\",\"rope_theta\":1e4,\"rope_scaling\":{\"rope_type\":\"llama3\","
    "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
    "\"original_max_position_embeddings\":64},\"eos_token_id\":[1,2],\"head_dim\":16}",
    "{" SIZES "\"model_type\":\"mistral\",\"sliding_window\":8,\"rope_parameters\":{\"rope_type\":"
    "\"yarn\",\"factor\":4,\"beta_fast\":32,\"truncate\":false},\"tie_word_embeddings\":true}",
    "{" SIZES "\"model_type\":\"gemma3_text\",\"layer_types\":[\"sliding_attention\","
    "\"sliding_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\","
    "\"full_attention\",\"full_attention\"],\"query_pre_attn_scalar\":24,\"rope_parameters\":{"
    "\"full_attention\":{\"rope_theta\":1e6},\"sliding_attention\":{\"rope_theta\":1e4}}}",
    "{" SIZES
    "\"model_type\":\"phi3\",\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":\"su\","
    "\"long_factor\":[1,2],\"short_factor\":[1,1]},\"original_max_position_embeddings\":32}",
    "{" SIZES "\"model_type\":\"smollm3\",\"no_rope_layers\":[1,1,1,0,1,1,1],"
    "\"use_sliding_window\":false,\"temperature\":0.6,\"top_k\":20}",
    "{" SIZES "\"model_type\":\"gemma2\",\"attn_logit_softcapping\":50.0,"
    "\"final_logit_softcapping\":30.0,\"query_pre_attn_scalar\":256,\"sliding_window\":8,\"head_"
    "dim\":"
    "16}",
    "{" SIZES "\"model_type\":\"granitemoehybrid\",\"num_local_experts\":0,"
    "\"shared_intermediate_size\":96,\"layer_types\":[\"attention\",\"attention\",\"attention\","
    "\"attention\",\"attention\",\"attention\",\"full_attention\"],\"position_embedding_type\":"
    "\"rope\",\"embedding_multiplier\":12,\"attention_multiplier\":0.1,\"residual_multiplier\":0.2,"
    "\"logits_scaling\":8,\"normalization_function\":\"rmsnorm\"}",
    "{\"model_type\":\"mistral3\",\"text_config\":{" SIZES "\"model_type\":\"ministral3\","
    "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":16,\"mscale\":1,\"mscale_all_dim\":1,"
    "\"original_max_position_embeddings\":16,\"llama_4_scaling_beta\":0.1}}}",
    "{" SIZES "\"model_type\":\"gpt_neox\",\"rotary_pct\":0.25,\"rotary_emb_base\":10000,"
    "\"layer_norm_eps\":1e-5,\"use_parallel_residual\":true}",
    "{" SIZES "\"model_type\":\"hunyuan_v1_dense\",\"use_qk_norm\":true,\"norm_type\":\"rms\","
    "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1000,\"factor\":1}}",
    "{" SIZES "\"model_type\":\"exaone4\",\"sliding_window\":4,\"sliding_window_pattern\":4}",
    ("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_layer\":2,\"n_head\":3,\"n_positions\":9,"
     "\"vocab_size\":7,\"n_inner\":null,\"scale_attn_by_inverse_layer_idx\":true}"),
};
enum { N_BASES = sizeof BASES / sizeof *BASES };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_json, BASES[seed % N_BASES],
                       strlen(BASES[seed % N_BASES]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    static Config config; // 13 KB, cleared by config_init
    const char *base = BASES[count ? (data[0] >> 1) % N_BASES : 0];
    size_t size;
    uint8_t *text = fuzz_patched(&size, data, count, base, strlen(base));
    Error error = {0};
    Arena arena = {0};
    HfFlags flags;
    GenerationDefaults defaults = {-1, -1, -1, -1, -1};
    if (!text) return 0;
    config_init(&config);
    json_t *root = json_parse((const char *)text, size, &JSON_CONFIG_LIMITS, &error);
    bool good = root && hf_config_read(&config, &flags, root, &arena, &error) &&
                config_finish(&config, &error) &&
                hf_generation_read(&config, &defaults, root, &error);
    if (good == (error.code != ERROR_NONE)) abort();
    json_decref(root);
    arena_free(&arena);
    free(text);
    return 0;
}
