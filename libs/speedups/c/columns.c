/* gantrymq_spark.record_run: sound_starts; gantrymq_spark.compiled_columns: record_columns */
#include "common.h"
#include "record.h"

enum {
    LEAST_BYTES = HEAD_BYTES + 1 + LENGTH_BYTES,
    MORE_OF_IPV6 = 12,
    LONGEST_HEAD = HEAD_BYTES + 2 * MORE_OF_IPV6,
    CRC_TAIL_BYTES = 20,
    CRC_DIGITS_AT = 9, /* after the name and 0x01 */
    NAME_END = 1,
    PAIR_END = 2,
    LEAST_PAIR = 4,
    MOST_PAIRS = 32768 / LEAST_PAIR, /* of a text with a signed 16-bit length */
    FEW_PAIRS = 16,                  /* up to this number, names are compared with each other */
    HASHED_PAIRS = 4 * MOST_PAIRS,   /* a power of two */
    HOST_CHARACTERS = 27,            /* 255.255.255.255:-2147483648 */
};

enum { CHECK_LOG_OFFSET = 1, CHECK_BODY = 2, CHECK_PROPERTIES = 4 };

/* Kinds of columns, as in the Python module. */
enum { INT32, INT64, TIME, HOST, TOPIC, BODY, OFFSET_ID, PROPERTY, MAP };

/* What tells records apart: magics, flags of IPv6 hosts. */
typedef struct {
    unsigned int magic[2], host_flags[2];
} Format;

/* Positions in the data. */
typedef struct {
    uint32_t at, body, topic, properties, end;
    uint16_t topic_size;
    uint8_t born_more, store_more; /* bytes that an IPv6 host has more than an IPv4 host */
    uint32_t body_size;
} Parts;

typedef struct {
    uint32_t start, mark, stop; /* of the name, of the separator, of the end of the value */
} Pair;

/* --- records -------------------------------------------------------------------------------------------------------- */

/* Find the parts of the record at a position; 0 if its lengths do not add up or it is not complete. */
static int
find_parts(const Format *format, const unsigned char *data, Py_ssize_t length, Py_ssize_t place, Parts *parts)
{
    if (place < 0 || length - place < LEAST_BYTES) {
        return 0;
    }
    const unsigned char *at = data + place;
    int64_t size = read_i32(at + SIZE_AT);
    uint32_t magic = read_u32(at + MAGIC_AT), flags = read_u32(at + SYS_FLAG_AT);
    if ((magic != format->magic[0] && magic != format->magic[1]) || size < LEAST_BYTES || size > length - place) {
        return 0;
    }
    int born_more = flags & format->host_flags[0] ? MORE_OF_IPV6 : 0;
    int store_more = flags & format->host_flags[1] ? MORE_OF_IPV6 : 0;
    int64_t head = HEAD_BYTES + born_more + store_more;
    if (head + 1 + LENGTH_BYTES > size) {
        return 0;
    }
    int64_t body_size = read_i32(at + head - 4), name_at = head + body_size + 1;
    if (body_size < 0 || name_at + LENGTH_BYTES > size) {
        return 0;
    }
    int64_t name_size = at[name_at - 1];
    if (magic == format->magic[1]) {
        name_size = read_i16(at + name_at - 1);
        name_at++;
    }
    int64_t length_at = name_at + name_size;
    if (name_size <= 0 || length_at + LENGTH_BYTES > size) {
        return 0;
    }
    int64_t text_size = read_i16(at + length_at);
    if (length_at + LENGTH_BYTES + text_size != size) {
        return 0;
    }
    parts->at = (uint32_t)place;
    parts->body = (uint32_t)(place + head);
    parts->body_size = (uint32_t)body_size;
    parts->topic = (uint32_t)(place + name_at);
    parts->topic_size = (uint16_t)name_size;
    parts->properties = (uint32_t)(place + length_at + LENGTH_BYTES);
    parts->end = (uint32_t)(place + size);
    parts->born_more = (uint8_t)born_more;
    parts->store_more = (uint8_t)store_more;
    return 1;
}

