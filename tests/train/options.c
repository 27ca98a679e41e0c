/* TEST np=1 */
/* Each option of the trainer, alone and with two values, in each family of models: the two differ, in the plan, the programs, the
 * bits of a run, what train_gpt prints or which files it leaves; or the option is refused by name, where options_rows.h says so.
 * A walk over the table: an option without a row there fails. */
#include "trine.h"
#include "trine_checkpoint.h"

/* Types that have the names of functions and arguments of the program. */
#define trace   trace_type
#define program program_type
#include "training.h"
#undef trace
#undef program

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/logged.h"
#include "train/log_run.h"
#include "train/options_rows.h"

/* The program itself, in this job. */
static trine_status borrow_world(trine_world **world) {
    *world = harness_world;
    return TRINE_OK;
}
#define trine_world_create(world, argc, argv) borrow_world(world)
#define trine_world_destroy(world)            ((void)(world))
#define main                                  train_main
#include "../../examples/train_gpt.c"
#undef main
#undef trine_world_create
#undef trine_world_destroy

enum { ROWS = sizeof option_rows / sizeof *option_rows };

static char folder[TRAINING_FOLDER];
static int faults, tried, seen, shown, refused,
    elsewhere; /* faults: of all rows, so that each is printed */

#define fault(...) (faults++, print_error("# " __VA_ARGS__), print_error("\n"))

/* ---- Command lines ---- */

static const char base[] =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 101 "
    "--threads 1 --lr-decay-style constant --data-path DATA";
static const char iters[] = "--train-iters 3";

typedef struct {
    char text[1000], kept[1000]; /* kept: as it was before it was split */
    char *argv[80];
    int argc;
    trine_config config;
    trine_run run;
} line;

/* Adds words; DATA is the token file, DIR the folder. */
static void add(line *l, const char *words) {
    size_t used = strlen(l->text);
    while (words && *words) {
        bool data = !strncmp(words, "DATA", 4), dir = !strncmp(words, "DIR", 3);
        const char *text = data ? training_tokens() : dir ? folder : (char[]){*words, '\0'};
        used += (size_t)snprintf(l->text + used, sizeof l->text - used, "%s", text);
        words += data ? 4 : dir ? 3 : 1;
    }
    snprintf(l->text + used, sizeof l->text - used, " ");
}

/* value: NULL: the option is left out. */
static void add_option(line *l, const option_row *r, const char *value) {
    char words[200];
    snprintf(words, sizeof words, "--%s %s", r->option, value ? value : "");
    if (value) add(l, words);
}

static void split(line *l) {
    char *save;
    memcpy(l->kept, l->text, sizeof l->kept);
    l->argv[l->argc++] = (char *)"train_gpt";
    for (char *word = strtok_r(l->text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        l->argv[l->argc++] = word;
    assert_true(l->argc < 80);
}

static bool is_listed(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

/* family: NULL: the option chooses it. */
static void make(line *l, const option_row *r, const char *family, const char *value,
                 bool context) {
    *l = (line){.text = ""};
    add(l, base);
    if (strcmp(r->option, "epochs") != 0) add(l, iters); /* which excludes it */
    if (family) add(l, "--family"), add(l, family);
    if (context) add(l, r->beside), add(l, r->with);
    add_option(l, r, value);
    split(l);
}

static trine_status parse(line *l) {
    return trine_parse(l->argc, l->argv, &l->config, &l->run);
}

/* ---- The plan, the programs, the numbers ---- */

static void print_numbers(const line *l, FILE *out) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &l->config));
    for (int i = 0; i < l->config.train_iters; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        fprintf(out, "%.17g %.17g %.17g %.17g %d\n", m.loss, m.grad_norm, m.lr, m.loss_scale,
                m.skipped);
    }
    fprintf(out, "%.17g %llx\n", t->scale.scale, (unsigned long long)training_fingerprint(t));
    double loss = 0;
    bool stop = false;
    if (l->config.data.val_data_path)
        OK(trine_trainer_validate(t, &l->run.checkpoint, NULL, &loss, &stop));
    fprintf(out, "%.17g\n", loss);
    trine_trainer_destroy(&t);
}

