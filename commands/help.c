// What --help, --version and --options print. Each help text fits a screen of 24 lines, 80 columns.
#include "base/sandbox.h"
#include "base/text.h"
#include "commands/commands.h"
#include "commands/shared/option_rows.h"
#include "commands/shared/output.h"
#include "kernels/kernels.h"
#include "weights/config.h"

#include <string.h>

static const char GENERATE_HELP[] =
    "run [generate] [MODEL] [-i PROMPT] [options]    text from a prompt\n"
    "    ./run -i 'Once upon a time' -t 0.8 -n 200\n"
    "MODEL: a .gguf, .safetensors, .bin file or a directory; none: the built-in one\n"
    "  --prompts FILE --out FILE    many: JSON lines (docs/prompts.md); --parallel N\n"
    "      --resume: go on with FILE;  --shard I/N: lines I, I + N, ...; run merge\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "  -n, --steps N        all tokens but the first (BOS), those of the prompt among\n"
    "                       them, as in llama2.c; 0: up to the end of the context\n"
    "      --max-tokens N   new tokens (256);  --context-overflow stop|shift|sinks\n"
    "      --stop TEXT (repeatable)  --ignore-eos  --grammar FILE  --json-schema FILE\n"
    "  -t, --temp T  -p, --top-p P  -s, --seed S     (1.0, 0.9, random); -t 0: greedy\n"
    "      --top-k K  --min-p P  --typical-p P  --repeat-penalty R  --repeat-last-n N\n"
    "      --presence-penalty A  --frequency-penalty A  --logit-bias ID:+1.5,ID:-inf\n"
    "      --xtc-probability P  --dry-multiplier M  --mirostat 2 (docs/laboratory.md)\n"
    "  -z, --tokenizer FILE  -m generate|chat  -y, --system TEXT  --keep-newline\n"
    "  -j, --threads N  -c, --ctx-size N  --kv f32|f16|bf16  --precision f32|a16|a8\n"
    "      --cache FILE, --cache-read-only (docs/cache.md)  --special: control tokens\n"
    "      --pattern local:64+global:4 (run mask --help)  --record FILE (run replay)\n"
    "      --ablate L3.H5,L2.ffn  --patch NAME=0  --steer FILE:2 (docs/laboratory.md)\n"
    "      --ablate-to zero|mean  --force: replace files  --layers-per-rank 9,21\n"
    "      --speculate lookup | --draft MODEL  the same, faster; --no-cache: slower\n"
    "for scripts (docs/scripting.md): --ids (new ids, one per line), --json (one\n"
    "  object), --logprobs N (a JSON line per token, with the N likeliest)\n"
    "  -q, --quiet  -v, --verbose  --color auto|always|never|surprise (-log2 p)\n";

