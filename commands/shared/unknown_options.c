// What is said to an option that a command does not have: one of llama.cpp or mlx-lm, whose users
// type it by habit; one of another command; one that is misspelt.
//
//   foreign_option    before getopt, which would read "-ngl 99" as -n with the value "gl"
//   refuse_unknown    after getopt found no option: ambiguous, of another command, the nearest name
//   refuse_misspelt   "-nlg 99", of which getopt has taken the first letter
//
// An option of another program that changes what is computed ends the run with what limpid has
// instead. One that asks for what limpid does anyway, or for speed alone, is skipped with a note.
#include "base/text.h"
#include "commands/shared/option_rows.h"

#include <stdio.h>
#include <string.h>

enum { EVERYWHERE = -1, TEXTS = FOR_GENERATE | FOR_CHAT };

static const ForeignOption FOREIGN[] = {
    // names, commands that refuse it, its value, what is said
    {"-ngl|--gpu-layers|--n-gpu-layers", 0, FOREIGN_VALUE,
     "a program made by `make BACKEND=cuda` runs all layers on the GPU, any other none"},
    {"-fa|--flash-attn", 0, FOREIGN_SWITCH, "attention needs no flag to be fast"},
    {"-cnv|--conversation", EVERYWHERE & ~FOR_CHAT, FOREIGN_FLAG,
     "a conversation is `run chat MODEL`"},
    {"-cnv|--conversation", 0, FOREIGN_FLAG, "chat is a conversation"},
    {"-no-cnv|--no-conversation", FOR_CHAT, FOREIGN_FLAG, "a plain text is `run generate MODEL`"},
    {"-no-cnv|--no-conversation", 0, FOREIGN_FLAG, "only `run chat` is a conversation"},
    {"-st|--single-turn", EVERYWHERE, FOREIGN_FLAG,
     "one message and its answer is `run chat MODEL -i TEXT`"},
    {"-sys", EVERYWHERE, FOREIGN_VALUE, "the system prompt is -y or --system TEXT"},
    {"-sysf|--system-prompt-file", EVERYWHERE, FOREIGN_VALUE,
     "the system prompt is --system \"$(cat FILE)\""},
    {"-hf|-hfr|--hf-repo|-hff|--hf-file|-hfd|-hfrd|--hf-repo-draft|-mu|--model-url", EVERYWHERE,
     FOREIGN_VALUE,
     "limpid downloads nothing; fetch the file and give its path (scripts/get_model of the source "
     "tree fetches some)"},
    {"-np|--parallel", EVERYWHERE, FOREIGN_VALUE,
     "texts side by side are `run generate --prompts FILE --parallel N`"},
    {"--no-mmap|--mmap|--mlock", 0, FOREIGN_FLAG,
     "weights are packed in memory, and the file is not mapped after loading"},
    {"-b|--batch-size|-ub|--ubatch-size", 0, FOREIGN_VALUE,
     "limpid chooses how a prompt is split; the numbers do not depend on it"},
    {"-tb|--threads-batch", 0, FOREIGN_VALUE, "-j N threads are for the prompt and the text"},
    {"-kvu|--kv-unified|-nkvo|--no-kv-offload|--no-warmup|--warmup|--no-perf|--perf|--simple-io|"
     "--jinja|--log-disable|--trust-remote-code|--no-escape|-cb|--cont-batching|-nocb|"
     "--no-cont-batching",
     0, FOREIGN_FLAG, "there is nothing to switch"},
    {"-e|--escape", EVERYWHERE, FOREIGN_FLAG, "a text is taken as it is: -i $'one\\ntwo'"},
    {"--verbose-prompt", 0, FOREIGN_FLAG, "`run tokenize MODEL --pieces` shows a prompt's tokens"},
    {"--no-display-prompt", EVERYWHERE, FOREIGN_FLAG, "--json has the new text alone"},
    {"-ctk|--cache-type-k|-ctv|--cache-type-v", EVERYWHERE, FOREIGN_VALUE,
     "the type of the cache is --kv f32, f16 or bf16"},
    {"-bf|--binary-file", EVERYWHERE, FOREIGN_VALUE, "a file as it is: -f FILE --keep-newline"},
    {"-r|--reverse-prompt", EVERYWHERE, FOREIGN_VALUE,
     "a text that ends the output is --stop TEXT"},
    {"--chat-template", EVERYWHERE, FOREIGN_VALUE, "the chat format is --template NAME"},
    {"--in-prefix|--in-suffix", EVERYWHERE, FOREIGN_VALUE,
     "what stands around a message in `run chat` is the chat format, --template NAME"},
    {"--use-default-chat-template|--ignore-chat-template", EVERYWHERE, FOREIGN_FLAG,
     "`run chat` uses the model's chat format, `run generate` none"},
    {"--max-kv-size", EVERYWHERE, FOREIGN_VALUE, "the length of the context is -c N"},
    {"-md", EVERYWHERE, FOREIGN_VALUE, "a model that drafts is --draft MODEL"},
    {"--num-draft-tokens|--draft-n|--draft-max|--draft-min", EVERYWHERE, FOREIGN_VALUE,
     "limpid drafts as many tokens as pay; --draft-tokens N: always N"},
    {"-l", EVERYWHERE, FOREIGN_VALUE, "a bias of a token's logit is --logit-bias ID:+1.5"},
    {"--samplers|--sampling-seq|--sampler-seq", EVERYWHERE, FOREIGN_VALUE,
     "samplers have one order: bias, penalties, DRY, temperature, top-k, top-p, min-p, typical-p, "
     "XTC"},
    {"--top-nsigma|--top-n-sigma|--dynatemp-range|--dynatemp-exp|--min-tokens-to-keep", EVERYWHERE,
     FOREIGN_VALUE, "limpid does not have that sampler (`run generate --help` lists those it has)"},
    {"--extra-eos-token", EVERYWHERE, FOREIGN_VALUE, "a text that ends the output is --stop TEXT"},
    {"--prompt-cache|--prompt-cache-file", EVERYWHERE, FOREIGN_VALUE,
     "a prompt is kept by `run generate --cache FILE`, a conversation by `run chat --session "
     "FILE`"},
    {"--kv-bits|--kv-group-size|--quantized-kv-start", EVERYWHERE, FOREIGN_VALUE,
     "the type of the cache is --kv f32, f16 or bf16"},
    {"--keep", EVERYWHERE, FOREIGN_VALUE,
     "what stays in a full context is --context-overflow stop|shift|sinks"},
    {"--no-context-shift", FOR_CHAT, FOREIGN_FLAG, "that is --context-overflow stop"},
    {"--no-context-shift", 0, FOREIGN_FLAG, "a text ends where the context is full"},
    {"--context-shift", EVERYWHERE, FOREIGN_FLAG, "that is --context-overflow shift"},
    {"--interactive|-if|--interactive-first|-mli|--multiline-input", EVERYWHERE, FOREIGN_FLAG,
     "a conversation is `run chat MODEL`"},
    {"-lcs|--lookup-cache-static|-lcd|--lookup-cache-dynamic", EVERYWHERE, FOREIGN_VALUE,
     "--speculate lookup guesses from the text itself"},
    {"-cd|--ctx-size-draft|-ngld|--gpu-layers-draft|--n-gpu-layers-draft|-devd|--device-draft|-td|"
     "--threads-draft",
     0, FOREIGN_VALUE, "a draft runs as its model does"},
    {"-dt|--defrag-thold", 0, FOREIGN_VALUE, "there is nothing to switch"},
    {"-gan|--grp-attn-n|-gaw|--grp-attn-w|-ns|--sequences|--override-kv|--prefill-response",
     EVERYWHERE, FOREIGN_VALUE, "limpid does not have that"},
    {"--prefill-assistant|--no-prefill-assistant", EVERYWHERE, FOREIGN_FLAG,
     "limpid does not have that"},
    {"-cmoe|--cpu-moe", 0, FOREIGN_FLAG, "limpid has no mixtures of experts"},
    {"-sm|--split-mode|-ts|--tensor-split|-mg|--main-gpu|-ot|--override-tensor|-ncmoe|--n-cpu-moe|"
     "--numa",
     0, FOREIGN_VALUE, "limpid runs on one device; `make MPI=1` has layers on several machines"},
    {"-jf", EVERYWHERE, FOREIGN_VALUE, "a schema is --json-schema FILE"},
    {"--host|--port|--api-key", EVERYWHERE, FOREIGN_VALUE,
     "limpid is no server; other programs use it as a library (docs/library.md)"},
    {"--lora|--adapter-path", EVERYWHERE, FOREIGN_VALUE,
     "limpid has no adapters: merge them first"},
    {"-mm|--mmproj|--image", EVERYWHERE, FOREIGN_VALUE, "limpid reads text alone"},
    {"-dev|--device", EVERYWHERE, FOREIGN_VALUE,
     "the device is chosen by `make BACKEND=cpu` or cuda"},
    {"--list-devices", EVERYWHERE, FOREIGN_FLAG,
     "a program made by `make BACKEND=cuda` has the GPU as its device, any other the CPU"},
    {"--swa-full", 0, FOREIGN_FLAG,
     "a layer with a sliding window keeps its window; the numbers are those of a full cache"},
    {"--rope-scaling|--rope-scale|--rope-freq-base|--rope-freq-scale|--yarn-orig-ctx", EVERYWHERE,
     FOREIGN_VALUE, "the model's file says how positions are rotated"},
};
enum { N_FOREIGN = sizeof FOREIGN / sizeof *FOREIGN };

