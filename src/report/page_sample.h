/* Texts that a page shows, such as what trine-generate has written: the beginning of a file, as it may stand
 * there. */
#ifndef TRINE_REPORT_PAGE_SAMPLE_H
#define TRINE_REPORT_PAGE_SAMPLE_H

#include "trine_types.h" /* trine_status */

/* Bytes of a file that a page shows, at most. */
#define PAGE_SAMPLE_BYTES 8192

typedef struct {
    const char *path; /* not owned */
    char *text;       /* owned: valid UTF-8; of control characters it has ends of lines and tabs alone */
    bool cut;         /* the file is longer */
} page_sample;

/* Owned by the caller (page_sample_destroy), on failure as well. A mark of UTF-8 is skipped, the end of a line is \n,
 * and any other control character, also one that changes the direction of text, becomes U+FFFD. Errors: TRINE_EDATA
 * begins with the path: what is shown is not UTF-8, with the byte; TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status page_sample_read(page_sample *s, const char *path);
void page_sample_destroy(page_sample *s);

#endif
