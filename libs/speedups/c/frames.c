/* gantrymq.remoting.frame: cut_frames */
#include "common.h"

typedef struct {
    PyObject_HEAD
    PyTypeObject *frame;
} FrameCutter;

static PyObject *
frame_cutter_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *frame;
    if (!PyArg_ParseTuple(args, "O!:FrameCutter", &PyType_Type, &frame)) {
        return NULL;
    }
    if (check_named_tuple(frame) < 0) {
        return NULL;
    }
    FrameCutter *self = (FrameCutter *)PyType_GenericAlloc(type, 0);
    if (self != NULL) {
        self->frame = (PyTypeObject *)Py_NewRef(frame);
    }
    return (PyObject *)self;
}

static void
frame_cutter_dealloc(FrameCutter *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->frame);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *
new_frame(PyTypeObject *type, const unsigned char *at, Py_ssize_t header_bytes, Py_ssize_t body_bytes)
{
    PyObject *fields[] = {
        PyLong_FromLong(at[4]),
        PyBytes_FromStringAndSize((const char *)at + 8, header_bytes),
        body_bytes > 0 ? PyBytes_FromStringAndSize((const char *)at + 8 + header_bytes, body_bytes) : Py_NewRef(Py_None),
    };
    return new_named_tuple(type, fields, sizeof fields / sizeof *fields);
}

static PyObject *
frame_cutter_call(FrameCutter *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *data;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(args, "Sn:cut_frames", &data, &limit)) {
        return NULL;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AsString(data);
    Py_ssize_t at = 0, size = size_of(data), need = 8;
    PyObject *frames = PyList_New(0);
    if (frames == NULL) {
        return NULL;
    }
    while (size - at >= 8) {
        int64_t length = read_u32(bytes + at), header_bytes = read_u32(bytes + at + 4) & 0xFFFFFF;
        if (length + 4 > limit || header_bytes + 4 > length) {
            need = 0;
            break;
        }
        if (length + 4 > size - at) {
            need = (Py_ssize_t)(length + 4);
            break;
        }
        PyObject *frame =
            new_frame(self->frame, bytes + at, (Py_ssize_t)header_bytes, (Py_ssize_t)(length - 4 - header_bytes));
        if (frame == NULL || PyList_Append(frames, frame) < 0) {
            Py_XDECREF(frame);
            Py_DECREF(frames);
            return NULL;
        }
        Py_DECREF(frame);
        at += (Py_ssize_t)(length + 4);
    }
    return Py_BuildValue("(Nnn)", frames, at, need);
}

static PyType_Slot frame_cutter_slots[] = {
    {Py_tp_doc, "FrameCutter(Frame): its instances are called as cut_frames(data, limit)."},
    {Py_tp_new, frame_cutter_new},
    {Py_tp_dealloc, frame_cutter_dealloc},
    {Py_tp_call, frame_cutter_call},
    {0, NULL},
};

PyType_Spec frame_cutter_spec = {
    .name = "gantrymq_speedups._compiled.FrameCutter",
    .basicsize = sizeof(FrameCutter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = frame_cutter_slots,
};