/* Whether bytes are UTF-8 as Python's strict decoder accepts it. */
static int
is_utf8(const unsigned char *at, Py_ssize_t size)
{
    if (is_ascii(at, size)) {
        return 1;
    }
    const unsigned char *end = at + size;
    while (at < end) {
        unsigned char first = *at++, least = 0x80, most = 0xBF;
        int more;
        if (first < 0x80) {
            continue;
        }
        if (first >= 0xC2 && first <= 0xDF) {
            more = 1;
        } else if (first >= 0xE0 && first <= 0xEF) {
            more = 2;
            least = first == 0xE0 ? 0xA0 : least;
            most = first == 0xED ? 0x9F : most; /* no surrogates */
        } else if (first >= 0xF0 && first <= 0xF4) {
            more = 3;
            least = first == 0xF0 ? 0x90 : least;
            most = first == 0xF4 ? 0x8F : most;
        } else {
            return 0;
        }
        if (end - at < more || *at < least || *at > most) {
            return 0;
        }
        for (at++, more--; more > 0; at++, more--) {
            if (*at < 0x80 || *at > 0xBF) {
                return 0;
            }
        }
    }
    return 1;
}

static inline int
is_clean_text(const unsigned char *at, Py_ssize_t size)
{
    return memchr(at, 0, (size_t)size) == NULL && is_utf8(at, size);
}

/* Whether a record has no checksum of its own (record_crc), or the right one. */
static int
own_crc_is_right(const unsigned char *record, Py_ssize_t size, const char *tail_start)
{
    const unsigned char *tail = record + size - CRC_TAIL_BYTES;
    if (memcmp(tail, tail_start, CRC_DIGITS_AT) != 0 || tail[CRC_TAIL_BYTES - 1] != PAIR_END) {
        return 1;
    }
    uint32_t left = crc32_of(record, size - CRC_TAIL_BYTES) & 0x7FFFFFFF;
    for (int at = CRC_DIGITS_AT; at < CRC_TAIL_BYTES - 1; at++, left /= 10) {
        if (tail[at] != '0' + left % 10) {
            return 0;
        }
    }
    return 1;
}

/* --- sound_starts ----------------------------------------------------------------------------------------------------- */

