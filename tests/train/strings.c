/* TEST np=0 */
/* A trainer copies every string of its configuration: the list is held to the structs of include/trine.h. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "train/trainer.h"

/* Members of the configuration's structs that are strings; tests run in the root of the sources. */
static int strings_in_header(void) {
    char line[200];
    int count = 0;
    FILE *in = fopen("include/trine.h", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) && !strstr(line, "trine_config_default(void)"))
        count += strstr(line, "const char *") == line + 4;
    assert_false(feof(in));
    fclose(in);
    return count;
}

/* All strings, at the beginning of a buffer that is overwritten later. */
static trine_config config_in(char *text) {
    trine_config c = trine_config_default();
    const char **const all[] = {
        &c.data.data_path,         &c.data.val_data_path, &c.data.tokenizer,
        &c.parallel.schedule_file, &c.parallel.pp_split,  &c.parallel.device,
        &c.parallel.cuda_library,  &c.trace.file,         &c.model.trained};
    assert_int_equal(sizeof all / sizeof *all, strings_in_header());
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sprintf(text + 8 * i, "text %zu", i);
        *all[i] = text + 8 * i;
    }
    return c;
}

/* Every word of the configuration that points into the caller's buffer is another one in the trainer's, with the same
 * text there. */
static void every_string_is_copied(void **state) {
    (void)state;
    char text[100], *caller[sizeof(trine_config) / sizeof(char *)],
        *own[sizeof(trine_config) / sizeof(char *)];
    trine_trainer *t = calloc(1, sizeof *t);
    assert_non_null(t);
    trine_config c = t->config = config_in(text);
    OK(trainer_own_strings(t));
    memcpy(caller, &c, sizeof caller);
    memcpy(own, &t->config, sizeof own);
    int copied = 0;
    for (size_t i = 0; i < sizeof caller / sizeof *caller; i++) {
        if (caller[i] < text || caller[i] >= text + sizeof text) continue;
        assert_true(own[i] < text || own[i] >= text + sizeof text);
        assert_string_equal(own[i], caller[i]);
        copied++;
    }
    assert_int_equal(copied, strings_in_header());
    assert_int_equal(copied, TRAINER_STRINGS);
    for (int i = 0; i < TRAINER_STRINGS; i++) free(t->strings[i]);
    free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_string_is_copied)};
    return HARNESS_RUN_ALONE(tests);
}
