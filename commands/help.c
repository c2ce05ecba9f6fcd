// What --help, --version and --limits print. Every text fits a screen of 24 lines and 80 columns.
#include "base/limits.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "kernels/kernels.h"
#include "weights/config.h"

#include <string.h>

static const char GENERATE_HELP[] =
    "run [generate] [MODEL] [-i PROMPT] [options]    text from a prompt\n"
    "    ./run models/SmolLM2.gguf -i 'Once upon a time' -t 0.8 -n 200\n"
    "MODEL: a .gguf, .safetensors or llama2.c .bin file, or a directory with them;\n"
    "  without one the built-in model tells a story\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "  -n, --steps N        forward passes, as in llama2.c: N tokens follow BOS,\n"
    "                       the prompt's included; 0: the whole context\n"
    "      --max-tokens N   new tokens (default 256, without -n)\n"
    "      --stop TEXT      end before TEXT (may be repeated);  --ignore-eos\n"
    "  -t, --temp T  -p, --top-p P  -s, --seed S     (1.0, 0.9, random); -t 0: greedy\n"
    "      --top-k K  --min-p P  --typical-p P  --repeat-penalty R  --repeat-last-n N\n"
    "      --presence-penalty A  --frequency-penalty A\n"
    "  -z, --tokenizer FILE                  a tokenizer or a model that has one\n"
    "  -m generate|chat  -y, --system TEXT   as in llama2.c\n"
    "  -j, --threads N  -c, --ctx-size N  --kv f32|f16|bf16  --precision f32|a16|a8\n"
    "      --no-cache       every token from the beginning (to compare with)\n"
    "      --special        control tokens written in the prompt count as such\n"
    "for scripts: --ids (new ids, one per line), --json (one object: prompt_ids, ids,\n"
    "  text, stop, logits_hash (FNV-1a 64 of all rows of logits sampled from), rates,\n"
    "  memory), --logprobs N (a JSON line per token with N alternatives)\n"
    "  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char CHAT_HELP[] =
    "run chat MODEL [-i TEXT] [options]              a conversation\n"
    "    ./run chat models/SmolLM2-135M-Instruct.Q4_1.gguf -y 'Answer briefly.'\n"
    "\n"
    "One line is one message; Ctrl-D ends, Ctrl-C stops the answer. With -i or -f one\n"
    "answer; from a pipe every line is a message.\n"
    "  -y, --system TEXT     what the model is told first\n"
    "      --template NAME   the chat format, where the model's own is not known:\n"
    "                        chatml llama2 llama3 mistral-v3 gemma phi3 nanochat ...\n"
    "  -c, --ctx-size N      the conversation's length (default the model's, <= 4096)\n"
    "      --max-tokens N    of one answer (default: until it ends)\n"
    "  -t, --temp T  -p, --top-p P  --top-k K  --min-p P  --repeat-penalty R  -s SEED\n"
    "                        (default: the model's generation_config, else 0.7, 0.9)\n"
    "  --typical-p P  --repeat-last-n N  --presence-penalty A  --frequency-penalty A\n"
    "      --stop TEXT       end an answer before TEXT (repeatable);  --ignore-eos\n"
    "  -z, --tokenizer FILE  -j, --threads N --kv f32|f16|bf16 --precision f32|a16|a8\n"
    "  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char BENCH_HELP[] =
    "run bench MODEL [options]                       tokens per second and the limits\n"
    "    ./run bench models/SmolLM2-135M-Instruct.Q4_1.gguf -j 1,2 --pp 128,512\n"
    "\n"
    "Medians of repetitions after a warm-up; beside them the bytes read per token and\n"
    "the share of the read bandwidth and of the arithmetic peak of this machine,\n"
    "measured in turns in the same run.\n"
    "      --prompt-length, --pp N,..   prompts (default 512)\n"
    "      --gen, --tg N                tokens decoded in one repetition (64)\n"
    "      --depth N,..                 tokens in the cache before (0)\n"
    "      --batch N,..                 sequences decoded side by side (1)\n"
    "  -j, --threads N,..               (default: all this process may use)\n"
    "  -r, --repetitions N              (5)\n"
    "      --only prefill|decode   --no-limits\n"
    "      --kv f32|f16|bf16  --precision f32|a16|a8\n"
    "      --json  --csv  --markdown    JSON has prefill.tokens_per_second and\n"
    "                                   decode.tokens_per_second of the first rows\n";