static const char CHAT_HELP[] =
    "run chat MODEL [-i TEXT] [options]              a conversation\n"
    "    ./run chat models/SmolLM2-135M-Instruct.Q4_1.gguf -y 'Answer briefly.'\n"
    "\n"
    "Each line is a message, from a terminal and from a pipe; -i or -f: one message.\n"
    "On a terminal: /help lists /undo, /save and others; a paste, \\ at the end of a\n"
    "line and \"\"\" make one message of several lines. Ctrl-C stops the answer, or\n"
    "clears the line; Ctrl-D ends the conversation.\n"
    "  -y, --system TEXT     the system prompt\n"
    "      --template NAME   the chat format, if the model's own is not recognised:\n"
    "                        chatml llama2 llama3 mistral-v3 gemma phi3 nanochat ...\n"
    "  -c, --ctx-size N (by default <= 4096)  --context-overflow stop|shift|sinks\n"
    "      --max-tokens N    tokens of an answer (1024; in a pipe: until its end)\n"
    "  -t, --temp T  -p, --top-p P  --top-k K  --min-p P  --repeat-penalty R  -s SEED\n"
    "                        (default: the model's generation_config, else 0.7, 0.9)\n"
    "  --typical-p P  --repeat-last-n N  --presence-penalty A  --frequency-penalty A\n"
    "  --logit-bias ID:BIAS  --xtc-probability P  --dry-multiplier M  --mirostat 2\n"
    "  --stop TEXT  --ignore-eos  --grammar FILE, --json-schema FILE: what is allowed\n"
    "  --pattern P (run mask --help)   --speculate lookup | --draft MODEL: sooner\n"
    "  -z, --tokenizer FILE  -j, --threads N --kv f32|f16|bf16 --precision f32|a16|a8\n"
    "      --session FILE    goes on with it, keeps it at the end (docs/cache.md)\n"
    "      --transcript FILE   JSON lines as it goes;  --force: replace files\n"
    "      --no-history      keep no messages (~/.local/state/limpid/history)\n"
    "  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char BENCH_HELP[] =
    "run bench MODEL [options]                       tokens per second and the limits\n"
    "    ./run bench models/SmolLM2-135M-Instruct.Q4_1.gguf -j 1,2 --pp 128,512\n"
    "\n"
    "Medians of repetitions after a warm-up, the bytes read per token, and the share\n"
    "of this machine's read bandwidth and arithmetic peak. These limits are measured\n"
    "in the same run, interleaved with the model.\n"
    "      --prompt-length, --pp N,..   prompt lengths (default 512)\n"
    "      --gen, --tg N                tokens decoded per repetition (64)\n"
    "      --depth N,..                 tokens already in the cache (0)\n"
    "      --batch N,..                 sequences decoded in one batch (1)\n"
    "  -j, --threads N,..               (default: all that the process may use)\n"
    "  -r, --repetitions N              (5)\n"
    "      --only prefill|decode   --no-limits  --layers-per-rank 9,21  -q, --quiet\n"
    "      --all-logits                 prompts with the logits of every token\n"
    "      --kv f32|f16|bf16  --precision f32|a16|a8\n"
    "      --pattern P                  an attention pattern (run mask --help)\n"
    "      --no-cache                   what the cache saves, for --gen tokens (100)\n"
    "      --attention                  without MODEL: MHA GQA MQA, 4 to 32 heads,\n"
    "                                   naive and online softmax, cache; --pp 128\n"
    "                                   --batch 4 --depth 128,.. -r 100 --kv f32\n"
    "      --projections                without MODEL: a matrix of each --type times\n"
    "                                   --batch 1,2,4,8,16,512 rows, at a16 and a8\n"
    "      --json  --csv  --markdown    JSON has prefill.tokens_per_second and\n"
    "                                   decode.tokens_per_second of the first rows\n";

static const char PERPLEXITY_HELP[] =
    "run perplexity MODEL -f FILE [options]        how well the model predicts a text\n"
    "    ./run perplexity -f wiki.test.raw --window 1024\n"
    "\n"
    "Every token but the first is predicted exactly once. A window of --window tokens\n"
    "begins every --stride tokens, and scores the tokens that no earlier one scored.\n"
    "  -f, --file FILE       the text, else standard input; BOS is put in front if\n"
    "                        the model's prompts begin with it\n"
    "      --ids FILE        token ids instead of a text, used as they are\n"
    "      --window N        (default: the model's context, at most 1024)\n"
    "      --stride N        (default: the window)\n"
    "      --second-half     as llama.cpp: windows do not overlap, the second half\n"
    "                        of each is scored, and BOS replaces its first token\n"
    "      --windows N       only the first N windows;  --special: as in generate\n"
    "      --ablate-each     a table: the loss without each head (--all: all rows)\n"
    "      --ablate, --ablate-to, --patch, --steer, --layers-per-rank: as in generate\n"
    "      --save-logits FILE  the logits of all scored tokens; --force: replace it\n"
    "      --kl FILE         compare with saved logits: KL divergence (nats; mean,\n"
    "                        99th percentile, largest), same top-1 token, ...\n"
    "      --pattern P       an attention pattern, within the layers' own windows\n"
    "      --patterns P,..   a table, beside the first (run mask --help); --csv\n"
    "      --csv             position,id,nll of every scored token; with --kl: kl\n"
    "      --json            tokens, mean_nll (nats), perplexity, bits_per_byte, ...;\n"
    "                        with --kl: kl_mean, kl_p99, kl_max, top1_agreement, ...\n"
    "  -z, --tokenizer FILE  -j, --threads N --kv f32|f16|bf16 --precision f32|a16|a8\n";

