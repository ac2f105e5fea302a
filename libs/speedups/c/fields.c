/* gantrymq.remoting.headers.base: read_fields */
#include "common.h"

/* A Field. */
enum { ATTRIBUTE, WIRE, KIND, READ, REQUIRED, DEFAULT, FIELD_PARTS };

enum { INT32_DIGITS = 9, INT64_DIGITS = 18 }; /* numbers of this length always fit */

/* Parse at most *most* digits; NULL if Python must do it, possibly with an error. */
static PyObject *
read_digits(const char *text, Py_ssize_t size, Py_ssize_t most)
{
    long long number = 0;
    for (Py_ssize_t index = 0; index < size; index++) {
        if (text[index] < '0' || text[index] > '9' || size > most) {
            return NULL;
        }
        number = number * 10 + (text[index] - '0');
    }
    return size > 0 ? PyLong_FromLongLong(number) : NULL;
}

/* Convert a string to a value, a new reference; NULL as in read_digits. */
static PyObject *
read_text(PyObject *field, PyObject *value)
{
    if (PyTuple_GetItem(field, READ) == Py_None) {
        return Py_NewRef(value);
    }
    Py_ssize_t size;
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : NULL;
    if (text == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear(); /* a lone surrogate */
        }
        return NULL;
    }
    PyObject *kind = PyTuple_GetItem(field, KIND);
    if (PyUnicode_CompareWithASCIIString(kind, "int32") == 0) {
        return read_digits(text, size, INT32_DIGITS);
    }
    if (PyUnicode_CompareWithASCIIString(kind, "int64") == 0) {
        return read_digits(text, size, INT64_DIGITS);
    }
    int is_true = size == 4 && memcmp(text, "true", 4) == 0;
    return is_true || (size == 5 && memcmp(text, "false", 5) == 0) ? PyBool_FromLong(is_true) : NULL;
}

/* Set an attribute of a header from its field; 0 if Python must do it, possibly with an error. */
static int
fill_field(PyObject *header, PyObject *field, PyObject *ext)
{
    PyObject *text = PyDict_GetItemWithError(ext, PyTuple_GetItem(field, WIRE)), *value;
    if (text != NULL) {
        value = read_text(field, text);
    } else if (PyTuple_GetItem(field, REQUIRED) == Py_False && !PyErr_Occurred()) {
        value = Py_NewRef(PyTuple_GetItem(field, DEFAULT));
    } else {
        return 0;
    }
    int good = value != NULL && PyObject_SetAttr(header, PyTuple_GetItem(field, ATTRIBUTE), value) == 0;
    Py_XDECREF(value);
    return good;
}

static PyObject *
fill_header(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *header, *fields, *ext;
    if (!PyArg_ParseTuple(args, "OO!O!:fill_header", &header, &PyTuple_Type, &fields, &PyDict_Type, &ext)) {
        return NULL;
    }
    for (Py_ssize_t index = 0; index < size_of(fields); index++) {
        PyObject *field = PyTuple_GetItem(fields, index);
        if (!PyTuple_Check(field) || size_of(field) != FIELD_PARTS) {
            PyErr_SetString(PyExc_TypeError, "a field that is none");
            return NULL;
        }
        if (!fill_field(header, field, ext)) {
            return PyErr_Occurred() ? NULL : PyBool_FromLong(0);
        }
    }
    return PyBool_FromLong(1);
}

PyMethodDef fields_methods[] = {
    {"fill_header", fill_header, METH_VARARGS, "fill_header(header, fields, ext): return whether all fields were plain"},
    {NULL, NULL, 0, NULL},
};