static const char PERPLEXITY_HELP[] =
    "run perplexity MODEL -f FILE [options]          how well the model knows a text\n"
    "    ./run perplexity models/SmolLM2.gguf -f wiki.test.raw --window 1024\n"
    "\n"
    "Every token but the first is predicted exactly once. Windows of --window tokens\n"
    "begin every --stride tokens; a window scores what no earlier one has.\n"
    "  -f, --file FILE       the text, else standard input; BOS goes in front where\n"
    "                        the model's prompts begin with it\n"
    "      --ids FILE        token ids instead of a text, taken as they are\n"
    "      --window N        (default: the model's context, at most 1024)\n"
    "      --stride N        (default: the window)\n"
    "      --second-half     as llama.cpp: whole windows, scored is what lies behind\n"
    "                        the middle of each; BOS stands for its first token\n"
    "      --windows N       the first N windows only\n"
    "      --special         control tokens written in the text count as such\n"
    "      --save-logits FILE  the logits of all scored tokens, as safetensors: 4\n"
    "                        bytes each, 0.2 GB for 1,000 tokens of SmolLM2\n"
    "      --kl FILE         how far this run is from saved logits: KL divergence\n"
    "                        (nats; mean, 99th percentile, largest), same top-1, ...\n"
    "      --json            tokens, mean_nll (nats), perplexity, bits_per_byte, ...;\n"
    "                        with --kl: kl_mean, kl_p99, kl_max, top1_agreement, ...\n"
    "  -z, --tokenizer FILE  -j, --threads N --kv f32|f16|bf16 --precision f32|a16|a8\n";

static const char TOKENIZE_HELP[] =
    "run tokenize MODEL|-z TOKENIZER [-i TEXT | -f FILE] [options]   text to ids\n"
    "    ./run tokenize models/SmolLM2.gguf -i 'Hello world'\n"
    "    ./run tokenize -z tokenizer.model -i 'Hello world' --pieces\n"
    "\n"
    "Prints the ids of the whole input on one line; nothing is added that was not\n"
    "asked for. Without -i and -f the input is standard input.\n"
    "      --bos        BOS in front\n"
    "      --special    control tokens written in the text count as such\n"
    "      --lines      each input line by itself, one output line for each\n"
    "      --pieces     a table: id, type, the vocabulary's spelling\n"
    "      --decode     the other way: the input is ids, the output their text\n";

static const char INSPECT_HELP[] =
    "run inspect MODEL [--json]                      what is in a model file\n"
    "    ./run inspect models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "\n"
    "Container, family, hyper-parameters, tensors (name, shape, type, bytes), totals,\n"
    "tokenizer, chat template.\n"
    "  -z, --tokenizer FILE   --json   -v, --verbose (the template's text)\n";

static const char SELFTEST_HELP[] =
    "run selftest MODEL [options]                    identities, on your own file\n"
    "    ./run selftest models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "\n"
    "Computes in two ways, with the model's own weights, what ought to be the same:\n"
    "with and without the cache, a prompt at once and token by token, in company and\n"
    "alone, with 1, 2, 3 and 7 threads, RoPE of halves and of neighbours ... A line\n"
    "each: held or FAILED, \"same bits\" or the largest difference beside its bound,\n"
    "how many values were compared, the time. What a model does not have does not\n"
    "apply, and does not count. Exit status 0: all held; 1: one failed.\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403,407,261   at least 4\n"
    "                        tokens (default: a text of 24; ids where there is no\n"
    "                        tokenizer). A long one reaches sliding windows.\n"
    "      --json            one object: checks (check, name, result, reason,\n"
    "                        same_bits, largest_difference, bound, values, layer,\n"
    "                        position, seconds), held, failed, does_not_apply\n"
    "  -z, --tokenizer FILE  -j, --threads N --kv f32|f16|bf16 --precision f32|a16|a8\n"
    "  -q, --quiet           no progress bar\n";

static const char TRACE_HELP[] =
    "run trace MODEL -i PROMPT --out FILE [options]  every number of a run, in a file\n"
    "    ./run trace models/SmolLM2.gguf -i 'Once upon a time' -o run.safetensors\n"
    "\n"
    "Every stage of every layer for every token, float32, in one safetensors file,\n"
    "under the names that Hugging Face's model has for its modules, from whatever\n"
    "container: model.layers.3.self_attn.k_proj; docs/trace.md lists them.\n"
    "  -o, --out FILE          where to (needed)\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "      --special           control tokens written in the prompt count as such\n"
    "  -n, --max-tokens N      and N tokens generated behind it, greedily (0)\n"
    "      --only NAME         stages of that name alone (repeatable); * is anything,\n"
    "                          a name may begin after any dot: q_proj, 'layers.3.*'\n"
    "      --attention         attention weights too: heads x tokens x tokens a layer\n"
    "      --precision f32|a16|a8   f32 to compare with a reference (default a16)\n"
    "      --kv f32|f16|bf16   (default f32 with --precision f32, else f16)\n"
    "  -z, --tokenizer FILE  -j, --threads N  -q, --quiet  -v, --verbose\n";

static const char CONVERT_HELP[] =
    "run convert MODEL OUT [options]                 another container, another type\n"
    "    ./run convert models/Qwen3-0.6B qwen3.gguf --type q8_0\n"
    "    ./run convert models/SmolLM2.gguf smollm2-hf --type f16\n"
    "\n"
    "OUT is a name that ends in .gguf; or a directory, which gets model.safetensors,\n"
    "config.json and the tokenizer, as transformers reads them; or a name that ends\n"
    "in .safetensors, with those files beside it. It appears whole or not at all.\n"
    "      --type T          of the matrices: f32 f16 bf16, in a GGUF also q8_0 q4_0\n"
    "                        (default: each keeps its own; one that safetensors does\n"
    "                        not have becomes f32). Norms and biases of a GGUF: f32.\n"
    "      --force           replace an OUT that is there\n"
    "  -z, --tokenizer FILE  the vocabulary, where the model has none\n"
    "  -q, --quiet\n"
    "Where the types are kept, both files give the same logits, bit for bit.\n";

