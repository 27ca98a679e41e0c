/* What ranks hold of a file, written in whole blocks.
 *
 * A rank's rows of a matrix that tp and dp cut, turned into the file's order, are runs of a few
 * kilobytes. A file system takes these at a fraction of its rate: each is a call, a lock on the
 * file and a page that is touched in part. So the ranks of a node put a block together in shared
 * memory before one of them writes it (two-phase I/O: Thakur, Gropp, Lusk, "Data sieving and
 * collective I/O in ROMIO", Frontiers 1999, section 4; here the exchange is a store into the
 * memory of the rank that writes). Blocks of which other nodes have a part are written a run at a
 * time, by every rank its own: with dp or tp across nodes that is most of the matrices that are
 * transposed, with one node or pp across nodes it is nothing.
 *
 * Each rank writes one stretch of the file, block by block. While it writes a block the next one is
 * put together in its other slot, by all:
 *
 *   round j    barrier | even ranks: write slot j % 2, store round j + 1 into slots (j + 1) % 2
 *                      | odd ranks: the other way round, so that a file's lock is not all they do
 *
 * Invariant: which blocks are put together follows from what ranks say that they hold, agreed on
 * before; a rank that fails goes on to the barriers and says so at the end. Cost: two blocks of
 * memory a rank and, while a file is written, 17 bytes for each of its blocks; a barrier a round. */
#ifndef TRINE_CKPT_BLOCKS_H
#define TRINE_CKPT_BLOCKS_H

#include "ckpt/slice.h"
#include "comm/api/comm.h"

typedef struct {
    trine_mesh *mesh;
    trine_comm *node; /* who puts blocks together; NULL: this rank by itself */
    device *dev;
    int rank, size; /* in that group */
    size_t block;   /* bytes of one, the same on all ranks */
    void *slots;    /* two blocks; the group stores into them, too */
    void *own;      /* they, if they are not the mesh's */
    char **peers;   /* [size] every rank's slots */
    void *buffer;   /* slice_move's */
} blocks_writer;

/* Takes the memory; where there is no shared memory, or no room in it, each rank writes by itself.
 * `row`: bytes of the longest row of the files; a block has some of them, for what is transposed is
 * read in runs as long as a block has rows. *w is all zero after a failure, else it is ended by
 * blocks_writer_destroy. Errors, on every rank: TRINE_ENOMEM; the collectives' own. Collective
 * over: world. */
trine_status blocks_writer_create(blocks_writer *w, trine_mesh *mesh, device *dev, uint64_t row);
/* Also of a writer that is all zero. Collective over: world. */
void blocks_writer_destroy(blocks_writer *w);
/* Whether it has been made. */
bool blocks_writer_ready(const blocks_writer *w);
/* Whether there was no room for memory that the ranks of a node share. */
bool blocks_writer_alone(const blocks_writer *w);

/* Writes what the rectangles (of this rank; sorted) have into file `fd`, whose header is `h`, and
 * begins to send it to the disk; *sum += slice_sum of it. `path` is for messages. Errors, of this
 * rank alone: TRINE_EIO, TRINE_ENOMEM, the device's; the collectives' own. Collective over: node. */
trine_status blocks_write(blocks_writer *w, int fd, const char *path, const st_header *h,
                          const slice_list *list, uint64_t *sum);

/* Bytes of a block: a power of two between these. */
#define BLOCKS_LEAST ((size_t)1 << 20)
#define BLOCKS_MOST  SLICE_BYTES
/* A test sets it on every rank: a multiple of 8, at most BLOCKS_MOST; 0: as the rows are. */
void blocks_size(size_t bytes);

#endif
