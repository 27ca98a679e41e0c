/* A profile as one line of JSON; seconds, calls, flops and bytes are means of a step. */
#include "train/profile.h"

#include "base/status.h"
#include "ckpt/json.h"

static const char *const part_text[PROFILE_PARTS] = {"waiting", "computing", "communicating",
                                                     "other"};

static bool number(cJSON *o, const char *name, double value) {
    return cJSON_AddNumberToObject(o, name, value) != NULL;
}

static bool text(cJSON *o, const char *name, const char *value) {
    return cJSON_AddStringToObject(o, name, value) != NULL;
}

/* A new object at the end of an array; NULL without memory, which all adding functions take. */
static cJSON *next(cJSON *array) {
    cJSON *o = cJSON_CreateObject();
    if (o && cJSON_AddItemToArray(array, o)) return o;
    cJSON_Delete(o);
    return NULL;
}

static bool parts(cJSON *o, const double part[PROFILE_PARTS]) {
    bool ok = true;
    for (int p = 0; p < PROFILE_PARTS; p++) ok = number(o, part_text[p], part[p]) && ok;
    return ok;
}

static bool add_instrs(cJSON *root, const profile_summary *s) {
    cJSON *array = cJSON_AddArrayToObject(root, "instructions");
    bool ok = array;
    for (int i = 0; ok && i < s->instr_count; i++) {
        const profile_instr_row *row = &s->instrs[i];
        cJSON *o = next(array);
        ok = text(o, "kind", row->kind) && number(o, "calls", row->calls) &&
             number(o, "seconds", row->seconds) && parts(o, row->part);
    }
    return ok && number(root, "interpreter_seconds", s->instr_rest);
}

static bool add_rows(cJSON *root, const profile_summary *s) {
    cJSON *operators = cJSON_AddArrayToObject(root, "operators");
    cJSON *messages = cJSON_AddArrayToObject(root, "messages");
    bool ok = operators && messages;
    for (int i = 0; ok && i < s->row_count; i++) {
        const profile_row *row = &s->rows[i];
        cJSON *o = next(*row->group ? messages : operators);
        ok = (!*row->group || text(o, "group", row->group)) && text(o, "name", row->name) &&
             number(o, "calls", row->calls) && number(o, "seconds", row->seconds) &&
             number(o, row->unit, row->work) && (row->limit <= 0 || number(o, "limit", row->limit));
    }
    return ok && number(root, "rest_seconds", s->row_rest) &&
           number(root, "bound_seconds", s->bound);
}

static bool add_ranks(cJSON *root, const profile_report *r) {
    cJSON *array = cJSON_AddArrayToObject(root, "ranks");
    bool ok = array;
    for (int i = 0; ok && i < r->rank_count; i++) {
        const profile_rank *rank = &r->ranks[i];
        trine_coord at = trine_layout_coord(r->config->parallel.layout, i);
        cJSON *o = next(array);
        ok = number(o, "rank", i) && number(o, "pp", at.pp) && number(o, "dp", at.dp) &&
             number(o, "tp", at.tp) && number(o, "seconds", rank->seconds) &&
             parts(o, rank->part) && number(o, "matmul_limit", rank->matmul) &&
             number(o, "triad_limit", rank->triad);
    }
    return ok;
}

static bool fill(cJSON *root, const profile_report *r) {
    const profile_summary *s = r->summary;
    return number(root, "first_step", (double)s->first) &&
           number(root, "last_step", (double)s->last) && number(root, "seconds", s->seconds) &&
           number(root, "tokens", r->tokens) && number(root, "flops", r->flops) &&
           number(root, "tokens_per_second", r->tokens / r->step_seconds) &&
           number(root, "utilisation", profile_utilisation(r)) && add_instrs(root, s) &&
           add_rows(root, s) && add_ranks(root, r);
}

trine_status profile_print_json(const profile_report *r, output *out) {
    cJSON *root = cJSON_CreateObject();
    char *line = root && fill(root, r) ? json_print(root, false) : NULL;
    cJSON_Delete(root);
    CHECK(line, TRINE_ENOMEM, "no memory for the profile's line");
    trine_status status = out->begun ? TRINE_OK : output_begin(out, 0);
    if (status == TRINE_OK) status = output_line(out, line);
    cJSON_free(line);
    return status;
}
