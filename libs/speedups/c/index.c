/* gantrymq_store_files.index_hash: hash_entries; gantrymq_store_files.index_table: put_entries */
#include "common.h"

enum { TOPIC = 0, LOG_OFFSET = 3, STORE_TIMESTAMP = 6, SYS_FLAG = 7, PROPERTIES = 9, ENTRY_FIELDS = 10 };
enum { ENTRY_BYTES = 20, PAIR_END = 2 };

/* --- keys and hashes -------------------------------------------------------------------------------------------------- */

/* Properties of one entry, or one value. */
typedef struct {
    const unsigned char *at;
    Py_ssize_t size;
} Text;

/* Find the last value after a mark (name and 0x01); 0 without one. An empty value counts as present. */
static int
find_value(Text properties, PyObject *mark, Text *value)
{
    const unsigned char *text = (const unsigned char *)PyBytes_AsString(mark);
    Py_ssize_t size = size_of(mark), at = properties.size - size;
    while (at >= 0 && !((at == 0 || properties.at[at - 1] == PAIR_END) && properties.at[at] == text[0] &&
                        memcmp(properties.at + at, text, (size_t)size) == 0)) {
        at--;
    }
    if (at < 0) {
        return 0;
    }
    value->at = properties.at + at + size;
    value->size = properties.size - at - size;
    const unsigned char *end = memchr(value->at, PAIR_END, (size_t)value->size);
    if (end != NULL) {
        value->size = end - value->at;
    }
    return 1;
}

static int
append_hash(PyObject *hashes, uint32_t hash)
{
    PyObject *number = PyLong_FromUnsignedLong((hash & 0x80000000u ? 0u - hash : hash) & 0x7FFFFFFFu);
    if (number == NULL) {
        return -1;
    }
    int failed = PyList_Append(hashes, number);
    Py_DECREF(number);
    return failed;
}

/* Add the hashes of all space-separated parts of a value; -1 with an error. */
static int
append_parts(PyObject *hashes, uint32_t front, Text value)
{
    Py_ssize_t start = 0;
    while (start < value.size) {
        const unsigned char *blank = memchr(value.at + start, ' ', (size_t)(value.size - start));
        Py_ssize_t end = blank == NULL ? value.size : blank - value.at;
        if (end > start && append_hash(hashes, hash_on(front, value.at + start, end - start)) < 0) {
            return -1;
        }
        start = end + 1;
    }
    return 0;
}

/* Hash the keys of a plain entry: 1 on success, 0 for other entries, -1 with an error. */
static int
hash_plain(PyObject *entry, PyObject *marks, long long odd_flags, PyObject **before, uint32_t *front, PyObject *hashes)
{
    PyObject *topic = PyTuple_GetItem(entry, TOPIC), *stored = PyTuple_GetItem(entry, PROPERTIES);
    long long flags;
    if (!PyBytes_CheckExact(stored) || !PyUnicode_CheckExact(topic) ||
        !int_between(PyTuple_GetItem(entry, SYS_FLAG), INT32_LOW, INT32_HIGH, &flags) || flags & odd_flags) {
        return 0;
    }
    Text properties = {(const unsigned char *)PyBytes_AsString(stored), size_of(stored)}, unique, keys;
    int has_unique = find_value(properties, PyTuple_GetItem(marks, 0), &unique);
    int has_keys = find_value(properties, PyTuple_GetItem(marks, 1), &keys);
    if ((has_unique && (unique.size == 0 || !is_ascii(unique.at, unique.size))) ||
        (has_keys && (keys.size == 0 || !is_ascii(keys.at, keys.size)))) {
        return 0;
    }
    if (topic != *before) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(topic, &size);
        if (text == NULL) {
            PyErr_Clear(); /* a lone surrogate */
        }
        if (text == NULL || !is_ascii(text, size)) {
            return 0;
        }
        *before = topic;
        *front = hash_on(hash_on(0, text, size), "#", 1);
    }
    if (has_unique && append_hash(hashes, hash_on(*front, unique.at, unique.size)) < 0) {
        return -1;
    }
    return has_keys && append_parts(hashes, *front, keys) < 0 ? -1 : 1;
}

static int
extend(PyObject *list, PyObject *more)
{
    Py_ssize_t end = size_of(list);
    return PyList_SetSlice(list, end, end, more);
}

static PyObject *
hash_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *asked, *marks, *slowly;
    long long odd_flags;
    if (!PyArg_ParseTuple(args, "O!LOO:hash_entries", &PyTuple_Type, &marks, &odd_flags, &slowly, &asked)) {
        return NULL;
    }
    if (check_texts(marks, 2) < 0) {
        return NULL;
    }
    PyObject *entries = PySequence_Tuple(asked);
    PyObject *hashes = PyList_New(0), *offsets = PyList_New(0), *times = PyList_New(0), *before = NULL;
    uint32_t front = 0;
    if (entries == NULL || hashes == NULL || offsets == NULL || times == NULL) {
        goto failed;
    }
    for (Py_ssize_t index = 0; index < size_of(entries); index++) {
        PyObject *entry = PyTuple_GetItem(entries, index);
        if (!PyTuple_Check(entry) || size_of(entry) != ENTRY_FIELDS) {
            PyErr_SetString(PyExc_TypeError, "entries have ten fields");
            goto failed;
        }
        int done = hash_plain(entry, marks, odd_flags, &before, &front, hashes);
        if (done == 0) {
            PyObject *found = PyObject_CallFunctionObjArgs(slowly, entry, NULL);
            done = found == NULL || extend(hashes, found) < 0 ? -1 : 1;
            Py_XDECREF(found);
        }
        if (done < 0) {
            goto failed;
        }
        while (size_of(offsets) < size_of(hashes)) {
            if (PyList_Append(offsets, PyTuple_GetItem(entry, LOG_OFFSET)) < 0 ||
                PyList_Append(times, PyTuple_GetItem(entry, STORE_TIMESTAMP)) < 0) {
                goto failed;
            }
        }
    }
    Py_DECREF(entries);
    return Py_BuildValue("(NNN)", hashes, offsets, times);

