/* gantrymq.remoting.replies: write_answers */
#include "common.h"

/* Slots of a Send. */
enum { FLAG, OPAQUE, QUEUE_ID, UNIQUE_ID, SEND_SLOTS };
static const char *const send_names[SEND_SLOTS] = {"flag", "opaque", "queue_id", "unique_id"};

/* Fields of a result. */
enum { QUEUE_OFFSET = 1, LOG_OFFSET = 2, RESULT_FIELDS = 6 };

enum { TEXTS = 6, PREFIX_BYTES = 8, NUMBER_BYTES = 20, ID_BYTES = 16 };

typedef struct {
    PyObject_HEAD
    PyTypeObject *send;
    PyObject *texts; /* around log offset, queue id, queue offset, unique id and opaque */
    Py_ssize_t text_bytes;
    unsigned long long oneway;
    Py_ssize_t send_at[SEND_SLOTS];
} AnswerWriter;

/* What one answer says. */
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
    Py_ssize_t text_bytes = 0;
    for (Py_ssize_t index = 0; index < TEXTS; index++) {
        text_bytes += PyBytes_GET_SIZE(PyTuple_GET_ITEM(texts, index));
    }
    AnswerWriter *self = (AnswerWriter *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->send = (PyTypeObject *)Py_NewRef(send);
    self->texts = Py_NewRef(texts);
    self->text_bytes = text_bytes;
    self->oneway = oneway;
    if (find_slots(send, send_names, SEND_SLOTS, self->send_at) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
answer_writer_dealloc(AnswerWriter *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->send);
    Py_XDECREF(self->texts);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Read what the answer to a send says: 1, or 0 for one that wants none, or -1 with an error. */
static int
read_answer(const AnswerWriter *self, PyObject *send, PyObject *result, Answer *answer)
{
    if (!Py_IS_TYPE(send, self->send) || !PyTuple_Check(result) || PyTuple_GET_SIZE(result) != RESULT_FIELDS ||
        !int_between(get_slot(send, self->send_at[OPAQUE]), INT32_LOW, INT32_HIGH, &answer->opaque) ||
        !int_between(get_slot(send, self->send_at[QUEUE_ID]), 0, INT32_HIGH, &answer->queue_id) ||
        !int_between(PyTuple_GET_ITEM(result, QUEUE_OFFSET), 0, INT64_HIGH, &answer->queue_offset) ||
        !int_between(PyTuple_GET_ITEM(result, LOG_OFFSET), 0, INT64_HIGH, &answer->log_offset) ||
        (answer->id = get_slot(send, self->send_at[UNIQUE_ID])) == NULL || !PyBytes_CheckExact(answer->id)) {
        PyErr_SetString(PyExc_TypeError, "a send that is none, or a result that is none");
        return -1;
    }
    PyObject *flag = get_slot(send, self->send_at[FLAG]); /* a peer may send one of any size */
    if (flag == NULL || !PyLong_Check(flag)) {
        PyErr_SetString(PyExc_TypeError, "a flag that is no number");
        return -1;
    }
    return PyLong_AsUnsignedLongLongMask(flag) & self->oneway ? 0 : 1;
}

static unsigned char *
write_number(unsigned char *to, long long value)
{
    char digits[NUMBER_BYTES];
    int at = NUMBER_BYTES, negative = value < 0;
    unsigned long long left = negative ? 0ULL - (unsigned long long)value : (unsigned long long)value;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (negative) {
        *to++ = '-';
    }
    return write_bytes(to, digits + at, NUMBER_BYTES - at);
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
    PyObject *text = PyTuple_GET_ITEM(self->texts, index);
    return write_bytes(to, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text));
}

static unsigned char *
write_answer(const AnswerWriter *self, unsigned char *to, const Answer *answer)
{
    unsigned char *start = to;
    to = write_hex(write_text(self, to + PREFIX_BYTES, 0), answer->log_offset);
    to = write_number(write_text(self, to, 1), answer->queue_id);
    to = write_number(write_text(self, to, 2), answer->queue_offset);
    to = write_bytes(write_text(self, to, 3), PyBytes_AS_STRING(answer->id), PyBytes_GET_SIZE(answer->id));
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
    PyObject *sends = PySequence_Fast(asked, "sends are a list"), *results = PySequence_Fast(stored, "results are a list");
    PyObject *frames = NULL;
    Answer *answers = NULL;
    if (sends == NULL || results == NULL) {
        goto finish;
    }
    Py_ssize_t given = PySequence_Fast_GET_SIZE(sends), count = 0, most = 0;
    if (given != PySequence_Fast_GET_SIZE(results)) {
        PyErr_SetString(PyExc_ValueError, "each send has one result");
        goto finish;
    }
    answers = PyMem_New(Answer, given > 0 ? given : 1);
    if (answers == NULL) {
        PyErr_NoMemory();
        goto finish;
    }
    for (Py_ssize_t index = 0; index < given; index++) {
        int wanted = read_answer(self, PySequence_Fast_GET_ITEM(sends, index), PySequence_Fast_GET_ITEM(results, index),
                                 &answers[count]);
        if (wanted < 0) {
            goto finish;
        }
        if (wanted) {
            most += PREFIX_BYTES + self->text_bytes + ID_BYTES + 3 * (NUMBER_BYTES + 1) + PyBytes_GET_SIZE(answers[count].id);
            count++;
        }
    }
    frames = PyBytes_FromStringAndSize(NULL, most);
    if (frames != NULL) {
        unsigned char *start = (unsigned char *)PyBytes_AS_STRING(frames), *to = start;
        for (Py_ssize_t index = 0; index < count; index++) {
            to = write_answer(self, to, &answers[index]);
        }
        _PyBytes_Resize(&frames, to - start);
    }

finish:
    PyMem_Free(answers);
    Py_XDECREF(sends);
    Py_XDECREF(results);
    return frames;
}

static PyType_Slot answer_writer_slots[] = {
    {Py_tp_doc, "AnswerWriter(Send, texts, oneway): what it makes is called as write_answers(sends, results)."},
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
