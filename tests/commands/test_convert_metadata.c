// What convert carries along besides the tensors, and what it refuses because the other container
// has no word for it.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/program.h"
#include "tests/support/same_bits.h"
#include "weights/checkpoint.h"

#include <sys/stat.h>

// ---- what a container cannot say ----

static void check_model(void (*corrupt)(GgufFile *file), const char *to, const char *because) {
    GgufFile *file = gguf_tiny_llama();
    corrupt(file);
    char *from = strdup(conversion_gguf("odd.gguf", file));
    check_no_conversion("%s|%s", from, to, ERROR_FILE, because);
    CHECK(!exists(to), "something was made");
    free(from);
}

static void odd_divisors(GgufFile *file) {
    GgufTensor *divisors = gguf_add_tensor(file, "rope_freqs.weight", DTYPE_F32, 1, 0);
    memcpy(divisors->data, &(const float){3.3f}, 4);
}

static void two_biases(GgufFile *file) {
    gguf_add_tensor(file, "blk.0.attn_q.bias", DTYPE_F32, 4, 0);
}

Test(convert_metadata, what_the_other_container_has_no_key_for_is_refused_by_name) {
    const char *to = test_temporary("odd");
    check_model(odd_divisors, to, "LlamaForCausalLM has no key for the divisors");
    check_model(two_biases, to, "has no key for biases on some of its attention matrices");
}

// ---- every way to say positions ----

// A directory of the usual shape with more members in its config.json.
static const char *directory_with(const char *name, const char *members) {
    const char *directory = test_temporary(name);
    BinShape shape = bin_shape_blocks();
    size_t size;
    char *bin = bin_bytes(&size, &shape, 3);
    write_hugging_face(directory, bin, size);
    free(bin);
    char *config = hf_read(directory, "config.json", &size);
    char *more = malloc(size + strlen(members) + 2);
    *strrchr(config, '}') = '\0';
    sprintf(more, "%s,%s}", config, members);
    hf_write(directory, "config.json", more);
    free(config);
    free(more);
    return directory;
}

Test(convert_metadata, rope_scalings_and_windows_there_and_back) {
    static const char *const MEMBERS[] = {
        "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
        "\"original_max_position_embeddings\":10}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":3,\"attention_factor\":1.07,"
        "\"beta_fast\":16,\"original_max_position_embeddings\":10}",
        // No float32 times the formula's 1.2079442 is 1.5.
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,\"attention_factor\":1.5,"
        "\"original_max_position_embeddings\":10}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":3,\"mscale\":1,"
        "\"mscale_all_dim\":1,\"original_max_position_embeddings\":10}",
        "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":16}",
    };
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++) {
        char *from = strdup(directory_with(test_text("from%zu", i), MEMBERS[i]));
        char *gguf = strdup(test_temporary(test_text("rope%zu.gguf", i)));
        char *back = strdup(test_temporary(test_text("back%zu", i)));
        convert("%s|%s", from, gguf);
        convert("%s|%s", gguf, back);
        const char *paths[] = {from, gguf, back};
        check_same_bits(paths, 3, PRECISION_F32);
        free(from);
        free(gguf);
        free(back);
    }
}

