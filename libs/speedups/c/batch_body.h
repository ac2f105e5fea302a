/* gantrymq.formats.batch_body: i32 size, magic, body CRC, flag, body length; body; i16 properties length; properties. */
#ifndef GANTRYMQ_BATCH_BODY_H
#define GANTRYMQ_BATCH_BODY_H

#include "common.h"

enum { BATCH_FLAG_AT = 12, BATCH_LENGTH_AT = 16, BATCH_HEAD_BYTES = 20, LEAST_BATCH_BYTES = 22 };

typedef struct {
    const unsigned char *body, *properties;
    Py_ssize_t size, body_size, properties_size;
    int32_t flag;
} BatchEntry;

/* Read the entry at the start of *left* bytes; 0 if it is cut short or its lengths are inconsistent. */
static inline int
read_batch_entry(const unsigned char *at, Py_ssize_t left, BatchEntry *entry)
{
    if (left < LEAST_BATCH_BYTES) {
        return 0;
    }
    Py_ssize_t size = read_i32(at), body_size = read_i32(at + BATCH_LENGTH_AT);
    if (size < LEAST_BATCH_BYTES || size > left || body_size < 0 || body_size > size - LEAST_BATCH_BYTES) {
        return 0;
    }
    const unsigned char *length_at = at + BATCH_HEAD_BYTES + body_size;
    entry->body = at + BATCH_HEAD_BYTES;
    entry->properties = length_at + 2;
    entry->size = size;
    entry->body_size = body_size;
    entry->properties_size = size - LEAST_BATCH_BYTES - body_size;
    entry->flag = read_i32(at + BATCH_FLAG_AT);
    int16_t length = read_i16(length_at);
    return length >= 0 && length == entry->properties_size;
}

#endif
