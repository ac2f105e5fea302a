/* gantrymq_storage_mmap.log.append: encode_records */
#include "common.h"
#include "record.h"

/* Slots of a StoreMessage. */
enum {
    TOPIC, QUEUE_ID, BODY, PROPERTIES, TAGS, FLAG, SYS_FLAG, BORN, BORN_HOST, STORE_HOST, RECONSUMED, PREPARED, SAME_FILE,
    QUEUE_TARGETS, MESSAGE_SLOTS
};
static const char *const message_names[MESSAGE_SLOTS] = {
    "topic",          "queue_id",  "body",       "properties",      "tags_code",       "flag",                  "sys_flag",
    "born_timestamp", "born_host", "store_host", "reconsume_times", "prepared_offset", "same_file_as_previous", "queue_targets",
};

/* Slots of a ConsumeQueue. */
enum { NEXT_OFFSET, MAGIC, NAMED, QUEUE_SLOTS };
static const char *const queue_names[QUEUE_SLOTS] = {"next_offset", "magic", "named"};

typedef struct {
    PyObject_HEAD
    PyTypeObject *message, *queue, *entry, *result;
    PyObject *ok, *crc32, *empty;
    Py_ssize_t most_properties; /* bytes */
    long long odd_flags;        /* a message with one of these is left to Python */
    Py_ssize_t message_at[MESSAGE_SLOTS], queue_at[QUEUE_SLOTS];
} RecordEncoder;

/* A message that can be encoded, with its numbers. The objects are referenced, as the sizes are theirs. */
typedef struct {
    PyObject *message, *queue, *body, *properties, *named;
    long long queue_id, flag, sys_flag, born, reconsumed, prepared, tags, magic;
    Py_ssize_t size;
} Plain;