static PyObject *
sound_starts(PyObject *Py_UNUSED(module), PyObject *args)
{
    Format format;
    Py_buffer data;
    PyObject *filler, *tail_start;
    Py_ssize_t end;
    long long base;
    int checks;
    if (!PyArg_ParseTuple(args, "(IIII)SSy*nLi:sound_starts", &format.magic[0], &format.magic[1], &format.host_flags[0],
                          &format.host_flags[1], &filler, &tail_start, &data, &end, &base, &checks)) {
        return NULL;
    }
    const unsigned char *at = data.buf, *topic = NULL;
    Py_ssize_t place = 0, topic_size = 0, count = 0, length = data.len < INT32_HIGH ? data.len : INT32_HIGH;
    PyObject *found = NULL;
    if (size_of(tail_start) != CRC_DIGITS_AT) {
        PyErr_SetString(PyExc_ValueError, "the start of the checksum property has 9 bytes");
    } else {
        found = PyByteArray_FromStringAndSize(NULL, (length / LEAST_BYTES + 1) * (Py_ssize_t)sizeof(int64_t));
    }
    if (found == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    unsigned char *to = (unsigned char *)PyByteArray_AsString(found);
    Parts parts;
    while (place < end && length - place >= LONGEST_HEAD && find_parts(&format, at, length, place, &parts)) {
        const unsigned char *record = at + place;
        if (checks & CHECK_LOG_OFFSET && (uint64_t)read_i64(record + LOG_OFFSET_AT) != (uint64_t)base + (uint64_t)place) {
            break;
        }
        if (checks & CHECK_BODY && (crc32_of(at + parts.body, parts.body_size) & 0x7FFFFFFF) != read_u32(record + CRC_AT)) {
            break;
        }
        if (topic == NULL || topic_size != parts.topic_size || memcmp(topic, at + parts.topic, parts.topic_size) != 0) {
            topic = at + parts.topic;
            topic_size = parts.topic_size;
            if (!is_clean_text(topic, topic_size) ||
                (topic_size == size_of(filler) && memcmp(topic, PyBytes_AsString(filler), (size_t)topic_size) == 0)) {
                break;
            }
        }
        if (checks & CHECK_PROPERTIES &&
            (!is_clean_text(at + parts.properties, parts.end - parts.properties) ||
             !own_crc_is_right(record, parts.end - parts.at, PyBytes_AsString(tail_start)))) {
            break;
        }
        int64_t start = place;
        memcpy(to + count * (Py_ssize_t)sizeof start, &start, sizeof start);
        count++;
        place = parts.end;
    }
    PyBuffer_Release(&data);
    if (PyByteArray_Resize(found, count * (Py_ssize_t)sizeof(int64_t)) < 0) {
        Py_CLEAR(found);
    }
    return found;
}

/* --- columns of fixed width ------------------------------------------------------------------------------------------- */

static inline Py_ssize_t
shift_of(const Parts *parts, Py_ssize_t field)
{
    return (field > BORN_HOST_AT ? parts->born_more : 0) + (field > STORE_HOST_AT ? parts->store_more : 0);
}

static inline const unsigned char *
field_of(const unsigned char *data, const Parts *parts, Py_ssize_t field)
{
    return data + parts->at + field + shift_of(parts, field);
}

/* A bytearray with undefined content; its size can be reduced later, that of bytes cannot in the limited API. */
static PyObject *
new_bytes(Py_ssize_t size, unsigned char **at)
{
    PyObject *made = PyByteArray_FromStringAndSize(NULL, size);
    *at = made == NULL ? NULL : (unsigned char *)PyByteArray_AsString(made);
    return made;
}

/* A bit for each row, all of them set. */
static PyObject *
new_bits(Py_ssize_t count, unsigned char **at)
{
    PyObject *made = new_bytes((count + 7) / 8, at);
    if (made != NULL) {
        memset(*at, 0xFF, (size_t)((count + 7) / 8));
    }
    return made;
}

static inline void
clear_bit(unsigned char *bits, Py_ssize_t row)
{
    bits[row / 8] &= (unsigned char)~(1u << row % 8);
}

static PyObject *
int32_column(const unsigned char *data, const Parts *parts, Py_ssize_t count, Py_ssize_t field)
{
    unsigned char *to;
    PyObject *made = new_bytes(count * 4, &to);
    for (Py_ssize_t row = 0; made != NULL && row < count; row++, to += 4) {
        int32_t value = read_i32(field_of(data, parts + row, field));
        memcpy(to, &value, sizeof value);
    }
    return made == NULL ? NULL : Py_BuildValue("(N)", made);
}

static PyObject *
int64_column(const unsigned char *data, const Parts *parts, Py_ssize_t count, Py_ssize_t field, long long delta)
{
    unsigned char *to;
    PyObject *made = new_bytes(count * 8, &to);
    for (Py_ssize_t row = 0; made != NULL && row < count; row++, to += 8) {
        uint64_t value = (uint64_t)read_i64(field_of(data, parts + row, field)) + (uint64_t)delta;
        memcpy(to, &value, sizeof value);
    }
    return made == NULL ? NULL : Py_BuildValue("(N)", made);
}

/* Milliseconds as microseconds; null outside the bounds. */
static PyObject *
time_column(const unsigned char *data, const Parts *parts, Py_ssize_t count, Py_ssize_t field, long long first,
            long long last)
{
    unsigned char *to, *bits;
    PyObject *made = new_bytes(count * 8, &to), *valid = made == NULL ? NULL : new_bits(count, &bits);
    if (valid == NULL) {
        Py_XDECREF(made);
        return NULL;
    }
    for (Py_ssize_t row = 0; row < count; row++, to += 8) {
        int64_t value = read_i64(field_of(data, parts + row, field));
        if (value < first || value > last) {
            clear_bit(bits, row);
            value = 0;
        }
        value *= 1000;
        memcpy(to, &value, sizeof value);
    }
    return Py_BuildValue("(NN)", valid, made);
}

/* --- texts ------------------------------------------------------------------------------------------------------------ */

/* Offsets and bytes of an Arrow column under construction; both are allocated for the largest size. */
typedef struct {
    PyObject *offsets, *bytes;
    unsigned char *offset_at, *start, *at;
} Texts;

static int
new_texts(Texts *texts, Py_ssize_t count, Py_ssize_t size)
{
    texts->bytes = NULL;
    texts->offsets = new_bytes((count + 1) * 4, &texts->offset_at);
    if (texts->offsets == NULL || (texts->bytes = new_bytes(size, &texts->start)) == NULL) {
        Py_CLEAR(texts->offsets);
        return -1;
    }
    texts->at = texts->start;
    return 0;
}

static void
drop_texts(Texts *texts)
{
    Py_CLEAR(texts->offsets);
    Py_CLEAR(texts->bytes);
}

/* Note that the next text begins here. */
static inline void
begin_text(Texts *texts)
{
    int32_t offset = (int32_t)(texts->at - texts->start);
    memcpy(texts->offset_at, &offset, sizeof offset);
    texts->offset_at += sizeof offset;
}

static inline void
add_text(Texts *texts, const void *from, Py_ssize_t size)
{
    begin_text(texts);
    texts->at = write_bytes(texts->at, from, size);
}

/* Write the last offset and give back what is not used; -1 with an error, and nothing is kept. */
static int
finish_texts(Texts *texts)
{
    begin_text(texts);
    Py_ssize_t offsets = texts->offset_at - (unsigned char *)PyByteArray_AsString(texts->offsets);
    if (PyByteArray_Resize(texts->offsets, offsets) < 0 || PyByteArray_Resize(texts->bytes, texts->at - texts->start) < 0) {
        drop_texts(texts);
        return -1;
    }
    return 0;
}

static PyObject *
texts_column(Texts *texts)
{
    return finish_texts(texts) < 0 ? NULL : Py_BuildValue("(NN)", texts->offsets, texts->bytes);
}

static PyObject *
body_column(const unsigned char *data, const Parts *parts, Py_ssize_t count)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        total += parts[row].body_size;
    }
    Texts texts;
    if (new_texts(&texts, count, total) < 0) {
        return NULL;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        add_text(&texts, data + parts[row].body, parts[row].body_size);
    }
    return texts_column(&texts);
}

