// The pipeline of a tokenizer.json, the format of the Rust library tokenizers. Which algorithm
// it becomes: with ByteLevel byte-level BPE, otherwise BPE with byte fallback.
//
//     normalizer      NFC; Replace " " by U+2581; Prepend U+2581
//     pre_tokenizer   Split, Digits, ByteLevel; Metaspace
//     decoder         says whether the first space is dropped
//     post_processor  says whether BOS comes first
//     added_tokens    with "normalized" they pass through the normalizer too
//
// A part is read step by step into JsonPipeline; at the end the two kinds must not be mixed.
// Anything that is not listed is refused.
#include "tokenizer/files/json_parts.h"

#include <string.h>

// The part that is being read.
typedef struct Part {
    const char *name; // "pre_tokenizer", for messages
    JsonPipeline *out;
    Error *error;
} Part;

// refuse and fail: false, exit code 3, the part's name in front.
static bool refuse(const Part *part, const char *what, const char *value) {
    char shown[96];
    return error_set(part->error, ERROR_FILE, "%s: %s \"%s\" is not supported", part->name, what,
                     escape_bytes(shown, sizeof shown, value, strlen(value)));
}

static bool fail(const Part *part, const char *message) {
    return error_set(part->error, ERROR_FILE, "%s: %s", part->name, message);
}

// "" where the key is absent or no text.
static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_text(const json_t *object, const char *key, const char *wanted) {
    return !strcmp(text_of(object, key), wanted);
}

// "pattern" is {"String": " "} or {"Regex": "..."}; `kind` is the key.
static const char *pattern_of(const json_t *step, const char *kind) {
    return text_of(json_object_get(step, "pattern"), kind);
}

// A part is one step (an object with a "type") or a Sequence of steps. No known file nests deeper.
typedef bool (*StepReader)(const Part *part, const json_t *step, const char *type);

static bool read_step(const Part *part, const json_t *step, StepReader reader) {
    const char *type = json_string_value(json_object_get(step, "type"));
    if (!type) return fail(part, "a step without a \"type\"");
    return reader(part, step, type);
}

// An absent part has no steps.
static bool read_steps(const Part *part, const json_t *root, const char *list_key,
                       StepReader reader) {
    const json_t *value = json_object_get(root, part->name);
    if (!value || json_is_null(value)) return true;
    if (!is_text(value, "type", "Sequence")) return read_step(part, value, reader);
    const json_t *list = json_object_get(value, list_key);
    if (!json_is_array(list)) return fail(part, "a Sequence without its list of steps");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_step(part, json_array_get(list, i), reader)) return false;
    return true;
}

// ---- normalizer ----

// Replace is the escape of SentencePiece models; another Replace would change the text in a way
// that no algorithm here has.
static bool read_normalizer(const Part *part, const json_t *step, const char *type) {
    JsonPipeline *out = part->out;
    if (!strcmp(type, "NFC")) {
        out->rule.nfc = true;
        return true;
    }
    if (!strcmp(type, "Replace")) {
        if (strcmp(pattern_of(step, "String"), " ") || !is_text(step, "content", SPM_SPACE))
            return refuse(part, "Replace with content", text_of(step, "content"));
        out->options.spaces = out->replaces = true;
        return true;
    }
    if (!strcmp(type, "Prepend")) {
        if (!is_text(step, "prepend", SPM_SPACE))
            return refuse(part, "Prepend", text_of(step, "prepend"));
        if (out->options.prefix == PREFIX_ADDED) return fail(part, "Prepend twice");
        out->options.prefix = PREFIX_ADDED;
        return true;
    }
    return refuse(part, "type", type);
}

// ---- pre_tokenizer ----

// Behaviour "Isolated": matches become pieces of their own.
static bool add_pass(const Part *part, int pattern) {
    SplitRule *rule = &part->out->rule;
    if (rule->n_passes == LIMIT_PASSES) return fail(part, "more than 4 patterns");
    rule->passes[rule->n_passes++] = pattern;
    return true;
}

