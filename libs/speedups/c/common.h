/* Shared declarations. Each exported function is the twin of a Python function, which has the documentation; tests compare
 * the two. Only Python's limited API is used, so that one build works for all versions from 3.11 on. */
#ifndef GANTRYMQ_COMMON_H
#define GANTRYMQ_COMMON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* Items of a tuple or list, bytes of a bytes object. */
static inline Py_ssize_t
size_of(PyObject *sized)
{
    return Py_SIZE(sized);
}

/* --- big-endian numbers --------------------------------------------------------------------------------------------- */

static inline uint32_t
read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int32_t
read_i32(const unsigned char *at)
{
    return (int32_t)read_u32(at);
}

static inline int64_t
read_i64(const unsigned char *at)
{
    return (int64_t)((uint64_t)read_u32(at) << 32 | read_u32(at + 4));
}

static inline int16_t
read_i16(const unsigned char *at)
{
    return (int16_t)(at[0] << 8 | at[1]);
}

static inline unsigned char *
write_u16(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
    return at + 2;
}

static inline unsigned char *
write_u32(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
    return at + 4;
}

static inline unsigned char *
write_u64(unsigned char *at, uint64_t value)
{
    return write_u32(write_u32(at, (uint32_t)(value >> 32)), (uint32_t)value);
}

static inline unsigned char *
write_bytes(unsigned char *at, const void *bytes, Py_ssize_t count)
{
    memcpy(at, bytes, (size_t)count);
    return at + count;
}

/* --- decimal numbers -------------------------------------------------------------------------------------------------- */

enum { NUMBER_BYTES = 20 }; /* longest number */

static inline unsigned char *
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

/* --- attributes of Python classes with __slots__ -------------------------------------------------------------------- */

/* Look up the offsets of the named slots in instances of a class; -1 with an error if one is missing. */
int find_slots(PyObject *type, const char *const *names, Py_ssize_t count, Py_ssize_t *offsets);

/* Return the value of a slot, borrowed; NULL without an error if it was never set. */
static inline PyObject *
get_slot(PyObject *object, Py_ssize_t offset)
{
    return *(PyObject **)((char *)object + offset);
}

/* Set a slot, stealing the reference; -1 if the value is NULL, as after an error. */
static inline int
give_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    if (value == NULL) {
        return -1;
    }
    PyObject **place = (PyObject **)((char *)object + offset);
    PyObject *before = *place;
    *place = value;
    Py_XDECREF(before);
    return 0;
}

/* Set a slot with a new reference; a NULL value leaves the slot unchanged. */
static inline void
set_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    give_slot(object, offset, Py_XNewRef(value));
}

/* --- argument checks: -1 with an error on a wrong type ---------------------------------------------------------------- */

int check_named_tuple(PyObject *type);

/* A tuple of *count* bytes objects. */
int check_texts(PyObject *texts, Py_ssize_t count);

/* --- objects -------------------------------------------------------------------------------------------------------- */

/* Create an instance of a class with __slots__ without calling __init__. */
static inline PyObject *
new_instance(PyTypeObject *type)
{
    return PyType_GenericAlloc(type, 0);
}

/* Create a named tuple, stealing the references of the fields; NULL with an error if one of them is NULL. */
PyObject *new_named_tuple(PyTypeObject *type, PyObject **fields, Py_ssize_t count);

/* Read an exact int within two bounds; 0 for other objects and values. */
static inline int
int_between(PyObject *object, long long low, long long high, long long *value)
{
    int overflow;
    if (object == NULL || !PyLong_CheckExact(object)) {
        return 0;
    }
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow && low <= *value && *value <= high;
}

#define INT32_LOW (-2147483647LL - 1)
#define INT32_HIGH 2147483647LL
#define INT64_LOW (-9223372036854775807LL - 1)
#define INT64_HIGH 9223372036854775807LL

/* --- Java's String.hashCode ------------------------------------------------------------------------------------------- */

/* Continue the hash *before* with ASCII text. */
static inline uint32_t
hash_on(uint32_t hash, const void *text, Py_ssize_t size)
{
    const unsigned char *at = text;
    for (Py_ssize_t index = 0; index < size; index++) {
        hash = hash * 31 + at[index];
    }
    return hash;
}

static inline int
is_ascii(const void *text, Py_ssize_t size)
{
    const unsigned char *at = text;
    unsigned char all = 0;
    for (Py_ssize_t index = 0; index < size; index++) {
        all |= at[index];
    }
    return all < 0x80;
}

static inline int
is_ascii_without_zero(const void *text, Py_ssize_t size)
{
    return is_ascii(text, size) && memchr(text, 0, (size_t)size) == NULL;
}

/* --- checksums -------------------------------------------------------------------------------------------------------- */

void make_crc_tables(void);

/* zlib.crc32. The tables must be initialized. */
uint32_t crc32_of(const unsigned char *at, Py_ssize_t size);

extern PyType_Spec frame_cutter_spec;
extern PyType_Spec command_reader_spec;
extern PyType_Spec message_maker_spec;
extern PyType_Spec record_encoder_spec;
extern PyType_Spec batch_encoder_spec;
extern PyType_Spec answer_writer_spec;
extern PyType_Spec entry_reader_spec;
extern PyType_Spec message_reader_spec;
extern PyType_Spec message_encoder_spec;
extern PyMethodDef batches_methods[];
extern PyMethodDef index_methods[];
extern PyMethodDef received_methods[];
extern PyMethodDef fields_methods[];
extern PyMethodDef requests_methods[];
extern PyMethodDef entries_methods[];
extern PyMethodDef signatures_methods[];
extern PyMethodDef columns_methods[];

#endif