/* None if a topic is not UTF-8. */
static PyObject *
topic_column(const unsigned char *data, const Parts *parts, Py_ssize_t count)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        const Parts *one = parts + row, *before = one - 1;
        total += one->topic_size;
        if (row > 0 && one->topic_size == before->topic_size &&
            memcmp(data + one->topic, data + before->topic, one->topic_size) == 0) {
            continue;
        }
        if (!is_utf8(data + one->topic, one->topic_size)) {
            Py_RETURN_NONE;
        }
    }
    Texts texts;
    if (new_texts(&texts, count, total) < 0) {
        return NULL;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        add_text(&texts, data + parts[row].topic, parts[row].topic_size);
    }
    return texts_column(&texts);
}

static unsigned char *
write_host(unsigned char *to, const unsigned char *host)
{
    for (int index = 0; index < 4; index++) {
        to = write_number(to, host[index]);
        *to++ = index < 3 ? '.' : ':';
    }
    return write_number(to, read_i32(host + 4));
}

/* None if a host is IPv6. */
static PyObject *
host_column(const unsigned char *data, const Parts *parts, Py_ssize_t count, Py_ssize_t field)
{
    for (Py_ssize_t row = 0; row < count; row++) {
        if (field == BORN_HOST_AT ? parts[row].born_more : parts[row].store_more) {
            Py_RETURN_NONE;
        }
    }
    Texts texts;
    if (new_texts(&texts, count, count * HOST_CHARACTERS) < 0) {
        return NULL;
    }
    const unsigned char *before = NULL, *text = NULL;
    Py_ssize_t size = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        const unsigned char *host = field_of(data, parts + row, field);
        if (before != NULL && memcmp(host, before, HOST_BYTES) == 0) {
            add_text(&texts, text, size);
            continue;
        }
        begin_text(&texts);
        before = host;
        text = texts.at;
        texts.at = write_host(texts.at, host);
        size = texts.at - text;
    }
    return texts_column(&texts);
}

