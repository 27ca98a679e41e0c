#include "comm/api/about.h"

#include <stdlib.h>
#include <string.h>

#include "comm/transport/mpi/try_mpi.h"
#include "base/c_locale.h"

/* Open MPI's frameworks that move bytes between processes. */
static const char *const frameworks[] = {"pml", "mtl", "btl"};
#define FRAMEWORKS (sizeof frameworks / sizeof *frameworks)

#define PARTS 16

/* The components of one framework, sorted: the order in the map differs between processes. */
typedef struct {
    char words[PARTS][24];
    int count;
} part_list;

static void add_word(part_list *list, const char *word, int length) {
    char text[sizeof list->words[0]];
    int at = 0;
    snprintf(text, sizeof text, "%.*s", length, word);
    while (at < list->count && strcmp(list->words[at], text) < 0) at++;
    bool known = at < list->count && strcmp(list->words[at], text) == 0;
    if (known || list->count == PARTS) return;
    memmove(list->words[at + 1], list->words[at], (size_t)(list->count - at) * sizeof text);
    memcpy(list->words[at], text, sizeof text);
    list->count++;
}

/* ".../mca_btl_tcp.so" is component tcp of framework btl. */
static void note_part(part_list lists[FRAMEWORKS], const char *line) {
    const char *at = strstr(line, "/mca_");
    for (size_t f = 0; at && f < FRAMEWORKS; f++) {
        size_t length = strlen(frameworks[f]);
        const char *name = at + strlen("/mca_");
        if (strncmp(name, frameworks[f], length) != 0 || name[length] != '_') continue;
        name += length + 1;
        add_word(&lists[f], name, (int)strcspn(name, ".\n"));
    }
}

static void find_parts(char *text, size_t size) {
    part_list lists[FRAMEWORKS] = {0};
    char *line = NULL;
    size_t capacity = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && getline(&line, &capacity, maps) >= 0) note_part(lists, line);
    if (maps) fclose(maps);
    free(line);
    *text = '\0';
    for (size_t f = 0; f < FRAMEWORKS; f++)
        for (int i = 0; i < lists[f].count; i++)
            c_append(text, size, "%s%s %s", !i && *text ? ", " : "", i ? "" : frameworks[f],
                     lists[f].words[i]);
}

static const char *level_text(int level) {
    if (level == MPI_THREAD_SINGLE) return "single";
    if (level == MPI_THREAD_FUNNELED) return "funneled";
    return level == MPI_THREAD_SERIALIZED ? "serialized" : "multiple";
}

/* Joins the lines; MPICH's text has tabs. */
static void flatten(char *text, size_t size, const char *said) {
    size_t used = 0;
    for (; *said && used + 1 < size; said++) {
        bool white = *said == '\n' || *said == '\t' || *said == ' ';
        if (white && (!used || text[used - 1] == ' ')) continue;
        text[used++] = white ? ' ' : *said;
    }
    while (used && text[used - 1] == ' ') used--;
    text[used] = '\0';
}

trine_status comm_about(comm_about_mpi *about) {
    char said[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, level = 0;
    TRY_MPI(MPI_Get_library_version(said, &length));
    TRY_MPI(MPI_Query_thread(&level));
    flatten(about->library, sizeof about->library, said);
    about->level = level_text(level);
    find_parts(about->parts, sizeof about->parts);
    return TRINE_OK;
}
