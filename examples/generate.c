// Continues a text, as `run MODEL -i PROMPT --max-tokens 60 -t 0.8 -p 0.9 -s SEED` does.
//
//     cc generate.c -o generate $(pkg-config --cflags --libs limpid)
//     ./generate SmolLM2.gguf "Once upon a time" 1
#include <limpid.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 1024, TOKENS = 60 };

static void print_token(limpid_model *model, int32_t id) {
    char text[1024];
    int length = limpid_detokenize(model, &id, 1, 0, text, sizeof text, NULL);
    fwrite(text, 1, length < (int)sizeof text ? (size_t)length : sizeof text, stdout);
    fflush(stdout);
}

// First the prompt is a batch, then every new token.
static bool generate(limpid_model *model, limpid_context *context, limpid_sampler *sampler,
                     limpid_batch batch, limpid_error *error) {
    int32_t id;
    for (int i = 0; i < TOKENS; i++) {
        if (!limpid_eval(context, &batch, error)) return false;
        id = limpid_sample(sampler, limpid_logits(context, 0), error);
        if (id < 0) return false;
        if (limpid_ends(model, id)) break;
        print_token(model, id);
        batch = (limpid_batch){.n = 1, .tokens = &id};
    }
    putchar('\n');
    return true;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "builtin", *prompt = argc > 2 ? argv[2] : "Once";
    limpid_sampling sampling = {
        .temperature = 0.8f, .top_p = 0.9f, .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1};
    int32_t ids[PROMPT];
    limpid_error error = {0};
    limpid_model *model = limpid_open(path, NULL, &error);
    limpid_context *context = model ? limpid_context_open(model, NULL, &error) : NULL;
    limpid_sampler *sampler = context ? limpid_sampler_open(context, &sampling, &error) : NULL;
    int n = sampler
                ? limpid_tokenize(model, prompt, strlen(prompt), LIMPID_BEGIN, ids, PROMPT, &error)
                : -1;
    limpid_batch batch = {.n = n, .tokens = ids};
    if (n >= 0 && n <= PROMPT) fputs(prompt, stdout);
    bool good = n >= 0 && n <= PROMPT && generate(model, context, sampler, batch, &error);
    if (n > PROMPT)
        fprintf(stderr, "generate: a prompt of %d tokens (at most %d)\n", n, PROMPT);
    else if (!good)
        fprintf(stderr, "generate: %s\n", error.message);
    limpid_sampler_close(sampler);
    limpid_context_close(context);
    limpid_close(model);
    return !good;
}
