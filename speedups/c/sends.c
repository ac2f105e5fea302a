/* gantrymq.remoting.send_shapes: match_sends */
#include "common.h"

/* Slots of a ShapedSend; those before BODY are alike in all sends of a shape, or in all. */
enum { CODE, REMARK, SERIALIZE, EXT, LANGUAGE, VERSION, FLAG, SHAPE, BODY, OPAQUE, QUEUE_ID, BORN, UNIQUE_ID, SEND_SLOTS };
static const char *const send_names[SEND_SLOTS] = {
    "code", "remark", "serialize", "_ext",     "language",       "version",   "flag",
    "shape", "body",  "opaque",    "queue_id", "born_timestamp", "unique_id",
};

/* Slots of a SendShape. */
enum { BETWEEN, SHAPE_LANGUAGE, SHAPE_VERSION, SHAPE_FLAG, SHAPE_SLOTS };
static const char *const shape_names[SHAPE_SLOTS] = {"between", "language", "version", "flag"};

/* What stands before and behind the values of a header, and where it begins. */
enum { QUEUE_NAME, BORN_NAME, PROPERTIES_NAME, ID_MARK, PAIR_END, OPAQUE_NAME, BEGIN, TEXTS };

enum { PIECES = 5, LITERALS = 7, MAX_DIGITS = 18, MAX_QUEUE_ID = 1023 };

typedef struct {
    PyObject_HEAD
    PyTypeObject *send;
    PyObject *shape; /* the class */
    PyObject *code;
    PyObject *texts;
    Py_ssize_t longest; /* bytes of a header */
    Py_ssize_t send_at[SEND_SLOTS];
    Py_ssize_t shape_at[SHAPE_SLOTS];
} SendMatcher;

/* A piece of a header. */
typedef struct {
    const char *at;
    Py_ssize_t size;
} Text;

/* The values of a header. */
typedef struct {
    long long queue_id, born, opaque;
    Text id;
} Values;

