// The tokenizer of a SentencePiece .model, unigram (Viterbi) or BPE. sentencepiece_check.c parses
// the file, the library encodes, spm.c decodes. BPE models whose normalizer only escapes spaces are
// encoded by spm_bpe.c, which gives the same ids (tests/tokenizer/test_sentencepiece_oracle.c) in a
// quarter of the time and memory. It needs no library, but splits a text at user-defined pieces and
// puts a space in front of what follows, which the library does not.
//
//     sentencepiece_open   read and check the file -> open_model
//     open_model           BPE that only escapes spaces -> open_own (spm_bpe.c)
//                          anything else                -> open_library
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "tokenizer/bpe/spm.h"
#include "tokenizer/sentencepiece/sentencepiece_c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The library's status as an error: its own reasons are exit code 3.
static bool report(SentencePieceStatus status, const char *reason, Error *error) {
    if (status == SENTENCEPIECE_OK) return true;
    if (status == SENTENCEPIECE_MEMORY)
        return error_set(error, ERROR_MEMORY, "out of memory in sentencepiece");
    return error_set(error, ERROR_FILE, "sentencepiece: %s", reason);
}

typedef struct Library {
    SentencePiece *model;
    const char *unexportable; // why a GGUF cannot express this model; NULL: it can
    KnownCharacters *known;   // NULL: byte fallback, so there are no unknown characters
} Library;

// The ids of a text, appended. The array is the library's until its next call.
static bool library_ids(const Library *library, IdList *ids, const char *text, size_t length,
                        Error *error) {
    const int *found;
    size_t count;
    char reason[SENTENCEPIECE_REASON_SIZE] = "";
    SentencePieceStatus status =
        sentencepiece_encode(library->model, text, length, &found, &count, reason);
    if (!report(status, reason, error)) return false;
    for (size_t i = 0; i < count; i++) {
        if (!id_list_push(ids, found[i], error)) return false;
    }
    return true;
}

// Without byte fallback long runs of unknown characters are shortened first (unknown_runs.c).
static bool library_encode(const Tokenizer *t, IdList *ids, const char *text, size_t length,
                           bool after_token, Error *error) {
    (void)after_token;
    const Library *library = t->state;
    if (!library->known) return library_ids(library, ids, text, length, error);
    char *shorter = malloc(length);
    if (!shorter)
        return error_set(error, ERROR_MEMORY, "out of memory for a text of %zu bytes", length);
    size_t left = shorten_unknown_runs(shorter, text, length, library->known);
    bool good = library_ids(library, ids, shorter, left, error);
    free(shorter);
    return good;
}

static void library_close(Tokenizer *t) {
    Library *library = t->state;
    if (!library) return;
    sentencepiece_free(library->model);
    known_characters_free(library->known);
    free(library);
}

static bool library_describe(const Tokenizer *t, Vocabulary *out, Arena *arena, Error *error) {
    (void)arena;
    const Library *library = t->state;
    out->model = "llama";
    out->add_space_prefix = t->prefixes_space;
    return !library->unexportable || error_set(error, ERROR_FILE, "%s", library->unexportable);
}

static const TokenizerKind LIBRARY = {library_encode, spm_piece, library_close, library_describe};

// Whether the normalizer only escapes spaces, as spm_bpe.c does.
static bool only_escapes_spaces(const SentencePieceModel *model) {
    const Normalizer *n = &model->normalizer;
    return !n->charsmap.length && !n->remove_extra_whitespaces && n->escape_whitespaces &&
           !model->space_is_suffix;
}

// The library's treatment of user-defined pieces differs from spm_bpe.c's (see above).
static bool has_user_defined(const SentencePieceModel *model) {
    return memchr(model->types, TOKEN_USER_DEFINED, model->n_pieces) != NULL;
}

