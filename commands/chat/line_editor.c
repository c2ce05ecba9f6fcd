// The line editor by libedit, in its wide interface: a character is a wchar_t, which is its code
// point here.
//
//   keys -> read_key (signals, UTF-8) -> libedit -> line of wchar_t -> UTF-8
//                                          ^ ESC[200~ .. ESC[201~: insert_paste
//
// libedit would handle signals in the handlers themselves and send them again to the whole process
// group. So they are blocked while a line is edited, ppoll lets them in, and what they ask for is
// done between two keys.
#include "commands/chat/line_editor.h"
#include "base/text.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

struct LineEditor {
    EditLine *libedit;
    HistoryW *history;
    const char *path; // of the history; borrowed, NULL: none
    char *path_owned;
    bool color, quiet;
    wchar_t mark[40];
    size_t mark_width, columns; // of the window when the line was last drawn
    size_t most;                // bytes of the line
    struct termios before;      // of the terminal, before the editor
    sigset_t outside;           // signals blocked while no line is edited
    bool interrupted, at_end;   // by a signal; the cursor is at the end of what was typed
    bool any_key;               // was typed for this line
    LineKeys keys;
};

static const int SIGNALS[] = {SIGINT, SIGWINCH, SIGTSTP, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
enum { N_SIGNALS = sizeof SIGNALS / sizeof *SIGNALS, MOST_REMEMBERED = 1000 };

// The newest signal of each kind, since a handler takes no argument of ours.
static volatile sig_atomic_t arrived[N_SIGNALS];
static pthread_t editing; // the thread that waits for keys

// The kernel may choose a thread of the device: its signal is passed on, or ppoll would wait.
static void on_signal(int number) {
    if (!pthread_equal(pthread_self(), editing)) {
        pthread_kill(editing, number);
        return;
    }
    for (int i = 0; i < N_SIGNALS; i++)
        if (SIGNALS[i] == number) arrived[i] = 1;
}

// On from line_editor_open to line_editor_close, so that what is pasted during an answer is one
// message too.
static void set_paste(bool on) {
    const char *text = on ? PASTE_ON : PASTE_OFF;
    output_bytes(text, strlen(text));
    output_flush();
}

static volatile sig_atomic_t continued; // by SIGCONT

static void on_continue(int number) {
    (void)number;
    continued = 1;
}

// Gives the terminal back, lets the signal do what it does by default, and, where the program is
// then still there (Ctrl-Z and fg), takes it again. Without a shell that could continue it nothing
// stops the program, and the line is still on the screen. The window may have changed meanwhile,
// which only the shell has been told.
static void pass_on(LineEditor *e, int number) {
    el_wset(e->libedit, EL_PREP_TERM, 0);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &e->before);
    set_paste(false);
    sigset_t one;
    struct sigaction ours, standard = {.sa_handler = SIG_DFL};
    struct sigaction before, told = {.sa_handler = on_continue};
    sigemptyset(&one);
    sigaddset(&one, number);
    continued = 0;
    sigaction(SIGCONT, &told, &before);
    sigaction(number, &standard, &ours);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    sigprocmask(SIG_BLOCK, &one, NULL);
    sigaction(number, &ours, NULL);
    sigaction(SIGCONT, &before, NULL);
    el_wset(e->libedit, EL_PREP_TERM, 1);
    set_paste(true);
    if (!continued) return;
    el_resize(e->libedit);
    el_wset(e->libedit, EL_REFRESH);
}

