/* gantrymq.client.sending.encoded_message: encode_plain */
#include "batch_body.h"
#include "properties.h"

/* Slots of a Message. */
enum { TOPIC, BODY, TAGS, KEYS, FLAG, PROPERTIES, WAITS, DELAY_LEVEL, DELAY_MS, DELIVER_AT, SYSTEM, MESSAGE_SLOTS };
static const char *const message_names[MESSAGE_SLOTS] = {
    "topic",       "body",        "tags",     "keys",          "flag",
    "properties",  "wait_stored", "delay_level", "delay_ms", "deliver_at_ms", "system_properties",
};

/* Property names with their separator, and values of WAIT. */
enum { KEYS_MARK, TAGS_MARK, WAIT_MARK, ID_MARK, TRUE_TEXT, FALSE_TEXT, TEXTS };

enum { ID_TAIL = 12, MOST_HEAD = 128, COUNTER_MASK = 0xFFFF };

typedef struct {
    PyObject_HEAD
    PyTypeObject *message;
    PyObject *texts;
    Py_ssize_t most_properties; /* bytes */
    Py_ssize_t message_at[MESSAGE_SLOTS];
} MessageEncoder;

static PyObject *
message_encoder_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *message, *texts;
    Py_ssize_t most_properties;
    if (!PyArg_ParseTuple(args, "O!O!n:MessageEncoder", &PyType_Type, &message, &PyTuple_Type, &texts, &most_properties) ||
        check_texts(texts, TEXTS) < 0) {
        return NULL;
    }
    MessageEncoder *self = (MessageEncoder *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->message = (PyTypeObject *)Py_NewRef(message);
    self->texts = Py_NewRef(texts);
    self->most_properties = most_properties < 0x7FFF ? most_properties : 0x7FFF;
    if (find_slots(message, message_names, MESSAGE_SLOTS, self->message_at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
message_encoder_dealloc(MessageEncoder *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->message);
    Py_XDECREF(self->texts);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* A message that can be encoded; the texts belong to its objects. */
typedef struct {
    PyObject *body, *wait;
    const char *keys, *tags;
    Py_ssize_t keys_size, tags_size, properties_size;
    long long flag;
} Outgoing;

static inline int
is_empty_dict(PyObject *object)
{
    return object != NULL && PyDict_CheckExact(object) && PyDict_Size(object) == 0;
}

/* Read a text or None; 0 if Python must process it. */
static int
read_text(PyObject *object, const char **text, Py_ssize_t *size)
{
    *text = NULL;
    *size = 0;
    if (object == Py_None) {
        return 1;
    }
    if (object == NULL || !PyUnicode_CheckExact(object)) {
        return 0;
    }
    *text = PyUnicode_AsUTF8AndSize(object, size);
    if (*text == NULL) {
        PyErr_Clear(); /* a surrogate */
        return 0;
    }
    return memchr(*text, NAME_END, (size_t)*size) == NULL && memchr(*text, PAIR_END, (size_t)*size) == NULL;
}

static inline PyObject *
text_of(const MessageEncoder *self, int index)
{
    return PyTuple_GetItem(self->texts, index);
}

/* Read a message for a batch like the *first*; 0 if Python must process it. */
static int
read_outgoing(const MessageEncoder *self, PyObject *message, PyObject *first, Py_ssize_t id_size, Outgoing *out)
{
    const Py_ssize_t *at = self->message_at;
    long long none;
    if (!Py_IS_TYPE(message, self->message)) {
        return 0;
    }
    PyObject *topic = get_slot(message, at[TOPIC]), *wanted = get_slot(first, at[TOPIC]);
    out->body = get_slot(message, at[BODY]);
    out->wait = get_slot(message, at[WAITS]);
    if (topic == NULL || wanted == NULL || !PyUnicode_CheckExact(topic) || !PyUnicode_CheckExact(wanted) ||
        (topic != wanted && PyUnicode_Compare(topic, wanted) != 0) || out->body == NULL ||
        !PyBytes_CheckExact(out->body) || size_of(out->body) == 0 || (out->wait != Py_True && out->wait != Py_False) ||
        out->wait != get_slot(first, at[WAITS]) || !is_empty_dict(get_slot(message, at[PROPERTIES])) ||
        !is_empty_dict(get_slot(message, at[SYSTEM])) || get_slot(message, at[DELAY_MS]) != Py_None ||
        get_slot(message, at[DELIVER_AT]) != Py_None || !int_between(get_slot(message, at[DELAY_LEVEL]), 0, 0, &none) ||
        !int_between(get_slot(message, at[FLAG]), INT32_LOW, INT32_HIGH, &out->flag) ||
        !read_text(get_slot(message, at[KEYS]), &out->keys, &out->keys_size) ||
        !read_text(get_slot(message, at[TAGS]), &out->tags, &out->tags_size)) {
        return 0;
    }
    if (out->keys_size > self->most_properties || out->tags_size > self->most_properties) {
        return 0;
    }
    PyObject *wait = text_of(self, out->wait == Py_True ? TRUE_TEXT : FALSE_TEXT);
    out->properties_size = size_of(text_of(self, WAIT_MARK)) + size_of(wait) + 1 + size_of(text_of(self, ID_MARK)) +
                           id_size + 1;
    if (out->keys_size > 0) {
        out->properties_size += size_of(text_of(self, KEYS_MARK)) + out->keys_size + 1;
    }
    if (out->tags_size > 0) {
        out->properties_size += size_of(text_of(self, TAGS_MARK)) + out->tags_size + 1;
    }
    return out->properties_size <= self->most_properties;
}

static unsigned char *
write_pair(unsigned char *to, PyObject *mark, const char *value, Py_ssize_t size)
{
    to = write_bytes(to, PyBytes_AsString(mark), size_of(mark));
    to = write_bytes(to, value, size);
    *to = PAIR_END;
    return to + 1;
}

static void
write_hex(char *to, unsigned long value, int digits)
{
    while (digits-- > 0) {
        to[digits] = "0123456789ABCDEF"[value & 15];
        value >>= 4;
    }
}

static unsigned char *
write_outgoing(const MessageEncoder *self, unsigned char *to, const Outgoing *out, const char *id, Py_ssize_t id_size)
{
    Py_ssize_t body_size = size_of(out->body);
    PyObject *wait = text_of(self, out->wait == Py_True ? TRUE_TEXT : FALSE_TEXT);
    to = write_u32(to, (uint32_t)(LEAST_BATCH_BYTES + body_size + out->properties_size));
    to = write_u64(to, 0); /* magic and CRC */
    to = write_u32(to, (uint32_t)out->flag);
    to = write_u32(to, (uint32_t)body_size);
    to = write_bytes(to, PyBytes_AsString(out->body), body_size);
    to = write_u16(to, (uint32_t)out->properties_size);
    if (out->keys_size > 0) {
        to = write_pair(to, text_of(self, KEYS_MARK), out->keys, out->keys_size);
    }
    if (out->tags_size > 0) {
        to = write_pair(to, text_of(self, TAGS_MARK), out->tags, out->tags_size);
    }
    to = write_pair(to, text_of(self, WAIT_MARK), PyBytes_AsString(wait), size_of(wait));
    return write_pair(to, text_of(self, ID_MARK), id, id_size);
}

static PyObject *
message_encoder_call(MessageEncoder *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *messages;
    const char *head;
    Py_ssize_t head_size, most;
    unsigned long elapsed, counter;
    if (!PyArg_ParseTuple(args, "Os#kkn:encode_plain", &messages, &head, &head_size, &elapsed, &counter, &most)) {
        return NULL;
    }
    int is_list = PyList_CheckExact(messages);
    if ((!is_list && !PyTuple_CheckExact(messages)) || size_of(messages) == 0 || size_of(messages) > COUNTER_MASK ||
        head_size > MOST_HEAD || most > INT32_HIGH) {
        Py_RETURN_NONE;
    }
    Py_ssize_t count = size_of(messages), total = 0;
    PyObject *first = NULL;
    Outgoing *all = PyMem_Malloc((size_t)count * sizeof *all);
    if (all == NULL) {
        return PyErr_NoMemory();
    }
    /* Nothing between here and the last copy runs Python code, so the messages stay as they are. */
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *message = is_list ? PyList_GetItem(messages, index) : PyTuple_GetItem(messages, index);
        first = first == NULL ? message : first;
        if (!read_outgoing(self, message, Py_IS_TYPE(first, self->message) ? first : message, head_size + ID_TAIL,
                           &all[index])) {
            total = most + 1;
            break;
        }
        Py_ssize_t size = LEAST_BATCH_BYTES + size_of(all[index].body) + all[index].properties_size;
        total = size > most - total ? most + 1 : total + size;
        if (total > most) {
            break;
        }
    }
    PyObject *result = NULL, *body = NULL, *ids = NULL;
    if (total > most) {
        result = Py_NewRef(Py_None);
        goto finish;
    }
    body = PyBytes_FromStringAndSize(NULL, total);
    if (body == NULL) {
        goto finish;
    }
    char id[MOST_HEAD + ID_TAIL];
    memcpy(id, head, (size_t)head_size);
    write_hex(id + head_size, elapsed, 8);
    unsigned char *to = (unsigned char *)PyBytes_AsString(body);
    for (Py_ssize_t index = 0; index < count; index++) {
        write_hex(id + head_size + 8, (counter + (unsigned long)index) & COUNTER_MASK, 4);
        to = write_outgoing(self, to, &all[index], id, head_size + ID_TAIL);
    }
    ids = PyTuple_New(count);
    for (Py_ssize_t index = 0; ids != NULL && index < count; index++) {
        write_hex(id + head_size + 8, (counter + (unsigned long)index) & COUNTER_MASK, 4);
        PyObject *text = PyUnicode_FromStringAndSize(id, head_size + ID_TAIL);
        if (text == NULL) {
            Py_CLEAR(ids);
        } else {
            PyTuple_SetItem(ids, index, text);
        }
    }
    if (ids != NULL) {
        result = PyTuple_Pack(2, body, ids);
    }

finish:
    Py_XDECREF(body);
    Py_XDECREF(ids);
    PyMem_Free(all);
    return result;
}

static PyType_Slot message_encoder_slots[] = {
    {Py_tp_doc, "MessageEncoder(Message, texts, most_properties): its instances are called as\n"
                "encode_plain(messages, head, elapsed, counter, most)."},
    {Py_tp_new, message_encoder_new},
    {Py_tp_dealloc, message_encoder_dealloc},
    {Py_tp_call, message_encoder_call},
    {0, NULL},
};

PyType_Spec message_encoder_spec = {
    .name = "gantrymq_speedups._compiled.MessageEncoder",
    .basicsize = sizeof(MessageEncoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = message_encoder_slots,
};
