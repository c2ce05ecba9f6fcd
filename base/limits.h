// Limits on what a file may ask for: one table, each tested on both sides.
#pragma once

enum {
    // hyper-parameters
    LIMIT_LAYERS = 1024,
    LIMIT_DIM = 65536, // dim, hidden_dim, head_dim, q_dim, kv_dim
    LIMIT_HEADS = 1024,
    LIMIT_VOCAB = 1 << 22,
    LIMIT_CONTEXT = 1 << 22,
    LIMIT_EOS_IDS = 16,
    // containers
    LIMIT_TENSORS = 65536,
    LIMIT_KEYS = 65536,         // key-value pairs of a GGUF
    LIMIT_KEY_LENGTH = 1024,    // bytes
    LIMIT_NAME_LENGTH = 256,    // bytes of a tensor's name (GGUF itself says 64)
    LIMIT_TOKEN_LENGTH = 65536, // bytes of one vocabulary entry
    LIMIT_MERGES = 1 << 22,
    LIMIT_TEMPLATE = 1 << 20,      // bytes of a chat template that is kept
    LIMIT_ALIGNMENT = 65536,       // GGUF: a power of two from 8 up
    LIMIT_FILES = 512,             // shards of one model
    LIMIT_JSON_HEADER = 100000000, // bytes, as the safetensors format says
    LIMIT_JSON_DEPTH = 64,
};
