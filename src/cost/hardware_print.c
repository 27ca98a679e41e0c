/* A hardware file as text. */
#include <string.h>

#include "base/c_locale.h"
#include "base/json.h"
#include "base/status.h"
#include "cost/hardware.h"

static const struct {
    const char *name;
    size_t offset;
} members[] = {
#define MEMBER(name, ...) {#name, offsetof(hardware, name)},
    HARDWARE_LIST(MEMBER) HARDWARE_MORE_LIST(MEMBER)
#undef MEMBER
};
_Static_assert(sizeof members / sizeof *members == HARDWARE_MEMBERS, "a source for each");

/* "text", with its quotation marks. */
static trine_status print_text(const char *text, FILE *out) {
    cJSON *item = cJSON_CreateString(text);
    char *quoted = item ? json_print(item, false) : NULL;
    cJSON_Delete(item);
    CHECK(quoted, TRINE_ENOMEM, "no memory for a hardware file");
    fputs(quoted, out);
    cJSON_free(quoted);
    return TRINE_OK;
}

static trine_status print_source(const hardware_source *s, FILE *out) {
    fprintf(out, "\"how\": \"%s\", \"source\": ", s->how);
    return print_text(s->source, out);
}

static void print_point(const measured_point *p, FILE *out) {
    char number[JSON_NUMBER];
    int sizes = p->size[2] > 1 ? 3 : p->size[1] > 1 ? 2 : 1;
    fprintf(out, "        [\"%s\", \"%s\", %d, [", measured_text(p->what), hardware_type(p->type),
            p->ranks);
    for (int k = 0; k < sizes; k++) c_fprintf(out, "%s%.0f", k ? ", " : "", p->size[k]);
    c_snprintf(number, sizeof number, "%.4g", p->seconds);
    fprintf(out, "], %s]", number);
}

trine_status hardware_print(const hardware *h, const char *about,
                            const hardware_source sources[HARDWARE_MEMBERS],
                            const hardware_source *points, FILE *out) {
    fputs("{\n    \"about\": ", out);
    TRY(print_text(about, out));
    fprintf(out, ",\n    \"device\": \"%s\"", h->device);
    for (size_t n = 0; n < HARDWARE_MEMBERS; n++) {
        double value = *(const double *)((const char *)h + members[n].offset);
        c_fprintf(out, ",\n    \"%s\": {\"value\": %.6g, ", members[n].name, value);
        TRY(print_source(&sources[n], out));
        fputc('}', out);
    }
    fputs(",\n    \"measured\": {", out);
    TRY(print_source(points, out));
    fputs(", \"points\": [\n", out);
    for (int n = 0; n < h->measured.count; n++) {
        if (n) fputs(",\n", out);
        print_point(&h->measured.at[n], out);
    }
    fputs("]}\n}\n", out);
    return TRINE_OK;
}
