// The whole program: one input is a model file, a tokenizer, a prompt and the words of a command
// line, and run.c's main runs it in this process. Any of them gives a result or one error line;
// inputs stay as they are, no descriptor stays open.
//
//   byte 0: which model a patch changes; 128: slow commands too | three u16: bytes of model,
//   tokenizer, prompt | these three, the first two as inputs of fuzz_patched | words, with a NUL
//   between them
//
// What it writes stays in its directory: a '/' in a word is replaced. Runs that would take long
// (the built-in model, bench's measurements) get options that bound them, or do not take place.
//
// Exercises: run.c commands/ weights/gguf/ weights/llama2c/ weights/roles.c tokenizer/ model/
// kernels/reference/ pictures/ base/
#include "base/hash.h"
#include "commands/commands.h"
#include "commands/shared/option_rows.h"
#include "commands/shared/output.h"
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "tests/support/files/gguf_writer.h"
#include "weights/checkpoint.h"

#include <fcntl.h>
#include <limits.h>
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
int limpid_main(int argc, char **argv); // main of run.c
extern void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

enum { HEADER = 7, PARTS = 4, MODEL = 0, TOKENIZER, PROMPT, WORDS };
enum { PATIENT = 128, MOST_WORDS = 40, MOST_BYTES = 8192, MOST_ERROR = 4096 };
static const char *const FILES[] = {"model", "tokenizer.bin", "prompt"};

// Six tokens, as fuzz_tokenizer_bin has them, for either model.
static const char TOKENS[] = "\6\0\0\0"
                             "\0\0\0\0\5\0\0\0<unk>"
                             "\0\0\0\0\5\0\0\0\n<s>\n"
                             "\0\0\0\0\6\0\0\0\n</s>\n"
                             "\0\0\x80\xbf\1\0\0\0a";

static uint8_t *gguf;
static size_t gguf_size;

typedef struct Input {
    uint8_t kind;
    const uint8_t *parts[PARTS];
    size_t sizes[PARTS];
} Input;

// Lengths beyond the end are cut: every input is one.
static Input split(const uint8_t *data, size_t count) {
    Input input = {.kind = count ? data[0] : 0};
    size_t at = count < HEADER ? count : HEADER;
    for (int i = 0; i < PARTS; i++) {
        size_t wanted = SIZE_MAX;
        if (i < WORDS) wanted = count < HEADER ? 0 : data[1 + 2 * i] | (size_t)data[2 + 2 * i] << 8;
        input.parts[i] = data + at;
        input.sizes[i] = wanted < count - at ? wanted : count - at;
        at += input.sizes[i];
    }
    return input;
}

// 0: there is no room.
static size_t join(uint8_t *out, size_t room, const Input *input) {
    size_t at = HEADER;
    if (room < HEADER) return 0;
    out[0] = input->kind;
    for (int i = 0; i < PARTS; i++) {
        if (input->sizes[i] > room - at) return 0;
        memcpy(out + at, input->parts[i], input->sizes[i]);
        at += input->sizes[i];
        if (i == WORDS) break;
        out[1 + 2 * i] = (uint8_t)input->sizes[i];
        out[2 + 2 * i] = (uint8_t)(input->sizes[i] >> 8);
    }
    return at;
}

// The file that a patch changes: a GGUF with its vocabulary, or llama2.c's of three versions.
static size_t base_model(uint8_t *out, uint8_t kind) {
    if (kind % 4) return fuzz_llama2c(out, kind % 4 - 1);
    memcpy(out, gguf, gguf_size);
    return gguf_size;
}

// ---- the command line ----

typedef struct Line {
    char *argv[MOST_WORDS + 16]; // ends with NULL; room for what bound() adds
    int argc;
    char text[MOST_BYTES + 1];
} Line;

static void line_add(Line *line, char *word) {
    line->argv[line->argc++] = word;
    line->argv[line->argc] = NULL;
}

static void line_read(Line *line, const uint8_t *words, size_t count) {
    static char name[] = "./run";
    if (count > MOST_BYTES) count = MOST_BYTES;
    memcpy(line->text, words, count);
    line->text[count] = '\0';
    for (size_t i = 0; i < count; i++)
        if (line->text[i] == '/') line->text[i] = '_';
    line->argc = 0;
    line_add(line, name);
    for (size_t at = 0; at < count && line->argc < MOST_WORDS; at += strlen(line->text + at) + 1)
        line_add(line, line->text + at);
}