static const char TOKENIZE_HELP[] =
    "run tokenize MODEL|-z TOKENIZER [-i TEXT | -f FILE] [options]   text to ids\n"
    "    ./run tokenize models/SmolLM2-135M-Instruct.Q4_1.gguf -i 'Hello world'\n"
    "    ./run tokenize -z tokenizer.model -i 'Hello world' --pieces\n"
    "\n"
    "Prints the ids of the whole input on one line, without BOS or EOS. The input is\n"
    "standard input without -i and -f.\n"
    "      --bos        put BOS in front\n"
    "      --special    parse control tokens in the text, such as <|im_end|>\n"
    "      --lines      encode each input line by itself, one output line for each\n"
    "      --pieces     print a table: id, type, the vocabulary's spelling\n"
    "      --decode     the reverse: the input is ids, the output is their text\n"
    "  -z, --tokenizer FILE  -q, --quiet\n";

static const char INSPECT_HELP[] =
    "run inspect MODEL [options]                     what is in a model file\n"
    "    ./run inspect models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "\n"
    "Prints the container, the family, the hyper-parameters, the tokenizer, the\n"
    "memory that the model takes, and the tensors: name, type, bytes, shape. Layers\n"
    "that are equal (names, types, shapes) are one row; Q4_1 +2: and two other types.\n"
    "It fits 24 lines: long texts are cut, and of many rows the largest are shown.\n"
    "      --all              texts whole, a row for every fact and every tensor\n"
    "      --json             all of it as one object\n"
    "      --html FILE        all of it as a page that works without a network, its\n"
    "                         table of tensors sorted by a click; --force replaces it\n"
    "  -z, --tokenizer FILE   -v, --verbose (with the template's text)\n";

static const char SELFTEST_HELP[] =
    "run selftest MODEL [options]                    identities, on your own file\n"
    "    ./run selftest models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "\n"
    "Computes the same thing in two ways, with the model's own weights, and compares:\n"
    "with and without the cache, a prompt at once and token by token, in a batch and\n"
    "one sequence at a time, with 1, 2, 3 and 7 threads, RoPE with half and with\n"
    "interleaved pairs, and others. One line each: held or FAILED, \"same bits\" or the\n"
    "largest difference and its bound, how many values were compared, the time. A\n"
    "check that does not apply to a model does not count. Exit code 1: one failed.\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403,407,261   at least 4\n"
    "                        tokens (default: a text of 24, or ids if there is no\n"
    "                        tokenizer). Sliding windows need a long prompt.\n"
    "      --golden          instead: a public file's logits beside docs/golden.md;\n"
    "                        --markdown, without MODEL: prints that page\n"
    "      --json            one object: checks (check, name, result, reason,\n"
    "                        same_bits, largest_difference, bound, values, layer,\n"
    "                        position, seconds), held, failed, does_not_apply\n"
    "  -z, --tokenizer FILE  -j, --threads N --kv f32|f16|bf16 --precision f32|a16|a8\n"
    "  -q, --quiet           no progress bar\n";

static const char TRACE_HELP[] =
    "run trace MODEL -i PROMPT --out FILE [options]       all intermediate values\n"
    "    ./run trace -i 'Once upon a time' -o run.safetensors\n"
    "\n"
    "Writes every stage of every layer for every token, as float32, to a safetensors\n"
    "file. A stage has the name of its module in Hugging Face's model, whatever the\n"
    "container: model.layers.3.self_attn.k_proj; docs/trace.md lists the names.\n"
    "  -o, --out FILE          the file to write (needed)\n"
    "      --force             replace it if it exists; never a file that is read\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "      --special           parse control tokens in the prompt, such as <|im_end|>\n"
    "  -n, --max-tokens N      also generate N tokens greedily, and trace them (0)\n"
    "      --only NAME         only stages of this name (repeatable). * matches any\n"
    "                          text, and NAME may be a part that begins after a dot:\n"
    "                          q_proj, 'layers.3.*'\n"
    "      --attention         attention weights too, heads x tokens x tokens a layer\n"
    "      --ablate L3.H5,L2.ffn  --patch NAME=0  --steer FILE@L4-L8 change it\n"
    "      --precision f32|a16|a8   (default a16; f32 to compare with a reference)\n"
    "      --kv f32|f16|bf16   (default f32 with --precision f32, else f16)\n"
    "  -z, --tokenizer FILE  -j, --threads N  -q, --quiet  -v, --verbose\n";

