/* gantrymq_store_files: plain_entries.plain_entries, check.sound_records */
#include "common.h"
#include "properties.h"
#include "record.h"

enum { LEAST_RECORD_BYTES = HEAD_BYTES + 1 + LENGTH_BYTES, CRC_TAIL_BYTES = 20 };
enum { DELAYED, TAGS, CRC_TAIL_START, TEXTS };

typedef struct {
    PyObject_HEAD
    PyTypeObject *entry;
    PyObject *texts; /* topic of delayed messages, name and mark of a tag, start of the checksum property of a record */
    uint32_t magic, odd_flags;
} EntryReader;

/* A record that can be processed here; all members are borrowed. */
typedef struct {
    const unsigned char *head, *name, *properties;
    Py_ssize_t size, body_size, name_size, properties_size;
    int32_t code;
} Plain;

/* State shared by consecutive records. */
typedef struct {
    PyObject *topics, *topic; /* the previous topic, borrowed from the topics; NULL at first */
    const unsigned char *name;
    Py_ssize_t name_size;
} Known;

static PyObject *
entry_reader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *entry, *texts;
    unsigned int magic, odd_flags;
    if (!PyArg_ParseTuple(args, "O!O!II:EntryReader", &PyType_Type, &entry, &PyTuple_Type, &texts, &magic, &odd_flags) ||
        check_named_tuple(entry) < 0 || check_texts(texts, TEXTS) < 0) {
        return NULL;
    }
    EntryReader *self = (EntryReader *)PyType_GenericAlloc(type, 0);
    if (self != NULL) {
        self->entry = (PyTypeObject *)Py_NewRef(entry);
        self->texts = Py_NewRef(texts);
        self->magic = magic;
        self->odd_flags = odd_flags;
    }
    return (PyObject *)self;
}

static void
entry_reader_dealloc(EntryReader *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->entry);
    Py_XDECREF(self->texts);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* --- supported records ----------------------------------------------------------------------------------------------- */

static inline int
is_text(PyObject *text, const unsigned char *at, Py_ssize_t size)
{
    return size_of(text) == size && memcmp(PyBytes_AsString(text), at, (size_t)size) == 0;
}

/* Find the parts of a record of at most *left* bytes, without its tag; 0 if Python must process it. */
static int
find_parts(const unsigned char *at, Py_ssize_t left, long long log_offset, uint32_t magic, uint32_t odd_flags,
           Plain *plain)
{
    if (left < LEAST_RECORD_BYTES) {
        return 0;
    }
    Py_ssize_t size = read_i32(at + SIZE_AT), body_size = read_i32(at + BODY_LENGTH_AT);
    if (read_u32(at + MAGIC_AT) != magic || read_i64(at + LOG_OFFSET_AT) != log_offset ||
        read_u32(at + SYS_FLAG_AT) & odd_flags || size > left || body_size < 0 ||
        body_size > size - LEAST_RECORD_BYTES) {
        return 0;
    }
    Py_ssize_t name_at = HEAD_BYTES + body_size + 1, length_at = name_at + at[name_at - 1];
    if (length_at + LENGTH_BYTES > size) {
        return 0;
    }
    plain->head = at;
    plain->size = size;
    plain->body_size = body_size;
    plain->name = at + name_at;
    plain->name_size = length_at - name_at;
    plain->properties = at + length_at + LENGTH_BYTES;
    plain->properties_size = size - length_at - LENGTH_BYTES;
    return read_i16(at + length_at) == plain->properties_size &&
           is_ascii_without_zero(plain->properties, plain->properties_size);
}

static int
crc_is_right(const Plain *plain)
{
    return (crc32_of(plain->head + HEAD_BYTES, plain->body_size) & 0x7FFFFFFF) == read_u32(plain->head + CRC_AT);
}

/* Parse a record of at most *left* bytes; 0 if Python must process it. */
static int
read_plain(const EntryReader *self, const unsigned char *at, Py_ssize_t left, long long log_offset, int check_crc,
           Plain *plain)
{
    return find_parts(at, left, log_offset, self->magic, self->odd_flags, plain) &&
           !begins_with(PyTuple_GetItem(self->texts, CRC_TAIL_START), at + plain->size - CRC_TAIL_BYTES,
                        CRC_TAIL_BYTES) &&
           hash_tag(PyTuple_GetItem(self->texts, TAGS), plain->properties, plain->properties_size, &plain->code) &&
           (!check_crc || crc_is_right(plain));
}

/* Find the topic of a record: 1, or 0 if Python must process it, possibly with an error. */
static int
find_topic(const EntryReader *self, const Plain *plain, Known *known)
{
    if (known->topic != NULL && plain->name_size == known->name_size &&
        memcmp(plain->name, known->name, (size_t)plain->name_size) == 0) {
        return 1;
    }
    PyObject *name = PyBytes_FromStringAndSize((const char *)plain->name, plain->name_size);
    if (name == NULL) {
        return 0;
    }
    PyObject *topic = PyDict_GetItemWithError(known->topics, name);
    if (topic == NULL && !PyErr_Occurred() && plain->name_size > 0 &&
        is_ascii_without_zero(plain->name, plain->name_size) &&
        !is_text(PyTuple_GetItem(self->texts, DELAYED), plain->name, plain->name_size)) {
        PyObject *made = PyUnicode_DecodeASCII((const char *)plain->name, plain->name_size, NULL);
        if (made != NULL && PyDict_SetItem(known->topics, name, made) == 0) {
            topic = made; /* the dict keeps a reference */
        }
        Py_XDECREF(made);
    }
    Py_DECREF(name);
    known->topic = topic;
    known->name = plain->name;
    known->name_size = plain->name_size;
    return topic != NULL;
}

