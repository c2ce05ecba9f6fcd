// Published models by name, for what follows from sizes alone. A row is what the model's
// config.json says; presets of one family share everything else with it (families.c).
#include "weights/container.h"

#include <stdio.h>

// clang-format off
static const Preset PRESETS[] = {
    // name, model_type, dim, hidden, layers, heads, of keys and values, head_dim, vocabulary, context
    {"gpt2", "gpt2", 768, 3072, 12, 12, 12, 64, 50257, 1024, .tied = true},
    {"gpt2-medium", "gpt2", 1024, 4096, 24, 16, 16, 64, 50257, 1024, .tied = true},
    {"gpt2-large", "gpt2", 1280, 5120, 36, 20, 20, 64, 50257, 1024, .tied = true},
    {"gpt2-xl", "gpt2", 1600, 6400, 48, 25, 25, 64, 50257, 1024, .tied = true},
    {"distilgpt2", "gpt2", 768, 3072, 6, 12, 12, 64, 50257, 1024, .tied = true},
    {"stories15m", "llama", 288, 768, 6, 6, 6, 48, 32000, 256, .tied = true},
    {"pythia-70m", "gpt_neox", 512, 2048, 6, 8, 8, 64, 50304, 2048, .rope_dim = 16},
    {"pythia-160m", "gpt_neox", 768, 3072, 12, 12, 12, 64, 50304, 2048, .rope_dim = 16},
    {"pythia-1b", "gpt_neox", 2048, 8192, 16, 8, 8, 256, 50304, 2048, .rope_dim = 64},
    {"pythia-1.4b", "gpt_neox", 2048, 8192, 24, 16, 16, 128, 50304, 2048, .rope_dim = 32},
    {"smollm2-135m", "llama", 576, 1536, 30, 9, 3, 64, 49152, 8192, .tied = true},
    {"qwen3-0.6b", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, 40960, .tied = true},
    {"gemma3-270m", "gemma3_text", 640, 2048, 18, 4, 1, 256, 262144, 32768, 512, 6, .tied = true},
    {"gemma3-1b", "gemma3_text", 1152, 6912, 26, 4, 1, 256, 262144, 32768, 512, 6, .tied = true},
    {"gemma2-2b", "gemma2", 2304, 9216, 26, 8, 4, 256, 256000, 8192, 4096, 2, .tied = true, .one_theta = true},
    {"gemma2-9b", "gemma2", 3584, 14336, 42, 16, 8, 256, 256000, 8192, 4096, 2, .tied = true, .one_theta = true},
    {"ernie4.5-0.3b", "ernie4_5", 1024, 3072, 18, 16, 2, 128, 103424, 131072, .tied = true},
    {"hunyuan-0.5b", "hunyuan_v1_dense", 1024, 3584, 24, 16, 8, 128, 120818, 262144, .tied = true},
    {"granite4-350m", "granitemoehybrid", 1024, 2048, 28, 16, 4, 64, 100352, 32768, .tied = true},
    {"granite4-1b", "granitemoehybrid", 2048, 4096, 40, 16, 4, 128, 100352, 131072, .tied = true},
    {"granite3.3-2b", "granite", 2048, 8192, 40, 32, 8, 64, 49159, 131072, .tied = true},
    {"exaone4-1.2b", "exaone4", 2048, 4096, 30, 32, 8, 64, 102400, 65536, .tied = true},
    {"ministral3-3b", "ministral3", 3072, 9216, 26, 32, 8, 128, 131072, 262144, .tied = true},
    {"phi4-mini", "phi3", 3072, 8192, 32, 24, 8, 128, 200064, 131072, .tied = true, .rope_dim = 96},
    {"olmo3-7b", "olmo3", 4096, 11008, 32, 32, 32, 128, 100278, 65536, 4096, 4, .tied = false},
    {"llama3.2-1b", "llama", 2048, 8192, 16, 32, 8, 64, 128256, 131072, .tied = true},
    {"llama-7b", "llama", 4096, 11008, 32, 32, 32, 128, 32000, 2048, .tied = false},
    {"llama2-7b", "llama", 4096, 11008, 32, 32, 32, 128, 32000, 4096, .tied = false},
    {"mistral-7b", "mistral", 4096, 14336, 32, 32, 8, 128, 32000, 32768, 4096, 0, .tied = false},
    {"llama3-8b", "llama", 4096, 14336, 32, 32, 8, 128, 128256, 8192, .tied = false},
    {"llama-65b", "llama", 8192, 22016, 80, 64, 64, 128, 32000, 2048, .tied = false},
    {"llama2-70b", "llama", 8192, 28672, 80, 64, 8, 128, 32000, 4096, .tied = false},
};
// clang-format on
enum { N_PRESETS = sizeof PRESETS / sizeof *PRESETS };

const Preset *preset_at(size_t i) {
    return i < N_PRESETS ? &PRESETS[i] : NULL;
}

static const Preset *find(const char *name) {
    for (size_t i = 0; i < N_PRESETS; i++)
        if (!strcmp(name, PRESETS[i].name)) return &PRESETS[i];
    return NULL;
}

bool outline_is_meant(const char *name) {
    return find(name) || ends_with(name, ".json");
}

bool preset_read(Checkpoint *checkpoint, OutlineFlags *flags) {
    const Preset *p = find(checkpoint->path);
    if (!p) return false;
    Config *c = &checkpoint->config;
    Error none = {0};
    checkpoint->naming = NAMES_HF;
    checkpoint->family = family_find(NAMES_HF, p->model_type, &none); // the table has them all
    family_defaults(checkpoint->family, c);
    snprintf(c->name, sizeof c->name, "%s", p->name);
    c->dim = p->dim;
    c->hidden_dim = p->hidden_dim;
    c->n_layers = p->n_layers;
    c->n_heads = p->n_heads;
    c->n_kv_heads = p->n_kv_heads;
    c->head_dim = p->head_dim;
    c->vocab_size = p->vocab_size;
    c->max_seq_len = p->max_seq_len;
    c->rope_dim = p->rope_dim;
    for (int l = 0; p->window && l < p->n_layers; l++) {
        bool global = p->global_every && (l + 1) % p->global_every == 0;
        c->layers[l].window = global ? 0 : p->window;
        c->layers[l].local_rope = p->global_every && !global && !p->one_theta;
    }
    *flags = (OutlineFlags){.tied = p->tied};
    return true;
}
