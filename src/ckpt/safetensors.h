/* Files in the safetensors format (github.com/huggingface/safetensors, "Format"): eight bytes of
 * little-endian header length, a JSON object {name: {"dtype", "shape", "data_offsets"}}, then the tensors'
 * bytes, row-major, without gaps.
 *
 * Invariant: a header that st_parse accepts describes bytes inside the file, each of one tensor. Nothing is
 * used before it is checked, so a broken file costs no more memory than a multiple of its own header:
 * base/json.h has the number. Data need not be aligned. Cost: parsing is two passes over the header;
 * finding a tensor is a binary search. */
#ifndef TRINE_CKPT_SAFETENSORS_H
#define TRINE_CKPT_SAFETENSORS_H

#include "trine_types.h"

#define ST_NAME 128 /* bytes of a name with its terminating zero; longer ones are refused */
#define ST_DIMS 8

/* One tensor of a file. */
typedef struct {
    char name[ST_NAME];
    bool known; /* type is one of F32, F64, I32, I64, U8, BF16, F16; else the bytes are opaque */
    trine_dtype type;
    int dims;
    uint64_t shape[ST_DIMS];
    uint64_t begin, end; /* bytes, from the start of the file */
} st_entry;

typedef struct {
    st_entry *entries; /* [count] sorted by name; owned */
    size_t count;
    uint64_t data;  /* file offset of the tensors' bytes */
    uint64_t bytes; /* size of the file */
} st_header;

/* Lays out `count` tensors in the given order (sets their begin and end) and writes the header, *text_bytes
 * bytes with length and padding, to *text, owned by the caller (free). Data begin at a multiple of 256
 * bytes. "__metadata__" is {"format": "pt"}, which Hugging Face's readers require. *h is freed by st_free.
 * Errors: TRINE_ENOMEM; TRINE_EDATA when two tensors have the same name or the header exceeds the format's
 * limit. Pure. */
trine_status st_build(st_header *h, const st_entry *tensors, size_t count, char **text,
                      size_t *text_bytes);

/* Parses a header from the first `available` bytes of a file of `bytes`; `path` is for messages. *h is
 * freed by st_free. Errors: TRINE_EDATA names the fault; TRINE_ENOMEM. Pure. */
trine_status st_parse(st_header *h, const void *text, size_t available, uint64_t bytes,
                      const char *path);

/* The tensor of that name, or NULL. Pure. */
const st_entry *st_find(const st_header *h, const char *name);
void st_free(st_header *h);

/* A file open for reading. */
typedef struct {
    char *path;
    int fd;
    st_header header;
    uint64_t fingerprint; /* XXH3 of the header's bytes */
} st_file;

/* Opens a file and reads its header; closed by st_close. Errors: TRINE_EIO, TRINE_EDATA, TRINE_ENOMEM; *f
 * is empty then. Not collective. */
trine_status st_open(st_file *f, const char *path);
/* Reads `bytes` bytes at file offset `place`. Errors: TRINE_EIO names file and byte, also for a file that
 * was truncated since st_open. Not collective. */
trine_status st_read(const st_file *f, void *to, size_t bytes, uint64_t place);
void st_close(st_file *f);

#endif
