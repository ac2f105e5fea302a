/* gantrymq.client.calls.decoding: plain_messages; gantrymq.model.properties: decode */
#include "common.h"
#include "record.h"

enum { LEAST_RECORD_BYTES = HEAD_BYTES + 1 + LENGTH_BYTES, MORE_OF_IPV6 = 12, NAME_END = 1, PAIR_END = 2 };

/* Slots of a ReceivedMessage: values decoded at once, then those for decoding the rest. */
enum { TOPIC, BODY, QUEUE_ID, QUEUE_OFFSET, LOG_OFFSET, SIZE, RECONSUMED, BROKER, PROBLEM, REST, READ_REST, SLOTS };
static const char *const slot_names[SLOTS] = {
    "topic",           "body",        "queue_id",     "queue_offset", "log_offset", "store_size",
    "reconsume_times", "broker_name", "body_problem", "_rest",        "_read_rest",
};

typedef struct {
    PyObject_HEAD
    PyTypeObject *message;
    PyObject *read_rest, *tag_mark, *no_problem;
    uint32_t magic[2], odd_flags, host_flags[2]; /* for both versions; for born host and store host */
    Py_ssize_t at[SLOTS];
} MessageReader;

/* Values shared by all messages of a call. */
typedef struct {
    PyObject *broker, *tags, *offset_delta; /* tags and delta are NULL without one */
} Shared;

/* Positions of the parts of a complete record. */
typedef struct {
    const unsigned char *head, *behind_hosts, *topic, *properties;
    Py_ssize_t size, head_size, body_size, topic_size, properties_size;
} Parts;

