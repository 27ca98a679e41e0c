#!/bin/bash
# Plants one violation at a time: make layers must report each at the right place, and must accept the unchanged tree.
# A violation stands in a tree of its own, with few files or none beside it; two stand in a copy of all sources, one of
# them an include and one a call.
set -eu
shopt -s lastpipe # so that "... | refused" counts here

. tests/lib.sh
needs nm
copy=$dir/tree whole=

# fresh: a copy of the sources if $whole is set, or an empty tree
fresh() {
    rm -rf "$copy"
    mkdir -p "$copy/src/base" "$copy/src/device/cpu" "$copy/src/dp"
    if [ -n "$whole" ]; then
        cp -r src include tools "$copy"/
    else
        echo "/* a line */" | tee "$copy/src/dp/reduce.c" >"$copy/src/device/cpu/tiles.c"
    fi
}

# refused NAME FILE EXPECTED < text: with the text appended to FILE there is exactly one fault, in that
# file, and its message contains EXPECTED.
refused() {
    fresh
    mkdir -p "$copy/$(dirname "$2")"
    cat >>"$copy/$2"
    local good=1
    run tools/layers.sh "$copy"
    [ $status = 0 ] || case $(cat "$dir/out") in *"$2:"*"$3"*"layers: 1 fault"*) good=0 ;; esac
    result $good "refused: $1"
}

# accepted NAME FILE < text
accepted() {
    fresh
    mkdir -p "$copy/$(dirname "$2")"
    cat >>"$copy/$2"
    run tools/layers.sh "$copy"
    result $status "accepted: $1"
}

# include NAME FILE EXPECTED LINE
include() {
    echo "$4" | refused "$1" "$2" "$3"
}

whole=yes
accepted "the unchanged tree" src/base/planted.c </dev/null
include "zero includes pp, in the tree" src/zero/planted.c "zero must not include pp" '#include "pp/order.h"'
whole=

