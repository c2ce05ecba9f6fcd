// Which lines this process answers: told by --shard, else by what started it. Nothing is linked:
// the launchers leave rank and size in the environment.
//
//   mpirun                    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   mpiexec (MPICH, Intel)    PMI_RANK, PMI_SIZE
//   srun                      SLURM_PROCID, SLURM_NTASKS
//   sbatch --array            SLURM_ARRAY_TASK_ID, ...
//
// An array of jobs that each start several tasks has tasks times jobs shards.
#include "base/text.h"
#include "base/transport/transport.h"
#include "commands/prompts/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBER = 1 << 22 }; // Slurm numbers the tasks of an array up to 4,000,000
static const uint64_t SLURM_SPECIAL_STEP = 0xfffffffa; // of salloc's shell; other such steps follow

// A number 0 .. MOST_NUMBER of the environment. *there: it is set. False: exit code 2.
static bool read_variable(const char *name, int64_t *out, bool *there, Error *error) {
    const char *text = getenv(name);
    *there = text && *text;
    if (!*there) return true;
    if (parse_integer(out, text) && *out >= 0 && *out <= MOST_NUMBER) return true;
    return error_set(error, ERROR_USAGE,
                     "%s is \"%.40s\", wanted 0 .. %d (--shard I/N is asked first)", name, text,
                     (int)MOST_NUMBER);
}

// A pair of variables. *there: both are set.
static bool read_pair(const char *rank, const char *size, int64_t out[2], bool *there,
                      Error *error) {
    bool has_size = false;
    if (!read_variable(rank, &out[0], there, error) ||
        !read_variable(size, &out[1], &has_size, error))
        return false;
    *there = *there && has_size;
    if (!*there || out[0] < out[1]) return true;
    return error_set(error, ERROR_USAGE, "%s is %d, and %s %d", rank, (int)out[0], size,
                     (int)out[1]);
}

// Whether srun says the same: it may set the variables of PMI too.
static bool is_srun(const int64_t pair[2]) {
    int64_t slurm[2];
    Error ignored = {0};
    bool there = false;
    return read_pair("SLURM_PROCID", "SLURM_NTASKS", slurm, &there, &ignored) && there &&
           slurm[0] == pair[0] && slurm[1] == pair[1];
}

// The rank in what started this process; out is {0, 1} where nothing says so.
static bool read_rank(int64_t out[2], const char **source, int *launched, Error *error) {
    enum { OMPI, PMI, SLURM };
    static const char *const PAIRS[][2] = {
        // mpirun inside of a Slurm job comes first: its processes have the variables of both
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"}};
    bool there = false;
    // The script of a batch job, and salloc's shell, is process 0 of tasks that it has not started.
    const char *id = getenv("SLURM_STEP_ID");
    uint64_t step = 0;
    bool special = !id || (parse_unsigned(&step, id) && step >= SLURM_SPECIAL_STEP);
    bool script = getenv("SLURM_JOB_ID") && special;
    // Processes that share the layers of a model are one.
    for (int i = 0; i < 3 - script && transport_count() == 1; i++) {
        if (!read_pair(PAIRS[i][0], PAIRS[i][1], out, &there, error)) return false;
        if (!there || (i == PMI && is_srun(out))) continue;
        *source = PAIRS[i][0];
        *launched = i < SLURM ? (int)out[1] : 0;
        return true;
    }
    out[0] = 0;
    out[1] = 1;
    return true;
}

// The index in an array of jobs, from its least id on. Steps other than 1 are counted too.
static bool read_array(int64_t out[2], const char **source, Error *error) {
    int64_t step = 1, least = 0;
    bool has_id = false, has_count = false, there = false;
    out[0] = 0;
    out[1] = 1;
    int64_t id = 0, count = 1;
    if (!read_variable("SLURM_ARRAY_TASK_ID", &id, &has_id, error) ||
        !read_variable("SLURM_ARRAY_TASK_COUNT", &count, &has_count, error) ||
        !read_variable("SLURM_ARRAY_TASK_MIN", &least, &there, error) ||
        !read_variable("SLURM_ARRAY_TASK_STEP", &step, &there, error))
        return false;
    if (!has_id || !has_count) return true;
    int64_t index = step > 0 ? (id - least) / step : -1;
    if (id < least || index < 0 || index >= count || (id - least) % step)
        return error_set(
            error, ERROR_USAGE,
            "SLURM_ARRAY_TASK_ID is %d, not one of %d from %d in steps of %d (an array "
            "with gaps wants --shard I/N)",
            (int)id, (int)count, (int)least, (int)step);
    *source = "SLURM_ARRAY_TASK_ID";
    out[0] = index;
    out[1] = count;
    return true;
}

static bool read_environment(Shard *shard, Error *error) {
    int64_t rank[2], array[2];
    const char *of_rank = NULL, *of_array = NULL;
    if (!read_rank(rank, &of_rank, &shard->launched, error) || !read_array(array, &of_array, error))
        return false;
    int64_t count = rank[1] * array[1];
    if (count < 1 || count > MOST_SHARDS)
        return error_set(error, ERROR_USAGE, "%lld shards (at most %d)", (long long)count,
                         (int)MOST_SHARDS);
    shard->index = (int)(array[0] * rank[1] + rank[0]);
    shard->count = (int)count;
    snprintf(shard->source, sizeof shard->source, "%s%s%s", of_array ? of_array : "",
             of_array && of_rank ? ", " : "", of_rank ? of_rank : "");
    return true;
}

bool shard_find(Shard *shard, const Options *options, Error *error) {
    const char *text = options->shard;
    *shard = (Shard){.count = 1};
    if (!text) return read_environment(shard, error);
    uint64_t index = 0, count = 0;
    size_t length = decimal_take(text, strlen(text), &index);
    const char *behind = text + length + (text[length] == '/');
    bool good = length && text[length] == '/' && parse_unsigned(&count, behind);
    if (!good || index >= count || count > MOST_SHARDS)
        return error_set(error, ERROR_USAGE,
                         "--shard: got \"%.40s\", wanted I/N with I from 0 to N - 1, N at most %d",
                         text, (int)MOST_SHARDS);
    *shard = (Shard){.index = (int)index, .count = (int)count, .source = "--shard"};
    return true;
}

char *shard_path(const char *path, int index, int count, Error *error) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (count == 1) return text_print(error, "%s", path);
    if (!dot || dot == name) dot = path + strlen(path);
    return text_print(error, "%.*s.%d-of-%d%s", (int)(dot - path), path, index, count, dot);
}
