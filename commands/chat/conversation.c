// A conversation: its turns, and the cache that holds them token for token.
//
//   begun:      [system][user 1][answer 1 .. ]                      in the cache
//                                  [end][user 2][start]  ids of the next message, then its answer
//   not begun:  [system][user 1][answer 1][end][user 2][start]      ids: all of it, anew
//
// It has not begun before the first message, and where something before the next message has
// changed: a turn has left, the system message is another, a file was loaded, or the format drops
// the thoughts of the last answer.
#include "commands/chat/chat.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TYPED_TOKENS = 1024 }; // of an answer, unless --max-tokens or --ignore-eos says more

// ---- turns ----

static void turn_free(Turn *turn) {
    buffer_free(&turn->user);
    buffer_free(&turn->answer);
}

// What the cache holds is no longer the conversation.
static void begin_anew(Chat *chat) {
    chat->begun = false;
    for (size_t i = 0; i < chat->n_turns; i++)
        chat->turns[i].start = -1;
}

static bool push_turn(Chat *chat, Turn *turn, Error *error) {
    bool good = !turn->user.failed && !turn->answer.failed;
    if (good && chat->n_turns == chat->capacity) {
        size_t capacity = 2 * chat->capacity + 16;
        Turn *grown = realloc(chat->turns, capacity * sizeof *grown);
        good = grown;
        if (grown) chat->turns = grown;
        if (grown) chat->capacity = capacity;
    }
    if (!good) {
        turn_free(turn);
        return error_set(error, ERROR_MEMORY, "no memory for the conversation");
    }
    chat->turns[chat->n_turns++] = *turn;
    return true;
}

bool conversation_add(Chat *chat, TextSpan user, TextSpan answer, Error *error) {
    Turn turn = {.start = -1};
    buffer_put(&turn.user, user.text, user.length);
    buffer_put(&turn.answer, answer.text, answer.length);
    if (chat->begun) begin_anew(chat); // else no turn has a place in the cache
    return push_turn(chat, &turn, error);
}

// The cache and the sampler as they were before the turn, or, where that is not known or layers
// with a window have lost it, all anew.
static void go_back(Chat *chat, const Turn *turn) {
    KvCache *cache = &chat->session.model->cache;
    if (!chat->begun || turn->start <= 0 || turn->start < kv_cache_lowest(cache, 0, turn->start)) {
        begin_anew(chat);
        return;
    }
    kv_cache_truncate(cache, 0, turn->start);
    limpid_sampler_forget(chat->sampler, chat->accepted.count - turn->accepted);
    chat->accepted.count = turn->accepted;
    chat->pending = turn->pending;
}

void conversation_undo(Chat *chat) {
    if (!chat->n_turns) return;
    Turn *last = &chat->turns[--chat->n_turns];
    if (chat->left > chat->n_turns) chat->left = chat->n_turns;
    buffer_free(&chat->saved_last);
    go_back(chat, last);
    turn_free(last);
}

void conversation_clear(Chat *chat) {
    while (chat->n_turns)
        turn_free(&chat->turns[--chat->n_turns]);
    chat->left = 0;
    buffer_free(&chat->saved_last);
    begin_anew(chat);
}

void conversation_free(Chat *chat) {
    conversation_clear(chat);
    free(chat->turns);
    buffer_free(&chat->system);
    id_list_free(&chat->ids);
    id_list_free(&chat->accepted);
}

// ---- tokens ----

static ChatMessage message_of(ChatRole role, const Buffer *text) {
    return (ChatMessage){role, text->bytes ? (const char *)text->bytes : "", text->size};
}

// ids = the system message, the turns from `from` on, and the message.
static bool render(Chat *chat, size_t from, TextSpan message, Error *error) {
    size_t count = 0;
    ChatMessage *messages = malloc((2 * chat->n_turns + 2) * sizeof *messages);
    if (!messages) return error_set(error, ERROR_MEMORY, "no memory for the conversation");
    if (chat->has_system) messages[count++] = message_of(CHAT_SYSTEM, &chat->system);
    for (size_t i = from; i < chat->n_turns; i++) {
        messages[count++] = message_of(CHAT_USER, &chat->turns[i].user);
        messages[count++] = message_of(CHAT_ASSISTANT, &chat->turns[i].answer);
    }
    messages[count++] = (ChatMessage){CHAT_USER, message.text, message.length};
    chat->ids.count = 0;
    bool good = chat_template_render(chat->format, chat->session.tokenizer, &chat->ids, messages,
                                     count, error);
    free(messages);
    return good;
}