// Is `word`, up to its =, one of "-a|--ab"?
static bool is_one_of(const char *word, const char *names) {
    size_t length = strcspn(word, "=");
    for (;;) {
        size_t name = strcspn(names, "|");
        if (name == length && !memcmp(names, word, length)) return true;
        if (!names[name]) return false;
        names += name + 1;
    }
}

// An option of another program has the name of one of this command: ours is meant.
static bool is_own(const char *word, CommandBit command) {
    bool is_short = strlen(word) == 2, is_long = !strncmp(word, "--", 2) && word[2];
    for (const OptionRow *row = option_rows(); row->name; row++) {
        if (!(row->commands & command)) continue;
        if (is_short && row->short_name == word[1]) return true;
        if (is_long && is_one_of(word + 2, row->name)) return true;
    }
    return false;
}

// A later row stands for the commands that an earlier one does not refuse.
const ForeignOption *foreign_option(const char *word, CommandBit command) {
    if (*word != '-' || is_own(word, command)) return NULL;
    for (int i = 0; i < N_FOREIGN; i++) {
        if (!is_one_of(word, FOREIGN[i].names)) continue;
        bool again = i + 1 < N_FOREIGN && !strcmp(FOREIGN[i].names, FOREIGN[i + 1].names);
        if (!again || FOREIGN[i].refused_by & (int)command) return &FOREIGN[i];
    }
    return NULL;
}

