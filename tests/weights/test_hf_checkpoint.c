// Hugging Face directories and single .safetensors files: what is read, and HOSTILE S16, S18, S20
// with their accepted twins.
#include "base/bytes.h"
#include "base/text.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <sys/stat.h>
#include <unistd.h>

// ---- what is read ----

Test(hf_checkpoint, a_directory_and_the_file_in_it_are_the_same_model) {
    const char *directory = hf_tiny_model("same", true);
    char path[700];
    hf_path(path, directory, "model.safetensors");
    const char *paths[] = {directory, path};
    for (int i = 0; i < 2; i++) {
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(checkpoint_open(&checkpoint, paths[i], &error), "%s", error.message);
        const Config *c = checkpoint_config(checkpoint);
        const Weights *w = checkpoint_weights(checkpoint);
        CHECK_STRING(checkpoint_container_name(checkpoint), "safetensors");
        CHECK_STRING(c->family, "llama");
        CHECK(c->dim == 8 && c->hidden_dim == 12 && c->q_dim == 8 && c->kv_dim == 4);
        CHECK(c->n_eos_ids == 2 && c->bos_id == 1);
        CHECK(w->head.data == w->token_embedding.data && w->layers[0].wq.rope_dim == 0);
        CHECK_INT(checkpoint_unused(checkpoint), 0);
        checkpoint_close(checkpoint);
    }
}

Test(hf_checkpoint, relative_paths_find_what_lies_beside_the_file) {
    const char *directory = hf_tiny_model("relative", true);
    char *here = getcwd(NULL, 0);
    CHECK(!chdir(directory));
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    bool file = checkpoint_open(&checkpoint, "model.safetensors", &error);
    checkpoint_close(checkpoint);
    bool dot = checkpoint_open(&checkpoint, ".", &error);
    checkpoint_close(checkpoint);
    bool slash = checkpoint_open(&checkpoint, "./", &error);
    checkpoint_close(checkpoint);
    bool back = !chdir(here);
    free(here);
    CHECK(file && dot && slash && back, "%s", error.message);
}

Test(hf_checkpoint, rows_are_the_bins_rows_in_half_split_order) {
    BinShape shape = bin_shape_tiny(0, false);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    const char *directory = test_temporary("rows");
    write_hugging_face(directory, bin, size);
    Checkpoint *a = NULL, *b = NULL;
    Error error = {0};
    CHECK(checkpoint_open_memory(&a, "m.bin", bin, size, &error), "%s", error.message);
    CHECK(checkpoint_open(&b, directory, &error), "%s", error.message);
    const LayerWeights *x = &checkpoint_weights(a)->layers[0];
    const LayerWeights *y = &checkpoint_weights(b)->layers[0];
    const Matrix *pairs[][2] = {{&x->wq, &y->wq},
                                {&x->wk, &y->wk},
                                {&x->wv, &y->wv},
                                {&x->wo, &y->wo},
                                {&x->w_down, &y->w_down}};
    for (size_t m = 0; m < 5; m++)
        for (size_t row = 0; row < pairs[m][0]->rows; row++) {
            float left[12], right[12];
            matrix_row(left, pairs[m][0], row);
            matrix_row(right, pairs[m][1], row);
            CHECK(!memcmp(left, right, pairs[m][0]->cols * sizeof *left), "matrix %zu row %zu", m,
                  row);
        }
    checkpoint_close(a);
    checkpoint_close(b);
    free(bin);
}

Test(hf_checkpoint, generation_config_adds_defaults_and_ends) {
    const char *directory = hf_tiny_model("generation", true);
    hf_write(directory, "generation_config.json",
             "{\"temperature\":0.5,\"top_k\":7,\"eos_token_id\":[4]}");
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    CHECK(checkpoint_generation(checkpoint)->temperature == 0.5f);
    CHECK(checkpoint_generation(checkpoint)->top_k == 7);
    CHECK(checkpoint_generation(checkpoint)->top_p < 0);
    CHECK_INT(checkpoint_config(checkpoint)->n_eos_ids, 3);
    checkpoint_close(checkpoint);
    hf_write(directory, "generation_config.json", "{\"temperature\":\"warm\"}");
    hf_check_refused(directory, ERROR_FILE,
                     "generation_config.json: \"temperature\": wanted a number, got a string");
}