// "Removed" with "invert" keeps the matches alone, as in Granite 4's file. It is "Isolated" where
// the matches are all of the text.
static bool read_split(const Part *part, const json_t *step) {
    const char *regex = pattern_of(step, "Regex");
    int pattern = split_pattern_find(regex);
    bool inverted = json_is_true(json_object_get(step, "invert"));
    bool kept = inverted && is_text(step, "behavior", "Removed") && split_pattern_covers(pattern);
    if (inverted && !kept) return refuse(part, "Split option", "invert");
    // Gemma splits at spaces, but its normalizer has replaced them all: the step has no effect.
    if (!strcmp(pattern_of(step, "String"), " ") && part->out->options.spaces) return true;
    if (pattern < 0) return refuse(part, "pattern", regex);
    if (!kept && !is_text(step, "behavior", "Isolated"))
        return refuse(part, "Split behavior", text_of(step, "behavior"));
    return add_pass(part, pattern);
}

// use_regex: the step splits with GPT-2's pattern first.
static bool read_byte_level(const Part *part, const json_t *step) {
    bool prefix = true, regex = true; // the library's defaults
    if (!json_read_bool(step, "add_prefix_space", &prefix, part->error) ||
        !json_read_bool(step, "use_regex", &regex, part->error))
        return error_prefix(part->error, part->name);
    if (prefix) return refuse(part, "ByteLevel option", "add_prefix_space");
    part->out->byte_level = true;
    SplitRule gpt2;
    return !regex ||
           (split_rule_find(&gpt2, NULL, "gpt2", part->error) && add_pass(part, gpt2.passes[0]));
}

// Escapes spaces and puts one in front, by prepend_scheme, or by add_prefix_space in older files.
static bool read_metaspace(const Part *part, const json_t *step) {
    FallbackOptions *options = &part->out->options;
    bool prefix = true, split = true; // the library's defaults
    if (!is_text(step, "replacement", SPM_SPACE))
        return refuse(part, "Metaspace replacement", text_of(step, "replacement"));
    if (!json_read_bool(step, "add_prefix_space", &prefix, part->error) ||
        !json_read_bool(step, "split", &split, part->error))
        return error_prefix(part->error, part->name);
    if (split) return refuse(part, "Metaspace option", "split");
    const char *scheme = text_of(step, "prepend_scheme");
    SpacePrefix before = options->prefix;
    options->spaces = true;
    if (!strcmp(scheme, "first"))
        options->prefix = PREFIX_FIRST;
    else if (!strcmp(scheme, "always") || (!*scheme && prefix))
        options->prefix = PREFIX_ALWAYS;
    else if (strcmp(scheme, "never") && *scheme)
        return refuse(part, "prepend_scheme", scheme);
    return before == options->prefix || before == PREFIX_NEVER ||
           fail(part, "Metaspace after Prepend");
}

static bool read_pre_tokenizer(const Part *part, const json_t *step, const char *type) {
    if (part->out->byte_level) return fail(part, "ByteLevel is not the last step");
    if (!strcmp(type, "ByteLevel")) return read_byte_level(part, step);
    if (!strcmp(type, "Split")) return read_split(part, step);
    if (!strcmp(type, "Metaspace")) return read_metaspace(part, step);
    if (!strcmp(type, "Digits")) {
        bool each = json_is_true(json_object_get(step, "individual_digits"));
        return add_pass(part, split_pattern_find(each ? "\\p{N}" : "\\p{N}+"));
    }
    return refuse(part, "type", type);
}

// ---- decoder ----

