#include "tests/support/files/byte_tokenizer.h"

#include "tests/test.h"

#define HY(name) "<\xef\xbd\x9chy_" name "\xef\xbd\x9c>"
#define DS(name) "<\xef\xbd\x9c" name "\xef\xbd\x9c>"
#define HY_HOLDER(number) HY("place\xe2\x96\x81holder\xe2\x96\x81no\xe2\x96\x81" number)

static const char *const MARKERS[BYTE_MARKERS] = {"<|im_start|>",
                                                  "<|im_end|>",
                                                  "<|begin_of_text|>",
                                                  "<|start_header_id|>",
                                                  "<|eot_id|>",
                                                  "<|end_header_id|>",
                                                  "[INST]",
                                                  "[/INST]",
                                                  "<bos>",
                                                  "<start_of_turn>",
                                                  "<end_of_turn>",
                                                  "<|system|>",
                                                  "<|user|>",
                                                  "<|assistant|>",
                                                  "<|end|>",
                                                  "<|bos|>",
                                                  "<|user_start|>",
                                                  "<|user_end|>",
                                                  "<|assistant_start|>",
                                                  "<|assistant_end|>",
                                                  "<|endoftext|>",
                                                  "[SYSTEM_PROMPT]",
                                                  "[/SYSTEM_PROMPT]",
                                                  "<|start_of_role|>",
                                                  "<|end_of_role|>",
                                                  "<|end_of_text|>",
                                                  "[|system|]",
                                                  "[|user|]",
                                                  "[|assistant|]",
                                                  "[|endofturn|]",
                                                  HY("begin\xe2\x96\x81of\xe2\x96\x81sentence"),
                                                  HY("User"),
                                                  HY("Assistant"),
                                                  HY_HOLDER("2"),
                                                  HY_HOLDER("3"),
                                                  "<|startoftext|>",
                                                  "<|extra_4|>",
                                                  "<|extra_0|>",
                                                  "<|eos|>",
                                                  "<|begin_of_sentence|>",
                                                  "<|end_of_sentence|>",
                                                  "<|/tool|>",
                                                  "[THINK]",
                                                  "[/THINK]",
                                                  "<|im_sep|>",
                                                  DS("begin\xe2\x96\x81of\xe2\x96\x81sentence"),
                                                  DS("User"),
                                                  DS("Assistant"),
                                                  DS("end\xe2\x96\x81of\xe2\x96\x81sentence")};
enum { N_TOKENS = 3 + 256 + 3 + BYTE_MARKERS };

const char *byte_tokenizer_marker(size_t i) {
    return MARKERS[i];
}

Tokenizer *byte_tokenizer(bool prefix, uint64_t markers, bool adds_bos) {
    static char bytes[256][8];
    TextSpan tokens[N_TOKENS] = {{"<unk>", 5}, {"<s>", 3}, {"</s>", 4}};
    uint8_t types[N_TOKENS] = {TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_CONTROL};
    size_t n = 3;
    for (int i = 0; i < 256; i++, n++) {
        snprintf(bytes[i], sizeof *bytes, "<0x%02X>", i);
        tokens[n] = (TextSpan){bytes[i], 6};
        types[n] = TOKEN_BYTE;
    }
    tokens[n] = (TextSpan){"\xe2\x96\x81", 3};
    types[n++] = TOKEN_NORMAL;
    tokens[n] = (TextSpan){"<think>", 7};
    types[n++] = TOKEN_USER_DEFINED;
    tokens[n] = (TextSpan){"</think>", 8};
    types[n++] = TOKEN_USER_DEFINED;
    for (size_t i = 0; i < BYTE_MARKERS; i++) {
        if (!(markers >> i & 1)) continue;
        tokens[n] = (TextSpan){MARKERS[i], strlen(MARKERS[i])};
        types[n++] = TOKEN_CONTROL;
    }
    Vocabulary vocabulary = {.model = "llama",
                             .n_tokens = n,
                             .tokens = tokens,
                             .types = types,
                             .bos_id = 1,
                             .eos_id = 2,
                             .eot_id = -1,
                             .eom_id = -1,
                             .add_bos = adds_bos,
                             .add_space_prefix = prefix};
    Error error = {0};
    Tokenizer *t = tokenizer_open(&(TokenizerSource){.vocabulary = &vocabulary}, &error);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

const char *byte_tokenizer_text(Tokenizer *t, const IdList *ids) {
    static char slots[2][4096];
    static int next;
    char *out = slots[next++ % 2];
    size_t used = 0;
    for (size_t i = 0; i < ids->count; i++) {
        size_t length;
        const char *piece = tokenizer_piece(t, ids->ids[i], false, true, &length);
        CHECK(used + length < sizeof *slots);
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return out;
}