/* The caller frees it. */
static char *plan_of(const line *l, bool numbers) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    OK(trine_dry_run(&l->config, 0, out));
    OK(trine_explain(&l->config, 0, out));
    OK(trine_explain_layers(&l->config, 0, out));
    trine_layout layout = l->config.parallel.layout;
    bool alone = layout.dp <= 1 && layout.tp * layout.pp == 1;
    if (numbers && alone && strcmp(l->config.parallel.device, "cuda")) print_numbers(l, out);
    fclose(out);
    return text;
}

/* Numbers cost most, and only what the plans do not tell apart needs them. */
static bool differ_seen(const line *a, const line *b) {
    bool differ = false;
    for (int numbers = 0; numbers < 2 && !differ; numbers++) {
        char *x = plan_of(a, numbers), *y = plan_of(b, numbers);
        differ = strcmp(x, y) != 0;
        free(x), free(y);
    }
    return differ;
}

/* ---- What train_gpt prints and leaves ---- */

static void empty_folder(void) {
    char command[TRAINING_FOLDER + 80];
    snprintf(command, sizeof command,
             "find %s -mindepth 1 -maxdepth 1 ! -name first -exec rm -r {} +", folder);
    assert_int_equal(system(command), 0);
}

static void copy(FILE *out, const char *path) {
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    for (int c; (c = fgetc(in)) != EOF;) fputc(c, out);
    fclose(in);
}

/* "file run/step-2/config.json 512 bytes", and what that says of the model. */
static void list_files(FILE *out, const char *under) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, under);
    DIR *dir = opendir(path);
    struct stat about;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char name[300];
        if (e->d_name[0] == '.' || !strcmp(e->d_name, "first") || !strcmp(e->d_name, "out"))
            continue;
        snprintf(name, sizeof name, "%s%s%s", under, *under ? "/" : "", e->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(stat(path, &about), 0);
        if (S_ISDIR(about.st_mode)) {
            list_files(out, name);
            continue;
        }
        fprintf(out, "file %s %ld bytes\n", name, (long)about.st_size);
        if (!strcmp(e->d_name, "config.json")) copy(out, path);
    }
    if (dir) closedir(dir);
}

/* The caller frees it. */
static char *run_of(const line *l, bool removes) {
    char path[TRAINING_FOLDER + 10], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/out", folder);
    fflush(stdout), fflush(stderr);
    int to = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), before[2] = {dup(1), dup(2)};
    assert_true(to >= 0 && dup2(to, 1) == 1 && dup2(to, 2) == 2);
    int status = train_main(l->argc, (char **)(uintptr_t)l->argv);
    fflush(stdout), fflush(stderr);
    assert_true(dup2(before[0], 1) == 1 && dup2(before[1], 2) == 2);
    close(to), close(before[0]), close(before[1]);
    FILE *out = open_memstream(&text, &size);
    copy(out, path);
    fprintf(out, "status %d\n", status);
    list_files(out, "");
    fclose(out);
    if (removes) empty_folder();
    return text;
}

/* The lines that begin with the word. */
static void keep_lines(char *text, const char *word) {
    char *to = text, *save;
    for (char *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save))
        if (!strncmp(at, word, strlen(word)))
            memmove(to, at, strlen(at) + 1), to += strlen(to), *to++ = '\n';
    *to = '\0';
}

static bool differ_shown(const option_row *r, const line *a, const line *b) {
    line words = {.text = ""};
    bool lines = *r->shows == '^';
    add(&words, r->shows + lines);
    words.text[strlen(words.text) - 1] = '\0'; /* the blank behind it */
    char *x = run_of(a, true), *y = run_of(b, true);
    if (lines) keep_lines(x, words.text), keep_lines(y, words.text);
    bool differ =
        lines ? strcmp(x, y) && *x && *y : !strstr(x, words.text) != !strstr(y, words.text);
    free(x), free(y);
    return differ;
}

