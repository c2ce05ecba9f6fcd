// The tokenizer of a SentencePiece .model.
//
//     sentencepiece_open   model_file.c parses and checks the file; open_model
//     encode               normalizer.c, then unigram.c or spm_bpe.c; spm.c decodes
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct SentencePiece {
    const char *unexportable; // why a GGUF cannot express this model; NULL: it can
    PieceTrie user_defined;
    Normalizer normalizer;
    SpmUnknown unknown;
    SpmBpe *bpe; // NULL: `unigram`
    Unigram unigram;
} SentencePiece;

// A segment between control tokens is a text of its own.
static bool sentencepiece_encode(const Tokenizer *t, IdList *ids, const char *text, size_t length,
                                 bool after_token, Error *error) {
    (void)after_token;
    const SentencePiece *s = t->state;
    SpmOutput out = {.unknown = &s->unknown, .ids = ids, .error = error};
    Buffer normal = {0};
    bool good = normalizer_apply(&s->normalizer, &normal, text, length, error);
    const char *bytes = (const char *)normal.bytes;
    if (good && normal.size)
        good = s->bpe ? spm_bpe_encode(s->bpe, t, &out, bytes, normal.size)
                      : unigram_encode(&s->unigram, t, &out, bytes, normal.size);
    buffer_free(&normal);
    return good;
}

static void sentencepiece_close(Tokenizer *t) {
    SentencePiece *s = t->state;
    if (!s) return;
    spm_bpe_free(s->bpe);
    unigram_close(&s->unigram);
    normalizer_close(&s->normalizer);
    piece_trie_close(&s->user_defined);
    free(s);
}

static bool sentencepiece_describe(const Tokenizer *t, Vocabulary *out, Arena *arena,
                                   Error *error) {
    (void)arena;
    const SentencePiece *s = t->state;
    out->model = "llama";
    out->add_space_prefix = t->prefixes_space;
    return !s->unexportable || error_set(error, ERROR_FILE, "%s", s->unexportable);
}

static const TokenizerKind SENTENCEPIECE = {sentencepiece_encode, spm_piece, sentencepiece_close,
                                            sentencepiece_describe};

// ---- opening ----

static bool only_escapes_spaces(const SentencePieceModel *model) {
    const NormalizerSpec *n = &model->normalizer;
    return !n->charsmap.length && !n->remove_extra_whitespaces && n->escape_whitespaces &&
           !model->space_is_suffix;
}

// Of two equal pieces only one could be found. spm_train makes none.
static bool check_pieces_differ(const Tokenizer *t, Error *error) {
    for (size_t i = 0; i < t->n_tokens; i++) {
        int32_t first = vocabulary_find(t, t->tokens[i].text, t->tokens[i].length);
        if (first != (int32_t)i)
            return error_set(error, ERROR_FILE, "piece %zu: the same text as piece %d", i,
                             (int)first);
    }
    return true;
}

// Behind the vocabulary. User-defined pieces are found by the normalizer and by BPE.
static bool open_state(Tokenizer *t, const SentencePieceModel *model, Error *error) {
    SentencePiece *s = t->state = calloc(1, sizeof *s);
    if (!s) return error_set(error, ERROR_MEMORY, "out of memory for a tokenizer");
    bool bpe = model->model_type == SENTENCEPIECE_BPE;
    s->unexportable = !bpe                          ? "it is a unigram model"
                      : !only_escapes_spaces(model) ? "its normalizer changes the text"
                                                    : NULL;
    spm_unknown_set(&s->unknown, t);
    if (!piece_trie_open(&s->user_defined, t, 1u << TOKEN_USER_DEFINED, error) ||
        !normalizer_open(&s->normalizer, model, &s->user_defined, error) ||
        !spm_added_tokens(t, false, error))
        return false;
    if (!bpe) return unigram_open(&s->unigram, t, error);
    s->bpe = spm_bpe_new(t, &s->user_defined, error);
    return s->bpe;
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
static bool open_vocabulary(Tokenizer *t, const SentencePieceModel *model, Error *error) {
    Vocabulary vocabulary = {.n_tokens = model->n_pieces,
                             .tokens = model->pieces,
                             .scores = model->scores,
                             .types = model->types,
                             .bos_id = find_control(model, model->bos_piece),
                             .eos_id = find_control(model, model->eos_piece),
                             .eot_id = -1,
                             .eom_id = -1,
                             .unk_id = -1,
                             .pad_id = -1,
                             .add_bos = -1,
                             .add_eos = -1};
    if (!vocabulary_copy(t, &vocabulary, error) || !check_pieces_differ(t, error)) return false;
    t->prefixes_space = model->normalizer.add_dummy_prefix;
    vocabulary_set_ids(t, &vocabulary, true);
    return true;
}

static bool open_model(Tokenizer *t, SentencePieceModel *model, Error *error) {
    if (!open_vocabulary(t, model, error)) return false;
    sentencepiece_model_free(model); // copied: a trie takes their place in memory
    t->kind = &SENTENCEPIECE;
    if (!open_state(t, model, error)) return false;
    bool bpe = model->model_type == SENTENCEPIECE_BPE;
    snprintf(t->description, sizeof t->description, "SentencePiece %s, %zu tokens",
             bpe ? "BPE" : "unigram", t->n_tokens);
    return true;
}

bool sentencepiece_open(Tokenizer *t, const uint8_t *bytes, size_t size, Error *error) {
    SentencePieceModel model;
    if (size > LIMIT_SENTENCEPIECE)
        return error_set(error, ERROR_FILE,
                         "%zu bytes: too large for a SentencePiece model "
                         "(at most %d)",
                         size, LIMIT_SENTENCEPIECE);
    bool good =
        sentencepiece_model_read(&model, bytes, size, error) && open_model(t, &model, error);
    sentencepiece_model_free(&model);
    return good;
}
