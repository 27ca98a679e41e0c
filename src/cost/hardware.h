/* A machine as a file: how fast its processors and links are. hardware/NAME.json has one member for each row of
 * the table below,
 *
 *     "memory_rate": {"value": 2039e9, "how": "stated", "source": "NVIDIA A100 datasheet"}
 *
 * with how the number is known: stated by a maker or in a paper, measured, or fitted to measured steps (and then
 * which). A file says in "about" which machine it is, in "device" what its ranks compute on, "cpu" or "cuda", may say
 * in "checked" how well it predicts, and says in "calibrated" that it was scaled to one run.
 *
 * Where such numbers do not say how long an operator takes, as on processors with caches, a file has also
 *
 *     "measured": {"how": "measured", "source": "trine-doctor on ...", "points": [
 *         ["linear_forward", "f32", 2, [512, 768, 768], 0.00345], ...]}
 *
 * an operator or a collective, its type, ranks, sizes and seconds (cost/measured.h). It then takes the time between
 * its points; what has none takes that of the numbers above. trine-doctor --write-hardware writes such a file. */
#ifndef TRINE_COST_HARDWARE_H
#define TRINE_COST_HARDWARE_H

#include "cost/measured.h"

/* X(member, least, most, meaning). An efficiency is the part of a rate that is reached. */
#define HARDWARE_LIST(X)                                                                                             \
    X(matmul_rate, 1e6, 1e18, "flops a second of products in 16 bits")                                               \
    X(matmul_rate_fp32, 1e6, 1e18, "the same in fp32")                                                               \
    X(matmul_efficiency, 0.001, 1, "of products whose tiles fill the processors")                                    \
    X(tile_rows, 1, 4096, "rows of the tile of a product that one processor computes")                               \
    X(tile_columns, 1, 4096, "its columns")                                                                          \
    X(tile_depth, 0, 65536, "depth of a product that takes as long as a tile's start and end")                       \
    X(processors, 1, 1e6, "processors that compute tiles at one time")                                               \
    X(memory_rate, 1e6, 1e16, "bytes a second of the memory")                                                        \
    X(memory_efficiency, 0.001, 1, "of operators that only move bytes")                                              \
    X(memory_bytes, 1e6, 1e15, "bytes of memory of a rank")                                                          \
    X(launch_time, 0, 1, "seconds between two operators on the device")                                              \
    X(host_time, 0, 1, "seconds of the host for an operator: a pass takes at least these")                           \
    X(node_ranks, 1, 4096, "ranks of a node")                                                                        \
    X(node_rate, 1e6, 1e16, "bytes a second that a rank sends inside a node")                                        \
    X(node_efficiency, 0.001, 1, "of collectives and messages inside a node")                                        \
    X(node_latency, 0, 1, "seconds of a step of a ring inside a node, and of a message")                             \
    X(network_cards, 1, 4096, "network cards of a node")                                                             \
    X(network_rate, 1e3, 1e16, "bytes a second that a card sends")                                                   \
    X(network_efficiency, 0.001, 1, "of collectives over nodes")                                                     \
    X(network_latency, 0, 1, "seconds of a step of a ring between nodes, and of a message")                          \
    X(message_efficiency, 0.001, 1, "of the network, for a message")

/* What a machine is scaled by: with rates of f times their values and these times divided by f, each step takes 1 / f
 * of its time. */
#define HARDWARE_RATES(X) X(matmul_rate) X(matmul_rate_fp32) X(memory_rate) X(node_rate) X(network_rate)
#define HARDWARE_TIMES(X) X(launch_time) X(host_time) X(node_latency) X(network_latency)

/* How far predictions of measured steps were off, as parts of the measured seconds:
 *
 *     "checked": {"mean": 0.019, "worst": 0.046, "rows": 8, "source": "Korthikanti et al., 2022, table 5"} */
typedef struct {
    double mean, worst;
    int rows; /* 0: the file is unchecked */
} hardware_checked;