include "base includes device" src/base/planted.c "base must not include device" '#include "device/device.h"'
include "device includes comm" src/device/ref/planted.c "device must not include comm" '#include "comm/api/comm.h"'
include "comm includes core" src/comm/planted.c "comm must not include core" '#include "core/flat.h"'
include "core includes zero" src/core/planted.c "core must not include zero" '#include "zero/zero.h"'
include "dp includes pp" src/dp/planted.c "dp must not include pp" '#include "pp/order.h"'
include "zero includes dp" src/zero/planted.c "zero must not include dp" '#include "dp/reduce.h"'
include "pp includes tp" src/pp/planted.h "pp must not include tp" '#include "tp/tp.h"'
include "tp includes model" src/tp/planted.c "tp must not include model" '#include "model/gpt.h"'
include "model includes comm" src/model/planted.c "model must not include comm" '#  include "comm/api/comm.h"'
include "model includes dp" src/model/planted.c "model must not include dp" '#include "dp/dp.h"'
include "norm includes dp" src/norm/planted.c "norm must not include dp" '#include "dp/dp.h"'
include "model includes zero" src/model/planted.c "model must not include zero" '#include "zero/zero.h"'
include "data includes comm" src/data/planted.c "data must not include comm" '#include "comm/api/comm.h"'
include "doctor includes train" src/doctor/planted.c "doctor must not include train" '#include "train/trainer.h"'
include "ref includes cpu" src/device/ref/planted.c "device ref must not include another device" '#include "device/cpu/element/lanes.h"'
include "train includes a transport" src/train/planted.c "of comm only src/comm/api is allowed" '#include "comm/transport/shm/shm.h"'
include "an unknown module" src/util/planted.c "unknown module util" '#include <stdio.h>'
include "a path with .." src/dp/planted.c '".." is not allowed' '#include "../pp/order.h"'
include "mpi.h in core" src/core/planted.c "<mpi.h> belongs" '#include <mpi.h>'
include "mpi.h in an example" examples/planted.c "<mpi.h> belongs" '#include "mpi.h"'
include "mpi.h in a public header" include/planted.h "<mpi.h> belongs" '#include <mpi.h>'
include "nccl.h in a file of C" src/comm/transport/nccl/planted.c "<nccl.h> belongs" '#include <nccl.h>'
include "nccl.h in mpi.c" src/comm/planted.c "<nccl.h> belongs" '#include <nccl.h>'
include "CUDA in device" src/device/planted.c "<cuda_runtime.h> belongs" '#include <cuda_runtime.h>'
include "cuBLAS in ref" src/device/ref/planted.c "<cublas_v2.h> belongs" '#include <cublas_v2.h>'
include "oneDNN in ref" src/device/ref/planted.c "<oneapi/dnnl/dnnl.h> belongs" '#include <oneapi/dnnl/dnnl.h>'
include "model uses a communicator" src/model/planted.c "module model must not use trine_comm" 'static trine_comm *group;'
include "model asks the mesh" src/model/planted.h "module model must not use trine_mesh_group" 'int f(void) { return !trine_mesh_group(m, 0); }'
include "comm in the object for GPUs" src/device/cuda/planted.cu "device must not include comm" '#include "comm/api/comm.h"'
include "setenv in options" src/base/planted.c "setenv belongs to src/base/environment.c" 'void f(void) { setenv("HOME", "/", 0); }'
include "environ in comm" src/comm/planted.c "environ belongs to src/base/environment.c" 'extern char **environ;'
include "getenv in a tool" tools/planted.c "getenv belongs" 'const char *f(void) { return getenv("HOME"); }'
include "a thread of comm's own" src/comm/planted.c "pthread_create belongs to src/base/thread.c" 'void f(void) { pthread_create(&t, NULL, run, NULL); }'
include "a thread that blocks all signals" src/ckpt/planted.c "sigfillset belongs to src/base/thread.c" 'void f(void) { sigfillset(&all); }'
include "setenv in comm" src/comm/planted.c "setenv belongs" 'void f(void) { setenv("HOME", "/", 0); }'
include "getenv in train" src/train/planted.c "getenv belongs" 'const char *f(void) { return getenv("HOME"); }'
include "a number in the program's locale" src/train/planted.c "printf prints the locale's decimal point" 'int f(double x) { return printf("%.3f", x); }'
include "strtod in train" src/train/planted.c "depends on the program's locale" 'double f(const char *t) { return strtod(t, NULL); }'
include "cJSON prints" src/ckpt/planted.c "cJSON depends on the program's locale" 'char *f(cJSON *o) { return cJSON_Print(o); }'
include "setlocale" src/train/planted.c "depends on the program's locale" 'void f(void) { setlocale(LC_ALL, ""); }'