// As run.c finds it.
static const Command *command_of(const Line *line) {
    const Command *named = line->argc > 1 ? command_find(line->argv[1]) : NULL;
    return named ? named : command_find("generate");
}

// The Options of a copy, since parsing changes words. False: the program will refuse them.
static bool line_parse(Options *options, Line *copy, const Line *line) {
    Error error = {0};
    *copy = *line;
    for (int i = 1; i < line->argc; i++) {
        uintptr_t at = (uintptr_t)line->argv[i] - (uintptr_t)line->text;
        if (at < sizeof line->text) copy->argv[i] = copy->text + at; // else a word of bound()
    }
    const Command *command = command_of(line);
    bool named = line->argc > 1 && command_find(line->argv[1]);
    return options_parse(options, command->bit, copy->argc - named, copy->argv + named, &error);
}

typedef struct Bound {
    OptionId id;
    unsigned commands;
    const char *word, *value; // NULL: a flag
} Bound;

static const Bound BOUNDS[] = {
    {OPTION_CONTEXT, FOR_GENERATE | FOR_CHAT, "--ctx-size", "32"},
    {OPTION_MAX_TOKENS, FOR_GENERATE | FOR_CHAT, "--max-tokens", "4"},
    {OPTION_NO_LIMITS, FOR_BENCH, "--no-limits", NULL},
    {OPTION_REPETITIONS, FOR_BENCH, "--repetitions", "1"},
    {OPTION_PROMPT_LENGTHS, FOR_BENCH, "--prompt-length", "2"},
    {OPTION_GEN, FOR_BENCH, "--gen", "1"},
    {OPTION_MACHINE, FOR_COST, "--machine", "a100"},
    {OPTION_SEQ, FOR_COST, "--seq", "16"},
};

// Adds the options that bound what a run takes, where they are not given.
static void bound(Line *line, const Options *o) {
    static char words[2][sizeof BOUNDS / sizeof *BOUNDS][20];
    CommandBit command = command_of(line)->bit;
    for (size_t i = 0; i < sizeof BOUNDS / sizeof *BOUNDS; i++) {
        const Bound *b = &BOUNDS[i];
        bool other = b->id == OPTION_MAX_TOKENS && option_given(o, OPTION_STEPS);
        if (!(b->commands & command) || option_given(o, b->id) || other) continue;
        if (b->id == OPTION_MACHINE && option_given(o, OPTION_RIDGE)) continue;
        snprintf(words[0][i], sizeof words[0][i], "%s", b->word);
        line_add(line, words[0][i]);
        if (!b->value) continue;
        snprintf(words[1][i], sizeof words[1][i], "%s", b->value);
        line_add(line, words[1][i]);
    }
}

static bool all_below(const IntegerList *list, int most) {
    for (int i = 0; i < list->count; i++)
        if (list->values[i] > most) return false;
    return list->count <= 2;
}

// After bound(): what was given beyond it, and what is slow anyway: bench takes 0.4 s of an input,
// selftest 0.1 s, and so they run where `patient`.
static bool is_slow(const Options *o, CommandBit command, bool patient) {
    enum { SOME = 64 };
    const char *const named[] = {o->model, o->other, o->tokenizer, o->other_model};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i] && builtin_is_meant(named[i])) return true;
    if (o->new_tokens > 16 || o->mask_seq > SOME || command == FOR_REPLAY) return true;
    if (command & (FOR_GENERATE | FOR_CHAT)) return o->context > SOME || o->max_tokens > 256;
    if (command == FOR_SELFTEST) return !patient;
    if (command == FOR_BENCH)
        return !patient || o->repetitions > 2 || o->gen > 8 || !all_below(&o->prompt_lengths, 8) ||
               !all_below(&o->depths, 8) || !all_below(&o->batches, 4);
    bool measures = !o->machine && !option_given(o, OPTION_RIDGE);
    return command == FOR_COST && (measures || o->seq > SOME || o->batch > SOME || o->sweep);
}

// ---- running it ----

static int here = -1, there = -1; // directories: of the fuzzer, of the run
static int messages = -1, nothing = -1, fuzzer_error = -1;
static char work[PATH_MAX];

