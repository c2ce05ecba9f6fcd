// A key of config.json or a tensor that limpid does not know is refused with its name, in every
// family: tried on the tiny models that scripts/make_tiny_models.py makes.
#include "tests/test.h"
#include "weights/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

static const char FOLDER[] = "build/tiny-models";
typedef char Path[200];

static const char *const FAMILIES[] = {"gpt2",           "llama",
                                       "mistral-window", "qwen2",
                                       "qwen3",          "gemma3",
                                       "olmo2",          "olmo3",
                                       "exaone4",        "hunyuan_v1_dense",
                                       "ernie4_5",       "arcee",
                                       "smollm3",        "phi3",
                                       "nanochat",       "gemma2",
                                       "granite",        "granitemoehybrid",
                                       "ministral3",     "gpt_neox"};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

static char *read_file(const char *family, const char *name, size_t *size) {
    Path path;
    snprintf(path, sizeof path, "%s/%s/%s", FOLDER, family, name);
    return test_read_file(path, size);
}

static void write_file(const char *directory, const char *name, const char *bytes, size_t size) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    test_write_file(path, bytes, size);
}

// Opens the family's tiny model with `key` as the first member of its config and `tensor`, one
// number, behind its others (NULL: none). `message`: NULL where it is fine.
static void check_refused(const char *family, const char *key, const char *tensor,
                          const char *message) {
    static int n;
    char name[40];
    size_t config_size, size, room;
    char *config = read_file(family, "config.json", &config_size);
    char *weights = read_file(family, "model.safetensors", &size);
    snprintf(name, sizeof name, "unknown-%d", n++);
    const char *directory = test_temporary(name);
    CHECK(!mkdir(directory, 0700));

    char *changed = malloc(room = config_size + 200);
    int length = snprintf(changed, room, "{%s%s%s", key ? key : "", key ? "," : "", config + 1);
    write_file(directory, "config.json", changed, (size_t)length);
    free(changed);

    // The header's last brace makes room for one more entry; its data comes last.
    uint64_t header;
    memcpy(&header, weights, 8);
    size_t end = (size_t)header, data = size - 8 - end;
    while (weights[8 + end - 1] == ' ')
        end--;
    changed = malloc(room = size + 300);
    length = !tensor
                 ? 0
                 : snprintf(changed + 8 + end - 1, 300,
                            ",\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}}",
                            tensor, data, data + 4) -
                       1;
    memcpy(changed + 8, weights + 8, tensor ? end - 1 : end);
    uint64_t longer = end + (uint64_t)length;
    memcpy(changed, &longer, 8);
    memcpy(changed + 8 + longer, weights + 8 + header, data);
    memset(changed + 8 + longer + data, 0, 4);
    write_file(directory, "model.safetensors", changed, 8 + longer + data + (tensor ? 4 : 0));
    free(changed);
    free(config);
    free(weights);

    Checkpoint *checkpoint = NULL;
    Error error = {0};
    bool opened = checkpoint_open(&checkpoint, directory, &error);
    checkpoint_close(checkpoint);
    CHECK(opened == !message, "%s with %s %s: %s", family, key ? key : "", tensor ? tensor : "",
          error.message);
    if (!message) return;
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, message), "%s: \"%s\" is not in: %s", family, message,
          error.message);
}

Test(unknown_keys, are_refused_with_their_name_in_every_family_and_so_are_tensors) {
    if (access("build/tiny-models/models.txt", R_OK))
        SKIP("no %s: they are made with numpy (apt install python3-numpy)", FOLDER);
    for (int i = 0; i < N_FAMILIES; i++) {
        const char *family = FAMILIES[i], *layer = "model.layers.1.";
        bool gpt2 = !strcmp(family, "gpt2");
        bool neox = !strcmp(family, "gpt_neox");
        if (gpt2) layer = "transformer.h.1.";
        if (neox) layer = "gpt_neox.layers.1.";
        check_refused(family, NULL, NULL, NULL);
        check_refused(family, "\"new_trick\":true", NULL, "\"new_trick\"");
        check_refused(family, "\"new_number\":0", NULL, "\"new_number\"");
        check_refused(family, "\"use_cache\":true", NULL, NULL);
        if (!gpt2)
            check_refused(family, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", NULL,
                          "\"rope_scaling\" beside \"rope_parameters\"");
        const char *const PARTS[] = {"self_attn.sinks", "mlp.router.weight", "scalar",
                                     "ln_3.weight"};
        for (size_t j = 0; j < sizeof PARTS / sizeof *PARTS; j++) {
            char tensor[100];
            snprintf(tensor, sizeof tensor, "%s%s", layer, PARTS[j]);
            check_refused(family, NULL, tensor, tensor);
        }
        const char *const BESIDE[] = {gpt2   ? "transformer.ln_f.scale"
                                      : neox ? "gpt_neox.final_layer_norm.scale"
                                             : "model.norm.scale",
                                      gpt2   ? "transformer.wte.scale"
                                      : neox ? "gpt_neox.embed_in.scale"
                                             : "model.embed_tokens.scale",
                                      neox ? "embed_out.bias" : "lm_head.bias"};
        for (size_t j = 0; j < 3; j++)
            check_refused(family, NULL, BESIDE[j], BESIDE[j]);
    }
}