# planted NAME FILE EXPECTED LINE...: the lines in FILE are so many faults, each with a message that contains EXPECTED
planted() {
    local name=$1 file=$2 expected=$3 good=1
    shift 3
    fresh
    mkdir -p "$copy/$(dirname "$file")"
    printf '%s\n' "$@" >"$copy/$file"
    run tools/layers.sh "$copy"
    [ "$status" = 0 ] || [ "$(grep -c "^$file:[0-9]*: .*$expected" "$dir/out")" -ne $# ] ||
        ! grep -qx "layers: $# faults*" "$dir/out" || good=0
    result $good "refused: $name"
}
planted "fopen for writing" tools/planted.c 'fopen for reading has the mode "r"' 'int a = f(fopen(path, "w"));' \
    'int b = f(fopen(path, mode));' 'int c = f(fopen(path, "r+"));' 'int d = f(fdopen(1, "a"));' 'int e = f(freopen("a", "w", stdout));'
planted "writing in other ways" src/train/planted.c "files are written through src/base/whole_file.h" \
    'int a = open(path, O_WRONLY);' 'int b = open(path, O_CREAT | O_EXCL, 0666);' 'int c = mkstemp(path);' 'int d = mkostemps(path, 1, 0);' \
    'int e = rename(path, "b");' 'int g = file_put(path, "", 0);' 'int h = ftruncate(3, 0);' 'int i = linkat(1, a, 2, b, 0);' 'int j = creat("a", 0666);'
planted "the caller's process" src/train/planted.c "is the caller's to say" 'MPI_Comm a = MPI_COMM_WORLD;' 'void b(void) { exit(1); }' \
    'void c(void) { signal(SIGINT, SIG_IGN); }' 'void d(void) { kill(getpid(), SIGTERM); }' 'int e = MPI_Finalize();' 'void f(void) { _exit(1); }'
planted "a call that the list allows another file" src/base/output.c "_exit is the caller's to say" 'void f(void) { signal(1, 0); _exit(1); }'
refused "a mode on the next line" src/train/planted.c 'fopen for reading has the mode "r"' <<'END'
FILE *f(const char *path) {
    return fopen(path,
                 "w");
}
END
accepted "reading, and names that only look like it" src/train/planted.c <<'END'
FILE *f(const char *path) {
    t->link(path), rename_in(path);
    return t->open(path, O_RDONLY) ? fopen("/proc/self/maps",
                                           "re") : NULL;
}
END

refused "a number in a statement of two lines" src/train/planted.c "printf prints the locale's decimal point" <<'END'
void f(FILE *out) {
    fprintf(out,
            "half; and %5.1f%%\n", 50.0);
}
END
accepted "numbers in the locale C" src/train/planted.c <<'END'
void f(FILE *out) {
    c_fprintf(out, "%5.1f%%\n", 50.0);
    fprintf(out, "100%% full: %d\n", 1);
}
END
include "a file opened by itself" src/ckpt/planted.c "may wait for a pipe" 'int f(const char *p) { return open(p, O_RDONLY | O_CLOEXEC); }'
include "a stream opened by itself" tools/planted.c "may wait for a pipe" 'FILE *f(const char *p) { return fopen(p, "rb"); }'
include "a file of a folder opened by itself" src/base/planted.c "may wait for a pipe" 'int f(int at) { return openat(at, "vocab.json", 0); }'
accepted "folders, and the system's files" src/ckpt/planted.c <<'END'
/* As open(2) does. */
int f(const char *p) {
    return p ? open(p, O_RDONLY |
                           O_DIRECTORY) : b->open(fd, "x");
}
FILE *g(void) {
    return fopen("/proc/self/maps", "r");
}
END
refused "#ifdef in a function" src/base/planted.c "#if in a function body" <<'END'
static int choose(int a,
                  int b) {
#ifdef TRINE_CUDA
    return a;
#endif
    return b;
}
END

# ring NUMBER: planted headers in the copy, each of which includes the next, and the last the first.
ring() {
    local i
    fresh
    for ((i = 0; i < $1; i++)); do
        echo "#include \"base/planted$(((i + 1) % $1)).h\"" >"$copy/src/base/planted$i.h"
    done
}

# cycle NAME EXPECTED [FAULTS]: the copy as it is now has exactly FAULTS (1) faults, one of whose messages contains
# EXPECTED. Without EXPECTED it is accepted.
cycle() {
    local good=1
    run tools/layers.sh "$copy"
    if [ -z "$2" ]; then
        good=$status
    elif [ "$status" -ne 0 ]; then
        case $(cat "$dir/out") in *"$2"*"layers: ${3:-1} fault"*) good=0 ;; esac
    fi
    result "$good" "$1"
}

ring 3
cycle "accepted: a cycle of three source files" ""
ring 4
cycle "refused: a cycle of four source files" "planted0.h:1: include cycle of 4 source files (limit: 3):"
ring 4
: >"$copy/src/base/planted2.h"
echo '#include "base/planted3.h"' >"$copy/src/base/planted2.c"
cycle "refused: a cycle through a header and its .c" "include cycle of 4 source files (limit: 3):"
ring 6
echo '#include "base/planted2.h"' >>"$copy/src/base/planted5.h"
sed -i 1d "$copy/src/base/planted5.h"
cycle "refused: a cycle behind source files that are in none" "planted2.h:1: include cycle of 4 source files (limit: 3):"
fresh
echo '#include "device/planted1.h"' >"$copy/src/base/planted0.h"
echo '#include "base/planted0.h"' >"$copy/src/device/planted1.h"
cycle "refused: a cycle of two modules, and the include that base must not have" \
    "circle over several modules: base/planted0 device/planted1" 2