failed:
    Py_XDECREF(entries);
    Py_XDECREF(hashes);
    Py_XDECREF(offsets);
    Py_XDECREF(times);
    return NULL;
}

/* --- entries ---------------------------------------------------------------------------------------------------------- */

static int
add_number(PyObject *set, long long number)
{
    PyObject *object = PyLong_FromLongLong(number);
    if (object == NULL) {
        return -1;
    }
    int failed = PySet_Add(set, object);
    Py_DECREF(object);
    return failed;
}

static int
read_number(PyObject *list, Py_ssize_t index, long long *number)
{
    if (int_between(PyTuple_GetItem(list, index), INT64_LOW, INT64_HIGH, number)) {
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "a number does not fit its field");
    return 0;
}

/* Arguments of put_entries. */
typedef struct {
    PyObject *hashes, *offsets, *times, *dirty; /* the first three from PySequence_Fast, of equal length */
    int32_t *slots;
    long long slot_count, number, begin, used, page_slots;
} Filling;

static int
fill(Filling *it, unsigned char *to)
{
    long long page_before = -1;
    for (Py_ssize_t index = 0; index < size_of(it->hashes); index++) {
        long long hash, offset, now, seconds = 0;
        if (!read_number(it->hashes, index, &hash) || !read_number(it->offsets, index, &offset) ||
            !read_number(it->times, index, &now)) {
            return -1;
        }
        if (hash < 0 || hash > INT32_HIGH) {
            PyErr_SetString(PyExc_ValueError, "a hash has 31 bits");
            return -1;
        }
        if (it->begin > 0 && now > it->begin) {
            seconds = (now - it->begin) / 1000;
            seconds = seconds < INT32_HIGH ? seconds : INT32_HIGH;
        }
        long long slot = hash % it->slot_count, previous = it->slots[slot], page = slot / it->page_slots;
        if (previous <= 0 || previous > it->number) {
            previous = 0;
            it->used++;
        }
        to = write_u32(to, (uint32_t)hash);
        to = write_u64(to, (uint64_t)offset);
        to = write_u32(to, (uint32_t)seconds);
        to = write_u32(to, (uint32_t)previous);
        it->slots[slot] = (int32_t)it->number;
        if (page != page_before && add_number(it->dirty, page) < 0) {
            return -1;
        }
        page_before = page;
        if (it->number <= 1) {
            it->begin = now;
        }
        it->number++;
    }
    return 0;
}

static PyObject *
put_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    Filling it;
    Py_buffer slots;
    PyObject *hashes, *offsets, *times, *entries = NULL;
    if (!PyArg_ParseTuple(args, "w*LLLOOOO!L:put_entries", &slots, &it.number, &it.begin, &it.used, &hashes, &offsets, &times,
                          &PySet_Type, &it.dirty, &it.page_slots)) {
        return NULL;
    }
    it.slots = slots.buf;
    it.slot_count = slots.len / (Py_ssize_t)sizeof(int32_t);
    it.hashes = PySequence_Tuple(hashes);
    it.offsets = PySequence_Tuple(offsets);
    it.times = PySequence_Tuple(times);
    if (it.hashes == NULL || it.offsets == NULL || it.times == NULL) {
        goto finish;
    }
    Py_ssize_t count = size_of(it.hashes);
    if (it.slot_count < 1 || it.page_slots < 1 || size_of(it.offsets) != count ||
        size_of(it.times) != count) {
        PyErr_SetString(PyExc_ValueError, "no slots, or different numbers of hashes, offsets and times");
        goto finish;
    }
    entries = PyBytes_FromStringAndSize(NULL, count * ENTRY_BYTES);
    if (entries != NULL && fill(&it, (unsigned char *)PyBytes_AsString(entries)) < 0) {
        Py_CLEAR(entries);
    }

finish:
    Py_XDECREF(it.hashes);
    Py_XDECREF(it.offsets);
    Py_XDECREF(it.times);
    PyBuffer_Release(&slots);
    return entries == NULL ? NULL : Py_BuildValue("(NLL)", entries, it.begin, it.used);
}

PyMethodDef index_methods[] = {
    {"hash_entries", hash_entries, METH_VARARGS, "hash_entries(marks, odd_flags, slowly, entries)"},
    {"put_entries", put_entries, METH_VARARGS,
     "put_entries(slots, number, begin, used, hashes, offsets, times, dirty, page_slots)"},
    {NULL, NULL, 0, NULL},
};