Test(hf_checkpoint, s16_data_at_an_odd_offset_is_the_same_model) {
    const char *directory = hf_tiny_model("odd", true);
    size_t size;
    char *file = hf_read(directory, "model.safetensors", &size), path[700];
    uint64_t header;
    memcpy(&header, file, 8);
    size_t pad = header % 2 ? 2 : 1, start = 8 + header + pad;
    CHECK(start & 1);
    char *moved = malloc(size + pad);
    memcpy(moved, file, 8 + header);
    memset(moved + 8 + header, ' ', pad);
    memcpy(moved + start, file + 8 + header, size - 8 - header);
    header += pad;
    memcpy(moved, &header, 8);
    hf_path(path, directory, "model.safetensors");
    test_write_file(path, moved, size + pad);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    float row[8];
    matrix_row(row, &checkpoint_weights(checkpoint)->token_embedding, 5);
    BinShape shape = bin_shape_tiny(0, true);
    size_t bin_size;
    char *bin = bin_bytes(&bin_size, &shape, 7);
    CHECK(!memcmp(row, bin + 28 + 5 * 32, sizeof row));
    checkpoint_close(checkpoint);
    free(bin);
    free(moved);
    free(file);
}

// ---- the chat template ----

static void check_template(const char *directory, const char *wanted) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    const Vocabulary *v = checkpoint_vocabulary(checkpoint);
    CHECK(!v->model, "a vocabulary");
    CHECK(v->chat_template.length == strlen(wanted) &&
              (!*wanted || !memcmp(v->chat_template.text, wanted, strlen(wanted))),
          "got \"%.*s\", wanted \"%s\"", (int)v->chat_template.length, v->chat_template.text,
          wanted);
    checkpoint_close(checkpoint);
}

Test(hf_checkpoint, the_chat_template_is_found_where_transformers_keeps_it) {
    static const char TOKENIZER_CONFIG[] = "tokenizer_config.json";
    const char *directory = hf_tiny_model("template", true);
    check_template(directory, "");
    hf_write(directory, TOKENIZER_CONFIG, "{\"chat_template\": \"{{ one }}\"}");
    check_template(directory, "{{ one }}");
    hf_write(directory, TOKENIZER_CONFIG,
             "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"no\"}, 7,"
             "{\"name\": \"default\", \"template\": \"two\"}]}");
    check_template(directory, "two");
    hf_write(directory, "chat_template.jinja", "three\n");
    check_template(directory, "three\n");
}

// transformers' "no limit", 10^30 as a double, stands in many tokenizer_config.json.
Test(hf_checkpoint, the_template_is_found_beside_an_integer_of_31_digits) {
    const char *directory = hf_tiny_model("template-large", true);
    hf_write(directory, "tokenizer_config.json",
             "{\"model_max_length\": 1000000000000000019884624838656,"
             " \"chat_template\": \"{{ 1000000000000000019884624838656 }}\"}");
    check_template(directory, "{{ 1000000000000000019884624838656 }}");
    hf_write(directory, "generation_config.json",
             "{\"max_length\": 1000000000000000019884624838656, \"temperature\": 0.5}");
    check_template(directory, "{{ 1000000000000000019884624838656 }}");
    hf_write(directory, "generation_config.json",
             "{\"eos_token_id\": 1000000000000000019884624838656}");
    hf_check_refused(directory, ERROR_FILE,
                     "generation_config.json: \"eos_token_id\": wanted an integer, got a real");
}