// From one directory to another everything can be said.
Test(convert_metadata, what_a_gguf_has_no_key_for_is_refused_and_goes_to_a_directory) {
    static const struct {
        const char *members, *because;
    } CASES[] = {
        {"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", "dynamic NTK"},
        {"\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"truncate\":false}", "truncate"},
        {"\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"mscale\":1,"
         "\"mscale_all_dim\":0.5}",
         "two mscales"},
        {"\"rope_scaling\":{\"type\":\"longrope\",\"factor\":4,"
         "\"original_max_position_embeddings\":10,\"long_factor\":[1,2,3,4,5,6,7,8],"
         "\"short_factor\":[1,1,1,1,1,1,1,1]}",
         "the model has \"rope_factors_long.weight\", which llama models"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *from = strdup(directory_with(test_text("only%zu", i), CASES[i].members));
        char *to = strdup(test_temporary(test_text("only%zu.gguf", i)));
        char *hf = strdup(test_temporary(test_text("other%zu", i)));
        check_no_conversion("%s|%s|-q", from, to, ERROR_FILE, CASES[i].because);
        CHECK(!exists(to), "left behind");
        convert("%s|%s", from, hf);
        const char *paths[] = {from, hf};
        check_same_bits(paths, 2, PRECISION_F32);
        free(from);
        free(to);
        free(hf);
    }
}

// OLMo 3 without a window still has layers that YaRN leaves alone. In a GGUF the window says which.
Test(convert_metadata, a_second_rope_without_windows_is_refused) {
    char *from = strdup(test_temporary("windows")), *to = strdup(test_temporary("windows.gguf"));
    convert("%s|%s", test_reference_model("olmo3"), from);
    size_t size;
    char *config = hf_read(from, "config.json", &size), *at = strstr(config, "\"sliding_window\"");
    CHECK(at, "%s", config);
    char *changed = malloc(size + 40);
    sprintf(changed, "%.*s\"sliding_window\":null%s", (int)(at - config), config,
            at + strcspn(at, ",}"));
    hf_write(from, "config.json", changed);
    check_no_conversion("%s|%s|-q", from, to, ERROR_FILE, "which of its layers have a rope");
    CHECK(!exists(to), "left behind");
    free(config);
    free(changed);
    free(from);
    free(to);
}

// A tokenizer that was asked for and cannot be written is no note.
Test(convert_metadata, a_tokenizer_of_z_that_cannot_go_along_is_an_error) {
    static const char RANKS[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    BinShape shape = bin_shape_blocks();
    char *bin = strdup(conversion_bin("ranks.bin", &shape));
    const char *directory = test_temporary("ranks");
    CHECK_INT(mkdir(directory, 0700), 0);
    hf_write(directory, "tokenizer.json", RANKS);
    check_no_conversion(test_text("%%s|%%s|-z|%s", directory), bin, test_temporary("ranks.gguf"),
                        ERROR_FILE, "token ranks instead of merges");
    free(bin);
}

// ---- what goes along ----

Test(convert_metadata, template_names_and_ids_go_along) {
    static const char TEMPLATE[] = "{% for m in messages %}\n<|im_start|>{{ m }}";
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "tokenizer.chat_template", TEMPLATE);
    gguf_set_text(file, "general.name",
                  "Gr\xc3\xb6\xc3\x9f"
                  "e \xe4\xbd\xa0");
    gguf_set_text(file, "general.license", "mit");
    static const int32_t TYPES[] = {2, 3, 3, 1, 1, 1, 1, 4};
    gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, TYPES, 8);
    char *from = strdup(conversion_gguf("along.gguf", file)), *hf = strdup(test_temporary("along"));
    char *back = strdup(test_temporary("along-back.gguf"));
    convert("%s|%s", from, hf);
    convert("%s|%s", hf, back);
    Checkpoint *a = open_converted(from), *b = open_converted(back);
    const Vocabulary *x = checkpoint_vocabulary(a), *y = checkpoint_vocabulary(b);
    CHECK(y->chat_template.length == sizeof TEMPLATE - 1 &&
              !memcmp(y->chat_template.text, TEMPLATE, sizeof TEMPLATE - 1),
          "%.*s", (int)y->chat_template.length, y->chat_template.text);
    CHECK(checkpoint_about(b)[ABOUT_LICENSE].length == 3, "the licence");
    CHECK_INT(y->n_tokens, x->n_tokens);
    for (size_t i = 0; i < x->n_tokens; i++) {
        CHECK(x->tokens[i].length == y->tokens[i].length &&
                  !memcmp(x->tokens[i].text, y->tokens[i].text, x->tokens[i].length),
              "token %zu", i);
        CHECK_INT(y->types[i], x->types[i]);
    }
    CHECK_INT(checkpoint_config(b)->bos_id, checkpoint_config(a)->bos_id);
    CHECK_INT(checkpoint_config(b)->n_eos_ids, checkpoint_config(a)->n_eos_ids);
    CHECK_INT(checkpoint_config(b)->eos_ids[0], checkpoint_config(a)->eos_ids[0]);
    checkpoint_close(a);
    checkpoint_close(b);
    convert("%s|%s|--force", from, back);
    a = open_converted(back);
    TextSpan name = checkpoint_name(a);
    CHECK(name.length == 11 && !memcmp(name.text,
                                       "Gr\xc3\xb6\xc3\x9f"
                                       "e \xe4\xbd\xa0",
                                       11),
          "%.*s", (int)name.length, name.text);
    checkpoint_close(a);
    free(from);
    free(hf);
    free(back);
}

