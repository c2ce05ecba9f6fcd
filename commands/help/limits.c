// run --limits: what a file, a text or a grammar may have at most. The numbers stand where they are
// checked; a row of this table is a name for people.
#include "base/bytes.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "grammar/grammar.h"

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
        {"bytes of a GGUF header, a tokenizer", LIMIT_METADATA},
        {"depth of JSON", LIMIT_JSON_DEPTH},
        {"bytes of a SentencePiece model", LIMIT_SENTENCEPIECE},
        {"pieces of a SentencePiece model", LIMIT_PIECES},
        {"bytes of a piece of a unigram model", LIMIT_PIECE},
        {"nodes on a path in their trie", LIMIT_TRIE_DEPTH},
        {"bytes of a normalised text", LIMIT_NORMALISED},
        {"and for each byte of the text", LIMIT_EXPANSION},
        {"bytes of a text", LIMIT_TEXT},
        {"bytes of a prompt", LIMIT_PROMPT},
        {"and for each token of the context", LIMIT_PROMPT_TOKEN},
        {"bytes of a grammar, of a JSON schema", LIMIT_GRAMMAR_BYTES},
        {"rules of a grammar", LIMIT_GRAMMAR_RULES},
        {"groups inside groups of a grammar", LIMIT_GRAMMAR_DEPTH},
        {"repetitions {m,n} of a grammar", LIMIT_GRAMMAR_REPEAT},
        {"nodes of a grammar's graph", LIMIT_GRAMMAR_NODES},
        {"parse positions at once", LIMIT_GRAMMAR_POSITIONS},
        {"parse stacks at once", LIMIT_GRAMMAR_STACKS},
        {"bytes for a token of a grammar", LIMIT_GRAMMAR_MEMORY},
        {"bytes of a line of prompts", LIMIT_PROMPT_LINE},
        {"bytes of a line of answers", LIMIT_ANSWER_LINE},
    };
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
        output_print("%-36s %d\n", LIMITS[i].name, LIMITS[i].value);
}
