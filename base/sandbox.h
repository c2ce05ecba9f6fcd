// Sandbox: what a process can no longer do once it reads files that nobody vouches for. A mistake
// in a reader that lets a file run code then finds no way out: no program is started, no network
// reached, nothing written but the outputs that the user named.
//
//     sandbox_enter(&(SandboxOutputs){.paths = {"build/out.gguf"}, .count = 1});
//     ... open, parse; threads may be started ...
//     sandbox_close_files();          // from here on no file is opened either
//
// Landlock guards paths and the network, a seccomp filter the system calls. Refused calls fail with
// EPERM or EACCES; the process goes on. Both last as long as the process. Where the kernel has one
// of the two, that one is used; where it has none, nothing happens: sandbox_describe says so.
//
// Nothing is guarded in builds with a sanitizer and under valgrind, which make calls of their own.
// With a GPU's driver, which has files, devices and code made at run time, Landlock alone forbids
// programs and the network.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SANDBOX_MAX_OUTPUTS = 12 };

// Files or directories that will be written: new ones are made beside them, and renamed. Where one
// lies in a directory that is still to be made, the nearest that is there counts.
typedef struct SandboxOutputs {
    const char *paths[SANDBOX_MAX_OUTPUTS]; // borrowed
    size_t count;
    bool directories; // the directories around them are replaced as well
} SandboxOutputs;

// Before the first thread is started: Landlock holds for this thread and those it starts. False:
// nothing of it could be had.
bool sandbox_enter(const SandboxOutputs *outputs);

// All threads: no more files are opened. Nothing where sandbox_enter found no seccomp, or was given
// outputs, since these are opened when they are complete.
void sandbox_close_files(void);

// What the kernel offers and this build uses: "landlock ABI 7, seccomp", or "none: " and why. It
// enters nothing. Returns out.
const char *sandbox_describe(char *out, size_t size);
