// Which keys of config.json there are: those that limpid follows, those that say nothing about the
// numbers, and those that pass only with the value that switches them off. Any other may change
// what the model computes, so it is refused by name and never passed over.
// Each list is words between spaces.
#include "weights/hf/config.h"

#include <string.h>

// Read somewhere in config.c, positions.c, families.c.
static const char FOLLOWED[] =
    "model_type architectures text_config hidden_size intermediate_size num_hidden_layers "
    "num_attention_heads num_key_value_heads head_dim vocab_size max_position_embeddings n_embd "
    "n_inner n_layer n_head n_positions rms_norm_eps layer_norm_epsilon hidden_act "
    "hidden_activation activation_function attention_bias tie_word_embeddings "
    "query_pre_attn_scalar final_logit_softcapping attn_logit_softcapping scale_attn_weights "
    "embedding_multiplier attention_multiplier residual_multiplier logits_scaling "
    "shared_intermediate_size position_embedding_type layer_norm_eps rotary_pct rotary_emb_base "
    "use_parallel_residual use_qk_norm "
    "scale_attn_by_inverse_layer_idx rope_theta rope_scaling rope_parameters "
    "rope_local_base_freq partial_rotary_factor original_max_position_embeddings no_rope_layers "
    "no_rope_layer_interval sliding_window use_sliding_window sliding_window_pattern "
    "_sliding_window_pattern max_window_layers layer_types bos_token_id eos_token_id";

// About training, sampling, other software, other heads, or how a result is handed over.
static const char HARMLESS[] =
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path _num_labels "
    "attention_dropout attention_head_dim attention_probs_dropout_prob attn_implementation "
    "attn_pdrop author auto_map bad_words_ids begin_suppress_tokens boi_token_id "
    "boi_token_index bos_token cache_implementation chunk_size_feed_forward cla_share_factor "
    "class_num classifier_dropout cross_attention_hidden_size custom_pipelines "
    "decoder_start_token_id dense_list description diversity_penalty do_sample dtype "
    "early_stopping embd_pdrop encoder_no_repeat_ngram_size eod_token_id eoi_token_id "
    "eoi_token_index eos_token exponential_decay_length_penalty finetuning_task "
    "forced_bos_token_id forced_eos_token_id gradient_checkpointing hidden_dropout "
    "hidden_dropout_prob id2label im_end_id im_newline_id im_start_id image_token_id "
    "image_token_index init_method initializer_range is_decoder is_llama_config label2id "
    "length_penalty license mamba_chunk_size mamba_conv_bias mamba_d_conv mamba_d_head "
    "mamba_d_state mamba_expand mamba_n_groups mamba_n_heads mamba_proj_bias mask_init_id "
    "max_length max_sequence_length min_length mm_tokens_per_image multimodal_projector_bias "
    "n_ctx n_special no_repeat_ngram_size num_beam_groups num_beams num_labels "
    "num_return_sequences num_steps org_vocab_size output_attentions output_hidden_states "
    "output_past output_router_logits output_scores pad_id pad_token pad_token_id pool_type "
    "predict_special_tokens prefix pretraining_tp problem_type projector_hidden_act "
    "pruned_heads remove_invalid_values reorder_and_upcast_attn repetition_penalty resid_pdrop "
    "return_dict return_dict_in_generate router_aux_loss_coef sep_token_id sliding_window_size "
    "spatial_merge_size summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj suppress_tokens task_specific_params temperature "
    "text_end_id text_start_id tf_legacy_loss tie_encoder_decoder time_step_limit "
    "tokenizer_class top_k top_p torch_dtype torchscript transformers.js_config "
    "transformers_version transformers_weights typical_p unsloth_fixed unsloth_version url "
    "use_bfloat16 use_cache use_flash_attn use_rotary_pos_emb vision_config "
    "vision_feature_layer";

// Features that limpid does not have: false or null passes.
static const char OFF[] =
    "add_classification_head add_cross_attention clip_qkv is_encoder_decoder lm_head_bias "
    "mlp_bias quantization_config rope_interleaved use_bias use_bidirectional_attention use_cla "
    "use_mrope";

// Multipliers of the same kind: 1 passes.
static const char ONE[] = "full_attn_mod interpolate_factor";

// Counts of what limpid does not have: 0 passes. How many of no experts a token gets is no matter.
static const char NONE[] = "num_experts num_experts_per_tok num_local_experts";
static const char PER_TOKEN[] = "num_experts_per_tok";

// Of rope_scaling, rope_parameters and its full_attention and sliding_attention.
static const char ROPE[] =
    "type rope_type rope_theta partial_rotary_factor factor low_freq_factor high_freq_factor "
    "beta_fast beta_slow mscale mscale_all_dim attention_factor truncate "
    "original_max_position_embeddings short_factor long_factor finetuned alpha "
    "llama_4_scaling_beta max_position_embeddings";

// Whether the list has the word.
// Words are compared whole. Lists are searched from the start: a config.json has some 30 keys.
static bool among(const char *list, const char *key) {
    size_t length = strlen(key);
    for (const char *word = list; *word; word += strcspn(word, " "), word += *word == ' ')
        if (strcspn(word, " ") == length && !memcmp(word, key, length)) return true;
    return false;
}

// A null value says "not set" for every key. Called for the root and for text_config.
bool hf_keys_check(const json_t *object, Error *error) {
    const char *key;
    json_t *value = json_object_get(object, "num_local_experts");
    bool no_experts = json_is_integer(value) && !json_integer_value(value);
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_null(value) || among(FOLLOWED, key) || among(HARMLESS, key)) continue;
        bool off = json_is_false(value) && among(OFF, key);
        bool one = json_is_number(value) && json_number_value(value) == 1 && among(ONE, key);
        bool none = json_is_integer(value) && among(NONE, key) &&
                    (!json_integer_value(value) || (no_experts && !strcmp(key, PER_TOKEN)));
        const char *word = json_string_value(value);
        bool usual =
            word && ((!strcmp(key, "normalization_function") && !strcmp(word, "rmsnorm")) ||
                     (!strcmp(key, "norm_type") && !strcmp(word, "rms")));
        if (off || one || none || usual) continue;
        bool known = among(OFF, key) || among(ONE, key) || among(NONE, key);
        return error_set(error, ERROR_FILE,
                         known ? "\"%.100s\" is not supported"
                               : "\"%.100s\" is no key that limpid knows: it may change what the "
                                 "model computes",
                         key);
    }
    return true;
}

// A dictionary of rope parameters is separate, since its keys mean something else at the top level.
bool hf_rope_keys_check(const json_t *object, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_null(value) || among(ROPE, key)) continue;
        return error_set(error, ERROR_FILE, "rope: \"%.100s\" is no key that limpid knows", key);
    }
    return true;
}