// The window has another width: the line is drawn anew from its first row on. Cleared row by row,
// since some terminals keep a screen that is cleared as a whole.
static void take_new_width(LineEditor *e) {
    const LineInfoW *info = el_wline(e->libedit);
    struct winsize window;
    Buffer text = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) || !window.ws_col) {
        el_resize(e->libedit);
        return;
    }
    size_t columns = line_keeps_rows() && e->columns ? e->columns : window.ws_col;
    size_t above = line_rows(info->buffer, info->cursor, e->mark_width, columns);
    size_t rows = line_rows(info->buffer, info->lastchar, e->mark_width, window.ws_col) + 1;
    buffer_print(&text, "\r");
    if (above) buffer_print(&text, "\033[%zuA", above);
    buffer_print(&text, "\0337"); // keeps the cursor's place
    for (size_t i = 0; i < rows && i < window.ws_row; i++)
        buffer_print(&text, "\033[K\033[B"); // clears to the end of the row, goes down
    buffer_print(&text, "\0338");            // back to it
    if (!text.failed) output_bytes((const char *)text.bytes, text.size);
    output_flush();
    buffer_free(&text);
    e->columns = window.ws_col;
    el_resize(e->libedit);
    el_wset(e->libedit, EL_REFRESH);
}

// False: the line ends here, by Ctrl-C or what ends the conversation.
static bool handle_signals(LineEditor *e) {
    for (int i = 0; i < N_SIGNALS; i++) {
        if (!arrived[i]) continue;
        arrived[i] = 0;
        if (SIGNALS[i] == SIGINT || interrupt_note(SIGNALS[i]))
            e->interrupted = true;
        else if (SIGNALS[i] == SIGWINCH)
            take_new_width(e);
        else
            pass_on(e, SIGNALS[i]);
    }
    return !e->interrupted;
}

// One byte of the terminal. 1, 0 at its end, -1 where the line ends by Ctrl-C or a failure.
static int read_byte(LineEditor *e, char *byte) {
    while (!e->interrupted) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (ppoll(&input, 1, NULL, &e->outside) < 0) {
            if (errno != EINTR || !handle_signals(e)) return -1;
            continue;
        }
        ssize_t got = read(STDIN_FILENO, byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        return got > 0 ? 1 : got == 0 || errno == EIO ? 0 : -1; // EIO: the terminal is gone
    }
    return -1;
}

static bool wants_redraw(LineEditor *e) {
    const LineInfoW *info = el_wline(e->libedit);
    const wchar_t *end = info->lastchar;
    return line_wants_redraw(&e->keys, info->buffer, end, info->cursor < end, e->mark_width);
}

// libedit's el_rfunc_t. Bytes that are no UTF-8 are skipped. After Ctrl-C the last key is Ctrl-E,
// or what comes next would be written over the rest of a line of several rows.
static int read_key(EditLine *libedit, wchar_t *key) {
    LineEditor *e = NULL;
    el_wget(libedit, EL_CLIENTDATA, &e);
    char bytes[4];
    *key = LINE_REDRAW;
    if (wants_redraw(e)) return 1;
    for (size_t length = 0;;) {
        uint32_t character = 0;
        int got = read_byte(e, bytes + length);
        if (got < 0 && e->interrupted && !e->at_end) {
            e->at_end = true;
            *key = L'\005';
            return 1;
        }
        if (got <= 0) return got;
        length++;
        if (utf8_decode(bytes, length, &character)) {
            *key = (wchar_t)character;
            e->any_key = true;
            line_note_key(&e->keys, *key);
            return 1;
        }
        bool begun =
            (bytes[0] & 0xc0) == 0xc0 && (length == 1 || (bytes[length - 1] & 0xc0) == 0x80);
        if (!begun || length == sizeof bytes) length = 0;
    }
}

static wchar_t *mark_of(EditLine *libedit) {
    LineEditor *e = NULL;
    el_wget(libedit, EL_CLIENTDATA, &e);
    return e->mark;
}

// ---- paste ----

typedef struct WideText {
    wchar_t *text; // owned
    size_t length, capacity;
} WideText;

static bool push(WideText *wide, wchar_t c) {
    if (wide->length + 1 >= wide->capacity) {
        size_t capacity = 2 * wide->capacity + 256;
        wchar_t *grown = realloc(wide->text, capacity * sizeof *grown);
        if (!grown) return false;
        wide->text = grown;
        wide->capacity = capacity;
    }
    wide->text[wide->length++] = c;
    wide->text[wide->length] = L'\0';
    return true;
}

