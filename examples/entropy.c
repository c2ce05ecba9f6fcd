// How far each attention head spreads over a prompt: the entropy of its weights in bits, the mean
// over the tokens. 0: it looks at one token alone; log2(keys): at all of them alike. The numbers
// are those of `run attention MODEL -i PROMPT --entropy`.
//
//     cc entropy.c -o entropy $(pkg-config --cflags --libs limpid) -lm
//     ./entropy SmolLM2.gguf "The cat sat on its mat"
#include <limpid.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 512 };

// att_weights (rows, heads, context): the keys that a row does not see have weight 0. Called once a
// layer, since the prompt is one batch and no longer than max_rows.
static bool print_entropies(void *user, limpid_stage *stage) {
    (void)user;
    int n_rows = stage->shape[0], n_heads = stage->shape[1], n_keys = stage->shape[2];
    printf("%5d", stage->layer);
    for (int h = 0; h < n_heads; h++) {
        double entropy = 0;
        for (int i = 0; i < n_rows; i++) {
            const float *weights = stage->data + ((size_t)i * n_heads + h) * n_keys;
            for (int t = 0; t < n_keys; t++)
                if (weights[t] > 0) entropy -= weights[t] * log2(weights[t]);
        }
        printf(" %6.3f", entropy / n_rows);
    }
    putchar('\n');
    return false; // nothing is changed
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "builtin";
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    int32_t ids[MOST];
    limpid_error error = {0};
    limpid_context *context = NULL;
    limpid_model *model = limpid_open(path, NULL, &error);
    int n = model ? limpid_tokenize(model, prompt, strlen(prompt), LIMPID_BEGIN, ids, MOST, &error)
                  : -1;
    if (n > MOST) n = MOST; // the beginning of a longer prompt
    limpid_options options = {.context = n, .max_rows = n};
    if (n > 0) context = limpid_context_open(model, &options, &error);
    if (context) printf("layer, then the entropy of each head in bits; %d tokens\n", n);
    bool good = context && limpid_listen(context, "att_weights", print_entropies, NULL, &error) &&
                limpid_eval(context, &(limpid_batch){.n = n, .tokens = ids}, &error);
    if (!good) fprintf(stderr, "entropy: %s\n", n ? error.message : "the prompt has no tokens");
    limpid_context_close(context);
    limpid_close(model);
    return !good;
}