static unsigned char *
write_hex(unsigned char *to, const unsigned char *from, Py_ssize_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    for (Py_ssize_t index = 0; index < size; index++) {
        *to++ = (unsigned char)digits[from[index] >> 4];
        *to++ = (unsigned char)digits[from[index] & 15];
    }
    return to;
}

static PyObject *
offset_id_column(const unsigned char *data, const Parts *parts, Py_ssize_t count)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        total += 2 * (HOST_BYTES + parts[row].store_more + 8);
    }
    Texts texts;
    if (total > INT32_HIGH) {
        Py_RETURN_NONE;
    }
    if (new_texts(&texts, count, total) < 0) {
        return NULL;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        const Parts *one = parts + row;
        begin_text(&texts);
        texts.at = write_hex(texts.at, field_of(data, one, STORE_HOST_AT), HOST_BYTES + one->store_more);
        texts.at = write_hex(texts.at, data + one->at + LOG_OFFSET_AT, 8);
    }
    return texts_column(&texts);
}

/* --- properties ------------------------------------------------------------------------------------------------------- */

/* One column of the values of a property; a column of all properties has no name. */
typedef struct {
    Texts values;
    PyObject *name, *valid; /* the name is borrowed */
    unsigned char *bits;
} Property;

typedef struct {
    Texts names, values;
    PyObject *firsts; /* the number of the first pair of each row */
    unsigned char *first_at;
    int32_t pairs;
} Map;

typedef struct {
    Property *properties;
    Map map;
    Py_ssize_t count;
    int has_map;
    Pair *pairs;      /* of one text */
    int32_t *numbers; /* hash table of the pairs of one text; allocated when needed */
} PropertyColumns;

/* Find the pairs of one text, at most MOST_PAIRS, whose name and value are not empty. */
static Py_ssize_t
find_pairs(const unsigned char *data, uint32_t start, uint32_t end, Pair *pairs)
{
    Py_ssize_t count = 0;
    while (start < end) {
        const unsigned char *stop = memchr(data + start, PAIR_END, end - start);
        uint32_t stop_at = stop == NULL ? end : (uint32_t)(stop - data);
        const unsigned char *mark = memchr(data + start, NAME_END, stop_at - start);
        if (mark != NULL && count < MOST_PAIRS) {
            uint32_t mark_at = (uint32_t)(mark - data);
            if (mark_at > start && mark_at + 1 < stop_at) {
                pairs[count++] = (Pair){start, mark_at, stop_at};
            }
        }
        start = stop_at + 1;
    }
    return count;
}

static inline int
same_name(const unsigned char *data, const Pair *one, const Pair *other)
{
    uint32_t size = one->mark - one->start;
    return size == other->mark - other->start && memcmp(data + one->start, data + other->start, size) == 0;
}

/* Drop pairs with the name of a later one, many of them by a hash table. Return the number of those that are left, -1 with
 * an error. */