int foreign_words(const ForeignOption *option, const char *word, const char *next) {
    static const char SWITCHES[] = "on|off|auto|0|1|true|false|enabled|disabled";
    if (strchr(word, '=') || !next || option->value == FOREIGN_FLAG) return 1;
    if (option->value == FOREIGN_SWITCH) return is_one_of(next, SWITCHES) ? 2 : 1;
    return 2;
}

// ---- misspelt ones ----

// The command's names that begin with the argument: "--top-p, --top-k". How many there are.
static int list_matches(char *out, size_t size, TextSpan word, CommandBit command) {
    int count = 0;
    size_t used = 0;
    for (const OptionRow *row = option_rows(); row->name; row++) {
        if (!(row->commands & command) || strncmp(row->name, word.text, word.length) != 0) continue;
        if (used < size)
            used +=
                (size_t)snprintf(out + used, size - used, "%s--%s", count ? ", " : "", row->name);
        count++;
    }
    return count;
}

// The nearest so far of names without their dashes.
typedef struct Nearest {
    TextSpan word, name; // name.text NULL: none is near
    const char *dashes;
    size_t distance;
} Nearest;

static void compare_name(Nearest *n, const char *dashes, TextSpan name) {
    size_t distance = edit_distance(n->word, name);
    if (distance >= n->distance) return;
    n->distance = distance;
    n->name = name;
    n->dashes = dashes;
}

// Among the names of the command's options.
static Nearest nearest_option(TextSpan word, CommandBit command) {
    Nearest n = {.word = word, .distance = misspellings(word.length) + 1};
    for (const OptionRow *row = option_rows(); row->name; row++)
        if (row->commands & command)
            compare_name(&n, "--", (TextSpan){row->name, strlen(row->name)});
    return n;
}

// Among those of other programs too.
static Nearest nearest_name(TextSpan word, CommandBit command) {
    Nearest n = nearest_option(word, command);
    for (int i = 0; i < N_FOREIGN; i++) {
        for (const char *name = FOREIGN[i].names; *name;) {
            size_t length = strcspn(name, "|"), dashes = strspn(name, "-");
            compare_name(&n, dashes == 2 ? "--" : "-", (TextSpan){name + dashes, length - dashes});
            name += length + (name[length] == '|');
        }
    }
    return n;
}

static bool suggest(const char *argument, const Nearest *n, Error *error) {
    return error_set(error, ERROR_USAGE, "unknown option %.60s: did you mean %s%.*s?", argument,
                     n->dashes, (int)n->name.length, n->name.text);
}

bool refuse_misspelt(const char *argument, CommandBit command, Error *error) {
    enum { LEAST = 3 }; // two letters are near to too many names
    if (*argument != '-' || argument[1] == '-') return false;
    TextSpan word = {argument + 1, strcspn(argument + 1, "=")};
    if (word.length < LEAST) return false;
    Nearest n = nearest_name(word, command);
    if (!n.name.text) return false;
    suggest(argument, &n, error);
    return true;
}

bool refuse_unknown(const char *argument, CommandBit command, Error *error) {
    char names[200] = "";
    TextSpan word = {argument + 2, strcspn(argument, "=") - 2};
    bool is_long = !strncmp(argument, "--", 2) && word.length;
    if (is_long && list_matches(names, sizeof names, word, command) > 1)
        return error_set(error, ERROR_USAGE, "%.60s is ambiguous: %s", argument, names);
    if (is_long) {
        Nearest n = nearest_option(word, command);
        if (n.name.text) return suggest(argument, &n, error);
    }
    return error_set(error, ERROR_USAGE, "unknown option %.60s (`run COMMAND --help` lists them)",
                     argument);
}