static const char ATTENTION_HELP[] =
    "run attention MODEL -i PROMPT [options]         what each token attends to\n"
    "    ./run attention -i 'The cat sat on its mat' --layer 3\n"
    "\n"
    "A picture: a row for each token, a column for each token that it sees. Without\n"
    "--layer and --head it is the mean over all heads of all layers.\n"
    "      --layer L --head H  one head;  --layer L: all of a layer;  --head H: that\n"
    "                          head in all layers (--grid heads|layers says so too)\n"
    "      --mean              the mean of a layer's heads (--grid layers: of all)\n"
    "      --rollout           attention rollout, up to --layer L (default: the last)\n"
    "      --stage STAGE       weights: after the softmax (default); scaled: before\n"
    "                          it; raw: q . k\n"
    "      --entropy           a table, sorted: entropy, largest weight, distance\n"
    "      --explain POS       one head's output at POS (-1: the last) as a sum over\n"
    "                          its keys: weight, length, share; --top K of them (10)\n"
    "      --rope              instead: cosines over --seq N positions: a vector of\n"
    "                          ones (or a query) with RoPE, without, and sinusoidal\n"
    "      --svg FILE  --png FILE   the picture as a file, instead of on the screen;\n"
    "                          --force replaces a file that is there\n"
    "      --csv | --json      the numbers; without --layer and --head of all heads\n"
    "      --ablate L3.H5,L2.ffn  --patch NAME=0  --steer FILE@L4-L8 change it\n"
    "      --pattern P         an attention pattern (run mask --help)\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "      --special  --kv f32|f16|bf16  --precision f32|a16|a8  -z, --tokenizer FILE\n"
    "  -j, --threads N  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char LENS_HELP[] =
    "run lens MODEL -i PROMPT [options]              the prediction after every layer\n"
    "    ./run lens -i 'The capital of France is'\n"
    "\n"
    "The residual stream after each half of each layer (attention, FFN) through the\n"
    "final norm and the head: the logit lens. A picture: positions x half-layers, the\n"
    "probability of the token that wins in the end; then a table of one position:\n"
    "rank of that token, its probability, entropy, KL divergence from the final\n"
    "distribution (bits), the likeliest tokens.\n"
    "      --position P        the position of the table; with --csv, --json only\n"
    "                          that one (default: the last; all)\n"
    "      --top K             how many of the likeliest tokens (3)\n"
    "      --attribute         instead: the logit of one token as a sum of what the\n"
    "                          embedding, each head and each FFN add to it, the scale\n"
    "                          of the norms taken as given; the --top K largest (15)\n"
    "      --token ID          that token (default: the likeliest)\n"
    "      --svg FILE  --png FILE  --force    the picture as a file\n"
    "      --csv | --json      the numbers\n"
    "      --ablate L3.H5,L2.ffn  --patch NAME=0  --steer FILE@L4-L8 change it\n"
    "      --pattern P         an attention pattern (run mask --help)\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "      --special  --kv f32|f16|bf16  --precision f32|a16|a8  -z, --tokenizer FILE\n"
    "  -j, --threads N  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char VIEW_HELP[] =
    "run view MODEL -i PROMPT --out PAGE.html [options]     one page of a whole run\n"
    "run view A.safetensors [B.safetensors] --out PAGE.html     of a trace, or of two\n"
    "    ./run view -i 'The cat sat on the mat' -n 3 -o cat.html\n"
    "\n"
    "One file for a browser, which needs no network: the tokens and how surprising\n"
    "each was, what every half of every layer would predict, all heads, how a layer\n"
    "changes the residual stream, every stage as numbers, and the sampler's sliders.\n"
    "Of traces (run trace): their stages; of two, where the first difference is (exit\n"
    "code 1: they have different tokens).\n"
    "A trace has no texts of tokens: -z, --tokenizer FILE or MODEL gives them.\n"
    "  -o, --out FILE          the page to write (needed); --force replaces it\n"
    "  -i, --prompt TEXT | -f, --file FILE | --prompt-ids 1,403   else standard input\n"
    "      --special           parse control tokens in the prompt, such as <|im_end|>\n"
    "  -n, --max-tokens N      also generate N tokens greedily (0)\n"
    "      --layers A-B,C      layers of which every stage is exact (default: the one\n"
    "                          that the page opens at). Up to 24 tokens, what every\n"
    "                          layer adds is exact too. Of a trace: only these.\n"
    "      --pattern P         an attention pattern (run mask --help)\n"
    "      --ablate L3.H5,L2.ffn  --patch NAME=0  --steer FILE@L4-L8 change it\n"
    "      --budget B          of two traces, as in diff\n"
    "      --kv f32|f16|bf16  --precision f32|a16|a8  -z, --tokenizer FILE\n"
    "  -j, --threads N  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char MASK_HELP[] =
    "run mask PATTERN [options]              which keys an attention pattern shows\n"
    "    ./run mask local:8+global:2 --seq 24\n"
    "\n"
    "A picture, the number of connections and the sparsity; no model is needed. A row\n"
    "is a query p, a column a key t. Later keys are hidden (t <= p), and all others\n"
    "that no part of the pattern shows:\n"
    "  causal      all keys            window:N   the last N keys: p - t < N\n"
    "  local:N     p - t <= N / 2      strided:N  keys 0, N, 2 N, .., and its own\n"
    "  global:N    the first N keys and its own; the first N queries see all\n"
    "  block:N     its own block of N keys and the one before\n"
    "  local:64+global:4   a union of up to 4 parts\n"
    "      --seq N             positions, 1 to 4096 (default 32)\n"
    "      --bidirectional     without the causal cut: later keys too\n"
    "      --svg FILE  --png FILE   the picture as a file; --force replaces it\n"
    "      --csv               query,key of every connection\n"
    "      --json              pattern, positions, connections, sparsity, ...\n"
    "      --color auto|always|never  -q, --quiet\n"
    "The option pattern of generate, chat, bench, perplexity, attention, lens, view\n"
    "and cost sets it for all layers; a layer's own window still holds. Hidden keys\n"
    "are neither computed nor read.\n";

