// tokenize: text to token ids and back, and a table of the tokens. Needs only a tokenizer, which a
// model file may contain or have beside it.
//
//   text -> ids on one line | a table (--pieces) | a line for each line of text (--lines)
//   ids  -> text (--decode)
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "commands/shared/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// In the order of TokenType, whose numbers are GGUF's.
static const char *type_name(TokenType type) {
    static const char *const NAMES[] = {"undefined",    "normal", "unknown", "control",
                                        "user-defined", "unused", "byte"};
    return type >= TOKEN_UNDEFINED && type <= TOKEN_BYTE ? NAMES[type] : "?";
}

static void print_ids(const IdList *ids) {
    for (size_t i = 0; i < ids->count; i++)
        output_print(i ? " %" PRId32 : "%" PRId32, ids->ids[i]);
    output_bytes("\n", 1);
}

// The vocabulary's own bytes, for a table: control bytes and backslashes as \xNN, so that no line
// breaks.
static void print_spelling(const char *text, size_t length) {
    for (size_t begin = 0, end = 0; end <= length; end++) {
        unsigned char c = end < length ? (unsigned char)text[end] : 0;
        if (c >= 0x20 && c != 0x7f && c != '\\') continue;
        output_text(text + begin, end - begin);
        if (end < length) output_print("\\x%02x", c);
        begin = end + 1;
    }
}

// One token per line: id, type, and the vocabulary's string with control bytes escaped.
static void print_pieces(const Session *s, const IdList *ids) {
    for (size_t i = 0; i < ids->count; i++) {
        TextSpan spelling = tokenizer_spelling(s->tokenizer, ids->ids[i]);
        output_print("%8" PRId32 "  %-12s ", ids->ids[i],
                     type_name(tokenizer_type(s->tokenizer, ids->ids[i])));
        print_spelling(spelling.text, spelling.length);
        output_bytes("\n", 1);
    }
}

// Encodes `length` bytes as a text of its own and prints it. False with no error where standard
// output has failed: output_close reports that.
static bool encode_piece(const Session *s, const char *bytes, size_t length, Error *error) {
    IdList ids = {0};
    const Options *o = s->options;
    int bos = tokenizer_bos(s->tokenizer);
    bool good = true;
    if (o->bos && bos < 0)
        good = error_set(error, ERROR_USAGE, "--bos: this tokenizer has no BOS token");
    if (good && o->bos) good = id_list_push(&ids, bos, error);
    good = good && tokenizer_encode(s->tokenizer, &ids, bytes, length, o->special, error);
    if (good && o->pieces)
        print_pieces(s, &ids);
    else if (good)
        print_ids(&ids);
    id_list_free(&ids);
    return good && output_good();
}

// A last line without a newline counts as a line. True with an unfinished output, see encode_piece.
static bool encode_lines(const Session *s, const Text *text, Error *error) {
    for (size_t i = 0; i < text->length;) {
        const char *line = text->bytes + i;
        const char *end = memchr(line, '\n', text->length - i);
        size_t length = end ? (size_t)(end - line) : text->length - i;
        if (!encode_piece(s, line, length, error)) return !error->code;
        i += length + 1;
    }
    return true;
}

// `first` as in generate: SPM kinds drop the space in front of the first token, or of the one
// behind BOS.
static bool decode_ids(const Session *s, const char *bytes, size_t length, Error *error) {
    IdList ids = {0};
    bool good = ids_parse(&ids, bytes, length, "--decode", error);
    int bos = tokenizer_bos(s->tokenizer), size = tokenizer_size(s->tokenizer);
    for (size_t i = 0; good && i < ids.count; i++) {
        if (ids.ids[i] >= size)
            good = error_set(error, ERROR_USAGE,
                             "--decode: id %" PRId32 " is not below the vocabulary size %d",
                             ids.ids[i], size);
        if (!good) break;
        bool first = i == 0 || (i == 1 && ids.ids[0] == bos);
        size_t count = 0;
        const char *piece =
            tokenizer_piece(s->tokenizer, ids.ids[i], first, s->options->special, &count);
        output_text(piece, count);
    }
    id_list_free(&ids);
    return good;
}

// Ids to text: the exact bytes, or with --lines one text per line.
static bool decode(const Session *s, const Text *text, Error *error) {
    if (!s->options->lines) return decode_ids(s, text->bytes, text->length, error);
    for (size_t i = 0; i < text->length;) {
        const char *line = text->bytes + i;
        const char *end = memchr(line, '\n', text->length - i);
        size_t length = end ? (size_t)(end - line) : text->length - i;
        if (!decode_ids(s, line, length, error)) return false;
        output_bytes("\n", 1);
        i += length + 1;
    }
    return true;
}

// An empty text is encoded too: --bos gives its id.
bool tokenize_command(const Options *o, Error *error) {
    Session s = {.options = o};
    Text text = {0};
    TextLimit limit = text_limit();
    const char *path = o->tokenizer ? o->tokenizer : o->model;
    if (o->prompt && o->file) return error_set(error, ERROR_USAGE, "the input is one of -i and -f");
    if (o->decode && (o->pieces || o->bos || o->ids))
        return error_set(
            error, ERROR_USAGE,
            "--decode turns ids into text; --pieces, --bos and --ids are for encoding");
    bool good = session_open_tokenizer(&s, path, 0, error) && text_read(&text, o, &limit, error);
    if (good && !text.bytes) text.bytes = strdup("");
    if (good && !text.bytes) good = error_set(error, ERROR_MEMORY, "text: out of memory");
    if (good && !o->decode) session_note_split(&s);
    if (good && !o->decode) text_note_encoding(&text, "the text", o);
    if (!good) {
    } else if (o->decode) {
        good = decode(&s, &text, error);
    } else if (o->lines) {
        good = encode_lines(&s, &text, error);
    } else {
        encode_piece(&s, text.bytes, text.length, error);
        good = !error->code;
    }
    text_free(&text);
    session_close(&s);
    return good;
}
