// LIMPID_CUDA turns parts of this backend off: a list of names with commas between, read once when
// the device is opened. With everything off a wrong result or a crash should go away; with one part
// on again at a time it shows which one is wrong (scripts/check_gpu does that by itself), and a
// benchmark shows what a part saves.
//
//     LIMPID_CUDA=nograph,sync run model.gguf -i Hello
//
//   nograph     every operation of a pass is launched, no CUDA graph is made or replayed
//   nofuse      every operation is a kernel of its own (fused.cu)
//   nopdl       a kernel starts when the one before it has ended, no programmatic launches
//   noprefetch  no weights are read ahead of the wait for earlier kernels
//   notiles     attention of prompts without the tensor cores (attention_tiles.cu)
//   noblas      products of prompts by our own kernels, cuBLASLt is not opened
//   nofew       the kernels for many rows (project_many.cu) in place of those for few
//   nofeed      the host copies each sampled token before it begins another pass; no kernel writes
//               to the host's memory (feedback.cu)
//   sync        waits behind every launch, and names the kernel that failed; has nograph in it
//   persistent  turns a part on that is not used otherwise: where it can be, a decoded token is one
//               launch of a kernel whose blocks wait for each other (persistent/chain.h)
//
// All but notiles and noblas leave every bit as it is.
#include "kernels/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using Switch = bool Switches::*;

static const struct {
    const char *name;
    Switch field;
} SWITCHES[] = {
    {"nograph", &Switches::nograph}, {"nofuse", &Switches::nofuse},
    {"nopdl", &Switches::nopdl},     {"noprefetch", &Switches::noprefetch},
    {"notiles", &Switches::notiles}, {"noblas", &Switches::noblas},
    {"nofew", &Switches::nofew},     {"nofeed", &Switches::nofeed},
    {"sync", &Switches::sync},       {"persistent", &Switches::persistent},
};

// false: there is no switch of that name.
static bool turn(Switches *switches, const char *name, size_t length) {
    for (const auto &s : SWITCHES) {
        if (strlen(s.name) != length || memcmp(s.name, name, length)) continue;
        switches->*s.field = true;
        return true;
    }
    return false;
}

static bool refuse(Device *device, const char *name, size_t length) {
    char known[160] = "";
    for (const auto &s : SWITCHES) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", s.name);
    }
    device_fail(device, ERROR_USAGE, "LIMPID_CUDA: no switch \"%.*s\"; there are %s",
                length < 40 ? (int)length : 40, name, known);
    return false;
}

bool switches_read(Device *device) {
    const char *at = getenv("LIMPID_CUDA");
    for (; at && *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        if (!turn(&device->switches, at, length)) return refuse(device, at, length);
        at += length;
    }
    // A stream that is being captured cannot be waited for.
    if (device->switches.sync) device->switches.nograph = true;
    return true;
}

void switches_describe(const Switches *switches, char *text, size_t size) {
    const char *before = ", LIMPID_CUDA=";
    for (const auto &s : SWITCHES) {
        if (!(switches->*s.field)) continue;
        size_t at = strlen(text);
        snprintf(text + at, size - at, "%s%s", before, s.name);
        before = ",";
    }
}