static const char DIFF_HELP[] =
    "run diff A B [options]                          two traces against each other\n"
    "    ./run diff reference.safetensors run.safetensors\n"
    "\n"
    "Per tensor: the largest difference, the same as a share of the tensor's largest\n"
    "value, the cosine, and the share of the budget that it takes. Then one sentence:\n"
    "the first tensor in the order of computation that is over the budget, its layer,\n"
    "position and element. Exit status 1 where one is, or nothing could be compared.\n"
    "      --budget f32|a16|f16|a8|NUMBER   default: what A and B say they are\n"
    "          NUMBER: a share of the largest value of a tensor; 0: the same numbers\n"
    "          f32  3e-5 of the largest value: float32 summed in another order\n"
    "          a16  1e-3: activations as 16-bit integers    (docs/trace.md: measured)\n"
    "          f16  1e-2: a cache in f16, with f32 or a16\n"
    "          a8   0.3:  activations as 8-bit integers, or a cache in bf16\n"
    "      --only NAME   tensors of that name alone, as in trace (repeatable)\n"
    "      --all         every tensor, in the order of computation\n"
    "      --json        one object: same, budget, compared, over, first (name,\n"
    "                    layer, position, element, a, b ..), only_a, only_b, tensors\n"
    "  -q, --quiet       no progress bar\n";

static const Command COMMANDS[] = {
    {"generate", FOR_GENERATE, generate_command, "text from a prompt (the default)", GENERATE_HELP},
    {"chat", FOR_CHAT, chat_command, "a conversation", CHAT_HELP},
    {"bench", FOR_BENCH, bench_command, "tokens per second beside this machine's limits",
     BENCH_HELP},
    {"perplexity", FOR_PERPLEXITY, perplexity_command, "how well a model knows a text",
     PERPLEXITY_HELP},
    {"tokenize", FOR_TOKENIZE, tokenize_command, "text to token ids and back", TOKENIZE_HELP},
    {"inspect", FOR_INSPECT, inspect_command, "what is in a model file", INSPECT_HELP},
    {"convert", FOR_CONVERT, convert_command, "between containers, and to smaller types",
     CONVERT_HELP},
    {"selftest", FOR_SELFTEST, selftest_command, "identities proved on your own model",
     SELFTEST_HELP},
    {"trace", FOR_TRACE, trace_command, "every number of a run, in a file", TRACE_HELP},
    {"diff", FOR_DIFF, diff_command, "two traces against each other", DIFF_HELP},
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

const Command *command_find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(COMMANDS[i].name, name)) return &COMMANDS[i];
    return NULL;
}

void help_command(const Command *command) {
    output_print("%s", command->help);
}

void help_program(void) {
    output_print("limpid runs small language models\n\n"
                 "    ./run [MODEL] [-i PROMPT] [options]\n"
                 "    ./run COMMAND [MODEL] [options]\n\n"
                 "MODEL: a .gguf, .safetensors or llama2.c .bin file, or a directory with them;\n"
                 "without one the built-in model, which tells stories\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        output_print("    %-12s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    output_print("\nrun COMMAND --help shows its options; --version, --limits.\n"
                 "Example: ./run -i 'Once upon a time'\n");
}

void help_version(void) {
    output_print("limpid %s\n", LIMPID_VERSION);
}

void help_limits(void) {
    static const struct {
        const char *name;
        int value;
    } LIMITS[] = {
        {"layers", LIMIT_LAYERS},
        {"width (dim, hidden_dim, head_dim)", LIMIT_DIM},
        {"heads", LIMIT_HEADS},
        {"vocabulary", LIMIT_VOCAB},
        {"context", LIMIT_CONTEXT},
        {"end-of-text ids", LIMIT_EOS_IDS},
        {"tensors", LIMIT_TENSORS},
        {"keys of a GGUF", LIMIT_KEYS},
        {"bytes of a key", LIMIT_KEY_LENGTH},
        {"bytes of a tensor's name", LIMIT_NAME_LENGTH},
        {"bytes of a vocabulary entry", LIMIT_TOKEN_LENGTH},
        {"merges", LIMIT_MERGES},
        {"bytes of a chat template", LIMIT_TEMPLATE},
        {"alignment of a GGUF", LIMIT_ALIGNMENT},
        {"files of one model", LIMIT_FILES},
        {"bytes of a safetensors header", LIMIT_JSON_HEADER},
        {"depth of JSON", LIMIT_JSON_DEPTH},
    };
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
        output_print("%-36s %d\n", LIMITS[i].name, LIMITS[i].value);
}
