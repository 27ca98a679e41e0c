/* The formats of token files: how a file is recognised, and where its ids lie. A new format is a file format_*.c and
 * a row of the table in format.c. Every format keeps its ids as integers of one type: in one piece, or in records of
 * equal size (windows.h). */
#ifndef TRINE_DATA_FORMAT_H
#define TRINE_DATA_FORMAT_H

#include "data/windows.h"

/* ---- llm.c's files, which the writer makes (see tokens.h) ---- */

#define FORMAT_HEADER    256 /* int32 */
#define FORMAT_TOKENIZER 4   /* the header's first int32 of the tokenizer's hash: uint64, low word first */

typedef struct {
    int32_t magic, version;
    size_t width; /* bytes a token */
} token_kind;

static const token_kind FORMAT_U16 = {20240520, 1, 2}, FORMAT_U32 = {20240801, 7, 4};

/* ---- Files of windows (windows.h), whose header begins as llm.c's ---- */

#define FORMAT_T          6 /* the int32 of T */
#define FORMAT_SUPERVISED 7 /* uint64, low word first, as the hash of what is before it */
#define FORMAT_HASH       9

static const token_kind WINDOWS_U16 = {20260116, 1, 2}, WINDOWS_U32 = {20260132, 1, 4};

/* ---- All formats ---- */

/* An open file. */
typedef struct {
    const char *path;
    int fd;
    uint64_t bytes;
} format_file;

/* What a format finds in a file. */
typedef struct {
    uint64_t offset;    /* of the first id, in bytes */
    uint64_t count;     /* of ids */
    size_t width;       /* bytes an id: 1, 2, 4 or 8 */
    bool is_signed;
    uint32_t vocab;     /* 0: the file does not say */
    uint64_t tokenizer; /* its hash; 0: the file does not say */
    uint32_t window;    /* T, of files of windows; 0: the ids are in one piece */
    uint64_t supervised; /* tokens of all windows */
} format_ids;

typedef struct {
    const char *name;   /* for messages: "an llm.c token file" */
    const char *prefix; /* of a path, where a user names the format of a file that does not tell; NULL: it tells */
    trine_status (*is)(const format_file *file, bool *is); /* NULL: only by the prefix */
    /* Checks the file, whose size may change afterwards. Errors: TRINE_EDATA, TRINE_EIO. */
    trine_status (*find)(const format_file *file, format_ids *ids);
} token_format;

extern const token_format format_llmc, format_megatron, format_nanogpt, format_windows;

/* The header of a file of windows. Pure. */
void format_windows_header(const format_ids *ids, int32_t header[FORMAT_HEADER]);

/* Splits the prefix off a path: *format is NULL and the result `path` if there is none. Pure. */
const char *format_of_path(const char *path, const token_format **format);

/* The file's format. Errors: TRINE_EDATA when no format has such files; TRINE_EIO. */
trine_status format_of_file(const format_file *file, const token_format **format);

/* Checks Megatron-LM's index `file` of a .bin file with bin_bytes bytes. Memory: 64 KiB whatever the file says.
 * Errors: TRINE_EDATA; TRINE_EIO. Not collective. */
trine_status format_megatron_index(const format_file *file, uint64_t bin_bytes, format_ids *ids);

#endif
