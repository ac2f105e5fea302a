/* gantrymq.broker.wire.send_templates: make_messages */
#include "common.h"

/* Slots of a SendCommand. */
enum { ALIKE, BODY, QUEUE_ID, BORN, UNIQUE_ID, SEND_SLOTS };
static const char *const send_names[SEND_SLOTS] = {"alike", "body", "queue_id", "born_timestamp", "unique_id"};

/* Slots of a StoreMessage: first those shared by all messages of a template, in argument order, then those of each message. */
enum {
    TOPIC, TAGS, FLAG, FLAGS, BORN_HOST, STORE_HOST, RECONSUMED, PREPARED, WAITS, SAME_FILE, QUEUE_TARGETS, SHARED
};
enum { OWN_QUEUE_ID = SHARED, OWN_BODY, OWN_PROPERTIES, OWN_BORN, MESSAGE_SLOTS };
static const char *const message_names[MESSAGE_SLOTS] = {
    "topic",           "tags_code",   "flag",                  "sys_flag",      "born_host", "store_host", "reconsume_times",
    "prepared_offset", "wait_stored", "same_file_as_previous", "queue_targets", "queue_id",  "body",       "properties",
    "born_timestamp",
};

typedef struct {
    PyObject_HEAD
    PyTypeObject *send, *message;
    PyObject *is_signed;
    Py_ssize_t send_at[SEND_SLOTS], message_at[MESSAGE_SLOTS];
} MessageMaker;

static PyObject *
message_maker_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *send, *message, *is_signed;
    if (!PyArg_ParseTuple(args, "O!O!O:MessageMaker", &PyType_Type, &send, &PyType_Type, &message, &is_signed)) {
        return NULL;
    }
    MessageMaker *self = (MessageMaker *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->send = (PyTypeObject *)Py_NewRef(send);
    self->message = (PyTypeObject *)Py_NewRef(message);
    self->is_signed = Py_NewRef(is_signed);
    if (find_slots(send, send_names, SEND_SLOTS, self->send_at) < 0 ||
        find_slots(message, message_names, MESSAGE_SLOTS, self->message_at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
message_maker_dealloc(MessageMaker *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->send);
    Py_XDECREF((PyObject *)self->message);
    Py_XDECREF(self->is_signed);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *
around(PyObject *before, PyObject *middle, PyObject *after)
{
    Py_ssize_t size = size_of(before) + size_of(middle) + size_of(after);
    PyObject *whole = PyBytes_FromStringAndSize(NULL, size);
    if (whole != NULL) {
        unsigned char *at = (unsigned char *)PyBytes_AsString(whole);
        at = write_bytes(at, PyBytes_AsString(before), size_of(before));
        at = write_bytes(at, PyBytes_AsString(middle), size_of(middle));
        write_bytes(at, PyBytes_AsString(after), size_of(after));
    }
    return whole;
}

/* Whether the result of a call is true; -1 with an error. */
static int
ask(PyObject *callable, PyObject *first, PyObject *second)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(callable, first, second, NULL);
    int is_true = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return is_true;
}

static PyObject *
message_maker_call(MessageMaker *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *asked, *before, *after, *shared[SHARED], *secrets, *messages;
    Py_ssize_t start;
    long queues;
    if (!PyArg_ParseTuple(args, "OnlSSOOOOOOOOOO!:make_messages", &asked, &start, &queues, &before, &after,
                          &shared[TOPIC], &shared[TAGS], &shared[FLAG], &shared[FLAGS], &shared[BORN_HOST],
                          &shared[STORE_HOST], &shared[RECONSUMED], &shared[WAITS], &secrets, &PyList_Type, &messages)) {
        return NULL;
    }
    PyObject *sends = PySequence_Tuple(asked);
    PyObject *zero = PyLong_FromLong(0), *alike = NULL;
    if (sends == NULL || zero == NULL) {
        goto failed;
    }
    shared[PREPARED] = zero;
    shared[SAME_FILE] = Py_False;
    shared[QUEUE_TARGETS] = Py_None;
    for (Py_ssize_t index = start; index < size_of(sends); index++) {
        PyObject *send = PyTuple_GetItem(sends, index);
        if (!Py_IS_TYPE(send, self->send)) {
            break;
        }
        PyObject *own = get_slot(send, self->send_at[ALIKE]), *body = get_slot(send, self->send_at[BODY]);
        PyObject *queue_id = get_slot(send, self->send_at[QUEUE_ID]), *born = get_slot(send, self->send_at[BORN]);
        PyObject *id = get_slot(send, self->send_at[UNIQUE_ID]);
        long long number;
        if (alike == NULL) {
            alike = own;
        }
        if (own == NULL || own != alike || body == NULL || body == Py_None || born == NULL || id == NULL ||
            !PyBytes_CheckExact(id) || !int_between(queue_id, 0, (long long)queues - 1, &number)) {
            break;
        }
        if (secrets != Py_None) {
            int is_signed = ask(self->is_signed, send, secrets);
            if (is_signed < 0) {
                goto failed;
            }
            if (!is_signed) {
                break;
            }
        }
        PyObject *message = new_instance(self->message);
        if (message == NULL) {
            goto failed;
        }
        for (Py_ssize_t slot = 0; slot < SHARED; slot++) {
            set_slot(message, self->message_at[slot], shared[slot]);
        }
        set_slot(message, self->message_at[OWN_QUEUE_ID], queue_id);
        set_slot(message, self->message_at[OWN_BODY], body);
        set_slot(message, self->message_at[OWN_BORN], born);
        if (give_slot(message, self->message_at[OWN_PROPERTIES], around(before, id, after)) < 0 ||
            PyList_Append(messages, message) < 0) {
            Py_DECREF(message);
            goto failed;
        }
        Py_DECREF(message);
    }
    Py_DECREF(sends);
    Py_DECREF(zero);
    Py_RETURN_NONE;

failed:
    Py_XDECREF(sends);
    Py_XDECREF(zero);
    return NULL;
}

static PyType_Slot message_maker_slots[] = {
    {Py_tp_doc, "MessageMaker(SendCommand, StoreMessage, is_signed): its instances are called as make_messages(asked, start,\n"
                "queues, before, after, topic, tags_code, flag, sys_flag, born_host, store_host, reconsume_times,\n"
                "wait_stored, secrets, messages)."},
    {Py_tp_new, message_maker_new},
    {Py_tp_dealloc, message_maker_dealloc},
    {Py_tp_call, message_maker_call},
    {0, NULL},
};

PyType_Spec message_maker_spec = {
    .name = "gantrymq_speedups._compiled.MessageMaker",
    .basicsize = sizeof(MessageMaker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = message_maker_slots,
};