// The number of pieces is compared, so that both parsers mean the same file.
static bool load_library(Tokenizer *t, const SentencePieceModel *model, const uint8_t *bytes,
                         size_t size, Error *error) {
    char reason[SENTENCEPIECE_REASON_SIZE] = "";
    Library *library = t->state = calloc(1, sizeof *library);
    t->kind = &LIBRARY;
    if (!library) return error_set(error, ERROR_MEMORY, "out of memory for a tokenizer");
    if (!report(sentencepiece_load(&library->model, bytes, size, reason), reason, error))
        return false;
    if (sentencepiece_size(library->model) != model->n_pieces)
        return error_set(error, ERROR_FILE, "sentencepiece loaded %zu pieces, the file has %zu",
                         sentencepiece_size(library->model), model->n_pieces);
    library->unexportable = model->model_type != SENTENCEPIECE_BPE ? "it is a unigram model"
                            : !only_escapes_spaces(model) ? "its normalizer changes the text"
                                                          : NULL;
    return true;
}

// The vocabulary is copied as well: spellings, types and ids are asked for without the library.
static bool open_library(Tokenizer *t, const SentencePieceModel *model,
                         const Vocabulary *vocabulary, const uint8_t *bytes, size_t size,
                         Error *error) {
    if (!load_library(t, model, bytes, size, error)) return false;
    if (!vocabulary_copy(t, vocabulary, error)) return false;
    Library *library = t->state;
    if (!model->byte_fallback && !(library->known = known_characters(model, t, error)))
        return false;
    t->prefixes_space = vocabulary->add_space_prefix == 1;
    vocabulary_set_ids(t, vocabulary, true);
    return spm_added_tokens(t, false, error); // the library matches user-defined ones
}

// The library refuses equal pieces too.
static bool open_own(Tokenizer *t, const Vocabulary *vocabulary, Error *error) {
    if (!spm_bpe_open_vocabulary(t, vocabulary, error)) return false;
    for (size_t i = 0; i < t->n_tokens; i++) {
        int32_t first = vocabulary_find(t, t->tokens[i].text, t->tokens[i].length);
        if (first != (int32_t)i)
            return error_set(error, ERROR_FILE, "piece %zu: the same text as piece %d", i,
                             (int)first);
    }
    return true;
}

// The id of the control piece with this text; -1: there is none.
static int find_control(const SentencePieceModel *model, TextSpan piece) {
    for (size_t i = 0; i < model->n_pieces; i++) {
        if (model->types[i] == TOKEN_CONTROL && model->pieces[i].length == piece.length &&
            !memcmp(model->pieces[i].text, piece.text, piece.length))
            return (int)i;
    }
    return -1;
}

// The ids come from the texts in trainer_spec; its id fields are not needed then.
static bool open_model(Tokenizer *t, const SentencePieceModel *model, const uint8_t *bytes,
                       size_t size, Error *error) {
    Vocabulary vocabulary = {.model = "llama",
                             .n_tokens = model->n_pieces,
                             .tokens = model->pieces,
                             .scores = model->scores,
                             .types = model->types,
                             .bos_id = find_control(model, model->bos_piece),
                             .eos_id = find_control(model, model->eos_piece),
                             .eot_id = -1,
                             .eom_id = -1,
                             .unk_id = -1,
                             .pad_id = find_control(model, model->pad_piece),
                             .add_bos = -1,
                             .add_eos = -1,
                             .add_space_prefix = model->normalizer.add_dummy_prefix};
    bool bpe = model->model_type == SENTENCEPIECE_BPE;
    bool plain = only_escapes_spaces(model) && !has_user_defined(model);
    // Without the library user-defined pieces are accepted all the same: better than no tokenizer.
    bool own = bpe && (plain || (only_escapes_spaces(model) && !sentencepiece_available()));
    bool good = own ? open_own(t, &vocabulary, error)
                    : open_library(t, model, &vocabulary, bytes, size, error);
    if (good)
        snprintf(t->description, sizeof t->description, "SentencePiece %s, %zu tokens",
                 bpe ? "BPE" : "unigram", t->n_tokens);
    return good;
}

bool sentencepiece_open(Tokenizer *t, const uint8_t *bytes, size_t size, Error *error) {
    SentencePieceModel model;
    if (size > LIMIT_SENTENCEPIECE)
        return error_set(error, ERROR_FILE,
                         "%zu bytes: too large for a SentencePiece model "
                         "(at most %d)",
                         size, LIMIT_SENTENCEPIECE);
    bool good = sentencepiece_model_read(&model, bytes, size, error) &&
                open_model(t, &model, bytes, size, error);
    sentencepiece_model_free(&model);
    return good;
}
