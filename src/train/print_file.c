#include "train/print_file.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/input.h"
#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "config/config.h"

#define FORMAT     "trine-fingerprint 1"
#define MOST_BYTES ((uint64_t)1 << 30)

char *print_options(const trine_config *config) {
    const options o = config_options(config, NULL, NULL);
    size_t room = 64 * o.count, used = 0;
    char *all = calloc(1, room + OPTION_TEXT);
    for (size_t n = 0; n < o.count && all; n++) {
        const option *row = &o.rows[n];
        char text[OPTION_TEXT];
        if ((row->role != OPTION_MODEL && row->role != OPTION_NUMBERS) || !options_member(&o, row))
            continue;
        if (!strcmp(row->name, "train-iters")) continue;
        int more = c_snprintf(all + used, room - used, "%s%s %s", used ? ", " : "", row->name,
                              options_text(&o, row, text));
        used += (size_t)more < room - used ? (size_t)more : 0;
    }
    return all;
}

/* ---- Writing ---- */

static void write_item(FILE *out, int step, const print_item *p) {
    char number[JSON_NUMBER];
    fprintf(out,
            "{\"step\":%d,\"item\":\"%s\",\"count\":%" PRIu64 ",\"hash\":\"%016" PRIx64
            "\",\"norm\":%s",
            step, p->name, p->count, p->hash,
            isfinite(p->squares) ? json_number(number, sqrt(p->squares)) : "null");
    fputs(",\"samples\":[", out);
    for (int n = 0; n < FINGERPRINT_SAMPLES && (uint64_t)n < p->count; n++)
        fprintf(out, "%s%s", n ? "," : "",
                isfinite(p->samples[n]) ? json_number(number, (double)p->samples[n]) : "null");
    fputs("]}\n", out);
}

trine_status print_file_write(const char *path, const trine_config *config, const char *machine,
                              const print_item *items, int steps, size_t count) {
    whole_file *file = NULL;
    char *run = print_options(config);
    trine_status status = run ? whole_file_begin(&file, "--fingerprint", path)
                              : RAISE(TRINE_ENOMEM, "no memory for the options");
    if (status == TRINE_OK) {
        FILE *out = whole_file_stream(file);
        fprintf(out,
                "{\"format\":\"" FORMAT "\",\"steps\":%d,\"options\":\"%s\",\"machine\":\"%s\"}\n",
                steps, run, machine);
        for (int s = 0; s < steps; s++)
            for (size_t n = 0; n < count; n++)
                if (items[n].kind != PRINT_SHARE)
                    write_item(out, s + 1, &items[(size_t)s * count + n]);
        status = whole_file_publish(&file, NULL);
    }
    whole_file_abandon(&file);
    free(run);
    return status;
}

/* ---- Reading ---- */

typedef struct {
    const char *path;
    char place[440]; /* "FILE, line 3" */
    int line;
    print_item *items;
    int steps;
    size_t count, next; /* next: where the item of the next line is likely to be */
    uint64_t later;     /* the last step that is not compared; 0: none */
} reader;

static print_item *find_item(reader *r, int step, const char *name) {
    for (size_t n = 0; n < r->count; n++) {
        const size_t at = (r->next + n) % r->count;
        print_item *p = &r->items[(size_t)(step - 1) * r->count + at];
        if (strcmp(p->name, name) != 0) continue;
        r->next = at + 1;
        return p;
    }
    return NULL;
}

