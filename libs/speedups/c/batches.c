/* gantrymq.formats.batch_body: plain_entries; gantrymq.model.ids: join_offset_ids; gantrymq_storage_mmap.log.append:
 * encode_batch */
#include "batch_body.h"
#include "properties.h"
#include "record.h"

/* --- checks ------------------------------------------------------------------------------------------------------------ */

/* Names of properties; a hostile batch has millions of short ones to compare with them. */
typedef struct {
    const unsigned char *at;
    Py_ssize_t size;
} Name;

typedef struct {
    Name *all;
    Py_ssize_t count, shortest; /* bytes */
} Names;

/* Read a tuple of bytes; -1 with an error. */
static int
read_names(PyObject *given, Names *names)
{
    names->count = size_of(given);
    names->shortest = PY_SSIZE_T_MAX;
    names->all = check_texts(given, names->count) < 0 ? NULL : PyMem_Calloc((size_t)names->count + 1, sizeof(Name));
    if (names->all == NULL) {
        return PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1);
    }
    for (Py_ssize_t index = 0; index < names->count; index++) {
        PyObject *text = PyTuple_GetItem(given, index);
        names->all[index] = (Name){(const unsigned char *)PyBytes_AsString(text), size_of(text)};
        if (size_of(text) < names->shortest) {
            names->shortest = size_of(text);
        }
    }
    return 0;
}

/* Whether a property has one of these names. */
static int
has_name(const unsigned char *at, Py_ssize_t size, const Names *names)
{
    while (size > names->shortest) {
        const unsigned char *end = memchr(at, PAIR_END, (size_t)size);
        Py_ssize_t piece = end == NULL ? size : end - at;
        for (const Name *name = names->all; piece > names->shortest && name < names->all + names->count; name++) {
            if (piece > name->size && at[name->size] == NAME_END && memcmp(at, name->at, (size_t)name->size) == 0) {
                return 1;
            }
        }
        piece += end != NULL;
        at += piece;
        size -= piece;
    }
    return 0;
}

static PyObject *
plain_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer body;
    Py_ssize_t most, room;
    PyObject *given, *tag_mark;
    Names names;
    if (!PyArg_ParseTuple(args, "y*nnO!S:plain_entries", &body, &most, &room, &PyTuple_Type, &given, &tag_mark)) {
        return NULL;
    }
    if (read_names(given, &names) < 0) {
        PyBuffer_Release(&body);
        return NULL;
    }
    const unsigned char *at = body.buf;
    Py_ssize_t left = body.len, count = 0;
    BatchEntry entry;
    int32_t code;
    while (left > 0 && count < most && read_batch_entry(at, left, &entry) &&
           entry.properties_size + (entry.properties_size > 0) <= room &&
           is_ascii_without_zero(entry.properties, entry.properties_size) &&
           hash_tag(tag_mark, entry.properties, entry.properties_size, &code) &&
           !has_name(entry.properties, entry.properties_size, &names)) {
        at += entry.size;
        left -= entry.size;
        count++;
    }
    PyMem_Free(names.all);
    PyBuffer_Release(&body);
    return PyLong_FromSsize_t(left == 0 ? count : 0);
}

/* --- responses --------------------------------------------------------------------------------------------------------- */

enum { LOG_OFFSET_ITEM = 2, OFFSET_DIGITS = 16 };