// ids = the tokens that the message appends to the cache.
static bool encode_message(Chat *chat, TextSpan message, Error *error) {
    // The last answer is written anew without its thoughts; what is before it stays in the cache.
    const Buffer *last = chat->n_turns ? &chat->turns[chat->n_turns - 1].answer : NULL;
    if (chat->begun && last &&
        chat_template_forgets(chat->format, (const char *)last->bytes, last->size))
        begin_anew(chat);
    if (!chat->begun) return render(chat, chat->left, message, error);
    chat->ids.count = 0;
    if (chat->pending >= 0 && !id_list_push(&chat->ids, chat->pending, error)) return false;
    return chat_template_next(chat->format, chat->session.tokenizer, &chat->ids, message.text,
                              message.length, error);
}

// A message and its answer have a token at least.
bool conversation_check_system(const Chat *chat, int context, Error *error) {
    return session_check_room("the system message", chat->ids.count, context - 1, error);
}

bool conversation_set_system(Chat *chat, const char *text, size_t length, int context,
                             Error *error) {
    const ChatTemplate *format = chat->format;
    Buffer system = chat->system;
    bool had = chat->has_system;
    chat->system = (Buffer){0};
    chat->has_system = text;
    if (text) {
        buffer_put(&chat->system, text, length);
        chat->format = chat_template_for_system(format, text, length);
    }
    bool good = !chat->system.failed || error_set(error, ERROR_MEMORY, "no memory for the text");
    good = good && render(chat, chat->n_turns, (TextSpan){.text = ""}, error) &&
           (!context || conversation_check_system(chat, context, error));
    buffer_free(good ? &system : &chat->system);
    if (good) {
        buffer_free(&chat->saved_last);
        begin_anew(chat);
        return true;
    }
    chat->system = system;
    chat->has_system = had;
    chat->format = format;
    return false;
}

// ---- room ----

static int room_of(const Chat *chat) {
    const Model *model = chat->session.model;
    return model->options.context - (chat->begun ? kv_cache_length(&model->cache, 0) : 0);
}

static const char WAYS_ON[] =
    "it was not sent; /undo takes back an exchange, /clear begins anew, /exit ends";

// A first message that does not fit is an error, and so is that of -i; a later one ends the
// conversation. At a terminal it is not sent, and what was said may be saved or taken back.
static bool stop_where_full(Chat *chat, bool *fits, Error *error) {
    int room = room_of(chat);
    *fits = chat->ids.count <= (size_t)room;
    if (*fits) return true;
    const char *with =
        !chat->begun && chat->n_turns > chat->left ? ", with the conversation before it," : "";
    if (chat->typed || (chat->accepted.count && !chat->once)) {
        note("the message has%s %zu tokens, the context of %d has room for %d: %s", with,
             chat->ids.count, chat->session.model->options.context, room,
             !chat->typed    ? "the conversation ends here"
             : chat->n_turns ? WAYS_ON
                             : "it was not sent");
        chat->full = !chat->typed;
        chat->n_unsent += !chat->typed;
        return true;
    }
    if (!chat->begun && !*with)
        return session_check_room("the message", chat->ids.count, room, error);
    return error_set(error, ERROR_USAGE,
                     "the message has%s %zu tokens, the context room for %d; --context-overflow "
                     "shift lets the oldest leave",
                     with, chat->ids.count, room);
}

// The least `left` of low .. high with which message and conversation are at most `most` tokens;
// high where there is none. ids are those of it. The more turns leave, the fewer tokens there are.
static bool leave_turns(Chat *chat, size_t *left, size_t low, size_t high, TextSpan message,
                        size_t most, Error *error) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (!render(chat, middle, message, error)) return false;
        if (chat->ids.count <= most)
            high = middle;
        else
            low = middle + 1;
    }
    *left = low;
    return render(chat, low, message, error);
}

