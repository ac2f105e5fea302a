/* gantrymq.formats.record: positions of the fields before the body in a record with IPv4 hosts. After the body: length and
 * topic, u16 length of the properties, properties. */
#ifndef GANTRYMQ_RECORD_H
#define GANTRYMQ_RECORD_H

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

/* gantrymq_store_files.queue_entry: i64 log offset, i32 size, i64 tags code. */
enum { ENTRY_SIZE_AT = 8, ENTRY_BYTES = 20 };

#endif