// The directory of the run is inside another, so that ".." is the fuzzer's too.
static void open_streams(void) {
    snprintf(work, sizeof work, "%s/work", fuzz_directory());
    here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    there = mkdir(work, 0700) ? -1 : open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    messages = memfd_create("messages", MFD_CLOEXEC);
    nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    fuzzer_error = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (here < 0 || there < 0 || messages < 0 || nothing < 0 || fuzzer_error < 0) abort();
    if (__sanitizer_set_report_fd) __sanitizer_set_report_fd((void *)(intptr_t)fuzzer_error);
    setenv("TERM", "dumb", 1);
    unsetenv("HOME"); // no history of a chat
}

static void write_file(const char *name, const void *bytes, size_t size) {
    int file = openat(there, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size || close(file)) abort();
}

static int free_descriptor(void) {
    int next = dup(nothing);
    close(next);
    return next;
}

// Standard error of a run: printable lines, the last of which is the program's where it failed.
static void check_messages(int code) {
    static char text[MOST_ERROR];
    ssize_t length = pread(messages, text, sizeof text, 0);
    if (length < 0 || (code && !length)) abort();
    for (ssize_t i = 0; i < length; i++)
        if ((text[i] < ' ' || text[i] > '~') && text[i] != '\n') abort();
    if (code > ERROR_ANSWER_NO && !memmem(text, (size_t)length, "run: ", 5)) abort();
}

// What a command reads is what it was: its files are the same, with the same bytes.
static void check_inputs(const Options *o, const struct stat before[3]) {
    const char *named[] = {o ? o->model : FILES[0], o ? o->tokenizer : FILES[1],
                           o ? o->file : FILES[2]};
    for (int i = 0; i < 3; i++) {
        struct stat now;
        if (!named[i] || strcmp(named[i], FILES[i])) continue;
        if (fstatat(there, FILES[i], &now, 0) || now.st_ino != before[i].st_ino ||
            now.st_size != before[i].st_size || now.st_mtim.tv_nsec != before[i].st_mtim.tv_nsec)
            abort();
    }
}

// Its exit code. Standard streams are a file with the prompt, /dev/null and `messages`.
static int run_line(Line *line) {
    int input = openat(there, FILES[PROMPT], O_RDONLY | O_CLOEXEC), first = free_descriptor();
    if (input < 0 || dup2(input, 0) || dup2(nothing, 1) != 1 || dup2(messages, 2) != 2) abort();
    if (ftruncate(messages, 0) || lseek(messages, 0, SEEK_SET) || fchdir(there)) abort();
    __fpurge(stdin);
    clearerr(stdin);
    int code = limpid_main(line->argc, line->argv);
    fflush(stderr);
    if (dup2(fuzzer_error, 2) != 2 || dup2(nothing, 1) != 1 || fchdir(here)) abort();
    if (free_descriptor() != first || !output_good()) abort();
    close(input);
    return code;
}

// An empty part is the base as it is.
static uint8_t *patched(size_t *size, const Input *input, int which, const void *base,
                        size_t base_size) {
    static const uint8_t UNCHANGED[4] = {1};
    bool empty = !input->sizes[which];
    return fuzz_patched(size, empty ? UNCHANGED : input->parts[which],
                        empty ? sizeof UNCHANGED : input->sizes[which], base, base_size);
}

