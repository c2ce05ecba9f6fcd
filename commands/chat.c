// chat: a conversation over one cache, in the model's own format.
//
// The cache holds the conversation so far, token for token. A message appends its own tokens and
// those of the answer. An answer that was stopped early needs no special care: chat_template_next
// begins with the tokens that end an answer.
//
//   options -> session -> chat format -> model -> sampler -> for each message:
//     a command? -> encode it (and what ends the last answer) -> does it fit? -> generate -> show
//
// The format's tokens and Jinja templates are in tokenizer/template/, the loop of tokens is in
// shared/generation.c.
#include "commands/chat/chat.h"
#include "commands/commands.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "weights/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A model may have 128 K positions, whose cache would take gigabytes that a conversation rarely
// needs.
enum { DEFAULT_CONTEXT = 4096, PATH_SIZE = 4096 };

// The format of --template, else the one that the model's template or tokens show. False: exit code
// 2, with what to do instead in the message.
static bool find_format(Chat *chat, Error *error) {
    const Session *s = &chat->session;
    const char *name = s->options->chat_template, *system = s->options->system;
    const ChatTemplate *own = chat_format(s->checkpoint, s->tokenizer);
    chat->format = name ? chat_template_by_name(name) : own;
    chat->is_base = !own || !checkpoint_vocabulary(s->checkpoint)->chat_template.length;
    if (!chat->format && name)
        return error_set(error, ERROR_USAGE, "--template: got \"%.20s\", wanted one of %s", name,
                         chat_template_names());
    if (!chat->format && builtin_is_meant(checkpoint_path(s->checkpoint)))
        return error_set(
            error, ERROR_USAGE,
            "the built-in model cannot talk, it only tells stories: try `run -i \"Once "
            "upon a time\"`; scripts/get_model smollm2 of the source tree fetches one that "
            "talks");
    if (!chat->format && checkpoint_vocabulary(s->checkpoint)->chat_template.length)
        return error_set(error, ERROR_USAGE,
                         "%s: %s: --template NAME sets a format (docs/formats.md lists them)",
                         checkpoint_path(s->checkpoint), chat_format_missing(s->checkpoint));
    if (!chat->format)
        return error_set(error, ERROR_USAGE,
                         "%s: no known chat format in this model, so it may be a base model: `run "
                         "generate` continues a text, --template NAME sets a format",
                         checkpoint_path(s->checkpoint));
    // A format that does not fit the vocabulary or the system message is an error before the model
    // is loaded.
    return conversation_set_system(chat, system, system ? strlen(system) : 0, 0, error);
}

static int choose_context(const Session *s) {
    if (option_given(s->options, OPTION_CONTEXT)) return (int)s->options->context;
    int most = s->config->max_seq_len;
    return most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
}

// Everything that can be checked without the weights comes before they are loaded.
static bool open_chat(Chat *chat, const Options *options, Error *error) {
    Session *s = &chat->session;
    if (!sampling_check(options, error) || !drafting_check(options, error)) return false;
    sampling_note(options);
    if (options->prompt && options->file)
        return error_set(error, ERROR_USAGE, "the message is one of -i and -f");
    if (!session_open(s, options, error) || !session_need_tokenizer(s, error) ||
        !find_format(chat, error))
        return false;
    session_note_split(s);
    int context = choose_context(s);
    if (!session_check_context(s, error) || !session_open_grammar(s, error) ||
        !drafting_open(&chat->drafting, s, error) || !chat_session_open(chat, error) ||
        !transcript_check(options, error))
        return false;
    // With sinks that is what a token sees, and the cache holds all of the conversation.
    if (options->overflow == OVERFLOW_SINKS) {
        if (!session_use_sinks(s, context, error)) return false;
        if (context < s->config->max_seq_len) context = s->config->max_seq_len;
    }
    if (options->system && !conversation_check_system(chat, context, error)) return false;
    SessionModel wanted = {.context = context, .max_logit_rows = drafting_rows(chat->drafting)};
    return session_open_model(s, &wanted, error) && drafting_begin(chat->drafting, s, error) &&
           chat_session_restore(chat, error) && conversation_open_sampler(chat, error) &&
           transcript_open(chat, error);
}

void chat_introduce(Chat *chat) {
    const Session *s = &chat->session;
    if (chat->introduced || s->options->quiet) return;
    chat->introduced = true;
    char seed[32] = "";
    if (!option_given(s->options, OPTION_SEED))
        snprintf(seed, sizeof seed, ", seed %" PRIu64, chat->seed);
    note("chat format %s, context %d%s", chat_template_name(chat->format),
         s->model->options.context, seed);
    if (chat->is_base && chat->typed)
        note("the model's file has no chat template: if it is a base model, it may go on with your "
             "text instead of answering");
    if (s->options->overflow == OVERFLOW_SINKS)
        note("each token sees the first %d tokens of the conversation and the newest %d (attention "
             "sinks), at their places in it",
             SESSION_SINKS, s->model->pattern.parts[1].a);
}

// -i or -f: one message, one answer. Ctrl-C is exit code 130 here; in a conversation it only ends
// the answer.
static bool answer_once(Chat *chat, Error *error) {
    Text text = {0};
    StopReason stop = STOP_EOS;
    TextLimit limit = prompt_limit(&chat->session);
    bool good = prompt_read(&text, chat->session.options, &limit, error);
    if (good) text_note_encoding(&text, "the message", chat->session.options);
    good = good && conversation_answer(chat, (TextSpan){text.bytes, text.length}, &stop, error);
    text_free(&text);
    if (good && stop == STOP_INTERRUPT) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return good;
}

