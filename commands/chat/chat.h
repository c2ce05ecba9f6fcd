// Parts of the command chat: a conversation over one cache.
//
//   conversation.c   turns -> tokens -> answer; what leaves where the context is full
//   slash.c          /help, /undo and the others, typed at a terminal
//   resume.c         --session: a conversation goes on in the next run
//   save.c           conversations as files: /save, /load, --transcript
//   line_editor.c    a line typed at a terminal, by libedit (without_libedit.c: none)
//   history.c        the messages of earlier sessions
//   message.c        a message of one or several lines
//   wrap.c           an answer in the width of the window
#pragma once

#include "base/hash.h"
#include "commands/chat/line_editor.h"
#include "commands/shared/generation.h"
#include "commands/shared/prompt.h"
#include "commands/speculation/speculation.h"
#include "tokenizer/template/template.h"

// What is held back of an answer until a line has room for it. Zeroed: nothing.
typedef struct Wrap {
    Buffer word;        // owned
    int width;          // its columns
    int column, spaces; // of the line: in use, and before the word
} Wrap;

// A message and its answer.
typedef struct Turn {
    Buffer user, answer; // owned
    Wrap *wrap;          // while it is answered: where the text goes; NULL: as it comes
    int start;           // tokens in the cache before it; -1: not known
    int32_t pending;     // what Chat.pending was then
    size_t accepted;     // and Chat.accepted.count
} Turn;

typedef struct ChatSession ChatSession; // the file of --session

typedef struct Chat {
    Session session;
    Options options; // those of the command line, with what /set changed; session.options
    const ChatTemplate *format;
    limpid_sampler *sampler;
    Drafting *drafting; // NULL: none
    bool typed;         // from a terminal
    bool once;          // -i or -f: one message, whose answer is all that is wanted
    bool opened;        // all of it: there is a conversation to keep
    bool is_base;       // the model has no chat template of its own

    Buffer system; // the system message, where there is one; owned
    bool has_system;
    Turn *turns; // (n_turns) owned
    size_t n_turns, capacity;
    size_t left;      // the first of them, which have left the context
    int left_context; // the size that it had when they did

    IdList ids;      // of the next message, with the tokens that come before it
    IdList accepted; // by the sampler: the conversation as the model has it
    int32_t pending; // the last token of an answer that was cut off: sampled, not yet in the cache
    bool begun;      // the cache holds the turns
    bool full;       // nothing more fits, and nothing is to leave
    size_t n_unsent; // messages of a pipe that did not fit
    bool introduced; // format and seed have been printed
    uint64_t seed;
    bool color;
    LineEditor *editor;              // NULL: none
    ChatSession *saved;              // owned; NULL: no --session
    int transcript;                  // a file descriptor; -1: none
    bool transcript_failed;          // it is not complete
    bool retries;                    // the message has had an answer, which leaves for another
    Buffer saved_last;               // what /save wrote, while nothing of it is taken back; owned
    double prompt_rate, decode_rate; // tokens/s of the last answer; 0: there was none
} Chat;

// Once: before the first message in a terminal, else after the first answer. The seed is printed so
// that a random conversation can be repeated.
void chat_introduce(Chat *chat);

// ---- conversation ----

// The format of the conversation, with this system message or none; ids are those of an empty
// message behind it. False: exit code 2, and the conversation is as it was: the format has no
// system message, or it leaves no room in so large a context (0: which is not known).
bool conversation_set_system(Chat *chat, const char *text, size_t length, int context,
                             Error *error);
// Right behind that: whether it leaves room. False: exit code 2.
bool conversation_check_system(const Chat *chat, int context, Error *error);

// One message and its answer, which is shown. Where the context is full the oldest turns leave, or
// chat->full is set. False: as generation_run.
bool conversation_answer(Chat *chat, TextSpan message, StopReason *stop, Error *error);

// The last message again: another answer takes the place of its answer, which stays where none
// comes. There is a turn. False: as above.
bool conversation_retry(Chat *chat, StopReason *stop, Error *error);

