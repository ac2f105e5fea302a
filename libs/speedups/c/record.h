/* gantrymq.formats.record: positions of the fields before the body in a record with IPv4 hosts. After the body: length and
 * topic, u16 length of the properties, properties. */
#ifndef GANTRYMQ_RECORD_H
#define GANTRYMQ_RECORD_H

#include "common.h"

enum {
    SIZE_AT = 0,
    MAGIC_AT = 4,
    CRC_AT = 8,
    QUEUE_ID_AT = 12,
    FLAG_AT = 16,
    QUEUE_OFFSET_AT = 20,
    LOG_OFFSET_AT = 28,
    SYS_FLAG_AT = 36,
    BORN_AT = 40,
    BORN_HOST_AT = 48,
    STORED_AT = 56,
    STORE_HOST_AT = 64,
    RECONSUMED_AT = 72,
    PREPARED_AT = 76,
    BODY_LENGTH_AT = 84,
    HEAD_BYTES = 88,
};

enum { HOST_BYTES = 8, LENGTH_BYTES = 2 };

/* The fields before the body. */
typedef struct {
    Py_ssize_t size, body_size;
    uint32_t magic, crc;
    long long queue_id, flag, queue_offset, log_offset, sys_flag, born, stored, reconsumed, prepared;
    const void *born_host, *store_host;
} RecordHead;

/* Write the fields before the body; return where the body belongs. */
static inline unsigned char *
write_head(unsigned char *to, const RecordHead *head)
{
    write_u32(to + SIZE_AT, (uint32_t)head->size);
    write_u32(to + MAGIC_AT, head->magic);
    write_u32(to + CRC_AT, head->crc & 0x7FFFFFFF);
    write_u32(to + QUEUE_ID_AT, (uint32_t)head->queue_id);
    write_u32(to + FLAG_AT, (uint32_t)head->flag);
    write_u64(to + QUEUE_OFFSET_AT, (uint64_t)head->queue_offset);
    write_u64(to + LOG_OFFSET_AT, (uint64_t)head->log_offset);
    write_u32(to + SYS_FLAG_AT, (uint32_t)head->sys_flag);
    write_u64(to + BORN_AT, (uint64_t)head->born);
    write_bytes(to + BORN_HOST_AT, head->born_host, HOST_BYTES);
    write_u64(to + STORED_AT, (uint64_t)head->stored);
    write_bytes(to + STORE_HOST_AT, head->store_host, HOST_BYTES);
    write_u32(to + RECONSUMED_AT, (uint32_t)head->reconsumed);
    write_u64(to + PREPARED_AT, (uint64_t)head->prepared);
    write_u32(to + BODY_LENGTH_AT, (uint32_t)head->body_size);
    return to + HEAD_BYTES;
}

/* gantrymq_store_files.queue_entry: i64 log offset, i32 size, i64 tags code. */
enum { ENTRY_SIZE_AT = 8, ENTRY_BYTES = 20 };

static inline unsigned char *
write_entry(unsigned char *to, long long log_offset, Py_ssize_t size, long long tags)
{
    return write_u64(write_u32(write_u64(to, (uint64_t)log_offset), (uint32_t)size), (uint64_t)tags);
}

#endif