static PyObject *
record_encoder_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *message, *queue, *entry, *result, *ok, *crc32;
    Py_ssize_t most_properties;
    long long odd_flags;
    if (!PyArg_ParseTuple(args, "O!O!O!O!OOnL:RecordEncoder", &PyType_Type, &message, &PyType_Type, &queue, &PyType_Type,
                          &entry, &PyType_Type, &result, &ok, &crc32, &most_properties, &odd_flags)) {
        return NULL;
    }
    if (check_named_tuple(entry) < 0 || check_named_tuple(result) < 0) {
        return NULL;
    }
    RecordEncoder *self = (RecordEncoder *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->message = (PyTypeObject *)Py_NewRef(message);
    self->queue = (PyTypeObject *)Py_NewRef(queue);
    self->entry = (PyTypeObject *)Py_NewRef(entry);
    self->result = (PyTypeObject *)Py_NewRef(result);
    self->ok = Py_NewRef(ok);
    self->crc32 = Py_NewRef(crc32);
    self->most_properties = most_properties;
    self->odd_flags = odd_flags;
    self->empty = PyUnicode_FromStringAndSize(NULL, 0);
    if (self->empty == NULL || find_slots(message, message_names, MESSAGE_SLOTS, self->message_at) < 0 ||
        find_slots(queue, queue_names, QUEUE_SLOTS, self->queue_at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
record_encoder_dealloc(RecordEncoder *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->message);
    Py_XDECREF((PyObject *)self->queue);
    Py_XDECREF((PyObject *)self->entry);
    Py_XDECREF((PyObject *)self->result);
    Py_XDECREF(self->ok);
    Py_XDECREF(self->crc32);
    Py_XDECREF(self->empty);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* --- supported messages ---------------------------------------------------------------------------------------------- */

static inline int
is_bytes(PyObject *object, Py_ssize_t most)
{
    return object != NULL && PyBytes_CheckExact(object) && size_of(object) <= most;
}

/* Whether a message must be in the same file as the previous one, or may be. */
static int
in_same_file(const RecordEncoder *self, PyObject *message)
{
    return !Py_IS_TYPE(message, self->message) || get_slot(message, self->message_at[SAME_FILE]) != Py_False;
}

/* Return the queue of a message, borrowed; NULL if unknown, possibly with an error. */
static PyObject *
find_queue(const RecordEncoder *self, PyObject *known, PyObject *topic, PyObject *queue_id)
{
    PyObject *key = PyTuple_Pack(2, topic, queue_id);
    if (key == NULL) {
        return NULL;
    }
    PyObject *queue = PyDict_GetItemWithError(known, key);
    Py_DECREF(key);
    return queue != NULL && Py_IS_TYPE(queue, self->queue) ? queue : NULL;
}

/* Read a message; 0 if Python must process it, possibly with an error. */
static int
read_message(const RecordEncoder *self, PyObject *message, Py_ssize_t most_body, PyObject *known, Plain *plain)
{
    const Py_ssize_t *at = self->message_at;
    if (!Py_IS_TYPE(message, self->message) || get_slot(message, at[QUEUE_TARGETS]) != Py_None) {
        return 0;
    }
    PyObject *body = get_slot(message, at[BODY]), *properties = get_slot(message, at[PROPERTIES]);
    PyObject *born_host = get_slot(message, at[BORN_HOST]), *store_host = get_slot(message, at[STORE_HOST]);
    PyObject *topic = get_slot(message, at[TOPIC]), *queue_id = get_slot(message, at[QUEUE_ID]);
    if (!is_bytes(body, most_body) || !is_bytes(properties, self->most_properties) ||
        !is_bytes(born_host, HOST_BYTES) || size_of(born_host) != HOST_BYTES ||
        !is_bytes(store_host, HOST_BYTES) || size_of(store_host) != HOST_BYTES ||
        !is_ascii_without_zero(PyBytes_AsString(properties), size_of(properties)) ||
        topic == NULL || !PyUnicode_CheckExact(topic) ||
        !int_between(queue_id, INT32_LOW, INT32_HIGH, &plain->queue_id) ||
        !int_between(get_slot(message, at[FLAG]), INT32_LOW, INT32_HIGH, &plain->flag) ||
        !int_between(get_slot(message, at[SYS_FLAG]), INT32_LOW, INT32_HIGH, &plain->sys_flag) ||
        !int_between(get_slot(message, at[BORN]), INT64_LOW, INT64_HIGH, &plain->born) ||
        !int_between(get_slot(message, at[RECONSUMED]), INT32_LOW, INT32_HIGH, &plain->reconsumed) ||
        !int_between(get_slot(message, at[PREPARED]), INT64_LOW, INT64_HIGH, &plain->prepared) ||
        !int_between(get_slot(message, at[TAGS]), INT64_LOW, INT64_HIGH, &plain->tags) ||
        plain->sys_flag & self->odd_flags) {
        return 0;
    }
    PyObject *queue = find_queue(self, known, topic, queue_id);
    if (queue == NULL) {
        return 0;
    }
    PyObject *named = get_slot(queue, self->queue_at[NAMED]);
    if (!is_bytes(named, INT32_HIGH) || !int_between(get_slot(queue, self->queue_at[MAGIC]), 0, 0xFFFFFFFFLL, &plain->magic)) {
        return 0;
    }
    plain->message = Py_NewRef(message);
    plain->queue = Py_NewRef(queue);
    plain->body = Py_NewRef(body);
    plain->properties = Py_NewRef(properties);
    plain->named = Py_NewRef(named);
    plain->size =
        HEAD_BYTES + size_of(body) + size_of(named) + LENGTH_BYTES + size_of(properties);
    return 1;
}

static void
let_go(Plain *plain)
{
    Py_DECREF(plain->message);
    Py_DECREF(plain->queue);
    Py_DECREF(plain->body);
    Py_DECREF(plain->properties);
    Py_DECREF(plain->named);
}

/* --- writing ---------------------------------------------------------------------------------------------------------- */

static int
append_new(PyObject *list, PyObject *object)
{
    if (object == NULL) {
        return -1;
    }
    int failed = PyList_Append(list, object);
    Py_DECREF(object);
    return failed;
}

static unsigned char *
write_record(const RecordEncoder *self, unsigned char *to, const Plain *plain, uint32_t crc, long long queue_offset,
             long long log_offset, long long now)
{
    const Py_ssize_t *at = self->message_at;
    PyObject *body = plain->body, *properties = plain->properties, *named = plain->named;
    RecordHead head = {
        .size = plain->size,
        .body_size = size_of(body),
        .magic = (uint32_t)plain->magic,
        .crc = crc,
        .queue_id = plain->queue_id,
        .flag = plain->flag,
        .queue_offset = queue_offset,
        .log_offset = log_offset,
        .sys_flag = plain->sys_flag,
        .born = plain->born,
        .stored = now,
        .reconsumed = plain->reconsumed,
        .prepared = plain->prepared,
        .born_host = PyBytes_AsString(get_slot(plain->message, at[BORN_HOST])),
        .store_host = PyBytes_AsString(get_slot(plain->message, at[STORE_HOST])),
    };
    to = write_bytes(write_head(to, &head), PyBytes_AsString(body), size_of(body));
    to = write_bytes(to, PyBytes_AsString(named), size_of(named));
    to = write_u16(to, (uint32_t)size_of(properties));
    return write_bytes(to, PyBytes_AsString(properties), size_of(properties));
}

static PyObject *
new_packed(const Plain *plain, long long log_offset)
{
    PyObject *packed = PyBytes_FromStringAndSize(NULL, ENTRY_BYTES);
    if (packed != NULL) {
        write_entry((unsigned char *)PyBytes_AsString(packed), log_offset, plain->size, plain->tags);
    }
    return packed;
}

static PyObject *
new_entry(const RecordEncoder *self, PyObject *message, PyObject *queue_offset, PyObject *log_offset, PyObject *size,
          PyObject *now)
{
    const Py_ssize_t *at = self->message_at;
    PyObject *fields[] = {
        Py_NewRef(get_slot(message, at[TOPIC])),
        Py_NewRef(get_slot(message, at[QUEUE_ID])),
        Py_NewRef(queue_offset),
        Py_NewRef(log_offset),
        Py_NewRef(size),
        Py_NewRef(get_slot(message, at[TAGS])),
        Py_NewRef(now),
        Py_NewRef(get_slot(message, at[SYS_FLAG])),
        Py_NewRef(get_slot(message, at[PREPARED])),
        Py_NewRef(get_slot(message, at[PROPERTIES])),
    };
    return new_named_tuple(self->entry, fields, sizeof fields / sizeof *fields);
}

static PyObject *
new_result(const RecordEncoder *self, PyObject *queue_offset, PyObject *log_offset, PyObject *size, PyObject *now)
{
    PyObject *fields[] = {
        Py_NewRef(self->ok), Py_NewRef(queue_offset), Py_NewRef(log_offset),
        Py_NewRef(size),     Py_NewRef(now),          Py_NewRef(self->empty),
    };
    return new_named_tuple(self->result, fields, sizeof fields / sizeof *fields);
}

/* Output of one call. */
typedef struct {
    PyObject *entries, *targets, *packed, *results, *now_object;
    long long now, log_offset;
    unsigned char *to;
} Output;

/* Encode one message and advance its queue; -1 with an error, which leaves the queue unchanged. */
static int
put_message(const RecordEncoder *self, const Plain *plain, Output *out)
{
    PyObject *found = PyObject_CallFunctionObjArgs(self->crc32, plain->body, NULL);
    if (found == NULL) {
        return -1;
    }
    unsigned long crc = PyLong_AsUnsignedLongMask(found);
    Py_DECREF(found);
    PyObject *queue_offset = get_slot(plain->queue, self->queue_at[NEXT_OFFSET]);
    long long next;
    if (!int_between(queue_offset, 0, INT64_HIGH - 1, &next)) {
        PyErr_SetString(PyExc_ValueError, "a queue's next offset is no offset");
        return -1;
    }
    PyObject *log_offset = PyLong_FromLongLong(out->log_offset), *size = PyLong_FromSsize_t(plain->size);
    PyObject *after = PyLong_FromLongLong(next + 1);
    int failed = PyErr_Occurred() || log_offset == NULL || size == NULL || after == NULL;
    if (!failed) {
        out->to = write_record(self, out->to, plain, (uint32_t)crc, next, out->log_offset, out->now);
        failed =
            append_new(out->packed, new_packed(plain, out->log_offset)) < 0 ||
            append_new(out->entries,
                       new_entry(self, plain->message, queue_offset, log_offset, size, out->now_object)) < 0 ||
            append_new(out->results, new_result(self, queue_offset, log_offset, size, out->now_object)) < 0 ||
            PyList_Append(out->targets, plain->queue) < 0;
    }
    if (!failed) {
        set_slot(plain->queue, self->queue_at[NEXT_OFFSET], after);
        out->log_offset += plain->size;
    }
    Py_XDECREF(log_offset);
    Py_XDECREF(size);
    Py_XDECREF(after);
    return failed ? -1 : 0;
}

/* Undo the queue offsets of the first *count* messages. */
static void
move_back(const RecordEncoder *self, const Plain *plain, Py_ssize_t count)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (count-- > 0) {
        long long next;
        if (int_between(get_slot(plain[count].queue, self->queue_at[NEXT_OFFSET]), 1, INT64_HIGH, &next) &&
            give_slot(plain[count].queue, self->queue_at[NEXT_OFFSET], PyLong_FromLongLong(next - 1)) < 0) {
            PyErr_Clear();
        }
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *
record_encoder_call(RecordEncoder *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *asked, *known;
    Py_ssize_t start, most_body;
    long long limit;
    Output out;
    if (!PyArg_ParseTuple(args, "OnO!LLO!nO!O!O!O!:encode_records", &asked, &start, &PyDict_Type, &known, &out.log_offset,
                          &limit, &PyLong_Type, &out.now_object, &most_body, &PyList_Type, &out.entries, &PyList_Type,
                          &out.targets, &PyList_Type, &out.packed, &PyList_Type, &out.results)) {
        return NULL;
    }
    out.now = PyLong_AsLongLong(out.now_object);
    if (out.now == -1 && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *messages = PySequence_Tuple(asked), *records = NULL;
    if (messages == NULL) {
        return NULL;
    }
    Py_ssize_t end = size_of(messages), count = 0, total = 0, done = 0;
    Py_ssize_t alone = 0, alone_total = 0; /* before the last message that starts a group: the part that may be written alone */
    Plain *plain = PyMem_New(Plain, end > start ? end - start : 1);
    if (plain == NULL) {
        PyErr_NoMemory();
        goto finish;
    }
    for (Py_ssize_t index = start; index < end; index++) {
        PyObject *message = PyTuple_GetItem(messages, index);
        int same_file = in_same_file(self, message);
        if (same_file && index == start) {
            break;
        }
        if (!same_file) {
            alone = count;
            alone_total = total;
        }
        int read = read_message(self, message, most_body, known, &plain[count]);
        if (read) {
            total += plain[count++].size;
        }
        if (!read || out.log_offset + total > limit) {
            while (count > alone) {
                let_go(&plain[--count]);
            }
            total = alone_total;
            break;
        }
    }
    if (PyErr_Occurred() || (records = PyBytes_FromStringAndSize(NULL, total)) == NULL) {
        goto finish;
    }
    out.to = (unsigned char *)PyBytes_AsString(records);
    while (done < count && put_message(self, &plain[done], &out) == 0) {
        done++;
    }
    if (done < count) {
        move_back(self, plain, done);
        Py_CLEAR(records);
    }

finish:
    while (count-- > 0) {
        let_go(&plain[count]);
    }
    PyMem_Free(plain);
    Py_DECREF(messages);
    return records;
}

static PyType_Slot record_encoder_slots[] = {
    {Py_tp_doc, "RecordEncoder(StoreMessage, ConsumeQueue, DispatchEntry, PutResult, ok, crc32, most_properties,\n"
                "odd_flags): its instances are called as encode_records(messages, start, known, log_offset, limit, now,\n"
                "most_body, entries, targets, packed, results)."},
    {Py_tp_new, record_encoder_new},
    {Py_tp_dealloc, record_encoder_dealloc},
    {Py_tp_call, record_encoder_call},
    {0, NULL},
};

PyType_Spec record_encoder_spec = {
    .name = "gantrymq_speedups._compiled.RecordEncoder",
    .basicsize = sizeof(RecordEncoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = record_encoder_slots,
};