// Terminals send \r for a newline. Characters that a terminal acts on are left out, as are newlines
// at the end.
static void clean_paste(WideText *wide) {
    size_t used = 0;
    for (size_t i = 0; i < wide->length; i++) {
        wchar_t c = wide->text[i];
        if (c == L'\r') c = L'\n';
        if (!is_active_character((uint32_t)c)) wide->text[used++] = c;
    }
    while (used && wide->text[used - 1] == L'\n')
        used--;
    wide->length = used;
    if (wide->text) wide->text[used] = L'\0';
}

// Bound to ESC[200~: all up to ESC[201~ goes into the line. What is beyond the limit is read and
// left out, but for one character, by which the line is too long.
static unsigned char insert_paste(EditLine *libedit, wint_t key) {
    static const wchar_t END[] = L"\033[201~";
    enum { END_LENGTH = 6 };
    (void)key;
    LineEditor *e = NULL;
    WideText wide = {0};
    wchar_t c, newest[END_LENGTH] = L"";
    size_t count = 0;
    bool complete = false, good = true;
    el_wget(libedit, EL_CLIENTDATA, &e);
    e->keys.next = KEY_OF_PASTE;
    while (good && !complete && el_wgetc(libedit, &c) == 1) {
        count++;
        wmemmove(newest, newest + 1, END_LENGTH - 1);
        newest[END_LENGTH - 1] = c;
        if (wide.length <= e->most + END_LENGTH) good = push(&wide, c);
        complete = !wmemcmp(newest, END, END_LENGTH);
    }
    e->keys.next = KEY_ALONE;
    if (complete && wide.length > count - END_LENGTH) wide.length = count - END_LENGTH;
    clean_paste(&wide);
    if (wide.length) el_winsertstr(libedit, wide.text);
    free(wide.text);
    return complete ? CC_REFRESH : CC_EOF;
}

// ---- open and close ----

// Of those that terminals send, the ones that libedit's terminal table may lack.
static void bind_keys(EditLine *libedit) {
    static const wchar_t *const KEYS[][2] = {
        {L"\\e[200~", L"paste"},        {L"\\e[H", L"ed-move-to-beg"},
        {L"\\eOH", L"ed-move-to-beg"},  {L"\\e[1~", L"ed-move-to-beg"},
        {L"\\e[F", L"ed-move-to-end"},  {L"\\eOF", L"ed-move-to-end"},
        {L"\\e[4~", L"ed-move-to-end"}, {L"\\e[3~", L"ed-delete-next-char"},
        {L"\\e[1;5C", L"em-next-word"}, {L"\\e[1;5D", L"ed-prev-word"},
        {L"^R", L"em-inc-search-prev"}, {L"^W", L"ed-delete-prev-word"},
        {L"\\e[A", L"ed-prev-history"}, {L"\\e[B", L"ed-next-history"},
        {L"^U", L"vi-kill-line-prev"},  {L"^_", L"ed-redisplay"},
    };
    el_wset(libedit, EL_ADDFN, L"paste", L"inserts pasted text", insert_paste);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        el_wset(libedit, EL_BIND, KEYS[i][0], KEYS[i][1], NULL);
}

// To the history of this session.
static void enter(void *context, const char *text, size_t length) {
    LineEditor *e = context;
    WideText wide = {0};
    HistEventW event;
    bool good = true;
    for (size_t i = 0, n; good && i < length; i += n) {
        uint32_t c = 0;
        n = utf8_decode(text + i, length - i, &c);
        good = push(&wide, n && c ? (wchar_t)c : L'\ufffd');
        if (!n) n = 1;
    }
    if (good && wide.length) history_w(e->history, &event, H_ENTER, wide.text);
    free(wide.text);
}

// What the signals that end or stop the program give back while no line is edited.
static struct termios at_end;
static const int ENDS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
enum { N_ENDS = sizeof ENDS / sizeof *ENDS };

