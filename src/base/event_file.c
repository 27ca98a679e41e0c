#include "base/event_file.h"

#include <stdlib.h>
#include <string.h>

/* ---- Bytes ---- */

void event_bytes_free(event_bytes *b) {
    free(b->at);
    *b = (event_bytes){0};
}

static void put(event_bytes *b, const void *bytes, size_t count) {
    if (b->room - b->count < count) {
        size_t room = 2 * b->room + count;
        char *at = realloc(b->at, room);
        b->failed = b->failed || !at;
        if (!at) return;
        b->at = at;
        b->room = room;
    }
    if (count) memcpy(b->at + b->count, bytes, count);
    b->count += count;
}

static void put_little(event_bytes *b, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) put(b, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

/* ---- Protobuf ---- */

enum { VARINT, FIXED64, LENGTH, FIXED32 = 5 }; /* how a field is written */

static void put_varint(event_bytes *b, uint64_t value) {
    for (; value > 127; value >>= 7) put_little(b, value | 128, 1);
    put_little(b, value, 1);
}

static void put_field(event_bytes *b, int field, int how) {
    put_varint(b, (uint64_t)(field << 3 | how));
}

static void put_integer(event_bytes *b, int field, int64_t value) {
    put_field(b, field, VARINT);
    put_varint(b, (uint64_t)value);
}

static void put_double(event_bytes *b, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field(b, field, FIXED64);
    put_little(b, bits, 8);
}

static void put_float(event_bytes *b, int field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field(b, field, FIXED32);
    put_little(b, bits, 4);
}

static void put_text(event_bytes *b, int field, const char *text) {
    put_field(b, field, LENGTH);
    put_varint(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_message(event_bytes *b, int field, event_bytes *message) {
    put_field(b, field, LENGTH);
    put_varint(b, message->count);
    put(b, message->at, message->count);
    b->failed = b->failed || message->failed;
    event_bytes_free(message);
}

/* ---- Records ---- */

static uint32_t crc32c(const char *bytes, size_t count) {
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < count; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

static uint32_t checksum(const char *bytes, size_t count) {
    uint32_t crc = crc32c(bytes, count);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_record(event_bytes *file, event_bytes *message) {
    event_bytes length = {0};
    put_little(&length, message->count, 8);
    put(file, length.at, length.count);
    put_little(file, length.failed ? 0 : checksum(length.at, length.count), 4);
    put(file, message->at, message->count);
    put_little(file, checksum(message->at, message->count), 4);
    file->failed = file->failed || length.failed || message->failed;
    event_bytes_free(&length);
    event_bytes_free(message);
}

/* ---- Events ---- */

/* The fields of the messages. */
enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE, VALUE_TENSOR = 8, VALUE_METADATA };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, CLASS_TENSOR = 2 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE, TENSOR_STRING = 8, TYPE_STRING = 7 };

void event_number(event_bytes *values, const char *tag, double value) {
    event_bytes v = {0};
    put_text(&v, VALUE_TAG, tag);
    put_float(&v, VALUE_SIMPLE, (float)value);
    put_message(values, SUMMARY_VALUE, &v);
}

void event_text(event_bytes *values, const char *tag, const char *text) {
    event_bytes v = {0}, tensor = {0}, shape = {0}, metadata = {0}, plugin = {0};
    put_integer(&tensor, TENSOR_TYPE, TYPE_STRING);
    put_message(&tensor, TENSOR_SHAPE, &shape); /* of a scalar */
    put_text(&tensor, TENSOR_STRING, text);
    put_text(&plugin, PLUGIN_NAME, "text");
    put_message(&metadata, METADATA_PLUGIN, &plugin);
    put_integer(&metadata, METADATA_CLASS, CLASS_TENSOR);
    put_text(&v, VALUE_TAG, tag);
    put_message(&v, VALUE_TENSOR, &tensor);
    put_message(&v, VALUE_METADATA, &metadata);
    put_message(values, SUMMARY_VALUE, &v);
}

void event_values(event_bytes *file, double seconds, int64_t step, const event_bytes *values) {
    event_bytes event = {0}, copy = {0};
    put(&copy, values->at, values->count);
    copy.failed = copy.failed || values->failed;
    put_double(&event, EVENT_TIME, seconds);
    put_integer(&event, EVENT_STEP, step);
    put_message(&event, EVENT_SUMMARY, &copy);
    put_record(file, &event);
}

void event_version(event_bytes *file, double seconds) {
    event_bytes event = {0};
    put_double(&event, EVENT_TIME, seconds);
    put_text(&event, EVENT_VERSION, "brain.Event:2");
    put_record(file, &event);
}

void event_session(event_bytes *file, double seconds, int64_t step) {
    event_bytes event = {0}, session = {0};
    put_integer(&session, SESSION_STATUS, SESSION_START);
    put_double(&event, EVENT_TIME, seconds);
    put_integer(&event, EVENT_STEP, step);
    put_message(&event, EVENT_SESSION, &session);
    put_record(file, &event);
}