static PyObject *
join_offset_ids(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *head;
    Py_ssize_t head_size;
    PyObject *asked;
    if (!PyArg_ParseTuple(args, "s#O:join_offset_ids", &head, &head_size, &asked)) {
        return NULL;
    }
    PyObject *results = PySequence_Tuple(asked), *text = NULL;
    Py_ssize_t count = results == NULL ? 0 : size_of(results), each = head_size + OFFSET_DIGITS + 1;
    char *written = results == NULL ? NULL : PyMem_Malloc((size_t)(count * each + 1)), *to = written;
    if (results != NULL && written == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t index = 0; written != NULL && index < count; index++) {
        PyObject *result = PyTuple_GetItem(results, index);
        long long offset;
        if (!PyTuple_Check(result) || size_of(result) <= LOG_OFFSET_ITEM ||
            !int_between(PyTuple_GetItem(result, LOG_OFFSET_ITEM), 0, INT64_HIGH, &offset)) {
            PyErr_SetString(PyExc_ValueError, "a result has no log offset");
            break;
        }
        memcpy(to, head, (size_t)head_size);
        to += head_size;
        for (int shift = 4 * (OFFSET_DIGITS - 1); shift >= 0; shift -= 4) {
            *to++ = "0123456789ABCDEF"[offset >> shift & 15];
        }
        *to++ = ',';
    }
    if (written != NULL && !PyErr_Occurred()) {
        text = PyUnicode_DecodeUTF8(written, to > written ? to - written - 1 : 0, NULL);
    }
    PyMem_Free(written);
    Py_XDECREF(results);
    return text;
}

PyMethodDef batches_methods[] = {
    {"join_offset_ids", join_offset_ids, METH_VARARGS, "join_offset_ids(head, results): return a text"},
    {"plain_entries", plain_entries, METH_VARARGS, "plain_entries(body, most, room, names, tag_mark): return a number"},
    {NULL, NULL, 0, NULL},
};

/* --- records ----------------------------------------------------------------------------------------------------------- */

/* Slots of a MessageBatch. */
enum { TOPIC, QUEUE_ID, BODY, ADDED, TAGS, SYS_FLAG, BORN, BORN_HOST, STORE_HOST, RECONSUMED, BATCH_SLOTS };
static const char *const batch_names[BATCH_SLOTS] = {
    "topic",    "queue_id",       "body",      "added_properties", "tags_code",
    "sys_flag", "born_timestamp", "born_host", "store_host",       "reconsume_times",
};

/* Slots of a ConsumeQueue. */
enum { NEXT_OFFSET, MAGIC, NAMED, QUEUE_SLOTS };
static const char *const queue_names[QUEUE_SLOTS] = {"next_offset", "magic", "named"};

typedef struct {
    PyObject_HEAD
    PyTypeObject *batch, *queue, *entry, *result;
    PyObject *ok, *tag_mark, *empty, *zero;
    Py_ssize_t most_properties; /* bytes */
    long long odd_flags;        /* a batch with one of these is left to Python */
    Py_ssize_t batch_at[BATCH_SLOTS], queue_at[QUEUE_SLOTS];
} BatchEncoder;