/* --- creating entries ------------------------------------------------------------------------------------------------- */

static PyObject *
new_entry(const EntryReader *self, const Plain *plain, PyObject *topic)
{
    const unsigned char *at = plain->head;
    PyObject *fields[] = {
        Py_NewRef(topic),
        PyLong_FromLong(read_i32(at + QUEUE_ID_AT)),
        PyLong_FromLongLong(read_i64(at + QUEUE_OFFSET_AT)),
        PyLong_FromLongLong(read_i64(at + LOG_OFFSET_AT)),
        PyLong_FromSsize_t(plain->size),
        PyLong_FromLong(plain->code),
        PyLong_FromLongLong(read_i64(at + STORED_AT)),
        PyLong_FromLong(read_i32(at + SYS_FLAG_AT)),
        PyLong_FromLongLong(read_i64(at + PREPARED_AT)),
        PyBytes_FromStringAndSize((const char *)plain->properties, plain->properties_size),
    };
    return new_named_tuple(self->entry, fields, sizeof fields / sizeof *fields);
}

static PyObject *
entry_reader_call(EntryReader *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    Py_buffer data;
    Py_ssize_t position, most;
    long long log_offset, end;
    int check_crc;
    Known known = {NULL, NULL, NULL, 0};
    if (!PyArg_ParseTuple(args, "y*nLLnpO!:plain_entries", &data, &position, &log_offset, &end, &most, &check_crc,
                          &PyDict_Type, &known.topics)) {
        return NULL;
    }
    PyObject *found = PyList_New(0);
    if (found != NULL && position < 0) {
        PyErr_SetString(PyExc_ValueError, "a position is not negative");
        Py_CLEAR(found);
    }
    Plain plain;
    while (found != NULL && size_of(found) < most && log_offset < end && position < data.len &&
           read_plain(self, (const unsigned char *)data.buf + position, data.len - position, log_offset, check_crc,
                      &plain) &&
           find_topic(self, &plain, &known)) {
        PyObject *entry = new_entry(self, &plain, known.topic);
        if (entry == NULL || PyList_Append(found, entry) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(entry);
        position += plain.size;
        log_offset += plain.size;
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(found);
    }
    PyBuffer_Release(&data);
    return found;
}

/* --- the records of a queue's entries --------------------------------------------------------------------------------- */

/* Whether a record is within the data, which starts at the log offset *start*, and is the one that its entry refers to. */
static int
is_sound(const unsigned char *data, Py_ssize_t length, long long start, const unsigned char *entry, PyObject *topic,
         long long queue_offset, uint32_t magic, uint32_t odd_flags, Plain *plain)
{
    long long log_offset = read_i64(entry);
    if (start < 0 || log_offset < start || log_offset - start > length) {
        return 0;
    }
    Py_ssize_t position = (Py_ssize_t)(log_offset - start);
    return find_parts(data + position, length - position, log_offset, magic, odd_flags, plain) &&
           plain->size == read_i32(entry + ENTRY_SIZE_AT) && read_i64(plain->head + QUEUE_OFFSET_AT) == queue_offset &&
           is_text(topic, plain->name, plain->name_size) && crc_is_right(plain);
}

static PyObject *
sound_records(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned int magic, odd_flags;
    PyObject *data, *entries, *topic;
    long long start, queue_offset;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "IISLSnLS:sound_records", &magic, &odd_flags, &data, &start, &entries, &index,
                          &queue_offset, &topic)) {
        return NULL;
    }
    const unsigned char *piece = (unsigned char *)PyBytes_AsString(data);
    const unsigned char *packed = (unsigned char *)PyBytes_AsString(entries);
    Py_ssize_t count = index < 0 ? 0 : size_of(entries) / ENTRY_BYTES - index, total = 0, sound = 0;
    Plain plain;
    while (sound < count && is_sound(piece, size_of(data), start, packed + (index + sound) * ENTRY_BYTES, topic,
                                     queue_offset + sound, magic, odd_flags, &plain)) {
        total += plain.size;
        sound++;
    }
    PyObject *records = PyBytes_FromStringAndSize(NULL, total);
    if (records == NULL) {
        return NULL;
    }
    unsigned char *to = (unsigned char *)PyBytes_AsString(records);
    for (const unsigned char *entry = packed + index * ENTRY_BYTES; sound > 0 && total > 0; entry += ENTRY_BYTES) {
        Py_ssize_t size = read_i32(entry + ENTRY_SIZE_AT);
        to = write_bytes(to, piece + (read_i64(entry) - start), size);
        total -= size;
    }
    return Py_BuildValue("nN", sound, records);
}

PyMethodDef entries_methods[] = {
    {"sound_records", sound_records, METH_VARARGS,
     "sound_records(magic, odd_flags, data, start, entries, index, queue_offset, topic): return a number and records"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot entry_reader_slots[] = {
    {Py_tp_doc, "EntryReader(DispatchEntry, texts, magic, odd_flags): its instances are called as\n"
                "plain_entries(data, position, log_offset, end, most, check_crc, topics)."},
    {Py_tp_new, entry_reader_new},
    {Py_tp_dealloc, entry_reader_dealloc},
    {Py_tp_call, entry_reader_call},
    {0, NULL},
};

PyType_Spec entry_reader_spec = {
    .name = "gantrymq_speedups._compiled.EntryReader",
    .basicsize = sizeof(EntryReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = entry_reader_slots,
};
