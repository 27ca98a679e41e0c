#!/bin/sh
# No thread of the library touches the environment, and none blocks the signals of a crash (src/base/thread.h). A library
# that is loaded before all others looks at each thread as it begins, and at each call that reads or changes the
# environment; it makes getenv slow, as a processor taken away in its middle would, so that a reader beside MPI_Init,
# which moves the environment, dies. TRINE_STARTS=300 makes as many such starts of each kind, TRINE_ALONE=2000 those
# without a launcher.
. tests/lib.sh
preload=$dir/preload.so
seen=$dir/seen

cat >"$dir/preload.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static _Thread_local int ours;
static char seen[256], program[256];

static void tell(const char *what, const char *which) {
    char line[400];
    int fd = open(seen, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int n = snprintf(line, sizeof line, "%s %s %s\n", what, which, strrchr(program, '/') + 1);
    if (fd < 0 || write(fd, line, (size_t)n) != n) abort();
    close(fd);
}

static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void) {
    char *(*get)(const char *);
    *(void **)&get = real("getenv");
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) strcpy(program, "/unknown");
    if (get("SEEN")) strncpy(seen, get("SEEN"), sizeof seen - 1);
}

/* As glibc's, but slow where PAUSE_MS says so. */
char *getenv(const char *name) {
    char **at = *(char **volatile *)&environ;
    size_t n = strlen(name);
    if (ours) tell("environment", name);
    if (strcmp(name, "TRINE_TIMEOUT") == 0) {
        struct timespec pause = {0, 60000000};
        nanosleep(&pause, NULL);
    }
    for (; at && *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=') return *at + n + 1;
    return NULL;
}

char *secure_getenv(const char *name) {
    return getenv(name);
}

int setenv(const char *name, const char *value, int over) {
    int (*set)(const char *, const char *, int);
    *(void **)&set = real("setenv");
    if (ours) tell("environment", name);
    return set(name, value, over);
}

int unsetenv(const char *name) {
    int (*unset)(const char *);
    *(void **)&unset = real("unsetenv");
    if (ours) tell("environment", name);
    return unset(name);
}

typedef struct {
    void *(*run)(void *);
    void *context;
} start;

static void *run(void *context) {
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    start s = *(start *)context;
    sigset_t now;
    free(context);
    ours = 1;
    tell("thread", "of");
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++)
        if (sigismember(&now, synchronous[i])) tell("blocks", strsignal(synchronous[i]));
    return s.run(s.context);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*routine)(void *), void *context) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Dl_info where;
    start *s;
    *(void **)&create = real("pthread_create");
    if (!seen[0] || !dladdr(*(void **)&routine, &where) || !where.dli_fname) return create(thread, how, routine, context);
    const char *file = strrchr(where.dli_fname, '/'), *own = strrchr(program, '/');
    if (strncmp(file ? file : "", "/libtrine", 9) != 0 && strcmp(file ? file + 1 : where.dli_fname, own + 1) != 0)
        return create(thread, how, routine, context);
    s = malloc(sizeof *s);
    s->run = routine;
    s->context = context;
    return create(thread, how, run, s);
}
END
"${CC:-cc}" -shared -fPIC -o "$preload" "$dir/preload.c" -ldl
result $? "the library that looks on is compiled"

# watched COMMAND...: run with the library before all others
watched() {
    rm -f "$seen"
    run env SEEN="$seen" LD_PRELOAD="$preload" "$@"
    touch "$seen"
}

# clean LEAST: the command succeeded with so many threads of ours or more, and none did what it must not
clean() {
    threads=$(grep -c "^thread " "$seen")
    sed 's/^/# /' "$seen" | grep -v "^# thread" | sort | uniq -c | sed 's/^/# /'
    [ "$status" -eq 0 ] && [ "$threads" -ge "$1" ] && ! grep -q -v "^thread " "$seen"
}

# MPI_Init changes the environment; whether it moves depends on how many variables there are.
tries=${TRINE_STARTS:-4}
for variables in "ONE=1" "ONE=1 TWO=2"; do
    dead=0 try=0
    while [ $((try += 1)) -le "$tries" ]; do
        # shellcheck disable=SC2086  # words are meant to be split
        watched env $variables tools/mpirun.sh -np 2 "$BUILD/mesh"
        clean 2 || dead=$((dead + 1))
    done
    echo "# $dead of $tries starts failed"
    [ $dead = 0 ]
    result $? "MPI starts beside a slow reader of the environment: $variables"
done

# alone: a start without a launcher and without the library that looks on
dead=0 try=0
while [ $((try += 1)) -le "${TRINE_ALONE:-4}" ]; do
    run "$BUILD/mesh"
    [ "$status" -eq 0 ] || dead=$((dead + 1))
done
echo "# $dead of ${TRINE_ALONE:-4} starts failed"
[ $dead = 0 ]
result $? "and without a launcher"

# A folder with text, tokens, a checkpoint and a log.
yes "In the beginning was the Word, and the Word was with God." | head -n 4000 >"$dir/text.txt"
watched "$BUILD/trine-tokenizer" --vocab-size 280 --threads 2 --out "$dir/tok" "$dir/text.txt"
clean 2
result $? "trine-tokenizer"
watched "$BUILD/trine-tokens" --tokenizer "$dir/tok" --threads 2 --out "$dir/words" "$dir/text.txt"
clean 2
result $? "trine-tokens"

small="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 280 --threads 1 --dp 2
       --global-batch-size 4 --data-path $dir/words_train.bin --tokenizer $dir/tok"
# shellcheck disable=SC2086
watched tools/mpirun.sh -np 2 "$BUILD/train_gpt" $small --train-iters 4 --save-interval 2 --save "$dir/run" \
    --log "$dir/run.jsonl" --trace "$dir/trace" --trace-steps 2-3
clean 8
result $? "a training that saves: signals, watch, lease, files"
# shellcheck disable=SC2086
watched tools/mpirun.sh -np 2 env SLURM_JOB_ID=4711 "$BUILD/train_gpt" $small --train-iters 6 --save "$dir/run" --load auto
clean 6 && [ -d "$dir/run/step-6" ]
result $? "one that resumes"
watched "$BUILD/trine-generate" "$dir/run" --prompt "In the " --tokens 4
clean 1
result $? "trine-generate"
watched "$BUILD/trine-eval" "$dir/run" --data "$dir/words_val.bin"
clean 1
result $? "trine-eval"
watched tools/mpirun.sh -np 2 "$BUILD/trine-doctor"
clean 2
result $? "trine-doctor"
watched "$BUILD/trine-export" "$dir/run" "$dir/exported"
clean 0
result $? "trine-export"
watched tools/mpirun.sh -np 4 "$BUILD/coupled"
clean 2
result $? "worlds of a caller's communicator"
done_testing