static const char MERGE_HELP[] =
    "run merge FILE [--out FILE]             the answers of all shards as one file\n"
    "    ./run merge answers.0-of-4.jsonl --out answers.jsonl\n"
    "\n"
    "FILE is one of the files that shards of generate wrote (docs/prompts.md); the\n"
    "others are found by its name. Checked: all of them are there and complete, the\n"
    "version of limpid, the model and the options are the same, and every id stands\n"
    "once. Prints the number of answers and one digest, which is that of the same\n"
    "prompts on one machine. Exit code 3: something of this does not hold.\n"
    "  -o, --out FILE   the answers in the order of the prompts: byte for byte the\n"
    "                   file that one machine writes;  --force replaces it\n"
    "  -q, --quiet\n";

static const char REPLAY_HELP[] =
    "run replay FILE [options]                       a recorded generation, again\n"
    "    ./run replay story.json -j 1\n"
    "    ./run replay story.json --at 12 --token ' dog'\n"
    "\n"
    "FILE is what generate wrote with its option record. It is run once more, with\n"
    "the recorded options and uniform numbers, and every id and the hash of every row\n"
    "of logits are compared: the same bits, or the first token that differs, and how\n"
    "close the choice was. Exit code 1: a token differs, or the tokens are the same\n"
    "and a bit is not.\n"
    "      --at N --token ID  go back to new token N (from 0), put ID in its place\n"
    "                         (or a text that is one token), and show how the\n"
    "                         recorded text went on, and how this one does\n"
    "      --model PATH       where the model is now, if not at the recorded path\n"
    "      --any-model        also if it is another model than the recorded one\n"
    "      --batch N          tokens of the prompt in one pass\n"
    "  -j, --threads N  --kv f32|f16|bf16  --precision f32|a16|a8   (as recorded)\n"
    "      --json             one object: same_bits, same_tokens, tokens, compared,\n"
    "                         rows_with_other_bits, first_row, first_token, ...; with\n"
    "                         --at: at, same_bits, shared_ids, recorded, now\n"
    "  -z, --tokenizer FILE  -q, --quiet  -v, --verbose  --color auto|always|never\n";

