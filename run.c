// limpid: runs small language models. This file finds the command, calls it, and prints the error
// line where it failed. It is the only place that ends the program.
//
//   argv -> --help, --version, --limits | command (default: generate) -> Options -> sandbox ->
//   command->run
//        -> standard output is flushed and closed -> the error line -> exit code
//
// How to read on: commands/generate.c is the default command.
#include "base/mapping.h"
#include "commands/commands.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "weights/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// `run COMMAND MODEL ...`; anything else is `run [generate] MODEL ...`. A model file with the name
// of a command is given as ./bench. NULL: the first word is neither a command nor a file.
static const Command *take_command(int *argc, char ***argv, Error *error) {
    const char *word = *argc > 1 ? (*argv)[1] : "-";
    const Command *command = command_find(word);
    if (command) {
        --*argc;
        ++*argv;
        return command;
    }
    // Where there are ranks, one that has not the file tells rank 0 so.
    if (*word == '-' || builtin_is_meant(word) || ranks_started() || !access(word, F_OK) ||
        errno != ENOENT)
        return command_find("generate");
    const char *nearest = command_nearest(word);
    if (nearest)
        error_set(error, ERROR_USAGE,
                  "\"%.200s\" is neither a command nor a file: did you mean %s?", word, nearest);
    else if (strchr(word, ' ') && !strchr(word, '/'))
        error_set(error, ERROR_USAGE,
                  "\"%.200s\" is neither a command nor a file: a prompt is given by -i", word);
    else
        error_set(error, ERROR_IO, "\"%.200s\" is neither a command nor a file (see `run --help`)",
                  word);
    return NULL;
}

// --help, --version, --limits and --options as the first word.
static bool answer_about_program(const char *word) {
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        help_program();
    else if (!strcmp(word, "--version"))
        help_version();
    else if (!strcmp(word, "--limits"))
        help_limits();
    else if (!strcmp(word, "--options"))
        help_options();
    else
        return false;
    return true;
}

// `run help [COMMAND]`
static bool answer_help(int argc, char **argv, Error *error) {
    if (argc < 3) {
        help_program();
        return true;
    }
    const Command *command = command_find(argv[2]);
    const char *nearest = command ? NULL : command_nearest(argv[2]);
    if (!command)
        return error_set(error, ERROR_USAGE, "help: there is no command \"%.200s\"%s%s%s", argv[2],
                         nearest ? ": did you mean " : " (see `run --help`)",
                         nearest ? nearest : "", nearest ? "?" : "");
    help_command(command);
    return true;
}

// False: `error` is filled; nothing is printed here.
static bool run(int argc, char **argv, Error *error) {
    if (argc > 1 && answer_about_program(argv[1])) return true;
    if (argc > 1 && !strcmp(argv[1], "help")) return answer_help(argc, argv, error);
    const Command *command = take_command(&argc, &argv, error);
    Options options;
    if (!command) return false;
    ranks_expect(command);
    if (!options_parse(&options, command->bit, argc, argv, error)) return false;
    if (options.help) {
        help_command(command);
        return true;
    }
    return ranks_run(command, &options, error);
}

int main(int argc, char **argv) {
    Error error = {0};
    if (argc > 0) set_program_name(argv[0]);
    mapping_guard();
    // The output is closed before the message is printed: a full disk may be noticed only then, and
    // the first failure is the one that is told. The answer no is none, and is lost with the
    // output.
    if (output_guard(&error)) run(argc, argv, &error);
    Error lost = {0};
    if (!output_close(&lost) && (!error.code || error.code == ERROR_ANSWER_NO)) error = lost;
    bool interrupted = error.code == ERROR_INTERRUPTED;
    bool tells = ranks_tell(&error);
    if (error.code && !interrupted && tells) error_tell(error.message);
    ranks_end(&error);
    if (interrupted) interrupt_raise();
    return tells ? (int)error.code : 0;
}
