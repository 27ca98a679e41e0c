/* Times encoding for bench/tokenizer.py, which measures other programs alternately: PATH DOCUMENTS. The file has records, each a
 * number of bytes (uint32) and a text. For each line "WHAT THREADS" on standard input it does that with all texts, and
 * prints seconds, tokens and a checksum:
 *
 *     encode    texts to ids; each thread has an encoder, which keeps its cache of words from line to line
 *     fresh     the same with new encoders
 *     cut       pre-tokenizers alone: texts to words, without normalizers, added tokens and merges
 *     read      reading the bytes */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/input.h"
#include "base/status.h"
#include "tokenizer/tokenizer_parts.h"

enum { THREADS = 64 };
#define LARGEST ((uint64_t)1 << 32)

typedef struct {
    const char *text;
    size_t bytes;
} document;

typedef struct {
    tokenizer *t;
    document *documents;
    size_t count;
    encoder *encoders[THREADS];
    token_list lists[THREADS];
} job;

typedef struct {
    size_t tokens, sum;
} total;

static void must(trine_status status) {
    if (status == TRINE_OK) return;
    trine_error_print();
    exit(1);
}

static void load(job *j, const char *path) {
    char *data;
    size_t bytes;
    must(input_text(&data, &bytes, LARGEST, path));
    j->documents = malloc((bytes / 4 + 1) * sizeof *j->documents);
    if (!j->documents) exit(1);
    for (size_t at = 0; at + 4 <= bytes;) {
        uint32_t length;
        memcpy(&length, data + at, 4);
        j->documents[j->count++] = (document){data + at + 4, length};
        at += 4 + length;
    }
}

static total encode(job *j, const document *d) {
    /* Kept from document to document: memory that is mapped again each time would be what is measured. */
    token_list *list = &j->lists[omp_get_thread_num()];
    total all = {0};
    list->count = 0;
    must(encoder_text(j->encoders[omp_get_thread_num()], d->text, d->bytes, 0, list));
    all.tokens = list->count;
    for (size_t i = 0; i < list->count; i++) all.sum += (size_t)list->ids[i];
    return all;
}

static trine_status count_word(void *context, const char *begin, const char *end) {
    total *all = context;
    all->tokens++;
    all->sum += (size_t)(end - begin);
    return TRINE_OK;
}

static total cut(job *j, const document *d) {
    total all = {0};
    pattern_scratch *scratch;
    must(pattern_scratch_create(&scratch));
    split_job split = {
        .list = &j->t->splits, .scratch = scratch, .visit = count_word, .context = &all};
    must(split_run(&split, d->text, d->text + d->bytes));
    pattern_scratch_destroy(&scratch);
    return all;
}

static total read_bytes(job *j, const document *d) {
    (void)j;
    total all = {0};
    for (size_t i = 0; i < d->bytes; i++) all.sum += (unsigned char)d->text[i];
    return all;
}

static void destroy_encoders(job *j) {
    for (int i = 0; i < THREADS; i++) encoder_destroy(&j->encoders[i]);
}

static void create_encoders(job *j, int threads) {
    for (int i = 0; i < threads; i++)
        if (!j->encoders[i]) must(encoder_create(&j->encoders[i], j->t));
}

static total over_all(job *j, int threads, total (*each)(job *, const document *)) {
    size_t tokens = 0, sum = 0;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : tokens, sum)
    for (size_t i = 0; i < j->count; i++) {
        total one = each(j, &j->documents[i]);
        tokens += one.tokens;
        sum += one.sum;
    }
    return (total){tokens, sum};
}

static void run(job *j, const char *what, int threads) {
    if (strcmp(what, "fresh") == 0) destroy_encoders(j);
    create_encoders(j, threads);
    uint64_t since = clock_ns();
    total all = over_all(j, threads,
                         strcmp(what, "cut") == 0    ? cut
                         : strcmp(what, "read") == 0 ? read_bytes
                                                     : encode);
    printf("%.6f %zu %zu\n", (double)(clock_ns() - since) * 1e-9, all.tokens, all.sum);
    fflush(stdout);
}

int main(int argc, char **argv) {
    job j = {0};
    char what[16];
    int threads;
    if (argc != 3) return fputs("tokenizer PATH DOCUMENTS\n", stderr), 2;
    must(tokenizer_open(&j.t, argv[1]));
    load(&j, argv[2]);
    while (scanf("%15s %d", what, &threads) == 2)
        run(&j, what, threads > 0 && threads <= THREADS ? threads : 1);
    destroy_encoders(&j);
    for (int i = 0; i < THREADS; i++) free(j.lists[i].ids);
    tokenizer_close(&j.t);
    return 0;
}
