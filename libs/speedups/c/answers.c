/* gantrymq.remoting.responses: write_answers */
#include "common.h"

/* Slots of a SendCommand. */
enum { FLAG, OPAQUE, QUEUE_ID, UNIQUE_ID, SEND_SLOTS };
static const char *const send_names[SEND_SLOTS] = {"flag", "opaque", "queue_id", "unique_id"};

/* Fields of a result. */
enum { QUEUE_OFFSET = 1, LOG_OFFSET = 2, RESULT_FIELDS = 6 };

enum { TEXTS = 6, PREFIX_BYTES = 8, ID_BYTES = 16 };

typedef struct {
    PyObject_HEAD
    PyTypeObject *send;
    PyObject *texts; /* around log offset, queue id, queue offset, unique id and opaque */
    const char *text_at[TEXTS];
    Py_ssize_t text_size[TEXTS], text_bytes;
    unsigned long long oneway;
    Py_ssize_t send_at[SEND_SLOTS];
} AnswerWriter;

/* The values of one response. */
typedef struct {
    long long log_offset, queue_id, queue_offset, opaque;
    PyObject *id; /* borrowed */
} Answer;

static PyObject *
answer_writer_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *send, *texts;
    unsigned long long oneway;
    if (!PyArg_ParseTuple(args, "O!O!K:AnswerWriter", &PyType_Type, &send, &PyTuple_Type, &texts, &oneway)) {
        return NULL;
    }
    if (check_texts(texts, TEXTS) < 0) {
        return NULL;
    }
    AnswerWriter *self = (AnswerWriter *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->send = (PyTypeObject *)Py_NewRef(send);
    self->texts = Py_NewRef(texts);
    for (Py_ssize_t index = 0; index < TEXTS; index++) {
        PyObject *text = PyTuple_GetItem(texts, index);
        self->text_at[index] = PyBytes_AsString(text);
        self->text_size[index] = size_of(text);
        self->text_bytes += size_of(text);
    }
    self->oneway = oneway;
    if (find_slots(send, send_names, SEND_SLOTS, self->send_at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
answer_writer_dealloc(AnswerWriter *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->send);
    Py_XDECREF(self->texts);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* Read the values of the response to a send request: 1, 0 for a oneway request, or -1 with an error. */
static int
read_answer(const AnswerWriter *self, PyObject *send, PyObject *result, Answer *answer)
{
    if (!Py_IS_TYPE(send, self->send) || !PyTuple_Check(result) || size_of(result) != RESULT_FIELDS ||
        !int_between(get_slot(send, self->send_at[OPAQUE]), INT32_LOW, INT32_HIGH, &answer->opaque) ||
        !int_between(get_slot(send, self->send_at[QUEUE_ID]), 0, INT32_HIGH, &answer->queue_id) ||
        !int_between(PyTuple_GetItem(result, QUEUE_OFFSET), 0, INT64_HIGH, &answer->queue_offset) ||
        !int_between(PyTuple_GetItem(result, LOG_OFFSET), 0, INT64_HIGH, &answer->log_offset) ||
        (answer->id = get_slot(send, self->send_at[UNIQUE_ID])) == NULL || !PyBytes_CheckExact(answer->id)) {
        PyErr_SetString(PyExc_TypeError, "expected a SendCommand and a result tuple");
        return -1;
    }
    PyObject *flag = get_slot(send, self->send_at[FLAG]); /* peers may send any number */
    if (flag == NULL || !PyLong_Check(flag)) {
        PyErr_SetString(PyExc_TypeError, "a flag that is no number");
        return -1;
    }
    return PyLong_AsUnsignedLongLongMask(flag) & self->oneway ? 0 : 1;
}

static unsigned char *
write_hex(unsigned char *to, long long value)
{
    for (int digit = ID_BYTES - 1; digit >= 0; digit--) {
        to[digit] = (unsigned char)"0123456789ABCDEF"[value & 0xF];
        value >>= 4;
    }
    return to + ID_BYTES;
}

static unsigned char *
write_text(const AnswerWriter *self, unsigned char *to, Py_ssize_t index)
{
    return write_bytes(to, self->text_at[index], self->text_size[index]);
}

static unsigned char *
write_answer(const AnswerWriter *self, unsigned char *to, const Answer *answer)
{
    unsigned char *start = to;
    to = write_hex(write_text(self, to + PREFIX_BYTES, 0), answer->log_offset);
    to = write_number(write_text(self, to, 1), answer->queue_id);
    to = write_number(write_text(self, to, 2), answer->queue_offset);
    to = write_bytes(write_text(self, to, 3), PyBytes_AsString(answer->id), size_of(answer->id));
    to = write_number(write_text(self, to, 4), answer->opaque);
    to = write_text(self, to, 5);
    uint32_t length = (uint32_t)(to - start - PREFIX_BYTES);
    write_u32(write_u32(start, 4 + length), length);
    return to;
}

static PyObject *
answer_writer_call(AnswerWriter *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *asked, *stored;
    if (!PyArg_ParseTuple(args, "OO:write_answers", &asked, &stored)) {
        return NULL;
    }
    PyObject *sends = PySequence_Tuple(asked), *results = PySequence_Tuple(stored);
    PyObject *frames = NULL;
    Answer *answers = NULL;
    unsigned char *start = NULL;
    if (sends == NULL || results == NULL) {
        goto finish;
    }
    Py_ssize_t given = size_of(sends), count = 0, most = 0;
    if (given != size_of(results)) {
        PyErr_SetString(PyExc_ValueError, "each send has one result");
        goto finish;
    }
    answers = PyMem_New(Answer, given > 0 ? given : 1);
    if (answers == NULL) {
        PyErr_NoMemory();
        goto finish;
    }
    for (Py_ssize_t index = 0; index < given; index++) {
        int wanted = read_answer(self, PyTuple_GetItem(sends, index), PyTuple_GetItem(results, index),
                                 &answers[count]);
        if (wanted < 0) {
            goto finish;
        }
        if (wanted) {
            most += PREFIX_BYTES + self->text_bytes + ID_BYTES + 3 * (NUMBER_BYTES + 1) + size_of(answers[count].id);
            count++;
        }
    }
    start = PyMem_Malloc(most > 0 ? (size_t)most : 1);
    if (start == NULL) {
        PyErr_NoMemory();
        goto finish;
    }
    unsigned char *to = start;
    for (Py_ssize_t index = 0; index < count; index++) {
        to = write_answer(self, to, &answers[index]);
    }
    frames = PyBytes_FromStringAndSize((const char *)start, to - start);

finish:
    PyMem_Free(answers);
    PyMem_Free(start);
    Py_XDECREF(sends);
    Py_XDECREF(results);
    return frames;
}

static PyType_Slot answer_writer_slots[] = {
    {Py_tp_doc, "AnswerWriter(SendCommand, texts, oneway): its instances are called as write_answers(sends, results)."},
    {Py_tp_new, answer_writer_new},
    {Py_tp_dealloc, answer_writer_dealloc},
    {Py_tp_call, answer_writer_call},
    {0, NULL},
};

PyType_Spec answer_writer_spec = {
    .name = "gantrymq_speedups._compiled.AnswerWriter",
    .basicsize = sizeof(AnswerWriter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = answer_writer_slots,
};
