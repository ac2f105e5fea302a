/* gantrymq.remoting.sends: is_signed, without the HMAC. Unusual text is left to Python. */
#include "header.h"

enum { MOST_FIELDS = 64 };

/* An ext field. */
typedef struct {
    Text name;
    Value value;
} Field;

/* Result of a scan: the signed fields ordered by name, and the signature; without text if missing. */
typedef struct {
    Field fields[MOST_FIELDS];
    int count;
    Value signature;
    int has_fields;
} Found;

/* Compare names by their bytes; in UTF-8 this is the order of their characters. */
static int
compare(Text one, Text other)
{
    int order = memcmp(one.at, other.at, (size_t)(one.size < other.size ? one.size : other.size));
    return order != 0 ? order : one.size < other.size ? -1 : one.size > other.size;
}

/* Insert a field in order; 0 if there are too many, or another one has its name. */
static int
insert(Found *found, Field field)
{
    int place = found->count, order = 1;
    if (place == MOST_FIELDS) {
        return 0;
    }
    while (place > 0 && (order = compare(found->fields[place - 1].name, field.name)) > 0) {
        place--;
    }
    if (place > 0 && order == 0) {
        return 0;
    }
    memmove(found->fields + place + 1, found->fields + place, (size_t)(found->count - place) * sizeof field);
    found->fields[place] = field;
    found->count++;
    return 1;
}

/* Take the fields after the opening brace; *is_old*: without the one that old clients do not sign. */
static int
take_fields(Walk *it, int is_old, Found *found)
{
    int more;
    do {
        Field field;
        if (!take_name(it, &field.name) || !take_value(it, &field.value)) {
            return 0;
        }
        if (!field.value.quoted && (*field.value.text.at < '0' || *field.value.text.at > '9')) {
            return 0; /* a word, or a negative number */
        }
        if (is_literal(field.name, "Signature")) {
            if (found->signature.text.at != NULL) {
                return 0;
            }
            found->signature = field.value;
        } else if (!(is_old && is_literal(field.name, "_UNIQUE_KEY_QUERY")) && !insert(found, field)) {
            return 0;
        }
        more = another(it);
    } while (more > 0);
    return more == 0;
}

static int
walk_header(Walk *it, int is_old, Found *found)
{
    if (!take(it, '{')) {
        return 0;
    }
    int more;
    do {
        Text name;
        Value other;
        if (!take_name(it, &name)) {
            return 0;
        }
        if (is_literal(name, "extFields")) {
            if (found->has_fields || !take(it, '{') || !take_fields(it, is_old, found)) {
                return 0;
            }
            found->has_fields = 1;
        } else if (!take_value(it, &other)) {
            return 0;
        }
        more = another(it);
    } while (more > 0);
    skip_blanks(it);
    return more == 0 && it->at == it->end;
}

static inline uint32_t
hex_digit(char c)
{
    return (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* Encode a character below 0x10000 in UTF-8. */
static unsigned char *
write_utf8(unsigned char *to, uint32_t character)
{
    if (character < 0x80) {
        *to++ = (unsigned char)character;
        return to;
    }
    if (character < 0x800) {
        *to++ = (unsigned char)(0xc0 | character >> 6);
    } else {
        *to++ = (unsigned char)(0xe0 | character >> 12);
        *to++ = (unsigned char)(0x80 | (character >> 6 & 0x3f));
    }
    *to++ = (unsigned char)(0x80 | (character & 0x3f));
    return to;
}

/* Write a text without its escapes, which `take_text` has checked; never longer than the text. */
static unsigned char *
write_text(unsigned char *to, Text text)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *at = text.at, *const end = at + text.size;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        if (escape == NULL) {
            return write_bytes(to, at, end - at);
        }
        to = write_bytes(to, at, escape - at);
        if (escape[1] == 'u') {
            to = write_utf8(to, hex_digit(escape[2]) << 12 | hex_digit(escape[3]) << 8 | hex_digit(escape[4]) << 4 |
                                    hex_digit(escape[5]));
            at = escape + 6;
        } else {
            *to++ = (unsigned char)meant[strchr(escapes, escape[1]) - escapes];
            at = escape + 2;
        }
    }
    return to;
}

static PyObject *
read_signed(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given, *body;
    int is_old;
    if (!PyArg_ParseTuple(args, "SOp:read_signed", &given, &body, &is_old)) {
        return NULL;
    }
    Text header = {PyBytes_AsString(given), size_of(given)};
    Walk it = {header.at, header.at + header.size, 0, 0};
    Found found;
    found.count = found.has_fields = 0;
    found.signature.text.at = NULL;
    if (header.size > LONGEST_HEADER || !(body == Py_None || PyBytes_CheckExact(body)) ||
        !walk_header(&it, is_old, &found) || found.signature.text.at == NULL || !found.signature.quoted ||
        memchr(found.signature.text.at, '\\', (size_t)found.signature.text.size) != NULL || !is_utf8(&it, header)) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    Text signature = found.signature.text;
    unsigned char fields[LONGEST_HEADER], *end = fields;
    for (int index = 0; index < found.count; index++) {
        end = write_text(end, found.fields[index].value.text);
    }
    Py_ssize_t body_size = body == Py_None ? 0 : size_of(body);
    PyObject *content = PyBytes_FromStringAndSize(NULL, end - fields + body_size);
    if (content == NULL) {
        return NULL;
    }
    unsigned char *to = write_bytes((unsigned char *)PyBytes_AsString(content), fields, end - fields);
    if (body_size > 0) {
        write_bytes(to, PyBytes_AsString(body), body_size);
    }
    return Py_BuildValue("(s#N)", signature.at, signature.size, content);
}

PyMethodDef signatures_methods[] = {
    {"read_signed", read_signed, METH_VARARGS,
     "read_signed(header, body, is_old): return signature and signed content; None if the spelling is unusual"},
    {NULL, NULL, 0, NULL},
};