static Py_ssize_t
drop_earlier(const unsigned char *data, Pair *pairs, Py_ssize_t count, int32_t **numbers)
{
    Py_ssize_t left = count;
    if (count > FEW_PAIRS) {
        if (*numbers == NULL && (*numbers = PyMem_Malloc(HASHED_PAIRS * sizeof(int32_t))) == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memset(*numbers, 0xFF, HASHED_PAIRS * sizeof(int32_t));
    }
    for (Py_ssize_t index = count - 1; index >= 0; index--) {
        int repeated = 0;
        if (count > FEW_PAIRS) {
            uint32_t slot = hash_on(7, data + pairs[index].start, pairs[index].mark - pairs[index].start);
            slot = (slot ^ slot >> 15) * 0x9E3779B1u >> 7;
            for (slot %= HASHED_PAIRS; (*numbers)[slot] >= 0 && !repeated; slot = (slot + 1) % HASHED_PAIRS) {
                repeated = same_name(data, pairs + index, pairs + (*numbers)[slot]);
            }
            if (!repeated) {
                (*numbers)[slot] = (int32_t)(left - 1);
            }
        } else {
            for (Py_ssize_t later = left; later < count && !repeated; later++) {
                repeated = same_name(data, pairs + index, pairs + later);
            }
        }
        if (!repeated) {
            pairs[--left] = pairs[index];
        }
    }
    memmove(pairs, pairs + left, (size_t)(count - left) * sizeof *pairs);
    return count - left;
}

static void
add_value(const unsigned char *data, Property *property, Py_ssize_t row, const Pair *pairs, Py_ssize_t count)
{
    Py_ssize_t size = size_of(property->name);
    const char *name = PyBytes_AsString(property->name);
    begin_text(&property->values);
    while (--count >= 0) {
        if (pairs[count].mark - pairs[count].start == (size_t)size &&
            memcmp(data + pairs[count].start, name, (size_t)size) == 0) {
            const Pair *pair = pairs + count;
            property->values.at = write_bytes(property->values.at, data + pair->mark + 1, pair->stop - pair->mark - 1);
            return;
        }
    }
    clear_bit(property->bits, row);
}

static int
add_pairs(const unsigned char *data, Map *map, Pair *pairs, Py_ssize_t count, int32_t **numbers)
{
    memcpy(map->first_at, &map->pairs, sizeof map->pairs);
    map->first_at += sizeof map->pairs;
    count = drop_earlier(data, pairs, count, numbers);
    for (Py_ssize_t index = 0; index < count; index++) {
        const Pair *pair = pairs + index;
        add_text(&map->names, data + pair->start, pair->mark - pair->start);
        add_text(&map->values, data + pair->mark + 1, pair->stop - pair->mark - 1);
    }
    map->pairs += count > 0 ? (int32_t)count : 0;
    return count < 0 ? -1 : 0;
}

static void
drop_property_columns(PropertyColumns *columns)
{
    for (Py_ssize_t index = 0; columns->properties != NULL && index < columns->count; index++) {
        drop_texts(&columns->properties[index].values);
        Py_CLEAR(columns->properties[index].valid);
    }
    drop_texts(&columns->map.names);
    drop_texts(&columns->map.values);
    Py_CLEAR(columns->map.firsts);
    PyMem_Free(columns->properties);
    PyMem_Free(columns->pairs);
    PyMem_Free(columns->numbers);
}

/* Fill the columns: 1; 0 if Python must do it, as a text is not UTF-8; -1 with an error. */
static int
fill_properties(PropertyColumns *columns, const unsigned char *data, const Parts *parts, Py_ssize_t count)
{
    Py_ssize_t total = 0, most_pairs = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        Py_ssize_t size = parts[row].end - parts[row].properties;
        if (!is_utf8(data + parts[row].properties, size)) {
            return 0;
        }
        total += size;
        most_pairs += (size + 1) / LEAST_PAIR;
    }
    columns->pairs = PyMem_Malloc(MOST_PAIRS * sizeof(Pair));
    if (columns->pairs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t index = 0; index < columns->count; index++) {
        Property *property = columns->properties + index;
        if (new_texts(&property->values, count, total) < 0 ||
            (property->valid = new_bits(count, &property->bits)) == NULL) {
            return -1;
        }
    }
    Map *map = &columns->map;
    if (columns->has_map && (new_texts(&map->names, most_pairs, total) < 0 ||
                             new_texts(&map->values, most_pairs, total) < 0 ||
                             (map->firsts = new_bytes((count + 1) * 4, &map->first_at)) == NULL)) {
        return -1;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        Py_ssize_t pairs = find_pairs(data, parts[row].properties, parts[row].end, columns->pairs);
        for (Py_ssize_t index = 0; index < columns->count; index++) {
            add_value(data, columns->properties + index, row, columns->pairs, pairs);
        }
        if (columns->has_map && add_pairs(data, map, columns->pairs, pairs, &columns->numbers) < 0) {
            return -1;
        }
    }
    if (columns->has_map) {
        memcpy(map->first_at, &map->pairs, sizeof map->pairs);
        if (finish_texts(&map->names) < 0 || finish_texts(&map->values) < 0) {
            return -1;
        }
    }
    for (Py_ssize_t index = 0; index < columns->count; index++) {
        if (finish_texts(&columns->properties[index].values) < 0) {
            return -1;
        }
    }
    return 1;
}