static const char CONVERT_HELP[] =
    "run convert MODEL OUT [options]                 another container, another type\n"
    "    ./run convert models/Qwen3-0.6B qwen3.gguf --type q8_0\n"
    "    ./run convert models/SmolLM2-135M-Instruct.Q4_1.gguf smollm2-hf --type f16\n"
    "\n"
    "OUT is a name that ends in .gguf; or a directory, which gets model.safetensors,\n"
    "config.json and the tokenizer, as transformers reads them; or a name in\n"
    ".safetensors, with those beside it; or a llama2.c .bin. It is written whole or\n"
    "not at all, and nothing that exists is replaced without --force.\n"
    "      --type T          of the matrices: f32 f16 bf16, in a GGUF also q8_0 q6_k\n"
    "                        q5_k q4_k q3_k q2_k q5_1 q5_0 q4_1 q4_0 and the mixes\n"
    "                        q5_k_m q4_k_m (default: each keeps its own)\n"
    "      --head-type T     of embedding and head (default: q8_0, q6_k in a mix, or\n"
    "                        what they have if that is smaller)\n"
    "      --tensor-type PATTERN=T   of matrices by name, such as '*ffn_down*=q6_k'\n"
    "      --importance FILE  run the model over this text, and round so that what\n"
    "                        its channels do there is kept best\n"
    "      --check FILE      afterwards: perplexity of both and KL divergence on this\n"
    "                        text; --json; --windows N of 1024 tokens (default 8)\n"
    "      --bin-version N   of a .bin: 0 (default), 1; 2: int8 groups (--type q8_0)\n"
    "      --force           replace OUT if it exists: in one step, a directory too,\n"
    "                        whose other files stay; never a file that is read\n"
    "  -j, --threads N       default: all that this process may use\n"
    "  -z, --tokenizer FILE  the vocabulary, if the model has none; -q, --quiet\n"
    "If the types are kept, both give the same logits, bit for bit (docs/formats.md).\n";

static const char DIFF_HELP[] =
    "run diff A B [options]                          compares two traces\n"
    "    ./run diff reference.safetensors run.safetensors\n"
    "\n"
    "Per tensor: the largest difference, absolute and relative to the largest value,\n"
    "the cosine, and the share of the budget that the difference uses. Then, in one\n"
    "sentence: the first tensor over the budget in the order of computation, with its\n"
    "layer, position and element. Exit code 1: there is one, nothing to compare, or\n"
    "the traces have different tokens.\n"
    "      --budget f32|a16|f16|a8|NUMBER   (default: for the precisions of A and B)\n"
    "          NUMBER: relative to the largest value of a tensor; 0: equal values\n"
    "          f32  3e-5: float32 summed in another order\n"
    "          a16  1e-3: activations as 16-bit integers  (measured: docs/trace.md)\n"
    "          f16  1e-2: a cache in f16, with f32 or a16\n"
    "          a8   0.3:  activations as 8-bit integers, or a cache in bf16\n"
    "      --only NAME   only tensors of this name, as in trace (repeatable)\n"
    "      --all         list every tensor, in the order of computation\n"
    "      --json        one object: same, budget, compared, over, first (name,\n"
    "                    layer, position, element, a, b ..), only_a, only_b, tensors\n"
    "  -q, --quiet       no progress bar\n";

static const char COST_HELP[] =
    "run cost MODEL|CONFIG.json|PRESET [options]    FLOPs, bytes and memory, counted\n"
    "    ./run cost models/SmolLM2-135M-Instruct.Q4_1.gguf --seq 4096\n"
    "    ./run cost llama-7b --machine a100 --intensity\n"
    "\n"
    "What one more token and a prompt compute and read, operation by operation, which\n"
    "limit binds, and what is allocated: from the shapes alone, before loading.\n"
    "`run cost presets` lists the models that need no file.\n"
    "      --seq N           tokens of a sequence (2048, or the model's context)\n"
    "      --batch N         sequences side by side (1)\n"
    "      --type T          of the weights: f32 f16 bf16 q8_0 q4_0 .., no mixes\n"
    "      --machine M       measured: this one (default); a100 h100 h200. Or\n"
    "      --ridge X         the FLOP per byte above which arithmetic is the limit\n"
    "      --savings         what the cache saves, and sharing keys and values\n"
    "      --intensity       FLOP per byte of each product, for 1 to 4096 tokens\n"
    "      --sweep           prompts of 1, 2, 4 .. tokens, and where attention\n"
    "                        outgrows the matrices; --csv --svg FILE --png FILE\n"
    "      --max-memory 4G   the longest context that fits, by type and cache\n"
    "      --ranks N         over N processes; or --layers-per-rank 9,21\n"
    "      --measure         runs it: what was counted beside what was predicted\n"
    "                        (--seq 32); exit code 1: a count is another\n"
    "      --json            one object: flops_per_token, weight_bytes_per_token,\n"
    "                        kv_bytes_per_token, peak_memory_bytes, operations ..\n"
    "  -j N  --kv f32|f16|bf16  --precision f32|a16|a8  --pattern P  -q --force\n";