# ---- What the objects tell

objects=$dir/build/obj
planted=()
mkdir -p "$dir/build"

# compiled [FOLDER...]: the copy has these folders of src with their objects, or all of them
compiled() {
    whole=yes
    fresh
    whole=
    rm -rf "$objects"
    if [ $# -eq 0 ]; then
        cp -rs "$(cd "$BUILD" && pwd)/obj" "$objects"
        return
    fi
    rm -rf "$copy/src"
    for folder in "$@" base device model comm/group comm/watch comm/transport; do
        mkdir -p "$copy/src/$folder" "$objects/$folder"
    done
    for folder; do
        cp src/"$folder"/*.[ch] "$copy/src/$folder/"
        cp "$BUILD/obj/$folder"/*.o "$objects/$folder/"
    done
}

# plant FILE < text: the text is FILE of the copy, compiled, until the next case has run
plant() {
    local object=$objects/${1#src/}
    cat >"$copy/$1"
    planted+=("$copy/$1" "${object%.c}.o")
    case $1 in *.c) "${CC:-cc}" -I"$copy/src" -Isrc -Iinclude -c "$copy/$1" -o "${object%.c}.o" ;; esac
}

# called NAME FAULTS EXPECTED...: the copy and its objects have so many faults; the output has each text. 0 faults: accepted
called() {
    local name=$1 faults=$2 text good=0
    shift 2
    run tools/layers.sh "$copy" "$dir/build"
    [ "$status" = $((faults > 0)) ] || good=1
    [ "$faults" = 0 ] || grep -qxE "layers: $faults faults?" "$dir/out" || good=1
    for text; do grep -qF -- "$text" "$dir/out" || good=1; done
    result $good "$name"
    rm -f "${planted[@]}"
    planted=()
}

compiled
called "accepted: the unchanged tree with its objects" 0 "largest circle: "
check "its largest circle has at most 9 files" grep -qE '^largest circle: [1-9] files: ' "$dir/out"

plant src/base/planted.c <<<'int mesh_node_count(const void *); int planted(void) { return mesh_node_count(0); }'
called "refused: a call upwards without an include" 1 \
    "src/base/planted.c: module base must not use mesh_node_count of comm/mesh/mesh; allowed: nothing"

compiled comm/api comm/mesh
plant src/model/planted.c <<<'int comm_wait(void *); int planted(void) { return comm_wait(0); }'
called "refused: model calls comm" 1 "src/model/planted.c: module model must not use comm_wait of comm/api/calls; allowed: tp "

plant src/base/planted_low.c <<<'int planted_high(void); int planted_low(void) { return planted_high(); }'
plant src/device/planted_high.c <<<'int planted_low(void); int planted_high(void) { return planted_low(); }'
called "refused: a circle over modules by calls" 2 "module base must not use planted_high of device/planted_high" \
    "circle over several modules: base/planted_low device/planted_high" \
    "    base/planted_low uses planted_high of device/planted_high" "    device/planted_high uses planted_low of base/planted_low"

plant src/comm/group/planted_low.c <<<'int planted_high(void); int planted_low(void) { return planted_high(); }'
plant src/comm/watch/planted_high.c <<<'int planted_low(void); int planted_high(void) { return planted_low(); }'
called "refused: a circle over folders of comm by calls" 2 \
    "src/comm/group/planted_low.c: folder group of comm must not use planted_high of comm/watch/planted_high; the order is mesh -> " \
    "circle over several folders of comm: comm/group/planted_low comm/watch/planted_high"

plant src/comm/transport/planted_face.h <<<'#include "comm/watch/planted_low.h"'
plant src/comm/watch/planted_low.h </dev/null
plant src/comm/watch/planted_low.c <<'END'
#include "comm/transport/planted_face.h"
int planted_low;
END
called "refused: a circle over folders of comm through an interface" 1 \
    "circle over several folders of comm: comm/transport/planted_face comm/watch/planted_low" \
    "    comm/watch/planted_low includes comm/transport/planted_face (src/comm/watch/planted_low.c:1)"

plant src/comm/watch/planted.c <<'END'
#include "comm/mesh/make.h"
int planted;
END
called "refused: a header of a folder above that has its .c" 1 \
    "src/comm/watch/planted.c:1: folder watch of comm must not include comm/mesh/make; the order is mesh -> "

# calls NUMBER: files of base, each of which calls the next, and the last the first
calls() {
    local i next
    for ((i = 0; i < $1; i++)); do
        next=$(((i + 1) % $1))
        plant "src/base/planted$i.c" <<<"void planted$next(void); void planted$i(void) { planted$next(); }"
    done
}
calls 9
called "accepted: a circle of nine source files" 0 "largest circle: 9 files: base/planted0 base/planted1 "
calls 10
called "refused: a circle of ten source files" 1 "src/base/planted0.c: circle of 10 source files (limit: 9): base/planted0 "
plant src/base/planted.c <<<'int mesh_node_count(const void *); int planted(void) { return mesh_node_count(0); }'
rm "$copy/src/base/planted.c"
called "accepted: objects of sources that are gone" 0
plant src/base/planted.c <<<'int planted;'
rm "$objects/base/planted.o"
called "refused: a source without an object" 1 "src/base/planted.c: no object in "

long_function() {
    echo "int planted_long(int a) {"
    for ((i = 0; i < $1 - 2; i++)); do echo "    a++;"; done
    echo "}"
}
long_function 61 | refused "a function of 61 lines" src/base/planted.c "function planted_long has 61 lines (limit: 60)"
long_function 60 | accepted "a function of 60 lines" src/base/planted.c
printf '/* %0115d */\n' 0 | refused "a line of 121 columns in a header" src/base/planted.h "line has 121 columns (limit: 118)"
printf '/* %0112d */\n' 0 | accepted "a line of 118 columns in a header" src/base/planted.h
yes '/* a line */' | head -601 | refused "a file of 601 lines" src/base/planted.c "file has 601 lines (limit: 600)"
yes '/* a line */' | head -600 | accepted "a file of 600 lines" src/base/planted.c

echo '/* a line */' | refused "files of the same name in two modules" src/tp/reduce.c \
    "duplicate file name reduce.c: src/dp has one, too"
echo '/* a line */' | accepted "files of the same name in two devices of one module" src/device/ref/tiles.c

accepted "comments and strings may name anything" src/model/planted.c <<'END'
/* trine_comm is for tp; getenv("X") is not
 * #include "comm/api/comm.h" */
static const char *text = "trine_comm getenv(";
// trine_mesh_group
END
accepted "#if around functions, tables longer than functions may be" src/device/cpu/planted.c <<END
#include <oneapi/dnnl/dnnl.h>
#if DNNL_VERSION_MAJOR >= 3
static const int table[] = {
$(yes '    (1),' | head -120)
};
#else
static int f(void) {
    return 1;
}
#endif
END
accepted "getenv in environment, mpi.h in comm, nccl in its files" src/base/environment.c <<'END'
const char *f(void) { return getenv("HOME"); }
END
echo '#include <mpi.h>' | accepted "mpi.h in comm" src/comm/planted.c
printf '#include <nccl.h>\n#include <cuda_runtime.h>\n' | accepted "nccl.h in its file" src/comm/transport/nccl/planted.cu
printf '#include <cublasLt.h>\n' | accepted "cuBLASLt in the cuda device" src/device/cuda/planted.cu

done_testing