Test(hf_checkpoint, added_tokens_by_the_thousand_hide_no_template) {
    enum { TOKENS = 12000, ENTRY = 200 };
    const char *directory = hf_tiny_model("template-added", true);
    char *config = malloc(TOKENS * ENTRY), *at = config;
    at += sprintf(at, "{\"added_tokens_decoder\": {\"0\": {}");
    for (int i = 1; i < TOKENS; i++)
        at += sprintf(at,
                      ",\"%d\": {\"content\": \"<%d>\", \"lstrip\": false, \"normalized\": false,"
                      "\"rstrip\": false, \"single_word\": false, \"special\": true}",
                      i, i);
    sprintf(at, "}, \"chat_template\": \"four\"}");
    hf_write(directory, "tokenizer_config.json", config);
    check_template(directory, "four");
    free(config);
}

// It is only looked at: a model without one is readable.
Test(hf_checkpoint, a_template_that_is_none_is_passed_over) {
    static const char *const NONE[] = {"{}", "{\"chat_template\": 3}",
                                       "{\"chat_template\": [{\"name\": 1}]}",
                                       "{\"chat_template\": \"\"}"};
    const char *directory = hf_tiny_model("no-template", true);
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        hf_write(directory, "tokenizer_config.json", NONE[i]);
        check_template(directory, "");
    }
}

// ---- S18, S20: one file of the directory changed ----

typedef struct Patch {
    const char *file, *old, *new, *message;
} Patch;

static const char WEIGHTS[] = "model.safetensors", CONFIG[] = "config.json";

