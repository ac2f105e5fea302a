/* gantrymq.remoting.sends: read_plain */
#include "header.h"

/* Slots of a SendCommand; those before HEADER are equal in requests with equal ``alike``. */
enum { CODE, LANGUAGE, VERSION, FLAG, REMARK, ALIKE, SERIALIZE, EXT, HEADER, BODY, OPAQUE, QUEUE_ID, BORN, UNIQUE_ID,
       SEND_SLOTS };
enum { ALIKE_SLOTS = HEADER };
static const char *const send_names[SEND_SLOTS] = {
    "code", "language", "version", "flag",   "remark",   "alike",          "serialize",
    "_ext", "header",   "body",    "opaque", "queue_id", "born_timestamp", "unique_id",
};

typedef struct {
    PyObject_HEAD
    PyTypeObject *send;
    Commands others;
    Spellings known;
    PyObject *zero, *no_text;
    Py_ssize_t longest; /* longest header in bytes */
    Py_ssize_t send_at[SEND_SLOTS];
} CommandReader;

static PyObject *
command_reader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *send, *command, *spellings, *languages;
    Py_ssize_t longest;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n:CommandReader", &PyType_Type, &send, &PyType_Type, &command, &PyTuple_Type,
                          &spellings, &PyDict_Type, &languages, &longest)) {
        return NULL;
    }
    int good = longest <= LONGEST_HEADER && size_of(spellings) <= MOST_SPELLINGS;
    for (Py_ssize_t index = 0; good && index < size_of(spellings); index++) {
        PyObject *spelling = PyTuple_GetItem(spellings, index);
        good = PyTuple_CheckExact(spelling) && size_of(spelling) == SPELLING_FIELDS &&
               PyLong_CheckExact(PyTuple_GetItem(spelling, SPELLING_CODE));
        for (Py_ssize_t field = QUEUE_NAME; good && field < SPELLING_FIELDS; field++) {
            good = PyBytes_CheckExact(PyTuple_GetItem(spelling, field));
        }
    }
    if (!good) {
        PyErr_SetString(PyExc_TypeError, "expected spellings of a code and three bytes objects each, and a valid header limit");
        return NULL;
    }
    CommandReader *self = (CommandReader *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->send = (PyTypeObject *)Py_NewRef(send);
    self->known.spellings = Py_NewRef(spellings);
    self->known.languages = Py_NewRef(languages);
    self->longest = longest;
    self->zero = PyLong_FromLong(0);
    self->no_text = PyUnicode_FromStringAndSize(NULL, 0);
    if (self->zero == NULL || self->no_text == NULL || know_commands(&self->others, command) < 0 ||
        find_slots(send, send_names, SEND_SLOTS, self->send_at) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
command_reader_dealloc(CommandReader *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->send);
    Py_XDECREF((PyObject *)self->others.type);
    Py_XDECREF(self->known.spellings);
    Py_XDECREF(self->known.languages);
    Py_XDECREF(self->zero);
    Py_XDECREF(self->no_text);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* --- one request ------------------------------------------------------------------------------------------------------ */

/* A header with each varying value replaced by a zero byte, which no JSON text contains. */
static PyObject *
new_alike(const Said *said)
{
    char alike[LONGEST_HEADER + VARYING], *to = alike;
    const char *from = said->header.at;
    for (int index = 0; index < said->varies; index++) {
        Text text = said->varying[index].text;
        to = (char *)write_bytes((unsigned char *)to, from, text.at - from);
        *to++ = 0;
        from = text.at + text.size;
    }
    to = (char *)write_bytes((unsigned char *)to, from, said->header.at + said->header.size - from);
    return PyBytes_FromStringAndSize(alike, to - alike);
}

/* Set the values shared by equal requests; *like* is one of them, or NULL. */
static int
set_alike(const CommandReader *self, PyObject *send, PyObject *like, const Said *said)
{
    const Py_ssize_t *at = self->send_at;
    if (like != NULL) {
        for (int slot = 0; slot < ALIKE_SLOTS; slot++) {
            set_slot(send, at[slot], get_slot(like, at[slot]));
        }
        return 0;
    }
    set_slot(send, at[CODE], PyTuple_GetItem(PyTuple_GetItem(self->known.spellings, said->spelling), SPELLING_CODE));
    set_slot(send, at[LANGUAGE], said->language);
    set_slot(send, at[REMARK], said->no_remark ? Py_None : self->no_text);
    set_slot(send, at[SERIALIZE], self->zero);
    set_slot(send, at[EXT], Py_None);
    return give_slot(send, at[VERSION], PyLong_FromLongLong(said->version)) < 0 ||
                   give_slot(send, at[FLAG], PyLong_FromLongLong(said->flag)) < 0 ||
                   give_slot(send, at[ALIKE], new_alike(said)) < 0
               ? -1
               : 0;
}

static PyObject *
new_send(const CommandReader *self, PyObject *like, PyObject *header, PyObject *body, const Said *said)
{
    static const int slots[VARYING] = {
        [QUEUE_VALUE] = QUEUE_ID,
        [BORN_VALUE] = BORN,
        [ID_VALUE] = UNIQUE_ID,
        [OPAQUE_VALUE] = OPAQUE,
    };
    PyObject *send = new_instance(self->send);
    if (send == NULL) {
        return NULL;
    }
    set_slot(send, self->send_at[HEADER], header);
    set_slot(send, self->send_at[BODY], body);
    int failed = set_alike(self, send, like, said);
    for (int index = 0; !failed && index < said->varies; index++) {
        const Varying *value = &said->varying[index];
        if (value->kind == SIGNATURE_VALUE) {
            continue;
        }
        failed = give_slot(send, self->send_at[slots[value->kind]],
                           value->kind == ID_VALUE ? PyBytes_FromStringAndSize(value->text.at, value->text.size)
                                                   : PyLong_FromLongLong(value->number));
    }
    if (failed) {
        Py_DECREF(send);
        return NULL;
    }
    return send;
}

/* --- many headers ----------------------------------------------------------------------------------------------------- */

/* Return the header of a JSON frame, borrowed; NULL for others. */
static PyObject *
header_of(const CommandReader *self, PyObject *frame)
{
    long long codec;
    if (!PyTuple_Check(frame) || size_of(frame) != 3 || !int_between(PyTuple_GetItem(frame, 0), 0, 0, &codec)) {
        return NULL;
    }
    PyObject *header = PyTuple_GetItem(frame, 1);
    return PyBytes_CheckExact(header) && size_of(header) <= self->longest ? header : NULL;
}

static PyObject *
command_reader_call(CommandReader *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *frames, *commands, *before = NULL;
    Py_ssize_t start;
    Said said;
    if (!PyArg_ParseTuple(args, "O!nO!:read_plain", &PyList_Type, &frames, &start, &PyList_Type, &commands)) {
        return NULL;
    }
    for (Py_ssize_t index = start; index < size_of(frames); index++) {
        PyObject *frame = PyList_GetItem(frames, index), *header = header_of(self, frame);
        if (header == NULL) {
            break;
        }
        Text text = {PyBytes_AsString(header), size_of(header)};
        PyObject *body = PyTuple_GetItem(frame, 2), *command;
        int alike = before != NULL && read_alike(text, &said);
        if (alike || read_header(&self->known, text, &said)) {
            command = new_send(self, alike ? before : NULL, header, body, &said);
            before = command;
        } else if (PyErr_Occurred()) {
            break;
        } else {
            command = read_command(&self->others, &self->known, text, body);
        }
        if (command == NULL || PyList_Append(commands, command) < 0) {
            Py_XDECREF(command);
            break;
        }
        Py_DECREF(command); /* the list keeps it, and thus the header that *said* points into */
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyType_Slot command_reader_slots[] = {
    {Py_tp_doc, "CommandReader(SendCommand, Command, spellings, languages, longest): its instances are called as\n"
                "read_plain(frames, start, commands)."},
    {Py_tp_new, command_reader_new},
    {Py_tp_dealloc, command_reader_dealloc},
    {Py_tp_call, command_reader_call},
    {0, NULL},
};

PyType_Spec command_reader_spec = {
    .name = "gantrymq_speedups._compiled.CommandReader",
    .basicsize = sizeof(CommandReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = command_reader_slots,
};