/* ---- A row ---- */

/* Refused as invalid, naming the option, by the command line or the check of the configuration. */
static void expect_refusal(const option_row *r, const char *family, const char *value,
                           const char *why) {
    line l;
    char name[80];
    make(&l, r, family, value, false);
    trine_status status = parse(&l);
    if (status == TRINE_OK) status = trine_config_check(&l.config, 1);
    snprintf(name, sizeof name, "--%s", r->option);
    if (status != TRINE_EINVAL || !strstr(status_message(), name))
        fault("%s %s: not refused %s: %s", name, value, why,
              status == TRINE_OK ? "" : status_message());
    status_clear();
    refused++;
}

static const option *table_row(const char *name) {
    static options o;
    o = config_options(NULL, NULL, NULL);
    for (size_t i = 0; i < o.count; i++)
        if (o.rows[i].name && !strcmp(o.rows[i].name, name)) return &o.rows[i];
    fail_msg("--%s: no such option", name);
    return NULL;
}

/* The values reach the structs. */
static bool is_taken(const option_row *r, const line *a, const line *b) {
    const options x = config_options(&a->config, &a->run, &a->run.checkpoint),
                  y = config_options(&b->config, &b->run, &b->run.checkpoint);
    char text[2][OPTION_TEXT];
    const option *row = table_row(r->option);
    return strcmp(options_text(&x, row, text[0]), options_text(&y, row, text[1])) != 0;
}

static bool differ_elsewhere(const option_row *r, const line *a, const line *b) {
    char path[100], word[60], *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    memcpy(path, "tests/", sizeof "tests/");
    assert_int_equal(sscanf(r->shows, "%80s %59s", path + strlen(path), word), 2);
    copy(out, path);
    fclose(out);
    if (!strstr(text, word)) fault("--%s: %s has no %s", r->option, path, word);
    free(text);
    return is_taken(r, a, b);
}

static void expect_difference(const option_row *r, const char *family) {
    line a, b;
    make(&a, r, family, r->a, true), make(&b, r, family, r->b, true);
    trine_status status = parse(&a);
    if (status == TRINE_OK) status = parse(&b);
    if (status != TRINE_OK && r->where != SHOWN) {
        fault("%s: refused: %s", b.kept, status_message());
        status_clear();
        return;
    }
    status_clear();
    bool differ = r->where == SEEN    ? differ_seen(&a, &b)
                  : r->where == SHOWN ? differ_shown(r, &a, &b)
                                      : differ_elsewhere(r, &a, &b);
    *(r->where == SEEN ? &seen : r->where == SHOWN ? &shown : &elsewhere) += 1;
    if (!differ)
        fault("--%s: %s and %s are the same, in silence: %s", r->option, r->a ? r->a : "without it",
              r->b, b.kept);
}

static void walk_row(const option_row *r, const char *family) {
    bool never = family && is_listed(r->never, family);
    tried++;
    char why[200];
    snprintf(why, sizeof why, "%s %s", never ? "in family" : "without", never ? family : r->with);
    if (never || r->with) expect_refusal(r, family, r->b, why);
    if (never && r->a) expect_refusal(r, family, r->a, why);
    if (!never) expect_difference(r, family);
}

/* What is no number, no layout and no program is the same for all families: one is enough. */
static bool is_once(const option_row *r) {
    return (r->where != SEEN && !r->never) || !strcmp(r->option, "model") ||
           !strcmp(r->option, "family");
}

/* ---- The cases ---- */

