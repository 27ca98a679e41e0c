/* Events of TensorBoard, as bytes of its event files: protobuf messages of tensorflow's event.proto and
 * summary.proto, each in a record with two checksums (tensorflow/core/lib/io/record_writer.h):
 *
 *     length (8 bytes, little-endian) | checksum of these | message | checksum of the message
 *
 * A checksum is the CRC-32C rotated and added to a constant, as four bytes. Nothing here is collective. */
#ifndef TRINE_BASE_EVENT_FILE_H
#define TRINE_BASE_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of bytes; all zero: empty. */
typedef struct {
    char *at; /* owned */
    size_t count, room;
    bool failed; /* out of memory: what was added since is missing */
} event_bytes;

void event_bytes_free(event_bytes *b); /* leaves it empty */

/* Adds a value to the list of an event's values, for event_values: a number, which the files have in fp32; or a
 * text, in Markdown. */
void event_number(event_bytes *values, const char *tag, double value);
void event_text(event_bytes *values, const char *tag, const char *text);

/* Adds the record of an event at `step`, at the time of day `seconds`: of values; that the file begins, the first of
 * each file; that a session begins with this step, from which a reader removes what sessions before it have from this
 * step on. */
void event_values(event_bytes *file, double seconds, int64_t step, const event_bytes *values);
void event_version(event_bytes *file, double seconds);
void event_session(event_bytes *file, double seconds, int64_t step);

#endif
