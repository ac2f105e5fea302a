/* gantrymq.client.sending.send_requests: write */
#include "common.h"

enum { TEXTS = 4 }; /* around born time, properties and opaque */

static const char name_end[] = "\\u0001", pair_end[] = "\\u0002";
enum { MARK_BYTES = sizeof name_end - 1 };

/* Return the bytes of a string that needs no escapes in JSON; NULL for others, possibly with an error. */
static const char *
plain_text(PyObject *text, Py_ssize_t *size)
{
    const char *at = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, size) : NULL;
    if (at == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear(); /* a lone surrogate */
        }
        return NULL;
    }
    for (Py_ssize_t index = 0; index < *size; index++) {
        if (at[index] < 0x20 || at[index] == 0x7f || at[index] == '"' || at[index] == '\\' || at[index] & 0x80) {
            return NULL;
        }
    }
    return at;
}

/* Return the size of the properties in JSON, without quotes; -1 if Python must encode them, possibly with an error. */
static Py_ssize_t
measure_properties(PyObject *properties)
{
    PyObject *name, *value;
    Py_ssize_t place = 0, bytes = 0, name_bytes, value_bytes;
    while (PyDict_Next(properties, &place, &name, &value)) {
        if (plain_text(name, &name_bytes) == NULL || plain_text(value, &value_bytes) == NULL) {
            return -1;
        }
        bytes += name_bytes + value_bytes + 2 * MARK_BYTES;
    }
    return bytes;
}

/* Encode properties whose size was determined. */
static unsigned char *
write_properties(unsigned char *to, PyObject *properties)
{
    PyObject *name, *value;
    Py_ssize_t place = 0, size;
    while (PyDict_Next(properties, &place, &name, &value)) {
        const char *at = PyUnicode_AsUTF8AndSize(name, &size);
        to = write_bytes(write_bytes(to, at, size), name_end, MARK_BYTES);
        at = PyUnicode_AsUTF8AndSize(value, &size);
        to = write_bytes(write_bytes(to, at, size), pair_end, MARK_BYTES);
    }
    return to;
}

static unsigned char *
write_text(unsigned char *to, PyObject *texts, Py_ssize_t index)
{
    PyObject *text = PyTuple_GetItem(texts, index);
    return write_bytes(to, PyBytes_AsString(text), size_of(text));
}

static PyObject *
write_send_header(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *texts, *properties;
    long long born, opaque;
    unsigned char born_digits[NUMBER_BYTES + 1], opaque_digits[NUMBER_BYTES + 1];
    if (!PyArg_ParseTuple(args, "O!LO!L:write_send_header", &PyTuple_Type, &texts, &born, &PyDict_Type, &properties,
                          &opaque) ||
        check_texts(texts, TEXTS) < 0) {
        return NULL;
    }
    Py_ssize_t property_bytes = measure_properties(properties);
    if (property_bytes < 0) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    Py_ssize_t born_bytes = write_number(born_digits, born) - born_digits;
    Py_ssize_t opaque_bytes = write_number(opaque_digits, opaque) - opaque_digits;
    Py_ssize_t bytes = born_bytes + property_bytes + 2 + opaque_bytes;
    for (Py_ssize_t index = 0; index < TEXTS; index++) {
        bytes += size_of(PyTuple_GetItem(texts, index));
    }
    PyObject *header = PyBytes_FromStringAndSize(NULL, bytes);
    if (header == NULL) {
        return NULL;
    }
    unsigned char *to = write_text((unsigned char *)PyBytes_AsString(header), texts, 0);
    to = write_text(write_bytes(to, born_digits, born_bytes), texts, 1);
    *to++ = '"';
    to = write_properties(to, properties);
    *to++ = '"';
    to = write_text(to, texts, 2);
    write_text(write_bytes(to, opaque_digits, opaque_bytes), texts, 3);
    return header;
}

PyMethodDef requests_methods[] = {
    {"write_send_header", write_send_header, METH_VARARGS,
     "write_send_header(texts, born_ms, properties, opaque): return None if a property is not plain"},
    {NULL, NULL, 0, NULL},
};
