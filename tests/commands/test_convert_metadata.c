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
#include "weights/gguf/gguf.h"

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

// The directory of a reference model with another value of one member; NULL without that model.
static char *directory_where(const char *model, const char *member, const char *value) {
    char *directory = strdup(test_temporary(test_text("%s changed", model)));
    convert("%s|%s|--force", test_reference_model(model), directory);
    size_t size;
    char *config = hf_read(directory, "config.json", &size);
    char *at = strstr(config, test_text("\"%s\": ", member));
    CHECK(at, "%s", config);
    at += strlen(member) + 4;
    const char *end = *at == '{' ? strchr(at, '}') + 1 : at + strcspn(at, ",}");
    hf_write(directory, "config.json",
             test_text("%.*s%s%s", (int)(at - config), config, value, end));
    free(config);
    return directory;
}

// OLMo 3 without a window still has layers that YaRN leaves alone: in a GGUF the window says which.
// A gemma2 GGUF without the key has windows.
Test(convert_metadata, a_model_without_windows_is_refused_where_they_are_implied) {
    static const char *const CASES[][2] = {
        {"olmo3", "which of its layers have a rope"},
        {"gemma2", "layers without a window, which it implies"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *from = directory_where(CASES[i][0], "sliding_window", "null");
        char *to = strdup(test_temporary(test_text("windows%zu.gguf", i)));
        check_no_conversion("%s|%s|-q", from, to, ERROR_FILE, CASES[i][1]);
        CHECK(!exists(to), "left behind");
        free(from);
        free(to);
    }
}

// From position 16 on queries grow, whatever the kind of rope.
Test(convert_metadata, the_length_from_which_queries_grow_goes_along) {
    static const char *const ROPES[] = {
        "{\"rope_theta\": 10000.0, \"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.5, "
        "\"original_max_position_embeddings\": 16}",
        "{\"rope_theta\": 10000.0, \"rope_type\": \"linear\", \"factor\": 2.0, "
        "\"llama_4_scaling_beta\": 0.5, \"original_max_position_embeddings\": 16}"};
    for (size_t i = 0; i < sizeof ROPES / sizeof *ROPES; i++) {
        char *from = directory_where("ministral3", "rope_scaling", ROPES[i]);
        char *gguf = strdup(test_temporary(test_text("grow%zu.gguf", i)));
        char *back = strdup(test_temporary(test_text("grow%zu", i)));
        convert("%s|%s", from, gguf);
        convert("%s|%s", gguf, back);
        const char *paths[] = {from, gguf, back};
        check_same_bits(paths, 3, PRECISION_F32);
        free(from);
        free(gguf);
        free(back);
    }
}

// Phi3Config of transformers 4 raises "rope_scaling must be a dictionary with three fields" for
// any other member; Granite 4's class of both versions checks mamba_n_heads, whose default does
// not divide 2 * 40.
Test(convert_metadata, configurations_are_as_transformers_checks_them) {
    const char *from = test_reference_model("phi3-longrope");
    char *to = strdup(test_temporary("phi3"));
    size_t size;
    convert("%s|%s", from, to);
    char *config = hf_read(to, "config.json", &size), *at = strstr(config, "\"rope_scaling\"");
    CHECK(at, "%s", config);
    *(strchr(at, '}') + 1) = '\0';
    CHECK(strstr(at, "\"type\": \"longrope\"") && strstr(at, "\"short_factor\": [") &&
              strstr(at, "\"long_factor\": ["),
          "%s", at);
    int members = 0;
    for (const char *c = at; (c = strstr(c, "\": ")); c++)
        members++;
    CHECK_INT(members, 4); // rope_scaling itself is one
    const char *paths[] = {from, to};
    check_same_bits(paths, 2, PRECISION_F32);
    free(config);
    convert("%s|%s|--force", test_reference_model("granitemoehybrid-dense"), to);
    config = hf_read(to, "config.json", &size);
    CHECK(strstr(config, "\"mamba_n_heads\": 1,"), "%s", config);
    free(config);
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

// The text under a key of a GGUF, "" for a number, "none" without the key. Behind a value that is
// spelt like the key there is no number of a type, but the length of the next key.
static const char *text_under(const char *path, const char *key) {
    size_t size, length = strlen(key);
    char *file = test_read_file(path, &size), *at = file;
    const char *text = "none";
    while ((at = memmem(at, size - (size_t)(at - file), key, length)) != NULL) {
        at += length;
        if (at[0] == GGUF_STRING) text = test_text("%.*s", (int)at[4], at + 12);
        if (at[0] == GGUF_U32) text = "";
        if (at[0] == GGUF_STRING || at[0] == GGUF_U32) break;
    }
    free(file);
    return text;
}

// What only other programs use stays in a GGUF; what is the file's own does not, nor do ids of
// tokens that are others now.
Test(convert_metadata, keys_of_other_programs_go_along) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.note", "general.source.url"); // spelt like a key
    gguf_set_text(file, "general.source.url", "here");
    gguf_set_text(file, "tokenizer.chat_template.tool_use", "{{ tools }}");
    gguf_set_u32(file, "tokenizer.ggml.fim_pre_token_id", 3);
    gguf_set_u32(file, "general.alignment", 32);
    gguf_set_u32(file, "llama.unheard.of", 3);
    const char *from = strdup(conversion_gguf("carried.gguf", file));
    const char *to = test_temporary("carried2.gguf");
    convert("%s|%s|--type|f16", from, to);
    CHECK_STRING(text_under(to, "general.source.url"), "here");
    CHECK_STRING(text_under(to, "general.note"), "general.source.url");
    CHECK_STRING(text_under(to, "tokenizer.chat_template.tool_use"), "{{ tools }}");
    CHECK_STRING(text_under(to, "tokenizer.ggml.fim_pre_token_id"), "");
    CHECK_STRING(text_under(to, "general.alignment"), "none");
    CHECK_STRING(text_under(to, "unheard.of"), "none");
    checkpoint_close(open_converted(to)); // no key stands twice
    const char *other = test_temporary("other tokens");
    CHECK_INT(mkdir(other, 0700), 0);
    hf_write(
        other, "tokenizer.json",
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}");
    TestRun r = program("convert|%s|%s|--force|-z|%s", from, to, other);
    CHECK(r.status == 0, "exit %d: %s", r.status, r.err);
    test_run_free(&r);
    CHECK_STRING(text_under(to, "general.source.url"), "here");
    CHECK_STRING(text_under(to, "tokenizer.ggml.fim_pre_token_id"), "none");
    CHECK_STRING(text_under(to, "tokenizer.chat_template.tool_use"), "none");
    free((char *)from);
}

// llama2.c's file of tokens is one that limpid looks for in a directory.
Test(convert_metadata, a_tokenizer_bin_goes_along) {
    char *from = strdup(directory_with("tokens", "\"pad_token_id\":0"));
    char *to = strdup(test_temporary("tokens2"));
    hf_write(from, "tokenizer.bin", "as it is");
    convert("%s|%s", from, to);
    size_t size;
    char *bytes = hf_read(to, "tokenizer.bin", &size);
    CHECK(size == 8 && !memcmp(bytes, "as it is", 8), "%zu bytes", size);
    free(bytes);
    // One that the output has not may be that of a .bin, and stays.
    char *without = strdup(directory_with("no tokens", "\"pad_token_id\":0"));
    convert("%s|%s|--force", without, to);
    bytes = hf_read(to, "tokenizer.bin", &size);
    CHECK(size == 8 && !memcmp(bytes, "as it is", 8), "%zu bytes", size);
    free(bytes);
    free(without);
    check_refused(&(TestRun[]){program("convert|%s|%s", from, to)}[0], 2, "is there already");
    free(from);
    free(to);
}

// What chat samples by goes along.
Test(convert_metadata, sampling_defaults_go_along) {
    char *from = strdup(directory_with("sampling", "\"pad_token_id\":0"));
    char *gguf = strdup(test_temporary("sampling.gguf")), *hf = strdup(test_temporary("sampling2"));
    hf_write(from, "generation_config.json",
             "{\"temperature\":0.75,\"top_k\":7,\"min_p\":0.25,\"repetition_penalty\":1.5}");
    convert("%s|%s", from, gguf);
    convert("%s|%s", gguf, hf);
    const char *const paths[] = {gguf, hf};
    for (int i = 0; i < 2; i++) {
        Checkpoint *c = open_converted(paths[i]);
        const GenerationDefaults *g = checkpoint_generation(c);
        CHECK(g->temperature == 0.75f && g->top_k == 7.0f && g->min_p == 0.25f &&
                  g->repetition_penalty == 1.5f && g->top_p < 0.0f,
              "%s: %g %g %g %g %g", paths[i], (double)g->temperature, (double)g->top_k,
              (double)g->min_p, (double)g->repetition_penalty, (double)g->top_p);
        checkpoint_close(c);
    }
    free(from);
    free(gguf);
    free(hf);
}

// A number that samples nothing is as if it were not there; llama.cpp's converter writes top_k as
// int32.
Test(convert_metadata, sampling_defaults_of_a_gguf_are_numbers_or_absent) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_f32(file, "general.sampling.temp", NAN);
    gguf_set_f32(file, "general.sampling.top_p", 7.0f);
    gguf_set_text(file, "general.sampling.min_p", "0.1");
    gguf_set_u32(file, "general.sampling.top_k", 0x80000000u);
    char *gguf = strdup(conversion_gguf("sampled.gguf", file)), *hf = strdup(test_temporary("of1"));
    convert("%s|%s", gguf, hf);
    const char *const paths[] = {gguf, hf};
    for (int i = 0; i < 2; i++) {
        Checkpoint *c = open_converted(paths[i]);
        const GenerationDefaults *g = checkpoint_generation(c);
        CHECK(g->temperature < 0 && g->top_p < 0 && g->min_p < 0 && g->top_k == LIMIT_VOCAB,
              "%g %g %g %g", (double)g->temperature, (double)g->top_p, (double)g->min_p,
              (double)g->top_k);
        checkpoint_close(c);
    }
    free(gguf);
    free(hf);
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

// GGUF spells a user-defined piece with spaces, tokenizer.model with U+2581, as the library looks
// for it; both are found in a text.
Test(convert_metadata, user_defined_spaces_are_spelt_as_each_format_does) {
    static const char *const TOKENS[] = {"<unk>", "<s>", "</s>", "\u2581",
                                         "a",     "b",   "  ",   "<0x0A>"};
    static const int32_t TYPES[] = {2, 3, 3, 1, 1, 1, 4, 6};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_strings(file, "tokenizer.ggml.tokens", TOKENS, 8);
    gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, TYPES, 8);
    gguf_set_bool(file, "tokenizer.ggml.add_space_prefix", 0); // as Gemma has it
    size_t size;
    const char *from = conversion_gguf("spaces.gguf", file), *to = test_temporary("spaces");
    const char *back = test_temporary("back.gguf");
    TestRun run = program("convert|%s|%s|--type|f32", from, to);
    if (strstr(run.err, "has no JSON")) SKIP("this build writes no directories");
    check_status(&run, 0);
    test_run_free(&run);
    char *model = test_read_file(test_text("%s/tokenizer.model", to), &size);
    CHECK(memmem(model, size, "\n\x06\u2581\u2581", 8), "the piece as the library has it");
    free(model);
    run = program("convert|%s|%s|--type|f32", to, back);
    check_status(&run, 0);
    test_run_free(&run);
    const char *const ALL[] = {from, to, back};
    for (int i = 0; i < 3; i++) {
        run = program("tokenize|%s|-i|a  b", ALL[i]);
        check_status(&run, 0);
        CHECK(strstr(run.out, "4 6 5"), "%s: %s", ALL[i], run.out);
        test_run_free(&run);
    }
    char *there = test_read_file(back, &size);
    CHECK(memmem(there, size, "\x02\0\0\0\0\0\0\0  ", 10), "the piece as llama.cpp has it");
    free(there);
}
