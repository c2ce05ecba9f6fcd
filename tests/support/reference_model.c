#include "tests/support/reference_model.h"

#include "tests/test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(char path[700], const char *directory, const char *name) {
    snprintf(path, 700, "%s/%s", directory, name);
}

const char *reference_model_version_4(const char *directory) {
    static int n;
    char name[100], from[700], to[700], *here = getcwd(NULL, 0);
    snprintf(name, sizeof name, "v4-%d", n++);
    const char *copy = test_temporary(name);
    CHECK(!mkdir(copy, 0700));
    DIR *files = opendir(directory);
    for (struct dirent *entry; (entry = readdir(files));) {
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "config.json")) continue;
        bool config = !strcmp(entry->d_name, "config.v4.json");
        snprintf(from, sizeof from, "%s/%s/%s", here, directory, entry->d_name);
        path_of(to, copy, config ? "config.json" : entry->d_name);
        CHECK(!symlink(from, to), "%s", to);
    }
    closedir(files);
    free(here);
    return copy;
}

void reference_model_open(ReferenceModel *m, const char *directory, const char *files,
                          const ReferenceErrors *budget) {
    char path[700];
    Error error = {0};
    path_of(path, directory, "reference.safetensors");
    m->directory = directory;
    CHECK(reference_open(&m->run, path, files ? files : directory, &error), "%s: %s", directory,
          error.message);
    m->run.budget = *budget;
    m->run.max_greedy = EMULATED(3, 0);
}

void reference_model_close(ReferenceModel *m) {
    reference_close(&m->run);
}

void reference_model_check(ReferenceModel *m, const char *prompt) {
    Error error = {0};
    CHECK(reference_measure(&m->run, prompt, &error), "%s: %s", m->directory, error.message);
    CHECK(!m->run.over.code, "%s: %s", m->directory, m->run.over.message);
}

double reference_model_error(const ReferenceModel *m, const Config *config, const char *prompt) {
    double worst = 0;
    Error error = {0};
    CHECK(reference_mistake(&m->run, config, prompt, &worst, &error), "%s", error.message);
    return worst;
}