static const Patch PATCHES[] = {
    {WEIGHTS, "layers.0.mlp.up_proj", "layers.1.mlp.up_proj", "layers.0.mlp.up_proj"},
    {WEIGHTS, "model.norm.weight", "model.morm.weight", "model.norm.weight"},
    {WEIGHTS, "model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[8]",
     "model.norm.weight\":{\"dtype\":\"I32\",\"shape\":[8]", "dtype I32 is not supported"},
    {WEIGHTS, "q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[8,8]",
     "q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[9,8]", "span 256 bytes, dtype and shape 288"},
    {WEIGHTS, "q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[8,8]",
     "q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[64] ", "q_proj.weight"},
    {WEIGHTS, "v_proj.weight\":{\"dtype\":\"F32\",\"shape\":[4,8]",
     "v_proj.weight\":{\"dtype\":\"F32\",\"shape\":[8,4]", "v_proj.weight"},
    {CONFIG, "\"hidden_size\":8", "\"hidden_size\":\"8\"",
     "config.json: \"hidden_size\": wanted an integer, got a string"},
    {CONFIG, "\"num_hidden_layers\":1", "\"num_hidden_layers\":2147483648",
     "config.json: \"num_hidden_layers\": 2147483648 is out of range"},
    {CONFIG, "\"num_hidden_layers\":1", "\"num_hidden_layers\":2", "layers.1."},
    {CONFIG, "\"num_attention_heads\":2", "\"num_attention_heads\":0",
     "\"num_attention_heads\": wanted 1"},
    {CONFIG, "\"num_key_value_heads\":1", "\"num_key_value_heads\":2", "k_proj.weight"},
    {CONFIG, "1e-05", "1e999", "config.json: offset"},
    {CONFIG, "1e-05", "-1", "norm_eps"},
    {CONFIG, "10000.0", "0", "rope theta"},
    {CONFIG, "\"hidden_size\":8", "\"hidden_size\":65537,\"head_dim\":4", "dim: got 65537"},
    {CONFIG, "\"vocab_size\":6", "\"vocab_size\":7", "embed_tokens.weight"},
    {CONFIG, "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":false", "lm_head.weight"},
    {CONFIG, "\"model_type\":\"llama\"", "\"model_type\":\"llama\",\"attention_bias\":true",
     "0 biases of attention matrices, config.json wants 4"},
    {CONFIG, "LlamaForCausalLM", "Gemma3ForCausalLM", "unsupported architecture \"Gemma3"},
};

Test(hf_checkpoint, what_its_makers_wrote_about_it_is_handed_over) {
    const char *directory = hf_tiny_model("about", true);
    hf_patch(directory, CONFIG, "{", "{\"description\":\"tells stories\",\"url\":[1],");
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    const TextSpan *about = checkpoint_about(checkpoint);
    CHECK_INT(about[ABOUT_DESCRIPTION].length, 13);
    CHECK(!memcmp(about[ABOUT_DESCRIPTION].text, "tells stories", 13));
    CHECK_INT(about[ABOUT_URL].length, 0);
    checkpoint_close(checkpoint);
}

Test(hf_checkpoint, s18_s20_one_thing_wrong_in_a_directory_is_named) {
    for (size_t i = 0; i < sizeof PATCHES / sizeof *PATCHES; i++) {
        char name[32];
        snprintf(name, sizeof name, "patch%zu", i);
        const char *directory = hf_tiny_model(name, true);
        hf_check_opens(directory);
        hf_patch(directory, PATCHES[i].file, PATCHES[i].old, PATCHES[i].new);
        hf_check_refused(directory, ERROR_FILE, PATCHES[i].message);
    }
}

Test(hf_checkpoint, s18_q_and_k_swapped_are_told_by_their_shapes) {
    const char *directory = hf_tiny_model("swapped", true);
    hf_patch(directory, WEIGHTS, "q_proj", "x_proj");
    hf_patch(directory, WEIGHTS, "k_proj", "q_proj");
    hf_patch(directory, WEIGHTS, "x_proj", "k_proj");
    hf_check_refused(directory, ERROR_FILE, "q_proj.weight");
}

Test(hf_checkpoint, a_git_lfs_pointer_in_place_of_the_weights_is_called_so) {
    const char *directory = hf_tiny_model("pointer", true);
    hf_write(directory, WEIGHTS,
             "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n");
    hf_check_refused(directory, ERROR_FILE,
                     "model.safetensors: this is a Git LFS pointer, not the tensors");
}

Test(hf_checkpoint, s20_configs_that_are_none) {
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"", "config.json: the file is empty"},
        {"[]", "config.json: wanted an object, got an array"},
        {"{", "config.json: offset"},
        {"{}", "config.json: neither"},
        {"null", "config.json: offset 4"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
         "config.json: this is a Git LFS pointer, not the JSON file"},
        {"\xff\xfe{\"", "config.json: this is text in UTF-16"},
        {"\xef\xbb\xbf{}", "config.json: this is text behind a byte order mark"},
    };
    const char *directory = hf_tiny_model("configs", true);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        hf_write(directory, "config.json", CASES[i].text);
        hf_check_refused(directory, ERROR_FILE, CASES[i].message);
    }
    char path[700];
    hf_path(path, directory, "config.json");
    unlink(path);
    hf_check_refused(directory, ERROR_FILE, "there is no config.json");
    hf_path(path, directory, "model.safetensors");
    hf_check_refused(path, ERROR_FILE, "there is no config.json");
    unlink(path);
    hf_check_refused(directory, ERROR_IO, "a directory without model.safetensors");
}

Test(hf_checkpoint, a_file_alone_is_refused_without_a_second_name) {
    const char *directory = hf_tiny_model("alone", true);
    char path[700];
    hf_path(path, directory, WEIGHTS);
    hf_patch(directory, WEIGHTS, "model.norm.weight", "model.norm\\u00xx");
    hf_check_refused(path, ERROR_FILE, "offset ");
    unlink(path);
    hf_check_refused(directory, ERROR_FILE, "a directory without model.safetensors");
}