// The oldest turns are left out of the context until the message and an answer of a quarter of it
// fit; the conversation keeps them. A message that does not fit alone is refused, and nothing
// leaves.
static bool shift(Chat *chat, TextSpan message, size_t max_new, bool *fits, Error *error) {
    size_t context = (size_t)chat->session.model->options.context, left = chat->left + !chat->begun;
    size_t answer = max_new < context / 4 ? max_new : context / 4;
    *fits = chat->ids.count + answer <= (size_t)room_of(chat);
    if (*fits) return true;
    if (left > chat->n_turns) left = chat->n_turns;
    if (!leave_turns(chat, &left, left, chat->n_turns, message, context - answer, error))
        return false;
    *fits = chat->ids.count <= context;
    if (!*fits && chat->once)
        return session_check_room("the message", chat->ids.count, (int)context, error);
    if (!*fits) {
        chat->n_unsent += !chat->typed;
        note("the message has %zu tokens, the context room for %zu: it was not sent",
             chat->ids.count, context);
        return true;
    }
    size_t leave = left - chat->left;
    if (leave == 1)
        note("the context of %zu tokens is full: the oldest exchange left it", context);
    else if (leave)
        note("the context of %zu tokens is full: the oldest %zu exchanges left it", context, leave);
    chat->left = left;
    chat->left_context = (int)context;
    begin_anew(chat);
    return true;
}

// With room for a message and its answer, as above.
bool conversation_take_back(Chat *chat, bool *more, Error *error) {
    size_t context = (size_t)chat->session.model->options.context, left = 0;
    *more = false;
    if (!chat->left || context <= (size_t)chat->left_context) return true;
    if (!leave_turns(chat, &left, 0, chat->left, (TextSpan){.text = ""}, context - context / 4,
                     error))
        return false;
    chat->left_context = (int)context;
    *more = left < chat->left;
    chat->left = left;
    if (*more) begin_anew(chat);
    return true;
}

static bool shifts(const Chat *chat) {
    const Options *o = &chat->options;
    return option_given(o, OPTION_OVERFLOW) ? o->overflow == OVERFLOW_SHIFT : chat->typed;
}

static bool make_room(Chat *chat, TextSpan message, size_t max_new, bool *fits, Error *error) {
    return shifts(chat) ? shift(chat, message, max_new, fits, error)
                        : stop_where_full(chat, fits, error);
}

// ---- the answer ----

// Flushed for each piece, so that text appears as it is generated.
static void show(void *context, const char *bytes, size_t length) {
    Turn *turn = context;
    buffer_put(&turn->answer, bytes, length);
    if (turn->wrap) {
        wrap_text(turn->wrap, bytes, length);
        return;
    }
    output_text(bytes, length);
    output_flush();
}

// Runs the message, and keeps what the sampler has seen. After STOP_EOS no token is pending:
// chat_template_next writes the one that ends an answer.
static bool generate_answer(Chat *chat, Turn *turn, Generation *g, Error *error) {
    Wrap wrap = {0};
    // A token that is pending was accepted as one of the last answer.
    size_t known = chat->begun && chat->pending >= 0;
    turn->wrap = chat->editor ? &wrap : NULL; // which knows how wide characters are
    bool good =
        begin_text(chat->sampler, chat->ids.ids + known, chat->ids.count - known, true, error) &&
        generation_run(g, chat->ids.ids, chat->ids.count, error);
    wrap_end(&wrap);
    turn->wrap = NULL;
    if (good || g->first_token_at) output_bytes("\n", 1);
    output_flush();
    chat->begun = true;
    chat->pending = g->ids.count && g->stop != STOP_EOS ? g->ids.ids[g->ids.count - 1] : -1;
    for (size_t i = known; good && i < chat->ids.count; i++)
        good = id_list_push(&chat->accepted, chat->ids.ids[i], error);
    for (size_t i = 0; good && i < g->ids.count; i++)
        good = id_list_push(&chat->accepted, g->ids.ids[i], error);
    return good;
}