// The algorithm determines decoding, except whether the first space is dropped.
//
// A step that does what the algorithm's decoding does anyway passes; a Strip of one space at the
// start is the space that the prefix added.
static bool read_decoder(const Part *part, const json_t *step, const char *type) {
    static const char *const known[] = {"ByteLevel", "ByteFallback", "Fuse"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(type, known[i])) return true;
    FallbackOptions *options = &part->out->options;
    if (!strcmp(type, "Metaspace")) {
        options->drops_space = options->prefix != PREFIX_NEVER;
        return true;
    }
    if (!strcmp(type, "Replace")) {
        if (!strcmp(pattern_of(step, "String"), SPM_SPACE) && is_text(step, "content", " "))
            return true;
        return refuse(part, "Replace with content", text_of(step, "content"));
    }
    if (!strcmp(type, "Strip")) {
        if (!is_text(step, "content", " ") ||
            json_integer_value(json_object_get(step, "start")) != 1 ||
            json_integer_value(json_object_get(step, "stop")) != 0)
            return refuse(part, "Strip of", text_of(step, "content"));
        options->drops_space = true;
        return true;
    }
    return refuse(part, "type", type);
}

// ---- post_processor ----

// TemplateProcessing lists what surrounds a text; only a first special token is followed.
static bool read_post_processor(const Part *part, const json_t *step, const char *type) {
    if (!strcmp(type, "ByteLevel")) return true; // changes offsets only, not ids
    if (strcmp(type, "TemplateProcessing")) return refuse(part, "type", type);
    const json_t *first = json_array_get(json_object_get(step, "single"), 0);
    const char *id =
        json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
    if (id) part->out->first_token = id;
    return true;
}

// The order of a text's way through the pipeline: read_split looks at what the normalizer does.
bool json_pipeline_read(JsonPipeline *pipeline, const json_t *root, Error *error) {
    *pipeline = (JsonPipeline){.options.unk_id = -1};
    Part part = {"normalizer", pipeline, error};
    if (!read_steps(&part, root, "normalizers", read_normalizer)) return false;
    if (pipeline->options.prefix != PREFIX_NEVER && !pipeline->options.spaces)
        return fail(&part, "Prepend without a Replace of spaces");
    part.name = "pre_tokenizer";
    if (!read_steps(&part, root, "pretokenizers", read_pre_tokenizer)) return false;
    if (pipeline->byte_level && (pipeline->options.spaces || pipeline->options.prefix))
        return fail(&part, "ByteLevel after a step that replaces spaces");
    if (!pipeline->byte_level && (pipeline->rule.n_passes || pipeline->rule.nfc))
        return fail(&part, "patterns or NFC without ByteLevel");
    part.name = "decoder";
    if (!read_steps(&part, root, "decoders", read_decoder)) return false;
    part.name = "post_processor";
    return read_steps(&part, root, "processors", read_post_processor);
}

// ---- added tokens ----

// Whether the normalizer makes another text of one like this; under NFC of any that is not ASCII.
static bool is_changed(const JsonPipeline *pipeline, const char *text) {
    if (pipeline->replaces && (strchr(text, ' ') || strstr(text, SPM_SPACE))) return true;
    for (; pipeline->rule.nfc && *text; text++)
        if (*text & 0x80) return true;
    return false;
}

// Old files of Llama have "normalized" on their control tokens, which Prepend then hides from the
// library in all but the first place of a text. They are meant to be found as they are written.
bool json_pipeline_check_added(const JsonPipeline *pipeline, const json_t *added, Error *error) {
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *entry = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(entry, "content"));
        bool prefixed = pipeline->options.prefix == PREFIX_ADDED &&
                        !json_is_true(json_object_get(entry, "special"));
        if (content && json_is_true(json_object_get(entry, "normalized")) &&
            (prefixed || is_changed(pipeline, content)))
            return error_set(error, ERROR_FILE,
                             "added token %" JSON_INTEGER_FORMAT
                             ": \"normalized\" with this normalizer is not supported",
                             json_integer_value(json_object_get(entry, "id")));
    }
    return true;
}
