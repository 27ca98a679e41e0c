/* Files of tensors in the safetensors format (github.com/huggingface/safetensors, "Format"): eight
 * bytes of little-endian header length, a JSON object {name: {"dtype", "shape", "data_offsets"}},
 * then the tensors' bytes, row-major, without holes.
 *
 * Invariant: a header that st_parse accepts describes bytes that are all inside the file, each of
 * one tensor; nothing is believed before it is checked, so that no file, however broken, costs
 * memory beyond a multiple of its own header: base/json.h has the number. Data need not be aligned.
 * Cost: parsing is two passes over the header; finding a tensor is a binary search. */
#ifndef TRINE_CKPT_SAFETENSORS_H
#define TRINE_CKPT_SAFETENSORS_H

#include "trine.h"

#define ST_NAME 128 /* bytes of a name, with its end; longer ones are refused */
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
    uint64_t data;  /* where the tensors' bytes begin */
    uint64_t bytes; /* of the whole file */
} st_header;

/* Lays `count` tensors out in the order given (their begin and end are set here) and writes the
 * header's bytes, *text_bytes of them, length and padding included, to *text, owned by the caller
 * (free). Data begins at a multiple of 256 bytes. "__metadata__" says {"format": "pt"}, which
 * Hugging Face's readers ask for. *h is ended by st_free. Errors: TRINE_ENOMEM; TRINE_EDATA when
 * two have one name, or the header has more bytes than the format permits. Pure. */
trine_status st_build(st_header *h, const st_entry *tensors, size_t count, char **text,
                      size_t *text_bytes);

/* Reads a header from the first `available` bytes of a file of `bytes`; `path` is for messages. *h
 * is ended by st_free. Errors: TRINE_EDATA names what is wrong; TRINE_ENOMEM. Pure. */
trine_status st_parse(st_header *h, const void *text, size_t available, uint64_t bytes,
                      const char *path);

/* The tensor of that name; NULL if there is none. Pure. */
const st_entry *st_find(const st_header *h, const char *name);
void st_free(st_header *h);

/* A file that is open to be read. */
typedef struct {
    char *path;
    int fd;
    st_header header;
    uint64_t print; /* XXH3 of the header's bytes */
} st_file;

/* Reads the header. Errors: TRINE_EIO, TRINE_EDATA, TRINE_ENOMEM; *f is empty then. Ended by
 * st_close. Not collective. */
trine_status st_open(st_file *f, const char *path);
/* `bytes` bytes of the file from byte `place` on. Errors: TRINE_EIO names file and byte, also of a
 * file that was cut since st_open. Not collective. */
trine_status st_read(const st_file *f, void *to, size_t bytes, uint64_t place);
void st_close(st_file *f);

#endif