// The cache holds the first of the tokens that the sampler has accepted. How many of them the
// tokens of the next message begin with: the system message, or all turns but the last.
static size_t known_beginning(const Chat *chat) {
    size_t n = 0, most = (size_t)kv_cache_length(&chat->session.model->cache, 0);
    if (most > chat->accepted.count) most = chat->accepted.count;
    if (most > chat->ids.count - 1) most = chat->ids.count - 1; // the logits of the last are wanted
    while (n < most && chat->ids.ids[n] == chat->accepted.ids[n])
        n++;
    return n;
}

// They stay. Returns how many.
static size_t reuse_beginning(Chat *chat) {
    size_t n = known_beginning(chat);
    size_t left = (size_t)kv_cache_go_back(&chat->session.model->cache, 0, (int)n);
    if (left < n && !chat->options.quiet)
        note("layers with a window no longer have what this needs: %zu tokens are read again", n);
    return left;
}

// Tokens of the answer. -n counts as in generate, those of the message included.
static size_t most_tokens(const Chat *chat) {
    const Options *o = &chat->options;
    size_t most = chat->typed && !o->ignore_eos ? TYPED_TOKENS : SIZE_MAX;
    size_t used = chat->ids.count - (chat->begun ? 0 : known_beginning(chat));
    if (option_given(o, OPTION_MAX_TOKENS)) most = (size_t)o->max_tokens;
    if (!option_given(o, OPTION_STEPS) || !o->steps) return most;
    size_t steps = (size_t)o->steps + 1, left = steps > used ? steps - used : 0;
    return left < most ? left : most;
}

static void note_no_answer(const Chat *chat, size_t most) {
    const Options *o = &chat->options;
    if (most || o->quiet || !option_given(o, OPTION_STEPS) || !o->steps || !o->max_tokens) return;
    note("-n %" PRId64 " counts all tokens but the first, those of the message among them, as in "
         "llama2.c, so none is new; --max-tokens %" PRId64 " counts those of the answer",
         o->steps, o->steps);
}

// Why the answer ended, where it was not its own end.
static void tell_end(Chat *chat, const Generation *g) {
    int context = chat->session.model->options.context;
    chat->full = g->stop == STOP_CONTEXT && !shifts(chat) && !chat->typed;
    if (chat->full) note("the context of %d tokens is full: the conversation ends here", context);
    print_incomplete(g);
    if (!chat->typed) return;
    if (g->stop == STOP_CONTEXT)
        note("the context of %d tokens is full: the answer ends here%s", context,
             shifts(chat) ? "" : "; /undo takes back an exchange, /clear begins anew");
    if (g->stop == STOP_LENGTH) note("the answer was ended at %zu tokens", g->ids.count);
    if (g->stop == STOP_LOOP) note("the answer was ended: it says the same over and over");
    if (g->stop == STOP_INTERRUPT && !g->ids.count && !chat->retries)
        note("there was no answer yet: the message is forgotten");
}

// The turn joins the conversation; one that Ctrl-C ended before its answer does not.
static bool keep_turn(Chat *chat, Turn *turn, const Generation *g, Error *error) {
    if (g->stop == STOP_INTERRUPT && !g->ids.count) {
        go_back(chat, turn);
        turn_free(turn);
        return true;
    }
    if (!push_turn(chat, turn, error)) return false;
    StopReason stop = output_good() ? g->stop : STOP_INTERRUPT; // nobody reads on
    return transcript_add(chat, &chat->turns[chat->n_turns - 1], stop_reason_name(stop), error);
}

// Before a message: *cached of its tokens are in the cache, and no others of the conversation where
// that has not begun.
static void begin(Chat *chat, Turn *turn, size_t *cached) {
    if (!chat->begun) {
        *cached = reuse_beginning(chat);
        limpid_sampler_forget(chat->sampler, chat->accepted.count);
        chat->accepted.count = 0;
        chat->pending = -1;
    }
    turn->start = chat->begun ? kv_cache_length(&chat->session.model->cache, 0) : -1;
    turn->pending = chat->pending;
    turn->accepted = chat->accepted.count;
}

