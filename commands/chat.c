// chat: a conversation over one cache, in the model's own format.
//
// The cache holds the conversation so far, token for token. A message appends its own tokens and
// those of the answer. An answer that was stopped early needs no special care: chat_template_next
// begins with the tokens that end an answer.
//
//   options -> session -> chat format -> model -> sampler -> for each message:
//     encode it (and what ends the last answer) -> does it fit? -> generate -> show
//
// What is in the cache after two messages, the new tokens of the second below:
//
//   [system][user 1][answer 1 .. ]                     in the cache
//                                 [end][user 2][start]  ids of the next message, then its answer
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
    TextSpan text = checkpoint_vocabulary(s->checkpoint)->chat_template;
    chat->format = name ? chat_template_by_name(name)
                        : chat_template_detect(s->tokenizer, text, s->config->family);
    if (!chat->format && name)
        return error_set(error, ERROR_USAGE, "--template: got \"%.60s\", wanted one of %s", name,
                         chat_template_names());
    if (!chat->format && builtin_is_meant(checkpoint_path(s->checkpoint)))
        return error_set(
            error, ERROR_USAGE,
            "the built-in model cannot talk, it only tells stories: try `run -i \"Once "
            "upon a time\"`; `bash scripts/get_model smollm2` fetches one that talks");
    if (!chat->format)
        return error_set(error, ERROR_USAGE,
                         "%s: no known chat format in this model; `run generate` continues a text, "
                         "--template NAME sets a format",
                         checkpoint_path(s->checkpoint));
    if (system) chat->format = chat_template_for_system(chat->format, system, strlen(system));
    return true;
}

static int choose_context(const Session *s) {
    if (option_given(s->options, OPTION_CONTEXT)) return (int)s->options->context;
    int most = s->config->max_seq_len;
    return most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
}

// The model's own sampling defaults, else ones that suit a conversation.
static GenerationDefaults sampling(const Session *s) {
    GenerationDefaults d = *checkpoint_generation(s->checkpoint);
    if (d.temperature < 0) d.temperature = 0.7f;
    if (d.top_p < 0) d.top_p = 0.9f;
    return d;
}

// ids = the tokens that the message appends to the cache.
static bool encode_message(Chat *chat, TextSpan message, Error *error) {
    const Session *s = &chat->session;
    chat->ids.count = 0;
    if (chat->begun) {
        if (chat->pending >= 0 && !id_list_push(&chat->ids, chat->pending, error)) return false;
        return chat_template_next(chat->format, s->tokenizer, &chat->ids, message.text,
                                  message.length, error);
    }
    const char *system = s->options->system;
    ChatMessage messages[2] = {
        {CHAT_SYSTEM, system, system ? strlen(system) : 0},
        {CHAT_USER, message.text, message.length},
    };
    return chat_template_render(chat->format, s->tokenizer, &chat->ids, messages + !system,
                                system ? 2 : 1, error);
}

// A format that does not fit the vocabulary or the system message is an error before the model is
// loaded.
static bool check_format(Chat *chat, Error *error) {
    return encode_message(chat, (TextSpan){.text = ""}, error);
}

// Everything that can be checked without the weights comes before they are loaded.
static bool open_chat(Chat *chat, const Options *options, Error *error) {
    Session *s = &chat->session;
    if (options->prompt && options->file)
        return error_set(error, ERROR_USAGE, "the message is one of -i and -f");
    if (!session_open(s, options, error) || !session_need_tokenizer(s, error) ||
        !find_format(chat, error) || !check_format(chat, error))
        return false;
    if (!session_check_context(s, error) ||
        !session_open_model(s, &(SessionModel){.context = choose_context(s)}, error))
        return false;
    GenerationDefaults defaults = sampling(s);
    chat->sampler = open_sampler(s, &defaults, &chat->seed, error);
    return chat->sampler;
}

// Once: before the first message in a terminal, else after the first answer. The seed is printed so
// that a random conversation can be repeated.
static void introduce(Chat *chat) {
    const Session *s = &chat->session;
    if (chat->introduced || s->options->quiet) return;
    chat->introduced = true;
    note("chat format %s, context %d", chat_template_name(chat->format), s->model->options.context);
    if (!option_given(s->options, OPTION_SEED)) note("seed %" PRIu64, chat->seed);
}

// Flushed for each piece, so that text appears as it is generated.
static void print_text(void *context, const char *bytes, size_t length) {
    (void)context;
    output_text(bytes, length);
    output_flush();
}

// Sets `pending`. After STOP_EOS there is none: chat_template_next writes the token that ends an
// answer.
static bool generate_answer(Chat *chat, Generation *g, Error *error) {
    bool good = generation_run(g, chat->ids.ids, chat->ids.count, error);
    if (good || g->first_token_at) output_bytes("\n", 1);
    output_flush();
    chat->begun = true;
    chat->pending = g->ids.count && g->stop != STOP_EOS ? g->ids.ids[g->ids.count - 1] : -1;
    return good;
}

