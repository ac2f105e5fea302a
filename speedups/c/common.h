/* What the parts share. Every function here is the twin of one in Python, which says what it does and why; tests hold
 * the two against each other. Nothing but Python's limited API is used, so that one build fits every Python from 3.11
 * on. */
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

enum { NUMBER_BYTES = 20 }; /* of the longest */

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

/* Look up where the instances of a class keep the slots of these names; -1 with an error where one is none. */
int find_slots(PyObject *type, const char *const *names, Py_ssize_t count, Py_ssize_t *offsets);

/* What a slot holds, borrowed; NULL, without an error, where it was never set. */
static inline PyObject *
get_slot(PyObject *object, Py_ssize_t offset)
{
    return *(PyObject **)((char *)object + offset);
}

/* Put a value into a slot and take over the reference; -1 where there is none, as after an error. */
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

/* As give_slot, but keeps a reference of its own; no value leaves the slot as it is. */
static inline void
set_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    give_slot(object, offset, Py_XNewRef(value));
}

/* --- what is handed in: -1 with an error where it is something else --------------------------------------------------- */

int check_named_tuple(PyObject *type);

/* A tuple of so many bytes objects. */
int check_texts(PyObject *texts, Py_ssize_t count);

/* --- objects -------------------------------------------------------------------------------------------------------- */

/* A new instance of a class with __slots__, made without its __init__. */
static inline PyObject *
new_instance(PyTypeObject *type)
{
    return PyType_GenericAlloc(type, 0);
}

/* A new named tuple of these fields, whose references it takes over; NULL with an error where one of them is NULL. */
PyObject *new_named_tuple(PyTypeObject *type, PyObject **fields, Py_ssize_t count);

/* The value of an exact int between two bounds; 0 where it is another object or lies outside. */
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

/* The hash of a text in ASCII, going on from that of what stands before it. */
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

/* --- check sums ------------------------------------------------------------------------------------------------------- */

void make_crc_tables(void);

/* zlib.crc32; the tables are there. */
uint32_t crc32_of(const unsigned char *at, Py_ssize_t size);

extern PyType_Spec frame_cutter_spec;
extern PyType_Spec command_reader_spec;
extern PyType_Spec message_maker_spec;
extern PyType_Spec record_encoder_spec;
extern PyType_Spec answer_writer_spec;
extern PyType_Spec entry_reader_spec;
extern PyType_Spec message_reader_spec;
extern PyMethodDef index_methods[];
extern PyMethodDef received_methods[];
extern PyMethodDef fields_methods[];
extern PyMethodDef requests_methods[];

#endif