// In the order of --help. Columns: name, its bit in the option table, function, summary, help text.
static const Command COMMANDS[] = {
    {"generate", FOR_GENERATE, generate_command, "text from a prompt (the default)", GENERATE_HELP},
    {"chat", FOR_CHAT, chat_command, "a conversation", CHAT_HELP},
    {"bench", FOR_BENCH, bench_command, "tokens per second beside this machine's limits",
     BENCH_HELP},
    {"perplexity", FOR_PERPLEXITY, perplexity_command, "how well a model predicts a text",
     PERPLEXITY_HELP},
    {"tokenize", FOR_TOKENIZE, tokenize_command, "text to token ids and back", TOKENIZE_HELP},
    {"inspect", FOR_INSPECT, inspect_command, "what is in a model file", INSPECT_HELP},
    {"convert", FOR_CONVERT, convert_command, "to another container, or to smaller types",
     CONVERT_HELP},
    {"selftest", FOR_SELFTEST, selftest_command, "checks identities on your own model",
     SELFTEST_HELP},
    {"attention", FOR_ATTENTION, attention_command,
     "what each token attends to, as pictures or numbers", ATTENTION_HELP},
    {"cost", FOR_COST, cost_command, "FLOPs, bytes and memory of a model, before loading it",
     COST_HELP},
    {"lens", FOR_LENS, lens_command, "what a model would predict after every layer", LENS_HELP},
    {"view", FOR_VIEW, view_command, "one page of a run: every number, in a browser", VIEW_HELP},
    {"mask", FOR_MASK, mask_command, "which keys an attention pattern shows", MASK_HELP},
    {"replay", FOR_REPLAY, replay_command, "a recorded generation again: are the bits the same?",
     REPLAY_HELP},
    {"merge", FOR_MERGE, merge_command, "the answers of all shards as one file", MERGE_HELP},
    {"trace", FOR_TRACE, trace_command, "every intermediate value of a run, in a file", TRACE_HELP},
    {"diff", FOR_DIFF, diff_command, "compares two traces", DIFF_HELP},
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

const Command *command_find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(COMMANDS[i].name, name)) return &COMMANDS[i];
    return NULL;
}

const char *command_nearest(const char *word) {
    const char *nearest = NULL;
    size_t length = strlen(word), least = misspellings(length) + 1;
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *name = COMMANDS[i].name;
        size_t distance = edit_distance((TextSpan){word, length}, (TextSpan){name, strlen(name)});
        if (distance >= least) continue;
        least = distance;
        nearest = name;
    }
    return nearest;
}

// The texts below say "./run" and, at the beginning of a line, "run": an installed program has
// another name.
static void print_named(const char *text) {
    static const char CALLED[] = "./run ", NAMED[] = "run ";
    bool installed = strcmp(program_name(), "run"), begins = true;
    for (; *text; begins = *text++ == '\n') {
        size_t length = !strncmp(text, CALLED, sizeof CALLED - 1)           ? sizeof CALLED - 1
                        : begins && !strncmp(text, NAMED, sizeof NAMED - 1) ? sizeof NAMED - 1
                                                                            : 0;
        if (installed && length) {
            output_print("%s ", program_name());
            text += length - 1;
        } else {
            output_bytes(text, 1);
        }
    }
}

void help_command(const Command *command) {
    print_named(command->help);
}

void help_program(void) {
    print_named("limpid runs small language models\n"
                "    ./run [MODEL] [-i PROMPT] [options]       ./run COMMAND [MODEL] [options]\n"
                "MODEL: a .gguf, .safetensors or llama2.c .bin file, or a directory with them;\n"
                "without one the built-in model tells a story. Try ./run -i 'Once upon a time'\n");
    for (int i = 0; i < N_COMMANDS; i++)
        output_print("    %-12s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    print_named("run COMMAND --help shows its options; --version, --limits;\n"
                "all take --no-sandbox (see SECURITY.md); on several machines: docs/scale.md\n");
}

void help_version(void) {
    char sandbox[100];
    output_print("limpid %s\nsandbox: %s\n", LIMPID_VERSION,
                 sandbox_describe(sandbox, sizeof sandbox));
}

void help_options(void) {
    output_print("\t--version\t\n\t--limits\t\nhelp\t\tthe options of a command\n");
    for (int i = 0; i < N_COMMANDS; i++)
        options_list(COMMANDS[i].name, COMMANDS[i].bit, COMMANDS[i].summary);
}
