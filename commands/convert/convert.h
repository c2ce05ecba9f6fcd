// Parts of convert: the files of the output besides its tensors (files.c), the types that the user
// asked for and what became of them (types.c), the rows of its tensors (encode.c), and what is
// measured over a text: which channels of the weights matter (importance.c), and how far the output
// is from the model (check.c).
#pragma once

#include "base/directory_writer.h"
#include "base/file_writer.h"
#include "commands/perplexity/windows.h"
#include "commands/shared/session.h"
#include "weights/out/outgoing.h"

// ---- files.c: paths, the checks that protect existing files, the other files of a directory ----

typedef enum OutKind {
    OUT_GGUF,      // a .gguf
    OUT_BIN,       // a .bin of llama2.c
    OUT_FILE,      // a .safetensors with config.json beside it
    OUT_DIRECTORY, // model.safetensors and config.json in it
} OutKind;

typedef char OutPath[4096];

// For the heap: two paths are too long for the stack.
typedef struct OutPlace {
    OutKind kind;
    OutPath tensors;   // the path of the file with the tensors
    OutPath directory; // of the other files, ends with '/'; "" for the current directory
    FileSet inputs;
    bool force;
    bool takes_tokens;       // TOKENS_FILE is copied from the model's directory
    OutputDirectory set;     // OUT_FILE, OUT_DIRECTORY: all files together
    DirectoryWriter *writer; // into it
} OutPlace;

// The kind follows from the name of the output. False: exit code 2 for any other extension.
bool out_place_find(OutPlace *place, const char *path, Error *error);

// Before anything is written, for every file of the output: refuses to replace what is there
// without
// --force, and an input always. False: exit code 2, 4 or 5.
bool out_place_check(OutPlace *place, const Options *options, Error *error);

// For safetensors: begins the directory, with config.json, generation_config.json, the tokenizer
// and the chat template: from `vocabulary`, or if that is NULL, copies of the files in the model's
// directory. A model that config.json cannot describe is refused before anything is written.
bool out_place_fill(OutPlace *place, const Session *session, const Outgoing *out,
                    const Vocabulary *vocabulary, Error *error);

// Where to write the tensors, after out_place_fill. False: exit code 5.
bool out_place_tensors(OutPlace *place, OutputFile *out, Error *error);

// Once the tensors are written: puts all files in their place (base/directory_writer.h).
bool out_place_finish(OutPlace *place, Error *error);
void out_place_close(OutPlace *place); // zeroed is fine

// ---- types.c ----

typedef struct TypesWanted {
    OutgoingType type; // of --type, --head-type and, in `choices`, --tensor-type
    OutgoingChoice choices[OPTIONS_MAX_STOPS];
    char patterns[OPTIONS_MAX_STOPS][100];
    int version; // OUT_BIN: 0 or 1 (float32), 2 (int8 in groups)
} TypesWanted;

// False: exit code 2.
bool types_read(TypesWanted *wanted, const Options *options, OutKind kind, Error *error);
// After outgoing_plan: exit code 2 where a pattern of --tensor-type matches no matrix.
bool types_check(const TypesWanted *wanted, Error *error);
// Notes: where a tensor could not keep its type or is rounded a second time. `name` is the model's;
// NULL: there is no original of it.
void types_tell(const Outgoing *out, OutKind kind, const char *name);

// ---- encode.c ----

typedef struct EncoderThread EncoderThread;

typedef struct Encoder {
    const Outgoing *out;
    EncoderThread *threads; // (n)
    int n;
} Encoder;

// `threads` 0: as many as this process may use. Allocated in out->arena. False: exit code 5.
bool encoder_open(Encoder *encoder, Outgoing *out, int threads, Error *error);

// bytes = rows first .. first + count of a tensor, count > 0. As outgoing_rows.
bool encoder_rows(Encoder *encoder, size_t tensor, uint64_t first, size_t count, uint8_t *bytes,
                  Error *error);

// ---- texts (check.c) ----

// A file of text as ids in windows, of which --windows says how many are used.
typedef struct SampleText {
    IdList ids;
    TextWindows windows;
    WindowedText text;
    size_t rows; // scored tokens
} SampleText;    // zero it first

bool sample_text_read(SampleText *sample, const char *path, const Session *session, Error *error);
void sample_text_free(SampleText *sample);

// Runs the model of the session and the output over the text of --check and prints how they differ.
// False: the output, at `path`, is there, but could not be opened or run.
bool check_output(Session *session, SampleText *sample, const char *path, Error *error);

// ---- importance.c ----

typedef struct Importance {
    Arena arena;
    OutgoingImportance of;
} Importance; // zero it first

// Runs the session's model over the text of --importance, and closes that model again.
bool importance_gather(Importance *importance, Session *session, SampleText *sample, Error *error);
void importance_free(Importance *importance);