// Files that end like a model's and directories with a config.json, in the order of the alphabet;
// of many the first eight. tokenizer.bin and hidden files are none.
Test(hf_checkpoint, a_directory_of_models_lists_them) {
    char path[700];
    const char *directory = test_temporary("several");
    CHECK(!mkdir(directory, 0700));
    hf_check_refused(directory, ERROR_IO, "a directory without model.safetensors");
    hf_write(directory, "tokenizer.bin", "");
    hf_write(directory, ".hidden.gguf", "");
    hf_write(directory, "notes.txt", "");
    hf_write(directory, "model-00001-of-00002.safetensors", "");
    hf_check_refused(directory, ERROR_IO, "a directory without model.safetensors");
    hf_write(directory, "m.gguf", "");
    hf_check_refused(directory, ERROR_FILE, "m.gguf: the file is empty"); // the only one
    hf_path(path, directory, "Qwen");
    CHECK(!mkdir(path, 0700));
    hf_write(path, "config.json", "{}");
    hf_write(directory, "a.bin", "");
    hf_write(directory, "trace.safetensors", ""); // without a config.json it is none
    hf_check_refused(directory, ERROR_USAGE, "3 models, which one? Qwen, a.bin, m.gguf");
    for (char name[] = "b0.gguf"; name[1] < '7'; name[1]++)
        hf_write(directory, name, "");
    hf_check_refused(directory, ERROR_USAGE,
                     "10 models, which one? Qwen, a.bin, b0.gguf, b1.gguf, b2.gguf, b3.gguf, "
                     "b4.gguf, b5.gguf, ...");
}

// Entries put in front of those of the file, and four bytes of data behind its own. `entries` says
// where those begin and end, and twice where they begin.
static void put_in_front(const char *directory, const char *entries) {
    size_t size;
    char *file = hf_read(directory, "model.safetensors", &size), path[700];
    uint64_t header;
    memcpy(&header, file, 8);
    size_t data = size - 8 - header;
    char *out = calloc(1, size + strlen(entries) + 100);
    int more = sprintf(out + 8, entries, data, data + 4, data, data);
    memcpy(out + 8 + more, file + 9, size - 9);
    header += (uint64_t)more - 1;
    memcpy(out, &header, 8);
    hf_path(path, directory, "model.safetensors");
    test_write_file(path, out, 8 + header + data + 4);
    free(out);
    free(file);
}

Test(hf_checkpoint, tensors_that_no_role_wants_are_listed_or_refused) {
    const char *directory = hf_tiny_model("unused", true);
    // a rank 0 tensor and an empty one, legal where nobody uses them
    put_in_front(directory,
                 "{\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%zu,%zu]},"
                 "\"none\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[%zu,%zu]},");
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    CHECK_INT(checkpoint_unused(checkpoint), 2);
    checkpoint_close(checkpoint);
}

Test(hf_checkpoint, names_of_256_bytes_and_no_more) {
    for (int length = 256; length <= 257; length++) {
        char entries[400];
        snprintf(entries, sizeof entries,
                 "{\"%0*d\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%%zu,%%zu]},", length,
                 0);
        const char *directory = hf_tiny_model(length == 256 ? "name256" : "name257", true);
        put_in_front(directory, entries);
        if (length == 256)
            hf_check_opens(directory);
        else
            hf_check_refused(directory, ERROR_FILE, "name has 257 bytes, wanted 1 to 256");
    }
}

// ---- where the directory ends and what else is in it ----

// All of them stay in memory: the limit of one is that of all together.
Test(hf_checkpoint, headers_of_many_shards_are_bounded_together) {
    enum { BYTES = 40 << 20, SHARDS = LIMIT_METADATA / BYTES + 1 };
    const char *directory = hf_tiny_model("headers", true);
    char path[700], link[700], name[40], index[2000] = "{\"weight_map\":{";
    hf_path(path, directory, "model.safetensors");
    char *bytes = malloc(8 + BYTES);
    memset(bytes, ' ', 8 + BYTES);
    memcpy(bytes, &(uint64_t){BYTES}, 8);
    memcpy(bytes + 8, "{}", 2);
    unlink(path);
    hf_path(path, directory, "s0.safetensors");
    test_write_file(path, bytes, 8 + BYTES);
    free(bytes);
    for (int i = 0; i < SHARDS; i++) {
        size_t used = strlen(index);
        snprintf(index + used, sizeof index - used, "%s\"x%d\":\"s%d.safetensors\"", i ? "," : "",
                 i, i);
        snprintf(name, sizeof name, "s%d.safetensors", i);
        hf_path(link, directory, name);
        CHECK(!i || !symlink("s0.safetensors", link));
    }
    strcat(index, "}}");
    hf_write(directory, "model.safetensors.index.json", index);
    hf_check_refused(directory, ERROR_FILE,
                     "the headers of 7 shards have more than 268435456 bytes");
}

