/* Entries of a config.json. `path` is for messages, which begin with it. All are pure. */
#ifndef TRINE_CKPT_HF_ENTRIES_H
#define TRINE_CKPT_HF_ENTRIES_H

#include "base/json.h"
#include "trine_types.h"

/* The last member of that name, like Python; NULL if none. The second: null counts as absent. */
const cJSON *hf_member_of(const cJSON *config, const char *key);
const cJSON *hf_entry_of(const cJSON *config, const char *key);

/* An integer of at least 1. Errors: TRINE_EDATA. */
trine_status hf_read_size(const cJSON *entry, const char *key, int *size, const char *path);
/* One that must be there, under `key` or `alias` (NULL: none). Errors: TRINE_EDATA. */
trine_status hf_demand_size(const cJSON *config, const char *key, const char *alias, int *size, const char *path);
/* A positive number, not null; *value = normal if it is absent. Errors: TRINE_EINVAL. */
trine_status hf_read_number(const cJSON *config, const char *key, double normal, double *value, const char *path);
/* true or false; *value = normal if it is absent. Errors: TRINE_EINVAL. */
trine_status hf_read_switch(const cJSON *config, const char *key, bool normal, bool *value, const char *path);

/* Refuse what is not supported. Errors: TRINE_EINVAL. The texts that are allowed end with NULL. */
trine_status hf_expect_text(const cJSON *entry, const char *key, const char *const *allowed, const char *path);
typedef struct {
    const char *key;
    bool normal; /* the only value that is supported, and transformers' default */
} hf_switch;
trine_status hf_expect_switches(const cJSON *config, const hf_switch *switches, size_t count, const char *path);
trine_status hf_expect_architectures(const cJSON *config, const char *const *models, const char *path);
/* Entries that mean other weights or other code, whatever their value, unless they are empty. */
trine_status hf_expect_absent(const cJSON *config, const char *path);

#endif