static PyObject *
send_matcher_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *send, *shape, *code, *texts;
    Py_ssize_t longest;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n:SendMatcher", &PyType_Type, &send, &PyType_Type, &shape, &PyLong_Type, &code,
                          &PyTuple_Type, &texts, &longest)) {
        return NULL;
    }
    if (check_texts(texts, TEXTS) < 0) {
        return NULL;
    }
    SendMatcher *self = (SendMatcher *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->send = (PyTypeObject *)Py_NewRef(send);
    self->shape = Py_NewRef(shape);
    self->code = Py_NewRef(code);
    self->texts = Py_NewRef(texts);
    self->longest = longest;
    if (find_slots(send, send_names, SEND_SLOTS, self->send_at) < 0 ||
        find_slots(shape, shape_names, SHAPE_SLOTS, self->shape_at) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
send_matcher_dealloc(SendMatcher *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->send);
    Py_XDECREF(self->shape);
    Py_XDECREF(self->code);
    Py_XDECREF(self->texts);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- reading values: each takes what it reads off the front of a text, and returns whether it was there -------------- */

static inline int
skip(Text *rest, PyObject *literal)
{
    Py_ssize_t size = PyBytes_GET_SIZE(literal);
    if (rest->size < size || memcmp(rest->at, PyBytes_AS_STRING(literal), (size_t)size) != 0) {
        return 0;
    }
    rest->at += size;
    rest->size -= size;
    return 1;
}

/* A number without a sign and without zeros in front. */
static inline int
take_number(Text *rest, long long most, long long *value)
{
    Py_ssize_t digits = 0;
    long long found = 0;
    while (digits < rest->size && '0' <= rest->at[digits] && rest->at[digits] <= '9') {
        if (digits == MAX_DIGITS) {
            return 0;
        }
        found = found * 10 + (rest->at[digits] - '0');
        digits++;
    }
    if (digits == 0 || found > most || (digits > 1 && rest->at[0] == '0')) {
        return 0;
    }
    rest->at += digits;
    rest->size -= digits;
    *value = found;
    return 1;
}

static inline int
is_alphanumeric(char c)
{
    return ('0' <= c && c <= '9') || ('A' <= c && c <= 'Z') || ('a' <= c && c <= 'z');
}

static inline int
take_id(Text *rest, Text *id)
{
    Py_ssize_t size = 0;
    while (size < rest->size && is_alphanumeric(rest->at[size])) {
        size++;
    }
    *id = (Text){rest->at, size};
    rest->at += size;
    rest->size -= size;
    return size > 0;
}

/* What stands before a literal, which is taken away with it. */
static int
cut(Text *rest, PyObject *literal, Text *before)
{
    Py_ssize_t size = PyBytes_GET_SIZE(literal);
    const char *first = PyBytes_AS_STRING(literal), *end = rest->at + rest->size - size;
    for (const char *at = rest->at; at <= end; at++) {
        at = memchr(at, first[0], (size_t)(end - at + 1));
        if (at == NULL) {
            return 0;
        }
        if (memcmp(at, first, (size_t)size) == 0) {
            *before = (Text){rest->at, at - rest->at};
            rest->size -= before->size + size;
            rest->at = at + size;
            return 1;
        }
    }
    return 0;
}

static int
cut_at(Text *rest, char mark, Text *before)
{
    const char *at = memchr(rest->at, mark, (size_t)rest->size);
    if (at == NULL) {
        return 0;
    }
    *before = (Text){rest->at, at - rest->at};
    rest->size -= before->size + 1;
    rest->at = at + 1;
    return 1;
}

/* --- one header ----------------------------------------------------------------------------------------------------- */

/* Whether a header is of this shape. */
static int
has_shape(const SendMatcher *self, PyObject *shape, Text header, Values *values)
{
    PyObject *pieces = get_slot(shape, self->shape_at[BETWEEN]);
    if (pieces == NULL || !PyTuple_CheckExact(pieces) || PyTuple_GET_SIZE(pieces) != PIECES) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < PIECES; index++) {
        if (!PyBytes_CheckExact(PyTuple_GET_ITEM(pieces, index))) {
            return 0;
        }
    }
    return skip(&header, PyTuple_GET_ITEM(pieces, 0)) && take_number(&header, MAX_QUEUE_ID, &values->queue_id) &&
           skip(&header, PyTuple_GET_ITEM(pieces, 1)) && take_number(&header, INT64_HIGH, &values->born) &&
           skip(&header, PyTuple_GET_ITEM(pieces, 2)) && take_id(&header, &values->id) &&
           skip(&header, PyTuple_GET_ITEM(pieces, 3)) && take_number(&header, INT32_HIGH, &values->opaque) &&
           skip(&header, PyTuple_GET_ITEM(pieces, 4)) && header.size == 0;
}

static int
is_number(Text text, long long most, long long *value)
{
    return take_number(&text, most, value) && text.size == 0;
}

/* The known shape of a header, borrowed; NULL where there is none, perhaps with an error. */
static PyObject *
find_shape(const SendMatcher *self, PyObject *shapes, Text rest, Values *values)
{
    PyObject **texts = &PyTuple_GET_ITEM(self->texts, 0);
    Text literals[LITERALS], properties, queue_id, born, id, opaque;
    enum { HEAD, MIDDLE, LATER, BEFORE, AFTER, TAIL, END };
    if (!cut(&rest, texts[QUEUE_NAME], &literals[HEAD]) || !cut_at(&rest, '"', &queue_id) ||
        !cut(&rest, texts[BORN_NAME], &literals[MIDDLE]) || !cut_at(&rest, '"', &born) ||
        !cut(&rest, texts[PROPERTIES_NAME], &literals[LATER]) || !cut_at(&rest, '"', &properties) ||
        !cut(&rest, texts[OPAQUE_NAME], &literals[TAIL]) || !cut_at(&rest, ',', &opaque) ||
        !cut(&properties, texts[ID_MARK], &literals[BEFORE]) || !cut(&properties, texts[PAIR_END], &id) ||
        !is_number(queue_id, MAX_QUEUE_ID, &values->queue_id) || !is_number(born, INT64_HIGH, &values->born) ||
        !is_number(opaque, INT32_HIGH, &values->opaque) || !take_id(&id, &values->id) || id.size != 0) {
        return NULL;
    }
    literals[AFTER] = properties;
    literals[END] = rest;
    PyObject *key = PyTuple_New(LITERALS);
    if (key == NULL) {
        return NULL;
    }
    for (Py_ssize_t index = 0; index < LITERALS; index++) {
        PyObject *literal = PyBytes_FromStringAndSize(literals[index].at, literals[index].size);
        if (literal == NULL) {
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SET_ITEM(key, index, literal);
    }
    PyObject *shape = PyDict_GetItemWithError(shapes, key);
    Py_DECREF(key);
    return shape != NULL && Py_IS_TYPE(shape, (PyTypeObject *)self->shape) ? shape : NULL;
}

static PyObject *
new_send(const SendMatcher *self, PyObject *shape, const Values *values, PyObject *body)
{
    PyObject *send = new_instance(self->send), *zero = PyLong_FromLong(0);
    if (send == NULL || zero == NULL) {
        Py_XDECREF(send);
        Py_XDECREF(zero);
        return NULL;
    }
    const Py_ssize_t *at = self->send_at, *from = self->shape_at;
    set_slot(send, at[CODE], self->code);
    set_slot(send, at[REMARK], Py_None);
    give_slot(send, at[SERIALIZE], zero);
    set_slot(send, at[EXT], Py_None);
    set_slot(send, at[LANGUAGE], get_slot(shape, from[SHAPE_LANGUAGE]));
    set_slot(send, at[VERSION], get_slot(shape, from[SHAPE_VERSION]));
    set_slot(send, at[FLAG], get_slot(shape, from[SHAPE_FLAG]));
    set_slot(send, at[SHAPE], shape);
    set_slot(send, at[BODY], body);
    if (give_slot(send, at[OPAQUE], PyLong_FromLongLong(values->opaque)) < 0 ||
        give_slot(send, at[QUEUE_ID], PyLong_FromLongLong(values->queue_id)) < 0 ||
        give_slot(send, at[BORN], PyLong_FromLongLong(values->born)) < 0 ||
        give_slot(send, at[UNIQUE_ID], PyBytes_FromStringAndSize(values->id.at, values->id.size)) < 0) {
        Py_DECREF(send);
        return NULL;
    }
    return send;
}

/* --- many headers --------------------------------------------------------------------------------------------------- */

/* The header of a JSON frame that may be a send; empty for others. */
static Text
header_of(const SendMatcher *self, PyObject *frame)
{
    const Text none = {NULL, 0};
    if (!PyTuple_Check(frame) || PyTuple_GET_SIZE(frame) != 3) {
        return none;
    }
    long long codec;
    PyObject *header = PyTuple_GET_ITEM(frame, 1);
    if (!int_between(PyTuple_GET_ITEM(frame, 0), 0, 0, &codec) || !PyBytes_CheckExact(header) ||
        PyBytes_GET_SIZE(header) > self->longest) {
        return none;
    }
    Text found = {PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header)}, rest = found;
    return skip(&rest, PyTuple_GET_ITEM(self->texts, BEGIN)) ? found : none;
}

static PyObject *
send_matcher_call(SendMatcher *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *shapes, *usual, *frames, *commands;
    Py_ssize_t start;
    if (!PyArg_ParseTuple(args, "O!OO!nO!:match_sends", &PyDict_Type, &shapes, &usual, &PyList_Type, &frames, &start,
                          &PyList_Type, &commands)) {
        return NULL;
    }
    PyObject *newest = Py_IS_TYPE(usual, (PyTypeObject *)self->shape) ? usual : NULL;
    for (Py_ssize_t index = start; index < PyList_GET_SIZE(frames); index++) {
        PyObject *frame = PyList_GET_ITEM(frames, index);
        Text header = header_of(self, frame);
        Values values;
        if (header.size == 0) {
            break;
        }
        if (newest == NULL || !has_shape(self, newest, header, &values)) {
            PyObject *found = find_shape(self, shapes, header, &values);
            if (found == NULL) {
                if (PyErr_Occurred()) {
                    return NULL;
                }
                break;
            }
            newest = found;
        }
        PyObject *send = new_send(self, newest, &values, PyTuple_GET_ITEM(frame, 2));
        if (send == NULL || PyList_Append(commands, send) < 0) {
            Py_XDECREF(send);
            return NULL;
        }
        Py_DECREF(send);
    }
    return Py_NewRef(newest == NULL ? Py_None : newest);
}

static PyType_Slot send_matcher_slots[] = {
    {Py_tp_doc, "SendMatcher(ShapedSend, SendShape, code, texts, longest): what it makes is called as\n"
                "match_sends(shapes, usual, frames, start, commands)."},
    {Py_tp_new, send_matcher_new},
    {Py_tp_dealloc, send_matcher_dealloc},
    {Py_tp_call, send_matcher_call},
    {0, NULL},
};

PyType_Spec send_matcher_spec = {
    .name = "gantrymq_speedups._compiled.SendMatcher",
    .basicsize = sizeof(SendMatcher),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = send_matcher_slots,
};