/* Put the columns of properties into the list. */
static int
add_property_columns(PyObject *columns, const long long (*wanted)[3], PyObject *const *names, const unsigned char *data,
                     const Parts *parts, Py_ssize_t count)
{
    PropertyColumns made;
    memset(&made, 0, sizeof made);
    Py_ssize_t size = size_of(columns), index = 0;
    for (Py_ssize_t number = 0; number < size; number++) {
        made.count += wanted[number][0] == PROPERTY;
        made.has_map = made.has_map || wanted[number][0] == MAP;
    }
    if (made.count == 0 && !made.has_map) {
        return 0;
    }
    made.properties = PyMem_Calloc((size_t)made.count + 1, sizeof(Property));
    if (made.properties == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t number = 0; number < size; number++) {
        if (wanted[number][0] == PROPERTY) {
            made.properties[index++].name = names[number];
        }
    }
    int filled = fill_properties(&made, data, parts, count);
    index = 0;
    for (Py_ssize_t number = 0; filled > 0 && number < size; number++) {
        PyObject *column = NULL;
        if (wanted[number][0] == PROPERTY) {
            Property *property = made.properties + index++;
            column = PyTuple_Pack(3, property->valid, property->values.offsets, property->values.bytes);
        } else if (wanted[number][0] == MAP) {
            Map *map = &made.map;
            column = PyTuple_Pack(5, map->firsts, map->names.offsets, map->names.bytes, map->values.offsets,
                                  map->values.bytes);
        } else {
            continue;
        }
        if (column == NULL || PyList_SetItem(columns, number, column) < 0) {
            filled = -1;
        }
    }
    drop_property_columns(&made);
    return filled < 0 ? -1 : 0;
}

