/* TEST np=0 */
/* Manifests. An input is parsed unchanged, and again with a correct hash, which fuzzing would not
 * find. */
#include "fuzz/fuzz.h"

#include <inttypes.h>
#include <xxhash.h>

#include "ckpt/manifest.h"

static void check_manifest(const manifest *m) {
    fuzz_demand(m->config && m->files && memchr(m->library, '\0', sizeof m->library));
    fuzz_demand(m->state.step >= 0 && m->state.updates >= 0 && m->state.finite_step >= 0);
    fuzz_demand(m->state.updates <= m->state.step && m->state.finite_step <= m->state.step);
    fuzz_demand(m->state.good >= 0 && m->state.left >= 0);
    for (int i = 0; i < m->count; i++) {
        const char *name = m->files[i].name;
        fuzz_demand(memchr(name, '\0', sizeof m->files[i].name) && *name && !strchr(name, '/'));
        uint64_t all = 0;
        for (size_t b = 0; b < manifest_blocks(m->files[i].bytes); b++)
            all |= m->files[i].blocks[b];
        (void)*(volatile uint64_t *)&all; /* every hash can be read */
    }
}

/* A parsed manifest can be printed, and parses to the same. */
static void check_again(const manifest *m) {
    char *text, *again;
    size_t bytes, bytes_again;
    manifest read;
    fuzz_demand(manifest_print(m, &text, &bytes) == TRINE_OK);
    fuzz_demand(manifest_parse(&read, text, bytes, FUZZ_PATH) == TRINE_OK);
    fuzz_demand(memcmp(&read.state, &m->state, sizeof m->state) == 0);
    fuzz_demand(memcmp(&read.data, &m->data, sizeof m->data) == 0);
    fuzz_demand(strcmp(read.config, m->config) == 0);
    fuzz_demand(manifest_print(&read, &again, &bytes_again) == TRINE_OK);
    fuzz_demand(bytes == bytes_again && memcmp(text, again, bytes) == 0);
    manifest_free(&read);
    free(text);
    free(again);
}

static trine_status parse(const char *text, size_t bytes) {
    manifest m;
    trine_status status = manifest_parse(&m, text, bytes, FUZZ_PATH);
    fuzz_demand(status == TRINE_OK || (!m.files && !m.config && !m.count));
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_manifest(&m);
    check_again(&m);
    fuzz_go_on();
    manifest_free(&m);
    return TRINE_OK;
}

static trine_status read_manifest(const uint8_t *data, size_t size) {
    parse((const char *)data, size);
    char *text = malloc(size + 64);
    fuzz_demand(text);
    memcpy(text, data, size);
    int seal = sprintf(text + size, "\"xxh3\": \"%016" PRIx64 "\"}\n", XXH3_64bits(data, size));
    trine_status status = parse(text, size + (size_t)seal);
    free(text);
    return status;
}

FUZZ(manifest, 40)