/* X(member, least, most, default, meaning): what a file may leave out. */
#define HARDWARE_MORE_LIST(X)                                                                                        \
    X(cores, 0, 65536, 0, "cores of a node, which its ranks share; 0: a rank has a processor of its own")            \
    X(host_moves, 0, 1, 0, "1: the ranks' processors move data, so no transfer overlaps computation")

typedef struct {
#define HARDWARE_MEMBER(name, least, most, meaning) double name;
    HARDWARE_LIST(HARDWARE_MEMBER)
#undef HARDWARE_MEMBER
    const char *device; /* "cpu" or "cuda". A file without it is of CPUs if it has cores or host_moves */
    hardware_checked checked;
    double calibrated; /* what hardware_scale multiplied the rates by; 0: nothing */
#define HARDWARE_MEMBER(name, least, most, absent, meaning) double name;
    HARDWARE_MORE_LIST(HARDWARE_MEMBER)
#undef HARDWARE_MEMBER
    measured_points measured;
} hardware;

#define HARDWARE_BYTES (1 << 20) /* of a file, at most */
#define HARDWARE_PATH  4096

/* Reads the text of a file, whose path is for messages. Errors: TRINE_EDATA, with the member and its value: one that
 * is unknown (with the nearest name, and all), missing or out of range, or that says not how it is known, or from
 * where. Pure. */
trine_status hardware_parse(hardware *out, const char *text, size_t bytes, const char *path);
/* How a number is known: "stated", "measured" or "fitted"; and from where. */
typedef struct {
    const char *how, *source;
} hardware_source;

/* The members of both lists, in their order. */
enum {
#define HARDWARE_INDEX(name, ...) HARDWARE_##name,
    HARDWARE_LIST(HARDWARE_INDEX) HARDWARE_MORE_LIST(HARDWARE_INDEX)
#undef HARDWARE_INDEX
    HARDWARE_MEMBERS
};

/* Writes a file that hardware_parse reads, numbers rounded; points: the source of h->measured. A failed write is the
 * stream's. Errors: TRINE_ENOMEM. Not collective. */
trine_status hardware_print(const hardware *h, const char *about, const hardware_source sources[HARDWARE_MEMBERS],
                            const hardware_source *points, FILE *out);
/* "f32". Pure. */
const char *hardware_type(trine_dtype type);

/* Reads hardware NAME: a path if it has a '/' or ends in .json, else NAME.json in share/trine/hardware or hardware
 * beside the program's folder (installed, or built in the source tree), or in hardware here. Errors: TRINE_EINVAL
 * with the names that there are; those of reading and of hardware_parse. Not collective. */
trine_status hardware_read(hardware *out, const char *name);
/* The file that it reads; "": there is none of that name. Not collective. */
void hardware_file(const char *name, char path[HARDWARE_PATH]);

/* Whether the machine, --hardware NAME, is one for --device KIND, which `place` gives ("--device", or a log). GPUs
 * on a machine of CPUs are refused: TRINE_EINVAL. CPUs on a machine of GPUs are said to be so on standard error:
 * times are then those of the GPUs. Not collective. */
trine_status hardware_check_device(const hardware *h, const char *name, const char *place,
                                   const char *kind);

/* Rates of `factor` times their values; the machine is then unchecked. Pure. */
void hardware_scale(hardware *h, double factor);
/* The text of file NAME, scaled, each number that changed marked as fitted, with `source` and what it was before;
 * owned by the caller (free). Errors: those of hardware_read, also of a number that leaves its range; TRINE_ENOMEM.
 * Not collective. */
trine_status hardware_scaled_text(const char *name, double factor, const char *source, char **text);
/* Flops a second of products in 16 bits, or in fp32, as stated: before it was calibrated. Pure. */
double hardware_peak(const hardware *h, bool half);

/* The time that a prediction may mean, [*least, *most], by the worst error on the file's own checks; false: it is
 * unchecked, and they are `seconds`. Pure. */
bool hardware_range(const hardware *h, double seconds, double *least, double *most);

#endif