// A first message that does not fit is an error; a later one ends the conversation.
static bool has_room(Chat *chat, Error *error) {
    const Model *model = chat->session.model;
    int context = model->options.context, room = context - kv_cache_length(&model->cache, 0);
    if (!chat->begun) return session_check_room("the message", chat->ids.count, room, error);
    if (chat->ids.count <= (size_t)room) return true;
    note("the message has %zu tokens, the context of %d still room for %d: the conversation ends "
         "here",
         chat->ids.count, context, room);
    chat->full = true;
    return false;
}

// One message and its answer. Sets chat->full where nothing more fits.
static bool answer(Chat *chat, TextSpan message, StopReason *stop, Error *error) {
    Session *s = &chat->session;
    const Options *o = s->options;
    if (!encode_message(chat, message, error)) return false;
    if (!has_room(chat, error)) return chat->full;
    Generation g = {
        .session = s,
        .sampler = chat->sampler,
        .max_new = option_given(o, OPTION_MAX_TOKENS) ? (size_t)o->max_tokens : SIZE_MAX,
        .stops = &o->stops,
        .ignore_eos = o->ignore_eos,
        .accepted = chat->begun && chat->pending >= 0,
        .first = true,
        .show = print_text,
    };
    // -n counts forward passes as in generate, those of the message included.
    if (option_given(o, OPTION_STEPS) && o->steps) {
        size_t steps = (size_t)o->steps + 1, used = chat->ids.count;
        size_t left = steps > used ? steps - used : 0;
        if (left < g.max_new) g.max_new = left;
    }
    s->started = seconds_now();
    interrupt_begin(); // from here on Ctrl-C stops the answer; before it ends the program
    bool good = generate_answer(chat, &g, error);
    interrupt_end();
    *stop = g.stop;
    chat->full = good && g.stop == STOP_CONTEXT;
    if (chat->full)
        note("the context of %d tokens is full: the conversation ends here",
             s->model->options.context);
    if (good && output_good()) introduce(chat);
    if (good && output_good() && !o->quiet) print_statistics(&g);
    generation_free(&g);
    return good;
}

// -i or -f: one message, one answer. Ctrl-C is exit code 130 here; in a conversation it only ends
// the answer.
static bool answer_once(Chat *chat, Error *error) {
    Text text = {0};
    StopReason stop = STOP_EOS;
    TextLimit limit = prompt_limit(&chat->session);
    bool good = text_read(&text, chat->session.options, &limit, error) &&
                answer(chat, (TextSpan){text.bytes, text.length}, &stop, error);
    text_free(&text);
    if (good && stop == STOP_INTERRUPT) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return good;
}

// From a pipe: a line is a message; an empty line is skipped. Ends at the end of input, when the
// context is full, or when standard output is gone.
static bool converse_in_lines(Chat *chat, Error *error) {
    Text line = {0};
    TextLimit limit = prompt_limit(&chat->session);
    bool good = true, ended = false;
    while (good && !chat->full && output_good()) {
        good = text_read_line(&line, &limit, &ended, error);
        if (!good || ended) break;
        StopReason stop = STOP_EOS;
        if (line.length) good = answer(chat, (TextSpan){line.bytes, line.length}, &stop, error);
    }
    text_free(&line);
    return good;
}

// From a terminal. The second Ctrl-C in a row, with nothing typed, ends the conversation: exit code
// 130.
static bool converse_typed(Chat *chat, Error *error) {
    Buffer message = {0};
    TextLimit limit = prompt_limit(&chat->session);
    LineEnd end = LINE_READ;
    bool good = true, warned = false;
    introduce(chat);
    while (good && !chat->full && output_good()) {
        StopReason stop = STOP_EOS;
        good = message_read(chat, &message, &limit, &end, error);
        if (!good || end == LINE_ENDED) break;
        if (end == LINE_CLEARED) {
            if (warned && !message.size) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
            if (good) note("Ctrl-C again, or Ctrl-D, ends the conversation");
            warned = true;
            continue;
        }
        warned = false;
        line_editor_hush(chat->editor);
        if (message.size)
            good =
                answer(chat, (TextSpan){(const char *)message.bytes, message.size}, &stop, error);
    }
    if (end == LINE_ENDED) fputc('\n', stderr);
    buffer_free(&message);
    return good;
}

static bool converse(Chat *chat, Error *error) {
    char path[PATH_SIZE];
    const char *history =
        chat->session.options->no_history ? NULL : history_path(path, sizeof path);
    if (!isatty(STDIN_FILENO)) return converse_in_lines(chat, error);
    if (output_is_terminal() && !line_editor_open(&chat->editor, chat->color, history, error))
        return false;
    return converse_typed(chat, error);
}

static bool wants_color(const Options *o) {
    if (o->color != COLOR_AUTO) return o->color == COLOR_ALWAYS;
    const char *no_color = getenv("NO_COLOR");
    return error_is_terminal() && !(no_color && *no_color);
}

bool chat_command(const Options *options, Error *error) {
    Chat chat = {.pending = -1, .color = wants_color(options)};
    bool good = open_chat(&chat, options, error);
    if (good && (options->prompt || options->file))
        good = answer_once(&chat, error);
    else if (good)
        good = converse(&chat, error);
    line_editor_close(chat.editor);
    sampler_close(chat.sampler);
    id_list_free(&chat.ids);
    session_close(&chat.session);
    return good;
}
