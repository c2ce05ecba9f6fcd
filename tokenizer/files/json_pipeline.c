#include "tokenizer/files/json_parts.h"

#include <string.h>

// Which part is being read, for messages.
typedef struct Part {
    const char *name; // "pre_tokenizer"
    JsonPipeline *out;
    Error *error;
} Part;

static bool refuse(const Part *part, const char *what, const char *value) {
    char shown[96];
    return error_set(part->error, ERROR_FILE, "%s: %s \"%s\" is not known here", part->name, what,
                     escape_bytes(shown, sizeof shown, value, strlen(value)));
}

static bool wrong(const Part *part, const char *message) {
    return error_set(part->error, ERROR_FILE, "%s: %s", part->name, message);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_text(const json_t *object, const char *key, const char *wanted) {
    return !strcmp(text_of(object, key), wanted);
}

// {"String": " "} or {"Regex": "..."} under "pattern".
static const char *pattern_of(const json_t *step, const char *kind) {
    return text_of(json_object_get(step, "pattern"), kind);
}

// A step is an object with a type, or a Sequence of such; deeper ones are in no known file.
typedef bool (*StepReader)(const Part *part, const json_t *step, const char *type);

static bool read_step(const Part *part, const json_t *step, StepReader reader) {
    const char *type = json_string_value(json_object_get(step, "type"));
    if (!type) return wrong(part, "a step without a \"type\"");
    return reader(part, step, type);
}

static bool read_steps(const Part *part, const json_t *root, const char *list_key,
                       StepReader reader) {
    const json_t *value = json_object_get(root, part->name);
    if (!value || json_is_null(value)) return true;
    if (!is_text(value, "type", "Sequence")) return read_step(part, value, reader);
    const json_t *list = json_object_get(value, list_key);
    if (!json_is_array(list)) return wrong(part, "a Sequence without its list");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_step(part, json_array_get(list, i), reader)) return false;
    return true;
}

// ---- normalizer ----

static bool read_normalizer(const Part *part, const json_t *step, const char *type) {
    JsonPipeline *out = part->out;
    if (!strcmp(type, "NFC")) {
        out->rule.nfc = true;
        return true;
    }
    if (!strcmp(type, "Replace")) {
        if (strcmp(pattern_of(step, "String"), " ") || !is_text(step, "content", SPM_SPACE))
            return refuse(part, "Replace by", text_of(step, "content"));
        out->options.spaces = true;
        return true;
    }
    if (!strcmp(type, "Prepend")) {
        if (!is_text(step, "prepend", SPM_SPACE))
            return refuse(part, "Prepend of", text_of(step, "prepend"));
        out->options.prefix = PREFIX_ADDED;
        return true;
    }
    return refuse(part, "type", type);
}

// ---- pre_tokenizer ----

static bool add_pass(const Part *part, int pattern) {
    SplitRule *rule = &part->out->rule;
    if (rule->n_passes == LIMIT_PASSES) return wrong(part, "too many patterns in a row");
    rule->passes[rule->n_passes++] = pattern;
    return true;
}

static bool read_split(const Part *part, const json_t *step) {
    if (json_is_true(json_object_get(step, "invert"))) return refuse(part, "Split with", "invert");
    // Gemma cuts at spaces that its normalizer has already replaced: nothing is left to cut.
    if (!strcmp(pattern_of(step, "String"), " ") && part->out->options.spaces) return true;
    const char *regex = pattern_of(step, "Regex");
    int pattern = split_pattern_find(regex);
    if (pattern < 0) return refuse(part, "pattern", regex);
    if (!is_text(step, "behavior", "Isolated"))
        return refuse(part, "Split behavior", text_of(step, "behavior"));
    return add_pass(part, pattern);
}

static bool read_byte_level(const Part *part, const json_t *step) {
    bool prefix = true, regex = true; // where they are not said
    if (!json_read_bool(step, "add_prefix_space", &prefix, part->error) ||
        !json_read_bool(step, "use_regex", &regex, part->error))
        return error_prefix(part->error, part->name);
    if (prefix) return refuse(part, "ByteLevel with", "add_prefix_space");
    part->out->byte_level = true;
    SplitRule gpt2;
    return !regex ||
           (split_rule_find(&gpt2, NULL, "gpt2", part->error) && add_pass(part, gpt2.passes[0]));
}

static bool read_metaspace(const Part *part, const json_t *step) {
    FallbackOptions *options = &part->out->options;
    bool prefix = true, split = true; // where they are not said
    if (!is_text(step, "replacement", SPM_SPACE))
        return refuse(part, "Metaspace replacement", text_of(step, "replacement"));
    if (!json_read_bool(step, "add_prefix_space", &prefix, part->error) ||
        !json_read_bool(step, "split", &split, part->error))
        return error_prefix(part->error, part->name);
    if (split) return refuse(part, "Metaspace with", "split");
    const char *scheme = text_of(step, "prepend_scheme");
    options->spaces = true;
    if (!strcmp(scheme, "first"))
        options->prefix = PREFIX_FIRST;
    else if (!strcmp(scheme, "always") || (!*scheme && prefix))
        options->prefix = PREFIX_ALWAYS;
    else if (strcmp(scheme, "never") && *scheme)
        return refuse(part, "prepend_scheme", scheme);
    return true;
}

static bool read_pre_tokenizer(const Part *part, const json_t *step, const char *type) {
    if (part->out->byte_level) return wrong(part, "ByteLevel is not the last step");
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

// What the known decoders do follows from the kind, but for the space that is dropped.
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
        return refuse(part, "Replace by", text_of(step, "content"));
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

static bool read_post_processor(const Part *part, const json_t *step, const char *type) {
    if (!strcmp(type, "ByteLevel")) return true; // offsets only
    if (strcmp(type, "TemplateProcessing")) return refuse(part, "type", type);
    const json_t *first = json_array_get(json_object_get(step, "single"), 0);
    const char *id =
        json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
    if (id) part->out->first_token = id;
    return true;
}

bool json_pipeline_read(JsonPipeline *pipeline, const json_t *root, Error *error) {
    *pipeline = (JsonPipeline){.options.unk_id = -1};
    Part part = {"normalizer", pipeline, error};
    if (!read_steps(&part, root, "normalizers", read_normalizer)) return false;
    part.name = "pre_tokenizer";
    if (!read_steps(&part, root, "pretokenizers", read_pre_tokenizer)) return false;
    if (pipeline->byte_level && (pipeline->options.spaces || pipeline->options.prefix))
        return wrong(&part, "ByteLevel after a change of spaces");
    if (!pipeline->byte_level && (pipeline->rule.n_passes || pipeline->rule.nfc))
        return wrong(&part, "patterns or NFC without ByteLevel");
    part.name = "decoder";
    if (!read_steps(&part, root, "decoders", read_decoder)) return false;
    part.name = "post_processor";
    return read_steps(&part, root, "processors", read_post_processor);
}
