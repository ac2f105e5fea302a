/* gantrymq.model.properties: name 0x01 value 0x02 ..., the last separator may be missing. */
#ifndef GANTRYMQ_PROPERTIES_H
#define GANTRYMQ_PROPERTIES_H

#include "common.h"

enum { NAME_END = 1, PAIR_END = 2 };

static inline int
begins_with(PyObject *text, const unsigned char *at, Py_ssize_t size)
{
    return size_of(text) <= size &&
           memcmp(PyBytes_AsString(text), at, (size_t)size_of(text)) == 0;
}

/* Hash the value of the last tag, 0 without one. Return 0 if it is empty, as an earlier one then counts. */
static inline int
hash_tag(PyObject *mark, const unsigned char *at, Py_ssize_t size, int32_t *code)
{
    uint32_t hash = 0;
    int good = 1;
    const char *text = PyBytes_AsString(mark);
    Py_ssize_t mark_size = size_of(mark);
    while (size > 0) {
        const unsigned char *end = memchr(at, PAIR_END, (size_t)size);
        Py_ssize_t piece = end == NULL ? size : end - at;
        if (mark_size <= piece && memcmp(text, at, (size_t)mark_size) == 0) {
            hash = hash_on(0, at + mark_size, piece - mark_size);
            good = piece > mark_size;
        }
        piece += end != NULL;
        at += piece;
        size -= piece;
    }
    *code = (int32_t)hash;
    return good;
}

#endif