static PyObject *
message_reader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *message, *read_rest, *mark;
    unsigned int first, second, odd, born, store;
    if (!PyArg_ParseTuple(args, "O!OSIIIII:MessageReader", &PyType_Type, &message, &read_rest, &mark, &first, &second,
                          &odd, &born, &store)) {
        return NULL;
    }
    MessageReader *self = (MessageReader *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->message = (PyTypeObject *)Py_NewRef(message);
    self->read_rest = Py_NewRef(read_rest);
    self->tag_mark = Py_NewRef(mark);
    self->magic[0] = first;
    self->magic[1] = second;
    self->odd_flags = odd;
    self->host_flags[0] = born;
    self->host_flags[1] = store;
    self->no_problem = PyUnicode_FromString("");
    if (self->no_problem == NULL || find_slots(message, slot_names, SLOTS, self->at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
message_reader_dealloc(MessageReader *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->message);
    Py_XDECREF(self->read_rest);
    Py_XDECREF(self->tag_mark);
    Py_XDECREF(self->no_problem);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* Find the parts of a record of at most *left* bytes; 0 if Python must process it. */
static int
find_parts(const MessageReader *self, const unsigned char *at, Py_ssize_t left, Parts *parts)
{
    if (left < LEAST_RECORD_BYTES) {
        return 0;
    }
    uint32_t magic = read_u32(at + MAGIC_AT), flags = read_u32(at + SYS_FLAG_AT);
    Py_ssize_t size = read_i32(at + SIZE_AT), wide = magic == self->magic[1];
    Py_ssize_t more = MORE_OF_IPV6 * (((flags & self->host_flags[0]) != 0) + ((flags & self->host_flags[1]) != 0));
    if ((magic != self->magic[0] && !wide) || flags & self->odd_flags || size > left ||
        size < LEAST_RECORD_BYTES + more) {
        return 0;
    }
    Py_ssize_t body_size = read_i32(at + BODY_LENGTH_AT + more), length_at = HEAD_BYTES + more + body_size;
    if (body_size < 0 || length_at + 1 + wide + LENGTH_BYTES > size) {
        return 0;
    }
    Py_ssize_t topic_size = wide ? read_i16(at + length_at) : at[length_at], topic_at = length_at + 1 + wide;
    if (topic_size < 0 || topic_at + topic_size + LENGTH_BYTES > size) {
        return 0;
    }
    Py_ssize_t properties_at = topic_at + topic_size + LENGTH_BYTES;
    *parts = (Parts){
        .head = at,
        .behind_hosts = at + more,
        .topic = at + topic_at,
        .properties = at + properties_at,
        .size = size,
        .head_size = HEAD_BYTES + more,
        .body_size = body_size,
        .topic_size = topic_size,
        .properties_size = size - properties_at,
    };
    return read_i16(parts->properties - LENGTH_BYTES) == parts->properties_size;
}

/* Whether the last tag is among the requested ones; -1 with an error. */
static int
is_wanted(const MessageReader *self, const Parts *parts, PyObject *tags)
{
    const char *mark = PyBytes_AsString(self->tag_mark);
    const unsigned char *at = parts->properties, *tag = NULL;
    Py_ssize_t left = parts->properties_size, mark_size = size_of(self->tag_mark), tag_size = 0;
    while (left > 0) {
        const unsigned char *end = memchr(at, PAIR_END, (size_t)left);
        Py_ssize_t piece = end == NULL ? left : end - at;
        if (piece > mark_size && memcmp(at, mark, (size_t)mark_size) == 0) {
            tag = at + mark_size;
            tag_size = piece - mark_size;
        }
        piece += end != NULL;
        at += piece;
        left -= piece;
    }
    if (tag == NULL) {
        return 0;
    }
    PyObject *text = PyUnicode_DecodeUTF8((const char *)tag, tag_size, "replace");
    int found = text == NULL ? -1 : PySequence_Contains(tags, text);
    Py_XDECREF(text);
    return found;
}

static PyObject *
rest_of(const Parts *parts)
{
    PyObject *rest = PyBytes_FromStringAndSize(NULL, parts->head_size + parts->properties_size);
    if (rest != NULL) {
        unsigned char *at = (unsigned char *)PyBytes_AsString(rest);
        at = write_bytes(at, parts->head, parts->head_size);
        write_bytes(at, parts->properties, parts->properties_size);
    }
    return rest;
}

static PyObject *
queue_offset_of(const Parts *parts, PyObject *delta)
{
    PyObject *stored = PyLong_FromLongLong(read_i64(parts->head + QUEUE_OFFSET_AT));
    if (stored == NULL || delta == NULL) {
        return stored;
    }
    PyObject *sum = PyNumber_Add(stored, delta);
    Py_DECREF(stored);
    return sum;
}

static PyObject *
new_message(const MessageReader *self, const Parts *parts, PyObject *topic, const Shared *shared)
{
    const unsigned char *head = parts->head;
    PyObject *message = new_instance(self->message), *values[SLOTS] = {
        [TOPIC] = Py_NewRef(topic),
        [BODY] = PyBytes_FromStringAndSize((const char *)head + parts->head_size, parts->body_size),
        [QUEUE_ID] = PyLong_FromLong(read_i32(head + QUEUE_ID_AT)),
        [QUEUE_OFFSET] = queue_offset_of(parts, shared->offset_delta),
        [LOG_OFFSET] = PyLong_FromLongLong(read_i64(head + LOG_OFFSET_AT)),
        [SIZE] = PyLong_FromSsize_t(parts->size),
        [RECONSUMED] = PyLong_FromLong(read_i32(parts->behind_hosts + RECONSUMED_AT)),
        [BROKER] = Py_NewRef(shared->broker),
        [PROBLEM] = Py_NewRef(self->no_problem),
        [REST] = rest_of(parts),
        [READ_REST] = Py_NewRef(self->read_rest),
    };
    int failed = message == NULL;
    for (Py_ssize_t slot = 0; slot < SLOTS; slot++) {
        if (message == NULL) {
            Py_XDECREF(values[slot]);
        } else {
            failed |= give_slot(message, self->at[slot], values[slot]) < 0;
        }
    }
    if (failed) {
        Py_CLEAR(message);
    }
    return message;
}

/* Decode records from *position* on and set it to the first record that is not plain; -1 with an error. */
static int
read_all(const MessageReader *self, const Py_buffer *records, Py_ssize_t *position, const Shared *shared,
         PyObject *found)
{
    const unsigned char *start = records->buf, *known = NULL; /* the previous topic, as bytes and as string */
    Py_ssize_t known_size = 0;
    PyObject *topic = NULL;
    Parts parts;
    int failed = 0;
    while (!failed && find_parts(self, start + *position, records->len - *position, &parts)) {
        if (known == NULL || known_size != parts.topic_size ||
            memcmp(known, parts.topic, (size_t)known_size) != 0) {
            Py_XDECREF(topic);
            topic = PyUnicode_DecodeUTF8((const char *)parts.topic, parts.topic_size, NULL);
            if (topic == NULL) {
                failed = !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError);
                if (!failed) {
                    PyErr_Clear();
                }
                break;
            }
            known = parts.topic;
            known_size = parts.topic_size;
        }
        int wanted = shared->tags == NULL ? 1 : is_wanted(self, &parts, shared->tags);
        failed = wanted < 0;
        if (wanted > 0) {
            PyObject *message = new_message(self, &parts, topic, shared);
            failed = message == NULL || PyList_Append(found, message) < 0;
            Py_XDECREF(message);
        }
        *position += parts.size;
    }
    Py_XDECREF(topic);
    return failed ? -1 : 0;
}

static PyObject *
message_reader_call(MessageReader *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    Py_buffer records;
    Py_ssize_t position;
    Shared shared;
    PyObject *tags, *delta, *found, *end = NULL;
    if (!PyArg_ParseTuple(args, "y*nUOO!O!:plain_messages", &records, &position, &shared.broker, &tags, &PyLong_Type,
                          &delta, &PyList_Type, &found)) {
        return NULL;
    }
    int some = PyObject_IsTrue(tags);
    shared.tags = some > 0 ? tags : NULL;
    shared.offset_delta = PyObject_IsTrue(delta) > 0 ? delta : NULL;
    if (position < 0 || position > records.len) {
        PyErr_SetString(PyExc_ValueError, "a position lies in the records");
    } else if (some >= 0 && read_all(self, &records, &position, &shared, found) == 0) {
        end = PyLong_FromSsize_t(position);
    }
    PyBuffer_Release(&records);
    return end;
}

static PyType_Slot message_reader_slots[] = {
    {Py_tp_doc, "MessageReader(ReceivedMessage, read_rest, tag_mark, magic_v1, magic_v2, odd_flags, born_host_flag,\n"
                "store_host_flag): its instances are called as plain_messages(records, position, broker_name, tags,\n"
                "offset_delta, found)."},
    {Py_tp_new, message_reader_new},
    {Py_tp_dealloc, message_reader_dealloc},
    {Py_tp_call, message_reader_call},
    {0, NULL},
};

PyType_Spec message_reader_spec = {
    .name = "gantrymq_speedups._compiled.MessageReader",
    .basicsize = sizeof(MessageReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = message_reader_slots,
};

/* --- properties ------------------------------------------------------------------------------------------------------- */

/* Store a part of the text if it is a pair; -1 with an error. */
static int
keep_pair(PyObject *found, const char *at, Py_ssize_t size)
{
    const char *mark = memchr(at, NAME_END, (size_t)size);
    if (mark == NULL || mark == at || mark + 1 == at + size) {
        return 0;
    }
    PyObject *name = PyUnicode_DecodeUTF8(at, mark - at, "replace");
    PyObject *value = PyUnicode_DecodeUTF8(mark + 1, at + size - mark - 1, "replace");
    int failed = name == NULL || value == NULL ? -1 : PyDict_SetItem(found, name, value);
    Py_XDECREF(name);
    Py_XDECREF(value);
    return failed;
}

static PyObject *
decode_properties(PyObject *Py_UNUSED(module), PyObject *text)
{
    Py_buffer given;
    if (PyObject_GetBuffer(text, &given, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *found = PyDict_New();
    const char *at = given.buf;
    Py_ssize_t left = given.len;
    while (found != NULL && left > 0) {
        const char *end = memchr(at, PAIR_END, (size_t)left);
        Py_ssize_t piece = end == NULL ? left : end - at;
        if (keep_pair(found, at, piece) < 0) {
            Py_CLEAR(found);
        }
        piece += end != NULL;
        at += piece;
        left -= piece;
    }
    PyBuffer_Release(&given);
    return found;
}

PyMethodDef received_methods[] = {
    {"decode_properties", decode_properties, METH_O, "decode_properties(text)"},
    {NULL, NULL, 0, NULL},
};