static void on_end(int number) {
    tcsetattr(STDIN_FILENO, TCSANOW, &at_end);
    interrupt_write(PASTE_OFF);
    signal(number, SIG_DFL);
    raise(number);
}

// Ctrl-Z: the shell gets its terminal as it was, and after fg the modes are ours again.
static void on_stop(int number) {
    int saved = errno;
    struct termios now;
    sigset_t one;
    bool known = !tcgetattr(STDIN_FILENO, &now);
    if (known) tcsetattr(STDIN_FILENO, TCSANOW, &at_end);
    interrupt_write(PASTE_OFF);
    sigemptyset(&one);
    sigaddset(&one, number);
    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL); // it stops here
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    signal(number, on_stop);
    if (known) tcsetattr(STDIN_FILENO, TCSANOW, &now);
    // Not where Ctrl-C has given the terminal back.
    if (known && !(now.c_lflag & ICANON)) interrupt_write(PASTE_ON);
    errno = saved;
}

// Not where the program was started with the signal ignored, as under nohup.
static void handle(int number, void (*handler)(int)) {
    if (signal(number, handler) == SIG_IGN) signal(number, SIG_IGN);
}

// From here to line_editor_close keys are not echoed, and wait in the terminal's queue; there is no
// moment between two lines in which the terminal would treat them itself. Signals stay on.
static void make_quiet(LineEditor *e) {
    if (tcgetattr(STDIN_FILENO, &e->before)) return;
    struct termios quiet = at_end = e->before;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    quiet.c_lflag |= NOFLSH; // Ctrl-C does not throw away what was typed
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    e->quiet = !tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
    for (int i = 0; i < N_ENDS; i++)
        handle(ENDS[i], on_end);
    handle(SIGTSTP, on_stop);
    set_paste(true);
}

// libedit goes on where it gets no memory, and crashes. So what it takes while it is opened, 90 KB,
// is there beforehand, or it is not opened.
static bool has_room(void) {
    enum { ROOM = 120000 };
    Buffer room = {0};
    buffer_zeros(&room, ROOM);
    bool has = !room.failed;
    buffer_free(&room);
    return has;
}

bool line_editor_open(LineEditor **editor, bool color, const char *history, Error *error) {
    const char *term = getenv("TERM");
    *editor = NULL;
    if (!term || !*term || !strcmp(term, "dumb")) return true;
    LineEditor *e = has_room() ? calloc(1, sizeof *e) : NULL;
    if (!e) return error_set(error, ERROR_MEMORY, "no memory for the line editor");
    *editor = e;
    e->color = color;
    e->path = e->path_owned = history ? strdup(history) : NULL;
    make_quiet(e);
    // Character types alone; numbers stay as they are in C. limpid reads and writes UTF-8 whatever
    // the user's locale.
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "");
    e->libedit = el_init("limpid", stdin, stdout, stderr);
    e->history = history_winit();
    if (!e->libedit || !e->history)
        return error_set(error, ERROR_MEMORY, "no memory for the line editor");
    HistEventW event;
    history_w(e->history, &event, H_SETSIZE, MOST_REMEMBERED);
    history_w(e->history, &event, H_SETUNIQUE, 1);
    el_wset(e->libedit, EL_CLIENTDATA, e);
    el_wset(e->libedit, EL_EDITOR, L"emacs");
    el_wset(e->libedit, EL_SIGNAL, 0);
    el_wset(e->libedit, EL_GETCFN, read_key);
    el_wset(e->libedit, EL_HIST, history_w, e->history);
    el_wset(e->libedit, EL_PROMPT_ESC, mark_of, L'\1');
    // What libedit goes back to after a line; it would be modes of its own.
    el_wset(e->libedit, EL_SETTY, L"-x", L"-icanon", L"-echo", L"+noflsh", NULL);
    // In its own modes Ctrl-C would drop what is written, the end of bracketed paste too.
    el_wset(e->libedit, EL_SETTY, L"-d", L"+noflsh", NULL);
    bind_keys(e->libedit);
    if (e->path) history_load(e->path, enter, e);
    return true;
}