static int open_folder(void **state) {
    (void)state;
    return training_folder(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[TRAINING_FOLDER + 10];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void save_first(void) {
    line l = {.text = ""};
    add(&l, base), add(&l, iters), add(&l, "--save DIR/first --save-interval 1");
    split(&l);
    char *text = run_of(&l, true);
    assert_non_null(strstr(text, "status 0\n"));
    free(text);
}

static void every_option_has_an_effect(void **state) {
    (void)state;
    const option *families = table_row("family");
    save_first();
    for (int i = 0; i < ROWS; i++) {
        if (is_once(&option_rows[i])) walk_row(&option_rows[i], NULL);
        for (int f = 0; f < families->word_count && !is_once(&option_rows[i]); f++)
            walk_row(&option_rows[i], families->words[f]);
    }
    printf("# %d options, %d with their families: %d differ in the plan or the numbers, %d in what "
           "is printed or left, "
           "%d elsewhere; %d refusals; %d faults\n",
           ROWS, tried, seen, shown, elsewhere, refused, faults);
    assert_int_equal(faults, 0);
}

static trine_status parse_words(line *l, const char *words) {
    *l = (line){.text = ""};
    add(l, base), add(l, iters), add(l, words);
    split(l);
    return parse(l);
}

/* A pattern is refused that decides over no tensor, wherever it stands; one that is given again is not. */
static void patterns_decide_over_some_tensor(void **state) {
    (void)state;
    static const struct {
        const char *words, *idle; /* NULL: none is */
    } lines[] = {
        {"--train *.bias --freeze *.0.*", "--train *.bias: without it"},
        {"--train *.bias --freeze * --train *.1.*", "--train *.bias: without it"},
        {"--freeze *.0.* --train *.1.*", "--train *.1.*: without it"},
        {"--freeze * --freeze *.0.* --train *.1.*", "--freeze *.0.*: without it"},
        {"--freeze *.0.* --freeze * --train *.1.*", "--freeze *.0.*: without it"},
        {"--freeze * --train *.0.* --freeze *.0.* --train *.1.*", "--train *.0.*: without it"},
        {"--lora-rank 4 --freeze *wte.weight", "with --lora-rank the adapters alone are"},
        {"--freeze * --train *.bias --freeze *.0.*", NULL},
        {"--freeze *.0.* --freeze *.0.*", NULL},
        {"--lora-rank 4 --train *ln_f.weight", NULL},
        {"--lora-rank 4 --freeze *.0.*", NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        line l;
        if (!lines[i].idle) {
            OK(parse_words(&l, lines[i].words));
            continue;
        }
        trine_status status = parse_words(&l, lines[i].words);
        assert_null(strstr(status_message(), "\n  - ")); /* no other one is named */
        REFUSED(status, TRINE_EINVAL, lines[i].idle);
    }
}

static void write_file(const char *name, const char *mode, const char *text) {
    char path[TRAINING_FOLDER + 40];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, mode);
    assert_true(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* Earlier versions took what is refused now, and wrote it into the options.txt of checkpoints: that of a run makes the same
 * run. Given again by hand, or in another file, it is refused. */
static void what_a_checkpoint_has_is_not_asked_for(void **state) {
    (void)state;
    static const char *const idle[] = {"--hidden-dropout 0.1\n", "--freeze=+*.1.*\n",
                                       "--max-position-embeddings 8\n", "--trace-steps 1-2\n"};
    line l;
    l = (line){.text = ""};
    add(&l, base), add(&l, iters),
        add(&l, "--family llama --save DIR/run --trace DIR/trace --trace-steps 1");
    split(&l);
    char *text = run_of(&l, false);
    assert_non_null(strstr(text, "status 0\n"));
    free(text);
    for (int i = 0; i < 4; i++) write_file("run/step-3/options.txt", "a", idle[i]);
    OK(parse_words(&l, "@DIR/run/step-3/options.txt --save DIR/other"));
    assert_true(l.config.model.hidden_dropout == 0.1);
    REFUSED(parse_words(&l, "@DIR/run/step-3/options.txt --hidden-dropout 0.1"), TRINE_EINVAL,
            "--hidden-dropout 0.1: llama has no dropout of hidden states; leave it out");
    for (int i = 0; i < 4; i++) {
        write_file("own", "w", "# mine\n--family llama --save out\n");
        write_file("own", "a", idle[i]);
        if (i != 1) REFUSED(parse_words(&l, "@DIR/own"), TRINE_EINVAL, "--");
    }
    REFUSED(parse_words(&l, "--family llama --save out --max-position-embeddings 8"), TRINE_EINVAL,
            "--max-position-embeddings 8: must be at least --seq-length 16");
    empty_folder();
}

/* Files of data, tokenizer and traces are read by no plan. */
static bool is_file(const option *o) {
    return o->role < OPTION_JOINT &&
           (o->kind == OPTION_KIND_STRING || o->kind == OPTION_KIND_BLEND);
}

static void compare(const line *l, const options *a, const options *b) {
    char text[2][OPTION_TEXT];
    for (size_t n = 0; n < a->count; n++) {
        const option *o = &a->rows[n];
        if (o->kind == OPTION_KIND_HEADING || o->base != CONFIG_CONFIG || is_file(o)) continue;
        const char *x = options_text(a, o, text[0]), *y = options_text(b, o, text[1]);
        if (strcmp(x, y)) fault("%s: --%s %s is %s in the log", l->kept, o->name, x, y);
    }
}

/* Of a configuration with this option the words of the log make the same configuration. */
static void log_again(const option_row *r, const char *value) {
    line l;
    logged_options again;
    make(&l, r, r->never && !strcmp(r->never, "gpt2") ? "llama" : NULL, value, true);
    OK(parse(&l));
    cJSON *run = cJSON_CreateObject();
    assert_true(run && log_run_options(run, &l.config));
    char *text = json_print(run, false);
    cJSON *read = json_parse(text);
    if (logged_read(&again, read, "the log") != TRINE_OK) {
        fault("%s: %s", l.kept, status_message());
        status_clear();
    } else {
        const options a = config_options(&l.config, NULL, NULL),
                      b = config_options(&again.config, NULL, NULL);
        compare(&l, &a, &b);
    }
    cJSON_free(text);
    cJSON_Delete(read);
    cJSON_Delete(run);
}

static void a_log_has_every_option(void **state) {
    (void)state;
    faults = 0;
    for (int i = 0; i < ROWS; i++) {
        if (option_rows[i].a) log_again(&option_rows[i], option_rows[i].a);
        log_again(&option_rows[i], option_rows[i].b);
    }
    assert_int_equal(faults, 0);
}

/* A default that nobody gave is never refused, and neither is a value that switches something off. */
static void what_is_off_is_not_refused(void **state) {
    (void)state;
    line l = {.text = ""};
    add(&l, base);
    add(&l, "--eval-interval 0 --save-interval 0 --keep 0 --max-minutes 0 --min-lr 0 "
            "--lr-decay-iters 0 --loss-scale 0");
    split(&l);
    OK(parse(&l));
}

/* The rows are the options of the help, in its order. */
static void every_option_has_a_row(void **state) {
    (void)state;
    char *text, name[80];
    size_t size;
    int found = 0;
    FILE *out = open_memstream(&text, &size);
    OK(trine_usage("train_gpt", out));
    fclose(out);
    for (char *save, *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        if (strncmp(at, "  --", 4) || sscanf(at + 4, "%70[a-z0-9-]", name) != 1) continue;
        int i = 0;
        while (i < ROWS && strcmp(option_rows[i].option, name)) i++;
        if (i == ROWS) fail_msg("--%s has no row in options_rows.h", name);
        found++;
    }
    assert_int_equal(found, ROWS);
    free(text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_a_row),
        cmocka_unit_test_setup_teardown(every_option_has_an_effect, open_folder, remove_folder),
        cmocka_unit_test(patterns_decide_over_some_tensor),
        cmocka_unit_test_setup_teardown(what_a_checkpoint_has_is_not_asked_for, open_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_log_has_every_option, open_folder, remove_folder),
        cmocka_unit_test(what_is_off_is_not_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
