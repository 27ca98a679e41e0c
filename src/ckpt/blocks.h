/* Writes the ranks' shards of a file in full blocks.
 *
 * A rank's rows of a matrix that is sharded over tp and dp, transposed into the file's order, are runs of a
 * few kilobytes. A file system writes these at a fraction of its rate: each run is a call, a lock on the
 * file and a partly written page. So the ranks of a node assemble a block in shared memory before one of
 * them writes it (two-phase I/O: Thakur, Gropp, Lusk, "Data sieving and collective I/O in ROMIO", Frontiers
 * 1999, section 4; here the exchange is a store into the memory of the rank that writes). Blocks shared
 * with other nodes are written run by run, by every rank its own: with dp or tp across nodes these are most
 * blocks of transposed matrices, with one node or pp across nodes there are none.
 *
 * Each rank writes one contiguous range of the file, block by block. While it writes a block, all ranks
 * assemble the next one in its other slot:
 *
 *   round j    barrier | even ranks: write slot j % 2, store round j + 1 into slots (j + 1) % 2
 *                      | odd ranks: in the other order, so that not all ranks wait for the file's lock
 *
 * Invariant: the ranks agree beforehand on the blocks to assemble, from the shards that they hold; a rank
 * that fails still enters the barriers and returns its error at the end. Cost: two blocks of memory a rank
 * and, while a file is written, 17 bytes for each of its blocks; one barrier a round. */
#ifndef TRINE_CKPT_BLOCKS_H
#define TRINE_CKPT_BLOCKS_H

#include "ckpt/slice.h"
#include "comm/api/comm.h"

typedef struct {
    trine_mesh *mesh;
    trine_comm *node; /* assembles blocks; NULL: this rank alone */
    device *dev;
    int rank, size; /* in that group */
    size_t block;   /* bytes of a block, the same on all ranks */
    void *slots;    /* two blocks; all ranks of `node` store into them */
    void *own;      /* slots, if allocated here and not by the mesh */
    char **peers;   /* slots of every rank */
    void *buffer;   /* for slice_move */
} blocks_writer;

/* Allocates the memory; without shared memory, or without space in it, each rank writes alone. `row`: bytes
 * of the longest row of the files; a block holds several rows, because transposed data are read in runs of
 * as many elements as a block has rows. *w is all zero after an error, else destroyed by
 * blocks_writer_destroy. Errors, on every rank: TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status blocks_writer_create(blocks_writer *w, trine_mesh *mesh, device *dev, uint64_t row);
/* `w` may be all zero. Collective over: world. */
void blocks_writer_destroy(blocks_writer *w);
/* Whether it has been created. */
bool blocks_writer_ready(const blocks_writer *w);
/* Whether there was not enough shared memory. */
bool blocks_writer_alone(const blocks_writer *w);

/* Writes this rank's rectangles (sorted) into file `fd`, whose header is `h`, and starts writing it back to
 * the disk; *sum += slice_sum of them. `path` is for messages. Errors, on this rank alone: TRINE_EIO,
 * TRINE_ENOMEM, the device's; the collectives' own. Collective over: node. */
trine_status blocks_write(blocks_writer *w, int fd, const char *path, const st_header *h,
                          const slice_list *list, uint64_t *sum);

/* Bytes of a block: a power of two in this range. */
#define BLOCKS_LEAST ((size_t)1 << 20)
#define BLOCKS_MOST  SLICE_BYTES
/* For tests, on every rank: bytes of a block, a multiple of 8, at most BLOCKS_MOST; 0: chosen from the
 * rows. */
void blocks_size(size_t bytes);

#endif