/* --- record_columns --------------------------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 64 };

static PyObject *
one_column(const long long *wanted, const unsigned char *data, const Parts *parts, Py_ssize_t count, long long first_ms,
           long long last_ms)
{
    switch (wanted[0]) {
    case INT32:
        return int32_column(data, parts, count, (Py_ssize_t)wanted[1]);
    case INT64:
        return int64_column(data, parts, count, (Py_ssize_t)wanted[1], wanted[2]);
    case TIME:
        return time_column(data, parts, count, (Py_ssize_t)wanted[1], first_ms, last_ms);
    case HOST:
        return host_column(data, parts, count, (Py_ssize_t)wanted[1]);
    case TOPIC:
        return topic_column(data, parts, count);
    case BODY:
        return body_column(data, parts, count);
    case OFFSET_ID:
        return offset_id_column(data, parts, count);
    default:
        Py_RETURN_NONE;
    }
}

/* Read the wanted columns: kind, position of a field in a head of IPv4 hosts, number to add, name of a property. */
static int
read_wanted(PyObject *wanted, long long (*numbers)[3], PyObject **names)
{
    Py_ssize_t count = size_of(wanted);
    if (count > MOST_COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "too many columns");
        return -1;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!PyArg_ParseTuple(PyTuple_GetItem(wanted, index), "LLLS", &numbers[index][0], &numbers[index][1],
                              &numbers[index][2], &names[index])) {
            return -1;
        }
        long long kind = numbers[index][0], field = numbers[index][1];
        long long width = kind == INT32 ? 4 : 8;
        if (field < 0 || field + width > HEAD_BYTES ||
            (kind == HOST && field != BORN_HOST_AT && field != STORE_HOST_AT)) {
            PyErr_SetString(PyExc_ValueError, "no such field");
            return -1;
        }
    }
    return 0;
}

/* Find the parts of all records; NULL with an error. */
static Parts *
find_all_parts(const Format *format, const Py_buffer *data, const Py_buffer *starts, Py_ssize_t count)
{
    Parts *parts = PyMem_Malloc(((size_t)count + 1) * sizeof *parts);
    if (parts == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        int64_t start;
        memcpy(&start, (const char *)starts->buf + row * (Py_ssize_t)sizeof start, sizeof start);
        if (start < 0 || start > data->len || data->len > INT32_HIGH ||
            !find_parts(format, data->buf, data->len, (Py_ssize_t)start, parts + row)) {
            PyErr_Format(PyExc_ValueError, "no record at position %lld", (long long)start);
            PyMem_Free(parts);
            return NULL;
        }
    }
    return parts;
}

static PyObject *
record_columns(PyObject *Py_UNUSED(module), PyObject *args)
{
    Format format;
    Py_buffer data, starts;
    PyObject *wanted, *names[MOST_COLUMNS];
    long long first_ms, last_ms, numbers[MOST_COLUMNS][3];
    if (!PyArg_ParseTuple(args, "(IIII)(LL)y*y*O!:record_columns", &format.magic[0], &format.magic[1],
                          &format.host_flags[0], &format.host_flags[1], &first_ms, &last_ms, &data, &starts,
                          &PyTuple_Type, &wanted)) {
        return NULL;
    }
    Py_ssize_t count = starts.len / (Py_ssize_t)sizeof(int64_t), size = size_of(wanted);
    PyObject *columns = NULL;
    Parts *parts = NULL;
    if (read_wanted(wanted, numbers, names) == 0 && (parts = find_all_parts(&format, &data, &starts, count)) != NULL) {
        columns = PyList_New(size);
    }
    for (Py_ssize_t index = 0; columns != NULL && index < size; index++) {
        PyObject *column = one_column(numbers[index], data.buf, parts, count, first_ms, last_ms);
        if (column == NULL || PyList_SetItem(columns, index, column) < 0) {
            Py_CLEAR(columns);
        }
    }
    if (columns != NULL &&
        add_property_columns(columns, (const long long(*)[3])numbers, names, data.buf, parts, count) < 0) {
        Py_CLEAR(columns);
    }
    PyMem_Free(parts);
    PyBuffer_Release(&data);
    PyBuffer_Release(&starts);
    return columns;
}

PyMethodDef columns_methods[] = {
    {"sound_starts", sound_starts, METH_VARARGS,
     "sound_starts((magics and flags), filler, tail_start, data, end, base, checks): return int64 positions"},
    {"record_columns", record_columns, METH_VARARGS,
     "record_columns((magics and flags), (first_ms, last_ms), data, starts, columns): return buffers"},
    {NULL, NULL, 0, NULL},
};