void line_editor_close(LineEditor *e) {
    if (!e) return;
    if (e->libedit) el_end(e->libedit);
    if (e->history) history_wend(e->history);
    interrupt_terminal(NULL, NULL);
    set_paste(false);
    if (e->quiet) tcsetattr(STDIN_FILENO, TCSADRAIN, &e->before);
    for (int i = 0; i < N_ENDS; i++)
        handle(ENDS[i], SIG_DFL);
    handle(SIGTSTP, SIG_DFL);
    free(e->path_owned);
    free(e);
}

void line_editor_remember(LineEditor *e, const char *text, size_t length) {
    enter(e, text, length);
    if (e->path) history_append(e->path, text, length);
}

void line_editor_hush(LineEditor *e) {
    if (e) interrupt_terminal(&e->before, PASTE_OFF);
}

// ---- a line ----

// libedit hides an escape sequence between two \1 only where a character comes after it.
static void set_mark(LineEditor *e, const char *mark) {
    e->mark_width = strlen(mark);
    if (e->color)
        swprintf(e->mark, sizeof e->mark / sizeof *e->mark, L"\1\033[1m\1%.*s\1\033[0m\1 ",
                 (int)strlen(mark) - 1, mark);
    else
        swprintf(e->mark, sizeof e->mark / sizeof *e->mark, L"%s", mark);
}

// The signals of a line are handled here, and as before afterwards.
static const wchar_t *edit(LineEditor *e, int *length) {
    struct sigaction before[N_SIGNALS], action = {.sa_handler = on_signal};
    sigset_t blocked;
    editing = pthread_self();
    sigemptyset(&blocked);
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) {
        arrived[i] = 0;
        sigaddset(&blocked, SIGNALS[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &e->outside);
    if (interrupt_ends()) { // a moment before: no line is read any more
        sigprocmask(SIG_SETMASK, &e->outside, NULL);
        return NULL;
    }
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(SIGNALS[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(SIGNALS[i], &action, NULL);
    }
    e->interrupted = e->at_end = e->any_key = false;
    e->keys = (LineKeys){0};
    struct winsize window;
    e->columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) ? 0 : window.ws_col;
    el_resize(e->libedit);
    // Before the mark, which el_wgets would write first: keys may be typed as soon as it is seen.
    el_wset(e->libedit, EL_PREP_TERM, 1);
    set_paste(true);
    const wchar_t *wide = el_wgets(e->libedit, length);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(SIGNALS[i], &before[i], NULL);
    sigprocmask(SIG_SETMASK, &e->outside, NULL);
    return wide;
}

bool line_editor_read(LineEditor *e, const char *mark, Buffer *line, size_t most, LineEnd *end,
                      Error *error) {
    int length = 0;
    line->size = 0;
    e->most = most;
    set_mark(e, mark);
    interrupt_terminal(NULL, NULL);
    const wchar_t *wide = edit(e, &length);
    if (e->interrupted) {
        const LineInfoW *info = el_wline(e->libedit);
        *end = LINE_CLEARED;
        if (info->lastchar > info->buffer || e->any_key) buffer_zeros(line, 1);
        output_bytes("\n", 1);
        output_flush();
        return true;
    }
    *end = wide ? LINE_READ : LINE_ENDED;
    if (length > 0 && wide[length - 1] == L'\n') length--;
    for (int i = 0; wide && i < length; i++) {
        char bytes[4];
        buffer_put(line, bytes, utf8_encode(bytes, (uint32_t)wide[i]));
    }
    if (line->failed) return error_set(error, ERROR_MEMORY, "no memory for the message");
    return line->size <= most ||
           error_set(error, ERROR_USAGE, "the message has over %zu bytes, the limit", most);
}