bool conversation_answer(Chat *chat, TextSpan message, StopReason *stop, Error *error) {
    Session *s = &chat->session;
    bool fits = false;
    if (!encode_message(chat, message, error)) return false;
    if (!chat->editor && interrupt_asked())
        return error_set(error, ERROR_INTERRUPTED, "interrupted");
    if (!make_room(chat, message, most_tokens(chat), &fits, error)) return false;
    if (!fits) return true;
    Turn turn = {0};
    size_t cached = 0;
    begin(chat, &turn, &cached);
    buffer_put(&turn.user, message.text, message.length);
    Generation g = {
        .session = s,
        .sampler = chat->sampler,
        .max_new = most_tokens(chat),
        .stops = &chat->options.stops,
        .speculation = drafting_speculation(chat->drafting),
        .ignore_eos = chat->options.ignore_eos,
        .cached = cached,
        .stop_at_loops = chat->typed && !chat->options.ignore_eos,
        .whole_characters = true,
        .first = true,
        .show = show,
        .context = &turn,
    };
    note_no_answer(chat, g.max_new);
    s->started = seconds_now();
    interrupt_renew(); // from here on Ctrl-C stops the answer; before it ends a conversation
    bool good = generate_answer(chat, &turn, &g, error);
    interrupt_renew(); // one that comes a moment too late does nothing
    *stop = g.stop;
    chat->prompt_rate = prompt_rate(&g);
    chat->decode_rate = decode_rate(&g);
    if (good) tell_end(chat, &g);
    if (good)
        good = keep_turn(chat, &turn, &g, error);
    else
        turn_free(&turn);
    if (good && output_good()) chat_introduce(chat);
    if (good && output_good() && !chat->options.quiet) print_statistics(&g);
    generation_free(&g);
    return good;
}

bool conversation_retry(Chat *chat, StopReason *stop, Error *error) {
    size_t n = chat->n_turns, left = chat->left;
    Turn last = chat->turns[--chat->n_turns];
    if (chat->left == n) chat->left--;
    go_back(chat, &last);
    chat->retries = true;
    bool good = conversation_answer(chat, (TextSpan){(const char *)last.user.bytes, last.user.size},
                                    stop, error);
    chat->retries = false;
    if (chat->n_turns == n) {
        buffer_free(&chat->saved_last);
        turn_free(&last);
        return good;
    }
    chat->turns[chat->n_turns++] = last; // where it was before
    if (chat->left < left) chat->left = left;
    begin_anew(chat);
    if (good) note("no other answer came: the one before stays");
    return good;
}

// The model's own sampling defaults, else ones that suit a conversation.
static GenerationDefaults defaults_of(const Chat *chat) {
    GenerationDefaults d = *checkpoint_generation(chat->session.checkpoint);
    if (d.temperature < 0) d.temperature = 0.7f;
    if (d.top_p < 0) d.top_p = 0.9f;
    return d;
}

void conversation_print_settings(Buffer *out, const Chat *chat) {
    GenerationDefaults d = defaults_of(chat);
    print_sampling(out, &chat->session, &d);
    if (option_given(&chat->options, OPTION_MAX_TOKENS))
        buffer_print(out, ", max-tokens %" PRId64, chat->options.max_tokens);
    else if (!chat->options.ignore_eos)
        buffer_print(out, ", max-tokens %d", TYPED_TOKENS);
    buffer_print(out, ", seed %" PRIu64, chat->seed);
}

bool conversation_open_sampler(Chat *chat, Error *error) {
    GenerationDefaults d = defaults_of(chat);
    limpid_sampler *sampler =
        open_sampler(&chat->session, &(SamplerWanted){.defaults = &d}, &chat->seed, error);
    if (!sampler) return false;
    if (!begin_text(sampler, chat->accepted.ids, chat->accepted.count, true, error)) {
        limpid_sampler_close(sampler);
        return false;
    }
    limpid_sampler_close(chat->sampler);
    chat->sampler = sampler;
    return true;
}