// A GGUF names three ids that end a text. Where a model has more, one that is left out would let
// its texts go on.
Test(convert_metadata, a_fourth_id_that_ends_a_text_is_refused) {
    char *from = strdup(conversion_gguf("ends.gguf", gguf_tiny_llama()));
    char *hf = strdup(test_temporary("ends")), *back = strdup(test_temporary("ends-back.gguf"));
    convert("%s|%s", from, hf);
    size_t size;
    char *config = hf_read(hf, "config.json", &size), *at = strstr(config, "\"eos_token_id\"");
    CHECK(at, "%s", config);
    char *changed = malloc(size + 60);
    for (int n = 3; n <= 4; n++) {
        sprintf(changed, "%.*s\"eos_token_id\":[2,5,6%s]%s", (int)(at - config), config,
                n == 4 ? ",7" : "", at + strcspn(at, ",}"));
        hf_write(hf, "config.json", changed);
        if (n == 3)
            convert("%s|%s", hf, back);
        else
            check_no_conversion("%s|%s|-q|--force", hf, back, ERROR_FILE, "more than three ids");
    }
    Checkpoint *checkpoint = open_converted(back);
    CHECK_INT(checkpoint_config(checkpoint)->n_eos_ids, 3);
    checkpoint_close(checkpoint);
    free(changed);
    free(config);
    free(from);
    free(hf);
    free(back);
}

// A vocabulary smaller than the embedding is filled up, as llama.cpp's converter does.
Test(convert_metadata, rows_without_a_token_get_names) {
    const char *tokenizer = conversion_tokenizer_bin("words");
    BinShape shape = bin_shape_blocks();
    shape.vocab_size = 2056;
    char *from = strdup(conversion_bin("padded.bin", &shape)), line[600];
    char *to = strdup(test_temporary("padded.gguf")), *model = strdup(test_temporary("small"));
    snprintf(line, sizeof line, "convert|%%s|%%s|-z|%s", tokenizer);
    TestRun run = program(line, from, to); // a tokenizer.bin must fit its model
    check_refused(&run, ERROR_FILE, "2048 tokens, but the model has 2056");
    // The same vocabulary as a .model need not.
    snprintf(line, sizeof line, "%%s|%%s|-z|%s/tokenizer.model", model);
    convert("%s|%s", small_model(), model);
    convert(line, from, to);
    Checkpoint *c = open_converted(to);
    const Vocabulary *v = checkpoint_vocabulary(c);
    CHECK_INT(v->n_tokens, 2056);
    CHECK(v->tokens[2055].length == 9 && !memcmp(v->tokens[2055].text, "[PAD2055]", 9), "%.*s",
          (int)v->tokens[2055].length, v->tokens[2055].text);
    CHECK_INT(v->types[2055], TOKEN_UNUSED);
    checkpoint_close(c);
    free(from);
    free(to);
    free(model);
}

Test(convert_metadata, keys_that_llama_cpp_looks_for_are_there) {
    const char *from = conversion_tiny("keys-from.gguf"), *to = test_temporary("keys.gguf");
    convert("%s|%s|--type|f16", from, to);
    size_t size;
    char *bytes = test_read_file(to, &size);
    static const char *const KEYS[] = {"general.architecture",
                                       "general.file_type",
                                       "llama.block_count",
                                       "llama.context_length",
                                       "llama.embedding_length",
                                       "llama.feed_forward_length",
                                       "llama.attention.head_count",
                                       "llama.attention.head_count_kv",
                                       "llama.attention.layer_norm_rms_epsilon",
                                       "llama.rope.freq_base",
                                       "llama.rope.dimension_count",
                                       "tokenizer.ggml.model",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.token_type"};
    CHECK(!memcmp(bytes, "GGUF\3\0\0\0", 8), "GGUF v3");
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        CHECK(memmem(bytes, size, KEYS[i], strlen(KEYS[i])), "no %s", KEYS[i]);
    free(bytes);
}