// Ctrl-C ends an answer; SIGTERM and its like end the conversation with it.
static bool may_go_on(Error *error) {
    return !interrupt_ends() || error_set(error, ERROR_INTERRUPTED, "interrupted");
}

// From a pipe: a line is a message; an empty line is skipped. Ends at the end of input, when the
// context is full, or when standard output is gone.
static bool converse_in_lines(Chat *chat, Error *error) {
    Text line = {0};
    TextLimit limit = prompt_limit(&chat->session);
    bool good = true, ended = false;
    interrupt_begin(); // also where nothing is typed yet: what was said is kept
    while (good && !chat->full && output_good()) {
        good = text_read_line(&line, &limit, &ended, error);
        if (!good || ended) break;
        StopReason stop = STOP_EOS;
        text_note_encoding(&line, "the message", chat->session.options);
        if (line.length)
            good = conversation_answer(chat, (TextSpan){line.bytes, line.length}, &stop, error) &&
                   may_go_on(error);
    }
    text_free(&line);
    if (!good || !chat->n_unsent) return good;
    return error_set(error, ERROR_USAGE, "%zu message%s did not fit: not sent", chat->n_unsent,
                     chat->n_unsent == 1 ? "" : "s");
}

// From a terminal. The second Ctrl-C in a row, with nothing typed, ends the conversation: exit code
// 130.
static bool converse_typed(Chat *chat, Error *error) {
    Buffer message = {0};
    TextLimit limit = prompt_limit(&chat->session);
    LineEnd end = LINE_READ;
    bool good = true, warned = false;
    chat_introduce(chat);
    interrupt_begin(); // between two lines; in one signals are the line editor's
    while (good && !chat->full && output_good() && !interrupt_ends()) {
        StopReason stop = STOP_EOS;
        Error problem = {0};
        good = message_read(chat, &message, &limit, &end, &problem);
        if (!good && chat->editor && problem.code == ERROR_USAGE) {
            note("%s: it was not sent", problem.message);
            good = true;
            continue;
        }
        if (!good) error_copy(error, &problem);
        if (!good || end == LINE_ENDED) break;
        if (end == LINE_CLEARED && interrupt_ends()) break;
        if (end == LINE_CLEARED) {
            if (warned && !message.size) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
            if (good) note("Ctrl-C again, or Ctrl-D, ends the conversation");
            warned = true;
            continue;
        }
        warned = false;
        line_editor_hush(chat->editor); // /save reads all of the model
        interrupt_renew();              // a Ctrl-C before, between two lines, is over
        SlashResult what = slash_run(chat, &message);
        if (what == SLASH_EXIT) break;
        if (what == SLASH_DONE) continue;
        if (what == SLASH_RETRY)
            good = conversation_retry(chat, &stop, error);
        else if (message.size)
            good = conversation_answer(chat, (TextSpan){(const char *)message.bytes, message.size},
                                       &stop, error);
    }
    good = good && may_go_on(error);
    if (end == LINE_ENDED) fputc('\n', stderr);
    buffer_free(&message);
    return good;
}

// Before the model is loaded, so that what is typed meanwhile is kept and not echoed into the bar.
static bool open_editor(Chat *chat, Error *error) {
    static char path[PATH_SIZE]; // as long as the program; a stack frame has no room for it
    const char *history = chat->options.no_history ? NULL : history_path(path, sizeof path);
    if (!chat->typed || !output_is_terminal()) return true;
    return line_editor_open(&chat->editor, chat->color, history, error);
}

static bool wants_color(const Options *o) {
    if (o->color != COLOR_AUTO) return o->color == COLOR_ALWAYS;
    const char *no_color = getenv("NO_COLOR");
    return error_is_terminal() && !(no_color && *no_color);
}

bool chat_command(const Options *options, Error *error) {
    bool once = options->prompt || options->file;
    Chat chat = {.options = *options,
                 .once = once,
                 .typed = !once && isatty(STDIN_FILENO),
                 .pending = -1,
                 .color = wants_color(options),
                 .transcript = -1};
    if (options->session) output_outlive_readers(); // what was said is kept then too
    bool good = open_editor(&chat, error) && (chat.opened = open_chat(&chat, &chat.options, error));
    if (good && once)
        good = answer_once(&chat, error);
    else if (good)
        good = chat.typed ? converse_typed(&chat, error) : converse_in_lines(&chat, error);
    line_editor_close(chat.editor);
    // Also after Ctrl-C or an error: what was said before is kept, whatever signal comes meanwhile.
    if (chat.opened) interrupt_renew();
    if (chat.opened) good = chat_session_save(&chat, !good, error) && good;
    if (good && chat.transcript_failed)
        good = error_set(error, ERROR_IO, "%s: the transcript is not complete",
                         chat.options.transcript);
    interrupt_end();
    chat_session_close(chat.saved);
    limpid_sampler_close(chat.sampler);
    drafting_close(chat.drafting);
    if (chat.transcript >= 0) close(chat.transcript);
    conversation_free(&chat);
    session_close(&chat.session);
    return good;
}