// As downloaders leave them whose store lacks a file: there is one, and nobody knows what it says.
Test(hf_checkpoint, a_link_that_leads_nowhere_is_no_absent_file) {
    static const char *const NAMES[] = {"chat_template.jinja", "generation_config.json",
                                        "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char path[700], name[20];
        snprintf(name, sizeof name, "nowhere-%zu", i);
        const char *directory = hf_tiny_model(name, true);
        hf_path(path, directory, NAMES[i]);
        unlink(path);
        CHECK(!symlink("nowhere", path));
        hf_check_refused(directory, ERROR_IO, NAMES[i]);
    }
}

// A name is put behind the directory's path: for every place at which the path may end in memory
// that is given out in pieces of 64 bytes.
Test(hf_checkpoint, directories_have_paths_of_any_length) {
    const char *directory = hf_tiny_model("paths", true);
    char link[700];
    for (int length = 1; length <= 70; length++) {
        char name[71];
        memset(name, 'l', sizeof name);
        name[length] = '\0';
        hf_path(link, test_temporary("links"), "");
        if (length == 1) CHECK(!mkdir(link, 0700));
        hf_path(link, test_temporary("links"), name);
        CHECK(!symlink(directory, link));
        hf_check_opens(link);
    }
}

Test(hf_checkpoint, all_that_its_makers_wrote_is_handed_over) {
    const char *directory = hf_tiny_model("about-all", true);
    hf_patch(directory, CONFIG, "{",
             "{\"url\":\"there\",\"license\":\"MIT\",\"author\":\"they\",\"description\":\"it\",");
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    static const char *const WANTED[ABOUT_KEYS] = {"it", "they", "MIT", "there"};
    for (int i = 0; i < ABOUT_KEYS; i++)
        CHECK(span_equals(checkpoint_about(checkpoint)[i], WANTED[i]), "%s", ABOUT_NAMES[i]);
    checkpoint_close(checkpoint);
}

// What cannot be read may be a template: without it another one would be used.
Test(hf_checkpoint, a_template_that_cannot_be_read_is_an_error) {
    static const char *const NAMES[] = {"chat_template.jinja", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const char *directory = hf_tiny_model(NAMES[i], true);
        char path[700], wanted[100];
        hf_path(path, directory, NAMES[i]);
        CHECK(!mkdir(path, 0700));
        snprintf(wanted, sizeof wanted, "%s: not a regular file", NAMES[i]);
        hf_check_refused(directory, ERROR_IO, wanted);
    }
}

Test(hf_checkpoint, a_file_that_is_not_whole_is_not_a_model_without_a_template) {
    static const struct {
        const char *text, *message;
    } BAD[] = {{"{\"chat_template\": \"x\"", "tokenizer_config.json: offset"},
               {"{", "tokenizer_config.json: offset"},
               {"[]", "tokenizer_config.json: wanted an object, got an array"},
               {"\xff", "tokenizer_config.json: offset"},
               {"", "tokenizer_config.json: the file is empty"}};
    const char *directory = hf_tiny_model("template-cut", true);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        hf_write(directory, "tokenizer_config.json", BAD[i].text);
        hf_check_refused(directory, ERROR_FILE, BAD[i].message);
    }
    hf_write(directory, "tokenizer_config.json", "{\"chat_template\": \"x\"}");
    hf_write(directory, "chat_template.jinja", "");
    hf_check_refused(directory, ERROR_FILE, "chat_template.jinja: the file is empty");
}