static trine_status refuse_item(const reader *r, const char *name) {
    const char *nearest = NULL, **names = calloc(r->count, sizeof *names);
    for (size_t n = 0; n < r->count && names; n++) names[n] = r->items[n].name;
    if (names) nearest = options_nearest(name, names, r->count);
    free(names);
    return RAISE(TRINE_EDATA, "%s: this model has no item \"%s\"%s%s%s", r->place, name,
                 nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static trine_status read_samples(const reader *r, const cJSON *array, print_item *p) {
    const uint64_t all = p->count < FINGERPRINT_SAMPLES ? p->count : FINGERPRINT_SAMPLES;
    CHECK(cJSON_IsArray(array) && (uint64_t)cJSON_GetArraySize(array) == all, TRINE_EDATA,
          "%s: \"samples\" must have %" PRIu64 " numbers", r->place, all);
    int n = 0;
    for (const cJSON *x = array->child; x; x = x->next)
        p->samples[n++] = cJSON_IsNumber(x) ? (float)x->valuedouble : NAN;
    return TRINE_OK;
}

static bool same_values(const print_item *a, const print_item *b) {
    return a->no_hash == b->no_hash && a->hash == b->hash && a->squares == b->squares &&
           !memcmp(a->samples, b->samples, sizeof a->samples);
}

/* lines[]: of each item the line that the file has first, from 1 on; 0: none. A later one is a copy. */
static trine_status read_item(reader *r, const cJSON *line, int *lines) {
    uint64_t step = 0, count = 0;
    const char *name = json_text(json_member(line, "item")),
               *hash = json_text(json_member(line, "hash"));
    const cJSON *norm = json_member(line, "norm");
    CHECK(json_integer(json_member(line, "step"), &step) && name &&
              json_integer(json_member(line, "count"), &count) &&
              (cJSON_IsNumber(norm) || cJSON_IsNull(norm)),
          TRINE_EDATA, "%s: an item has \"step\", \"item\", \"count\", \"norm\" and \"samples\"",
          r->place);
    CHECK(step >= 1, TRINE_EDATA, "%s: step 0: the first step is 1", r->place);
    if (step > (uint64_t)r->steps) {
        r->later = step > r->later ? step : r->later;
        return TRINE_OK;
    }
    print_item *p = find_item(r, (int)step, name);
    if (!p) return refuse_item(r, name);
    CHECK(p->count == count, TRINE_EDATA, "%s: %s has %" PRIu64 " elements there, %" PRIu64 " here",
          r->place, name, count, p->count);
    int *at = &lines[p - r->items];
    print_item read = *p;
    read.squares = cJSON_IsNull(norm) ? NAN : norm->valuedouble * norm->valuedouble;
    read.no_hash = !hash;
    read.hash = hash ? strtoull(hash, NULL, 16) : 0;
    TRY(read_samples(r, json_member(line, "samples"), &read));
    if (!*at)
        *p = read, *at = r->line;
    else if (!p->lines[0] && !same_values(p, &read))
        p->lines[0] = *at, p->lines[1] = r->line;
    return TRINE_OK;
}

/* The next of "name value, name value ..."; returns what follows it, NULL: there is none. */
static const char *next_option(const char *list, const char **text, size_t *bytes) {
    if (!*list) return NULL;
    *text = list;
    *bytes = strcspn(list, ",");
    while (list[*bytes] == ',' && list[*bytes + 1] != ' ') /* of a value */
        *bytes += 1 + strcspn(list + *bytes + 1, ",");
    return list + *bytes + (list[*bytes] ? 2 : 0);
}

/* Appends those of `list` that `other` does not have. */
static void print_others(FILE *out, const char *list, const char *other) {
    const char *text, *comma = "";
    size_t bytes;
    while ((list = next_option(list, &text, &bytes))) {
        const char *rest = other, *theirs;
        size_t length;
        bool same = false;
        while (!same && (rest = next_option(rest, &theirs, &length)))
            same = length == bytes && !memcmp(theirs, text, bytes);
        if (!same) fprintf(out, "%s%.*s", comma, (int)bytes, text), comma = ", ";
    }
}

static trine_status refuse_options(const reader *r, const char *theirs, const char *ours) {
    char there[1000] = "", here[1000] = "";
    FILE *out = fmemopen(there, sizeof there - 1, "w");
    if (out) print_others(out, theirs, ours), fclose(out);
    out = fmemopen(here, sizeof here - 1, "w");
    if (out) print_others(out, ours, theirs), fclose(out);
    return RAISE(TRINE_EDATA, "%s was written by another run:\n  there: %s\n  here:  %s", r->path,
                 there, here);
}

static trine_status read_head(const reader *r, const cJSON *line, const trine_config *config) {
    const char *format = json_text(json_member(line, "format")),
               *theirs = json_text(json_member(line, "options"));
    CHECK(format && !strcmp(format, FORMAT), TRINE_EDATA,
          "%s: not a fingerprint file: no \"format\":\"" FORMAT "\"", r->path);
    if (!theirs) return TRINE_OK;
    char *ours = print_options(config);
    CHECK(ours, TRINE_ENOMEM, "no memory for the options");
    trine_status status = strcmp(ours, theirs) ? refuse_options(r, theirs, ours) : TRINE_OK;
    free(ours);
    return status;
}

static trine_status read_lines(reader *r, char *text, const trine_config *config, int *lines) {
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        const size_t bytes = (size_t)(end - line);
        if (*end) end++;
        r->line++;
        if (!bytes) continue;
        cJSON *root = NULL;
        c_snprintf(r->place, sizeof r->place, "%.400s, line %d", r->path, r->line);
        TRY(json_read(&root, line, bytes, r->place));
        trine_status status = r->line == 1 ? read_head(r, root, config) : read_item(r, root, lines);
        cJSON_Delete(root);
        TRY(status);
    }
    CHECK(r->line > 0, TRINE_EDATA, "%s: empty", r->path);
    return TRINE_OK;
}

/* What a file does not have is not compared; a step of which it has nothing would pass. */
static trine_status check_steps(const reader *r, const int *lines) {
    for (int s = 0; s < r->steps; s++) {
        size_t n = 0;
        while (n < r->count && !lines[(size_t)s * r->count + n]) n++;
        CHECK(n < r->count, TRINE_EDATA, "%s has no item of step %d; --steps is %d", r->path, s + 1,
              r->steps);
    }
    return TRINE_OK;
}

trine_status print_file_read(const char *path, const trine_config *config, print_item *items,
                             int steps, size_t count, int *later) {
    reader r = {.path = path, .items = items, .steps = steps, .count = count};
    const size_t all = (size_t)steps * count;
    char *text = NULL;
    size_t bytes;
    int *lines = calloc(all ? all : 1, sizeof *lines);
    CHECK(lines, TRINE_ENOMEM, "no memory for %zu items", all);
    trine_status status = input_text(&text, &bytes, MOST_BYTES, path);
    if (status == TRINE_OK) {
        text[bytes] = '\0';
        status = read_lines(&r, text, config, lines);
    }
    if (status == TRINE_OK) status = check_steps(&r, lines);
    *later = (int)(r.later < INT_MAX ? r.later : INT_MAX);
    for (size_t n = 0; n < all; n++)
        if (!lines[n]) items[n].count = 0;
    free(text);
    free(lines);
    return status;
}
