/* TEST np=0 */
/* The text of a lease. It is parsed with a terminating zero; bytes after an earlier zero are ignored. */
#include "fuzz/fuzz.h"

#include "ckpt/lease_record.h"

/* The lease's text in messages. */
static void check_who(const lease_record *r) {
    const lease_record own = {.pid = 1};
    char who[LEASE_WHO];
    for (const char *c = lease_record_who(r, &own, who); *c; c++)
        fuzz_demand((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void check(const lease_record *r, const char *text) {
    char printed[LEASE_TEXT];
    fuzz_demand(lease_record_print(r, printed) < LEASE_TEXT);
    fuzz_demand(strcmp(printed, text) == 0);
    fuzz_demand(r->interval_ms > 0 && r->beats > 0 && r->pid > 0);
    check_who(r);
}

static trine_status read_lease(const uint8_t *data, size_t size) {
    lease_record r;
    char *text = malloc(size + 1);
    fuzz_demand(text);
    memcpy(text, data, size);
    text[size] = '\0';
    bool sound = lease_record_parse(&r, text);
    fuzz_pause();
    if (sound) check(&r, text);
    fuzz_go_on();
    free(text);
    return sound ? TRINE_OK : RAISE(TRINE_EDATA, FUZZ_PATH " is not a lease");
}

FUZZ(lease, 2)
