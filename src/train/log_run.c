#include "train/log_run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/api/axes.h"
#include "comm/api/comm.h"
#include "config/given.h"

static bool add_string(cJSON *array, const char *text) {
    cJSON *item = array ? cJSON_CreateString(text) : NULL;
    return item && cJSON_AddItemToArray(array, item);
}

static bool add_command(cJSON *object, int argc, char *const argv[]) {
    cJSON *array = cJSON_AddArrayToObject(object, "command");
    bool ok = array;
    for (int n = 0; ok && n < argc; n++) ok = add_string(array, argv[n]);
    return ok;
}

/* The hosts, each once, in the order of their first ranks. */
static bool add_hosts(cJSON *object, const trine_trainer *t) {
    const char *const *hosts = comm_host_names(t->world);
    cJSON *array = cJSON_AddArrayToObject(object, "hosts");
    bool ok = array;
    for (int r = 0; ok && hosts && r < trine_world_size(t->world); r++) {
        bool said = false;
        for (const cJSON *h = array->child; h && !said; h = h->next)
            said = !strcmp(h->valuestring, hosts[r]);
        if (!said) ok = add_string(array, hosts[r]);
    }
    return ok;
}

typedef struct {
    cJSON *array;
    bool ok;
} words;

/* "--name=value", or "--name" of a flag. */
static void add_option(void *to, const option *row, const char *value) {
    words *w = to;
    size_t size = strlen(row->name) + strlen(value) + 4;
    char *text = malloc(size);
    bool flag = row->kind == OPTION_KIND_FLAG;
    if (text) snprintf(text, size, "--%s%s%s", row->name, flag ? "" : "=", flag ? "" : value);
    w->ok = w->ok && text && add_string(w->array, text);
    free(text);
}

bool log_run_options(cJSON *object, const trine_config *config) {
    const trine_config initial = trine_config_default();
    const options o = config_options(config, NULL, NULL), d = config_options(&initial, NULL, NULL);
    words w = {.array = cJSON_AddArrayToObject(object, "options"), .ok = true};
    given_options(&o, &d, add_option, &w);
    return w.ok;
}

cJSON *log_run_object(const trine_trainer *t, int argc, char *const argv[]) {
    char layout[AXES_TEXT];
    cJSON *o = cJSON_CreateObject();
    bool ok =
        o && json_add_number(o, "after", (double)t->steps) &&
        json_add_text(o, "version", TRINE_VERSION) &&
        json_add_number(o, "time", (double)time(NULL)) &&
        json_add_number(o, "ranks", trine_world_size(t->world)) &&
        json_add_number(o, "nodes", mesh_node_count(t->mesh)) && add_hosts(o, t) &&
        json_add_text(o, "layout",
                      axes_text_outermost(t->config.parallel.layout, layout, sizeof layout)) &&
        add_command(o, argc, argv) && log_run_options(o, &t->config);
    if (ok) return o;
    cJSON_Delete(o);
    return NULL;
}