static void run_input(const Input *input) {
    static Line line, copy;
    static Options options;
    static uint8_t base[MOST_BYTES];
    struct stat before[3];
    size_t sizes[2], base_size = base_model(base, input->kind);
    uint8_t *model = patched(&sizes[0], input, MODEL, base, base_size);
    uint8_t *tokenizer = patched(&sizes[1], input, TOKENIZER, TOKENS, sizeof TOKENS - 1);
    line_read(&line, input->parts[WORDS], input->sizes[WORDS]);
    // What parsing says of skipped options is not for the fuzzer's standard error.
    if (dup2(nothing, 2) != 2) abort();
    bool parsed = line_parse(&options, &copy, &line);
    if (parsed && !options.help) {
        bound(&line, &options);
        parsed = line_parse(&options, &copy, &line);
    }
    if (dup2(fuzzer_error, 2) != 2) abort();
    bool runs = model && tokenizer &&
                !(parsed && is_slow(&options, command_of(&line)->bit, input->kind & PATIENT));
    if (runs) {
        fuzz_clear(work);
        write_file(FILES[MODEL], model, sizes[0]);
        write_file(FILES[TOKENIZER], tokenizer, sizes[1]);
        write_file(FILES[PROMPT], input->parts[PROMPT], input->sizes[PROMPT]);
        for (int i = 0; i < 3; i++)
            if (fstatat(there, FILES[i], &before[i], 0)) abort();
        int code = run_line(&line);
        if (code < 0 || code > ERROR_NONFINITE || code == ERROR_DEVICE) abort();
        check_messages(code);
        check_inputs(parsed ? &options : NULL, before);
    }
    free(model);
    free(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    if (there < 0) open_streams();
    Input input = split(data, count);
    run_input(&input);
    return 0;
}

// ---- changing an input ----

static uint64_t random_state;

static size_t below(size_t n) {
    return (size_t)(splitmix64(&random_state) % n);
}

static const char *const TEXTS[] = {
    "model",  "tokenizer.bin", "prompt",  "out.gguf",         "out",    "a b ab",  "1,4,5",
    "L0.H0",  "L1.ffn",        "local:2", "local:2+global:1", "causal", "embed=0", "attn_out[1]=0",
    "*attn*", "0-1",           "4G",      "chatml",           "-",      ""};

// A value that fits the row, mostly.
static void add_value(char *out, size_t size, const OptionRow *row) {
    static const char *const NUMBERS[] = {"0",  "1",   "2",          "3",   "8",
                                          "-1", "0.5", "4294967296", "1e30"};
    const char *choice = row->choices;
    switch (row->kind) {
    case KIND_FLAG: return;
    case KIND_CHOICE:
        for (size_t skip = below(6); skip && strchr(choice, '|'); skip--)
            choice = strchr(choice, '|') + 1;
        snprintf(out, size, "%.*s", (int)strcspn(choice, "|"), choice);
        return;
    case KIND_TEXT:
    case KIND_TEXTS: snprintf(out, size, "%s", TEXTS[below(sizeof TEXTS / sizeof *TEXTS)]); return;
    default: snprintf(out, size, "%s", NUMBERS[below(sizeof NUMBERS / sizeof *NUMBERS)]);
    }
}

// An option that the command has, with a value; or a word.
static size_t make_words(char out[100], CommandBit command) {
    size_t n_rows = 0, length;
    while (option_rows()[n_rows].name)
        n_rows++;
    const OptionRow *row = &option_rows()[below(n_rows)];
    for (int i = 0; i < 20 && !(row->commands & command); i++)
        row = &option_rows()[below(n_rows)];
    if (!below(6)) {
        snprintf(out, 100, "%s", TEXTS[below(sizeof TEXTS / sizeof *TEXTS)]);
        return strlen(out) + 1;
    }
    length = (size_t)snprintf(out, 100, "--%.40s", row->name) + 1;
    if (row->kind == KIND_FLAG) return length;
    add_value(out + length, 100 - length, row);
    return length + strlen(out + length) + 1;
}

// Lines that reach what each command does; the prompt is on standard input.
static const char *const LINES[] = {"generate model -t 0",
                                    "generate model --json --logprobs 3",
                                    "generate model --color surprise -s 1",
                                    "generate model --record out --ids",
                                    "generate model --ablate L0.H0,L1.ffn",
                                    "generate model --no-cache --stop a",
                                    "generate model --cache out --max-tokens 2",
                                    "generate model --speculate lookup --draft-tokens 3",
                                    "generate model --draft model --draft-tokens 2",
                                    "chat model --template llama2 --speculate lookup",
                                    "chat model --template llama2 -y a",
                                    "chat model --template llama2 --transcript out",
                                    "chat model --template llama2 --session out",
                                    "generate model --context-overflow sinks -c 8",
                                    "chat model --template llama2 --context-overflow shift",
                                    "bench model --json",
                                    "perplexity model --window 4",
                                    "perplexity model --save-logits out",
                                    "perplexity model --ablate-each --window 4",
                                    "perplexity model --ids prompt",
                                    "perplexity model --patterns causal,local:2",
                                    "tokenize model --pieces --bos",
                                    "tokenize model --decode -i 1,4",
                                    "tokenize tokenizer.bin --ids",
                                    "inspect model --json --all",
                                    "inspect model --html out",
                                    "convert model out.gguf --type q8_0",
                                    "convert model out --type f16",
                                    "convert model model --force",
                                    "trace model --out model --force",
                                    "attention model --svg model --force",
                                    "convert model . --force",
                                    "trace model --out out --attention",
                                    "trace model --out out --max-tokens 2 --only *attn*",
                                    "attention model --layer 0 --head 0",
                                    "attention model --explain -1 --layer 0 --head 0",
                                    "attention model --rollout --json",
                                    "attention model --rope --svg out",
                                    "lens model --attribute",
                                    "lens model --svg out --json",
                                    "view model --out out --max-tokens 2",
                                    "view model --out out --layers 0 --ablate L0.H0",
                                    "mask local:2+global:1 --seq 8",
                                    "mask causal --svg out --bidirectional",
                                    "cost model --json",
                                    "cost model --measure --savings",
                                    "cost model --max-memory 4G",
                                    "diff prompt prompt",
                                    "selftest model --json",
                                    "model --patch embed[0]=0",
                                    "--version",
                                    "--limits"};

static size_t start_line(uint8_t *words, size_t size, size_t room) {
    const char *line = LINES[below(sizeof LINES / sizeof *LINES)];
    size_t n = strlen(line) + 1;
    if (n > room) return size;
    for (size_t i = 0; i < n; i++)
        words[i] = line[i] == ' ' ? '\0' : (uint8_t)line[i];
    return n;
}

// Another line; or a word goes, some come, or their bytes change.
static size_t change_words(uint8_t *words, size_t size, size_t room) {
    char added[100];
    size_t first = strnlen((char *)words, size), n;
    if (!size || below(8) == 0) return start_line(words, size, room);
    if (below(8) == 0) return LLVMFuzzerMutate(words, size, room);
    // At the beginning of a word behind the first.
    size_t at = first < size ? first + 1 + below(size - first) : size;
    while (at < size && words[at - 1])
        at++;
    if (at > size) at = size;
    if (at < size && below(3) == 0) {
        size_t end = at + strnlen((char *)words + at, size - at);
        end += end < size;
        memmove(words + at, words + end, size - end);
        return size - (end - at);
    }
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(first < 31 ? first : 31), (char *)words);
    const Command *command = command_find(name);
    n = make_words(added, command ? command->bit : FOR_GENERATE);
    if (n > room - size) return size;
    memmove(words + at + n, words + at, size - at);
    memcpy(words + at, added, n);
    return size + n;
}