static PyObject *
batch_encoder_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *batch, *queue, *entry, *result, *ok, *tag_mark;
    Py_ssize_t most_properties;
    long long odd_flags;
    if (!PyArg_ParseTuple(args, "O!O!O!O!OSnL:BatchEncoder", &PyType_Type, &batch, &PyType_Type, &queue, &PyType_Type,
                          &entry, &PyType_Type, &result, &ok, &tag_mark, &most_properties, &odd_flags) ||
        check_named_tuple(entry) < 0 || check_named_tuple(result) < 0) {
        return NULL;
    }
    BatchEncoder *self = (BatchEncoder *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->batch = (PyTypeObject *)Py_NewRef(batch);
    self->queue = (PyTypeObject *)Py_NewRef(queue);
    self->entry = (PyTypeObject *)Py_NewRef(entry);
    self->result = (PyTypeObject *)Py_NewRef(result);
    self->ok = Py_NewRef(ok);
    self->tag_mark = Py_NewRef(tag_mark);
    self->most_properties = most_properties;
    self->odd_flags = odd_flags;
    self->empty = PyUnicode_FromStringAndSize(NULL, 0);
    self->zero = PyLong_FromLong(0);
    if (self->empty == NULL || self->zero == NULL ||
        find_slots(batch, batch_names, BATCH_SLOTS, self->batch_at) < 0 ||
        find_slots(queue, queue_names, QUEUE_SLOTS, self->queue_at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
batch_encoder_dealloc(BatchEncoder *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->batch);
    Py_XDECREF((PyObject *)self->queue);
    Py_XDECREF((PyObject *)self->entry);
    Py_XDECREF((PyObject *)self->result);
    Py_XDECREF(self->ok);
    Py_XDECREF(self->tag_mark);
    Py_XDECREF(self->empty);
    Py_XDECREF(self->zero);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* What the records of a batch have in common; all objects are referenced by the batch and the queue. */
typedef struct {
    PyObject *topic, *queue_id, *sys_flag, *queue, *named, *added;
    RecordHead head;
    long long tags, next_offset; /* tags: only with has_tags */
    int has_tags;
} Common;

static inline int
is_host(PyObject *host)
{
    return host != NULL && PyBytes_CheckExact(host) && size_of(host) == HOST_BYTES;
}

/* Read the common values; 0 if Python must process the batch, possibly with an error. */
static int
read_common(const BatchEncoder *self, PyObject *batch, PyObject *known, Common *common)
{
    const Py_ssize_t *at = self->batch_at;
    RecordHead *head = &common->head;
    PyObject *tags = get_slot(batch, at[TAGS]);
    PyObject *born_host = get_slot(batch, at[BORN_HOST]), *store_host = get_slot(batch, at[STORE_HOST]);
    common->topic = get_slot(batch, at[TOPIC]);
    common->queue_id = get_slot(batch, at[QUEUE_ID]);
    common->sys_flag = get_slot(batch, at[SYS_FLAG]);
    common->added = get_slot(batch, at[ADDED]);
    common->has_tags = tags != Py_None;
    if (common->topic == NULL || !PyUnicode_CheckExact(common->topic) || common->added == NULL ||
        !PyBytes_CheckExact(common->added) ||
        !is_ascii_without_zero(PyBytes_AsString(common->added), size_of(common->added)) || !is_host(born_host) ||
        !is_host(store_host) || !int_between(common->queue_id, INT32_LOW, INT32_HIGH, &head->queue_id) ||
        !int_between(common->sys_flag, INT32_LOW, INT32_HIGH, &head->sys_flag) ||
        !int_between(get_slot(batch, at[BORN]), INT64_LOW, INT64_HIGH, &head->born) ||
        !int_between(get_slot(batch, at[RECONSUMED]), INT32_LOW, INT32_HIGH, &head->reconsumed) ||
        (common->has_tags && !int_between(tags, INT64_LOW, INT64_HIGH, &common->tags)) ||
        head->sys_flag & self->odd_flags) {
        return 0;
    }
    head->born_host = PyBytes_AsString(born_host);
    head->store_host = PyBytes_AsString(store_host);
    head->prepared = 0;
    PyObject *key = PyTuple_Pack(2, common->topic, common->queue_id);
    if (key == NULL) {
        return 0;
    }
    PyObject *queue = PyDict_GetItemWithError(known, key);
    Py_DECREF(key);
    long long magic;
    if (queue == NULL || !Py_IS_TYPE(queue, self->queue)) {
        return 0;
    }
    common->queue = queue;
    common->named = get_slot(queue, self->queue_at[NAMED]);
    if (common->named == NULL || !PyBytes_CheckExact(common->named) ||
        !int_between(get_slot(queue, self->queue_at[MAGIC]), 0, 0xFFFFFFFFLL, &magic)) {
        return 0;
    }
    if (!int_between(get_slot(queue, self->queue_at[NEXT_OFFSET]), 0, INT64_HIGH / 2, &common->next_offset)) {
        return 0;
    }
    head->magic = (uint32_t)magic;
    return 1;
}

/* Bytes of the stored properties of an entry: a separator may be missing. */
static inline Py_ssize_t
stored_properties(const BatchEntry *entry, PyObject *added, int *separator)
{
    Py_ssize_t size = entry->properties_size;
    *separator = size > 0 && entry->properties[size - 1] != PAIR_END;
    return size + *separator + size_of(added);
}

/* Return the size of all records and set their number; 0 if Python must process the batch. */
static Py_ssize_t
measure(const BatchEncoder *self, const Py_buffer *body, const Common *common, Py_ssize_t most_body, Py_ssize_t most,
        Py_ssize_t *count)
{
    const unsigned char *at = body->buf;
    Py_ssize_t left = body->len, total = 0;
    int separator;
    BatchEntry entry;
    for (*count = 0; left > 0; ++*count) {
        if (!read_batch_entry(at, left, &entry) || entry.body_size > most_body ||
            !is_ascii_without_zero(entry.properties, entry.properties_size)) {
            return 0;
        }
        Py_ssize_t properties = stored_properties(&entry, common->added, &separator);
        total += HEAD_BYTES + entry.body_size + size_of(common->named) + LENGTH_BYTES + properties;
        if (properties > self->most_properties || total > most) {
            return 0;
        }
        at += entry.size;
        left -= entry.size;
    }
    return total;
}

/* Lists that receive an item for each record. */
typedef struct {
    PyObject *entries, *targets, *packed, *results;
} Lists;

static int
append_new(PyObject *list, PyObject *object)
{
    int failed = object == NULL || PyList_Append(list, object) < 0;
    Py_XDECREF(object);
    return failed ? -1 : 0;
}

/* Add the objects of a record whose properties are at *properties*; -1 with an error. */
static int
add_objects(const BatchEncoder *self, const Common *common, const RecordHead *head, long long tags, PyObject *now,
            const unsigned char *properties, Py_ssize_t properties_size, const Lists *lists)
{
    PyObject *queue_offset = PyLong_FromLongLong(head->queue_offset), *size = PyLong_FromSsize_t(head->size);
    PyObject *log_offset = PyLong_FromLongLong(head->log_offset), *packed = PyBytes_FromStringAndSize(NULL, ENTRY_BYTES);
    int failed = queue_offset == NULL || log_offset == NULL || size == NULL || packed == NULL;
    if (failed) {
        Py_XDECREF(packed);
    } else {
        PyObject *entry[] = {
            Py_NewRef(common->topic),
            Py_NewRef(common->queue_id),
            Py_NewRef(queue_offset),
            Py_NewRef(log_offset),
            Py_NewRef(size),
            PyLong_FromLongLong(tags),
            Py_NewRef(now),
            Py_NewRef(common->sys_flag),
            Py_NewRef(self->zero),
            PyBytes_FromStringAndSize((const char *)properties, properties_size),
        };
        PyObject *result[] = {
            Py_NewRef(self->ok), Py_NewRef(queue_offset), Py_NewRef(log_offset),
            Py_NewRef(size),     Py_NewRef(now),          Py_NewRef(self->empty),
        };
        write_entry((unsigned char *)PyBytes_AsString(packed), head->log_offset, head->size, tags);
        int no_entry = append_new(lists->entries, new_named_tuple(self->entry, entry, sizeof entry / sizeof *entry)) < 0;
        int no_result =
            append_new(lists->results, new_named_tuple(self->result, result, sizeof result / sizeof *result)) < 0;
        failed = append_new(lists->packed, packed) < 0 || no_entry || no_result ||
                 PyList_Append(lists->targets, common->queue) < 0;
    }
    Py_XDECREF(queue_offset);
    Py_XDECREF(log_offset);
    Py_XDECREF(size);
    return failed ? -1 : 0;
}

/* Write all records to the memory at *to*, which has room for them; -1 with an error. */
static int
write_records(const BatchEncoder *self, const Py_buffer *body, Common *common, PyObject *now, unsigned char *to,
              const Lists *lists)
{
    const unsigned char *at = body->buf;
    Py_ssize_t left = body->len;
    RecordHead *head = &common->head;
    BatchEntry entry;
    int separator;
    int32_t code = 0;
    while (left > 0 && read_batch_entry(at, left, &entry)) {
        Py_ssize_t properties = stored_properties(&entry, common->added, &separator);
        if (!common->has_tags && !hash_tag(self->tag_mark, entry.properties, entry.properties_size, &code)) {
            PyErr_SetString(PyExc_ValueError, "a batch with an empty tag is not plain");
            return -1;
        }
        head->size = HEAD_BYTES + entry.body_size + size_of(common->named) + LENGTH_BYTES + properties;
        head->body_size = entry.body_size;
        head->flag = entry.flag;
        head->crc = crc32_of(entry.body, entry.body_size);
        to = write_bytes(write_head(to, head), entry.body, entry.body_size);
        to = write_bytes(to, PyBytes_AsString(common->named), size_of(common->named));
        to = write_u16(to, (uint32_t)properties);
        const unsigned char *text = to;
        to = write_bytes(to, entry.properties, entry.properties_size);
        if (separator) {
            *to++ = PAIR_END;
        }
        to = write_bytes(to, PyBytes_AsString(common->added), size_of(common->added));
        if (add_objects(self, common, head, common->has_tags ? common->tags : code, now, text, properties, lists) < 0) {
            return -1;
        }
        head->queue_offset++;
        head->log_offset += head->size;
        at += entry.size;
        left -= entry.size;
    }
    return 0;
}

static PyObject *
batch_encoder_call(BatchEncoder *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *batch, *known, *now, *records = NULL;
    long long limit;
    Py_ssize_t most_body, count;
    Lists lists;
    Common common;
    if (!PyArg_ParseTuple(args, "OO!LLO!nO!O!O!O!:encode_batch", &batch, &PyDict_Type, &known, &common.head.log_offset,
                          &limit, &PyLong_Type, &now, &most_body, &PyList_Type, &lists.entries, &PyList_Type,
                          &lists.targets, &PyList_Type, &lists.packed, &PyList_Type, &lists.results)) {
        return NULL;
    }
    common.head.stored = PyLong_AsLongLong(now);
    if (common.head.stored == -1 && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *asked = Py_IS_TYPE(batch, self->batch) ? get_slot(batch, self->batch_at[BODY]) : NULL;
    Py_buffer body;
    if (asked == NULL || !read_common(self, batch, known, &common) ||
        limit <= common.head.log_offset || PyObject_GetBuffer(asked, &body, PyBUF_SIMPLE) < 0) {
        return PyErr_Occurred() ? NULL : PyBytes_FromStringAndSize(NULL, 0);
    }
    long long room = limit - common.head.log_offset;
    Py_ssize_t most = room > PY_SSIZE_T_MAX / 2 ? PY_SSIZE_T_MAX / 2 : (Py_ssize_t)room;
    Py_ssize_t total = measure(self, &body, &common, most_body, most, &count);
    PyObject *after = PyLong_FromLongLong(common.next_offset + count);
    if (total == 0) {
        count = 0;
    }
    if (after != NULL && (records = PyBytes_FromStringAndSize(NULL, total)) != NULL && total > 0) {
        common.head.queue_offset = common.next_offset;
        Py_ssize_t before = size_of(lists.results);
        if (write_records(self, &body, &common, now, (unsigned char *)PyBytes_AsString(records), &lists) < 0) {
            Py_CLEAR(records);
        } else if (size_of(lists.results) - before != count) {
            PyErr_SetString(PyExc_ValueError, "the body of a batch changed");
            Py_CLEAR(records);
        } else {
            set_slot(common.queue, self->queue_at[NEXT_OFFSET], after);
        }
    }
    Py_XDECREF(after);
    PyBuffer_Release(&body);
    return records;
}

static PyType_Slot batch_encoder_slots[] = {
    {Py_tp_doc, "BatchEncoder(MessageBatch, ConsumeQueue, DispatchEntry, PutResult, ok, tag_mark, most_properties,\n"
                "odd_flags): its instances are called as encode_batch(batch, known, log_offset, limit, now, most_body,\n"
                "entries, targets, packed, results)."},
    {Py_tp_new, batch_encoder_new},
    {Py_tp_dealloc, batch_encoder_dealloc},
    {Py_tp_call, batch_encoder_call},
    {0, NULL},
};

PyType_Spec batch_encoder_spec = {
    .name = "gantrymq_speedups._compiled.BatchEncoder",
    .basicsize = sizeof(BatchEncoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = batch_encoder_slots,
};