Test(hf_checkpoint, templates_are_kept_up_to_their_limit) {
    char *text = malloc(LIMIT_TEMPLATE + 2), *config = malloc(LIMIT_TEMPLATE + 100);
    for (int more = 0; more < 2; more++) {
        size_t length = LIMIT_TEMPLATE + (size_t)more;
        memset(text, 't', length);
        text[length] = '\0';
        const char *directory = hf_tiny_model(more ? "template-more" : "template-limit", true);
        sprintf(config, "{\"chat_template\": \"%s\"}", text);
        hf_write(directory, "tokenizer_config.json", config);
        check_template(directory, more ? "" : text);
        hf_write(directory, "tokenizer_config.json", "{}");
        hf_write(directory, "chat_template.jinja", text);
        if (more)
            hf_check_refused(directory, ERROR_FILE, "chat_template.jinja: a file of 1048577 bytes");
        else
            check_template(directory, text);
    }
    free(text);
    free(config);
}

// The first tensor counts as the others do.
Test(hf_checkpoint, biases_that_config_json_does_not_want_are_counted) {
    const char *directory = hf_tiny_model("bias", true);
    put_in_front(directory,
                 "{\"model.layers.0.self_attn.q_proj.bias\":{\"dtype\":\"F32\",\"shape\":[],"
                 "\"data_offsets\":[%zu,%zu]},"
                 "\"none\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[%zu,%zu]},");
    hf_check_refused(directory, ERROR_FILE, "1 biases of attention matrices, config.json wants 0");
}

Test(hf_checkpoint, an_outline_has_the_biases_of_its_config) {
    for (int biases = 0; biases < 2; biases++) {
        const char *directory = hf_tiny_model(biases ? "outline-4" : "outline-0", true);
        if (biases) hf_patch(directory, CONFIG, "{", "{\"attention_bias\":true,");
        char path[700];
        hf_path(path, directory, CONFIG);
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(checkpoint_open_outline(&checkpoint, path, DTYPE_F32, &error), "%s", error.message);
        const LayerWeights *layer = &checkpoint_weights(checkpoint)->layers[0];
        CHECK(!layer->bq == !biases && !layer->bo == !biases, "%d", biases);
        checkpoint_close(checkpoint);
    }
}

// Tables that old files have beside the weights, of a type that no weight has.
Test(hf_checkpoint, what_the_family_does_not_use_may_be_of_any_type) {
    static const struct {
        const char *name, *message; // NULL: accepted
    } ROWS[] = {{"model.layers.0.self_attn.rotary_emb.inv_freq", NULL},
                {"model.layers.0.self_attn.rotary_emb.table", "dtype I32 is not supported"}};
    for (size_t i = 0; i < 2; i++) {
        const char *directory = hf_tiny_model(ROWS[i].message ? "type-other" : "type-table", true);
        char entries[400];
        snprintf(entries, sizeof entries,
                 "{\"%s\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[%%zu,%%zu]},"
                 "\"none\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[%%zu,%%zu]},",
                 ROWS[i].name);
        put_in_front(directory, entries);
        if (ROWS[i].message)
            hf_check_refused(directory, ERROR_FILE, ROWS[i].message);
        else
            hf_check_opens(directory);
    }
}

Test(hf_checkpoint, an_outline_of_no_config_is_refused) {
    static const char *const TEXTS[] = {"{", "{}", "{\"model_type\":\"llama\",\"hidden_size\":0}"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        const char *path = test_temporary("config.json");
        test_write_file(path, TEXTS[i], strlen(TEXTS[i]));
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(!checkpoint_open_outline(&checkpoint, path, DTYPE_F32, &error), "%s", TEXTS[i]);
        CHECK_INT(error.code, ERROR_FILE);
        checkpoint_close(checkpoint);
    }
}