// One of the four parts changes, by its structure.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    static uint8_t part[MOST_BYTES], old[MOST_BYTES], base[MOST_BYTES];
    if (size > sizeof old || room > sizeof old || room < HEADER)
        return LLVMFuzzerMutate(data, size, room);
    memcpy(old, data, size);
    random_state = seed;
    Input input = split(old, size);
    static const uint8_t PARTS_OF[] = {MODEL, MODEL, TOKENIZER, PROMPT, WORDS, WORDS, WORDS, WORDS};
    size_t which = PARTS_OF[below(sizeof PARTS_OF)], n = input.sizes[which], base_size;
    size_t others = size > HEADER ? size - HEADER - n : 0, space = room - HEADER - others;
    if (!below(20)) input.kind = (uint8_t)(below(4) | (below(50) ? 0 : PATIENT));
    if (others > room - HEADER) return LLVMFuzzerMutate(data, size, room);
    memcpy(part, input.parts[which], n);
    switch (which) {
    case MODEL:
        base_size = base_model(base, input.kind);
        n = fuzz_mutate(part, n, space, seed, input.kind % 4 ? fuzz_walk_llama2c : fuzz_walk_gguf,
                        base, base_size);
        break;
    case TOKENIZER:
        n = fuzz_mutate(part, n, space, seed, fuzz_walk_tokenizer_bin, TOKENS, sizeof TOKENS - 1);
        break;
    case PROMPT: n = LLVMFuzzerMutate(part, n, space); break;
    default: n = change_words(part, n, space);
    }
    input.parts[which] = part;
    input.sizes[which] = n;
    size_t whole = join(data, room, &input);
    return whole ? whole : size;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    GgufFile *file = gguf_tiny_llama();
    gguf = gguf_write(file, &gguf_size);
    gguf_file_free(file);
    if (gguf_size > MOST_BYTES) abort();
    return 0;
}
