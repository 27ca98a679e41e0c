/* Example 4: pipeline schedules. Prints the timeline of every schedule, with its idle fraction beside the
 * formula (p-1)/(m+p-1); needs no mpirun.
 *
 *     build/explain                      4 stages, 8 micro-batches
 *     build/explain --pp 3 --global-batch-size 5
 *
 * Takes the options of train_gpt; train_gpt --explain prints the programs themselves. */
#include "trine.h"

static trine_status explain(trine_config *config) {
    static const char *const names[] = {
#define SCHEDULE_NAME(id, text, words) text ": " words,
        TRINE_SCHEDULE_LIST(SCHEDULE_NAME)
#undef SCHEDULE_NAME
    };
    trine_status status = TRINE_OK;
    for (int s = 0; status == TRINE_OK && s < TRINE_SCHEDULES; s++) {
        config->parallel.schedule = (trine_schedule)s;
        printf("%s%s\n", s ? "\n" : "", names[s]);
        status = trine_draw(config, 0, stdout);
    }
    return status;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run;
    trine_status status = trine_parse(argc, argv, &config, &run);
    if (status == TRINE_OK && run.help) status = trine_usage(argv[0], stdout);
    if (status != TRINE_OK) return trine_error_print(), 1;
    if (run.help) return 0;
    if (config.parallel.layout.pp == 1) config.parallel.layout.pp = 4;
    if (config.global_batch_size == 0) config.global_batch_size = 8;
    if (config.model.vocab_size == 0)
        config.model.vocab_size = 50257; /* GPT-2's; determines the size of the head */
    if (explain(&config) != TRINE_OK) return trine_error_print(), 1;
    return 0;
}
