/* A profile as one line of JSON; seconds, calls, flops and bytes are means of a step. */
#include "profile/profile.h"

#include "base/status.h"
#include "base/json.h"
#include "trine.h"

static const char *const part_text[PROFILE_PARTS] = {"waiting", "computing", "communicating",
                                                     "other"};

static bool parts(cJSON *o, const double part[PROFILE_PARTS]) {
    bool ok = true;
    for (int p = 0; p < PROFILE_PARTS; p++) ok = json_add_number(o, part_text[p], part[p]) && ok;
    return ok;
}

static bool add_instrs(cJSON *root, const profile_summary *s) {
    cJSON *array = cJSON_AddArrayToObject(root, "instructions");
    bool ok = array;
    for (int i = 0; ok && i < s->instr_count; i++) {
        const profile_instr_row *row = &s->instrs[i];
        cJSON *o = json_add_object(array);
        ok = json_add_text(o, "kind", row->kind) && json_add_number(o, "calls", row->calls) &&
             json_add_number(o, "seconds", row->seconds) && parts(o, row->part);
    }
    return ok && json_add_number(root, "interpreter_seconds", s->instr_rest);
}

static bool add_rows(cJSON *root, const profile_summary *s) {
    cJSON *operators = cJSON_AddArrayToObject(root, "operators");
    cJSON *messages = cJSON_AddArrayToObject(root, "messages");
    bool ok = operators && messages;
    for (int i = 0; ok && i < s->row_count; i++) {
        const profile_row *row = &s->rows[i];
        cJSON *o = json_add_object(*row->group ? messages : operators);
        ok = (!*row->group || json_add_text(o, "group", row->group)) &&
             json_add_text(o, "name", row->name) && json_add_number(o, "calls", row->calls) &&
             json_add_number(o, "seconds", row->seconds) &&
             json_add_number(o, row->unit, row->work) &&
             (row->limit <= 0 || json_add_number(o, "limit", row->limit));
    }
    return ok && json_add_number(root, "rest_seconds", s->row_rest) &&
           json_add_number(root, "bound_seconds", s->bound);
}

static bool add_ranks(cJSON *root, const profile_report *r) {
    cJSON *array = cJSON_AddArrayToObject(root, "ranks");
    bool ok = array;
    for (int i = 0; ok && i < r->rank_count; i++) {
        const profile_rank *rank = &r->ranks[i];
        trine_coord at = trine_layout_coord(r->config->parallel.layout, i);
        cJSON *o = json_add_object(array);
        ok = json_add_number(o, "rank", i);
        for (int n = TRINE_AXES; ok && n-- > 0;)
            ok = json_add_number(o, axis_name(axis_inner(n)), at.at[axis_inner(n)]);
        ok = ok && json_add_number(o, "seconds", rank->seconds) && parts(o, rank->part) &&
             json_add_number(o, "matmul_limit", rank->matmul) &&
             json_add_number(o, "triad_limit", rank->triad);
    }
    return ok;
}

static bool fill(cJSON *root, const profile_report *r) {
    const profile_summary *s = r->summary;
    return json_add_number(root, "first_step", (double)s->first) &&
           json_add_number(root, "last_step", (double)s->last) &&
           json_add_number(root, "seconds", s->seconds) &&
           json_add_number(root, "tokens", r->tokens) && json_add_number(root, "flops", r->flops) &&
           json_add_number(root, "tokens_per_second", r->tokens / r->step_seconds) &&
           json_add_number(root, "utilisation", profile_utilisation(r)) && add_instrs(root, s) &&
           add_rows(root, s) && add_ranks(root, r);
}

trine_status profile_print_json(const profile_report *r, report_file *out) {
    cJSON *root = cJSON_CreateObject();
    char *line = root && fill(root, r) ? json_print(root, false) : NULL;
    cJSON_Delete(root);
    CHECK(line, TRINE_ENOMEM, "no memory for the profile's line");
    trine_status status = report_file_line(out, line);
    cJSON_free(line);
    return status;
}