bool conversation_add(Chat *chat, TextSpan user, TextSpan answer, Error *error); // false: code 5
void conversation_undo(Chat *chat);  // forgets the last turn, if there is one
void conversation_clear(Chat *chat); // forgets all of them, not the system message
// Of a conversation that was read: what had left a smaller context, and fits into this one, is read
// again. *more: something does. False: exit code 2 or 5.
bool conversation_take_back(Chat *chat, bool *more, Error *error);
void conversation_free(Chat *chat);

// A sampler by the options as they are now, which has seen the conversation. False: exit code 2 or
// 5, and the sampler is as it was.
bool conversation_open_sampler(Chat *chat, Error *error);

// "temperature 0.7, ..., max-tokens 1024, seed 17"
void conversation_print_settings(Buffer *out, const Chat *chat);

// Shows whole characters on a terminal whose columns wcwidth knows, the last word of them later.
void wrap_text(Wrap *wrap, const char *bytes, size_t length);
void wrap_end(Wrap *wrap); // shows what is held back

// ---- files ----

// --transcript, before the model is loaded: whether the file may be begun. False: as
// transcript_open.
bool transcript_check(const Options *options, Error *error);
// Begins the file, where one is wanted, and locks it. False: exit code 2, 4 or 5.
bool transcript_open(Chat *chat, Error *error);
// Appends the two lines of an exchange, behind "undo" where it takes the place of the one before;
// `stop`: why the answer ended. False: exit code 4 or 5. At a
// terminal that is said, and nothing more is written.
bool transcript_add(Chat *chat, const Turn *turn, const char *stop, Error *error);

// A line that says what is done with those before: "undo" takes back the newest exchange, "clear"
// all, "load" puts a file in their place (`file`; else NULL). False: as above.
bool transcript_event(Chat *chat, const char *event, const char *file, Error *error);

// Appends the JSON object that /save writes; `digest` is model_digest's.
void conversation_print(Buffer *out, const Chat *chat, const char *digest);
// What the object says of the run that wrote it; "": nothing.
typedef struct ChatOrigin {
    char format[64], model[200], digest[FNV_HEX];
} ChatOrigin;
// Such an object in place of the conversation so far. False: exit code 3 or 5, and the conversation
// is as it was.
bool conversation_read(Chat *chat, const void *bytes, size_t size, ChatOrigin *origin,
                       Error *error);
// `force`: in place of a file that is there. Without it only a file is replaced that holds, byte
// for byte, what was saved last, and only while the conversation has merely grown since. False:
// exit code 2, 4 or 5.
bool conversation_save(Chat *chat, const char *path, bool force, Error *error);
// In place of the conversation so far. False: exit code 3, 4 or 5, and it is as it was.
bool conversation_load(Chat *chat, const char *path, Error *error);

// ---- sessions ----

// Without --session these do nothing. The file is read, and tried whether it can be written, before
// the model is opened; the conversation goes on once it is; and is written at the end. False: exit
// code 2, 3 (damaged, no such file of ours), 4, 5, 6 or 130.
bool chat_session_open(Chat *chat, Error *error);
bool chat_session_restore(Chat *chat, Error *error);
bool chat_session_save(Chat *chat, bool failed, Error *error); // failed: the run, before this
void chat_session_close(ChatSession *session);

// ---- what is typed ----

// The next message typed at a terminal, without the marks that continue it or quote it, in
// `message`. LINE_CLEARED: Ctrl-C; it is empty where nothing had been typed. False: exit code 2
// (longer than the limit), 4 or 5.
bool message_read(Chat *chat, Buffer *message, const TextLimit *limit, LineEnd *end, Error *error);

typedef enum SlashResult {
    SLASH_DONE,  // a command; what went wrong has been said
    SLASH_SEND,  // `message` is to be sent
    SLASH_RETRY, // the last message is
    SLASH_EXIT,
} SlashResult;
// Runs a message that begins with a slash, behind blanks or none; "//" sends the rest with one
// slash. One of blanks alone is not sent.
SlashResult slash_run(Chat *chat, Buffer *message);
