/* gantrymq.remoting.sends: decoding of the header of a send request, with members in any order. Unusual text (an escape in
 * a name, a repeated member, a lone surrogate, a number that is not an integer) is left to Python. */
#include "header.h"

enum { MAX_QUEUE_ID = 1023 };

/* Result of a scan. */
typedef struct {
    Members members;
    Value queue_id[MOST_SPELLINGS], born[MOST_SPELLINGS], properties[MOST_SPELLINGS], signature;
    Py_ssize_t spelling; /* index of the spelling for the code */
    int has_fields;
} Found;

/* --- numbers ---------------------------------------------------------------------------------------------------------- */

int
read_integer(Value value, long long low, long long high, long long *number)
{
    const char *at = value.text.at, *end = at + value.text.size;
    if (at == NULL || value.quoted) {
        return 0;
    }
    int negative = *at == '-';
    *number = 0;
    for (at += negative; at < end; at++) {
        if (*at < '0' || *at > '9') {
            return 0;
        }
        *number = *number * 10 + (*at - '0');
    }
    *number = negative ? -*number : *number;
    return low <= *number && *number <= high;
}

Py_ssize_t
find_spelling(const Spellings *known, Value value)
{
    long long code, wanted;
    if (read_integer(value, 0, INT32_HIGH, &code)) {
        for (Py_ssize_t index = 0; index < size_of(known->spellings); index++) {
            PyObject *spelling = PyTuple_GetItem(known->spellings, index);
            if (int_between(PyTuple_GetItem(spelling, SPELLING_CODE), 0, INT32_HIGH, &wanted) && code == wanted) {
                return index;
            }
        }
    }
    return -1;
}

/* --- scanning --------------------------------------------------------------------------------------------------------- */

static inline int
is(Text text, PyObject *name)
{
    return text.size == size_of(name) && memcmp(text.at, PyBytes_AsString(name), (size_t)text.size) == 0;
}

static int
take_fields(const Spellings *known, Walk *it, Found *found)
{
    if (found->has_fields || !take(it, '{')) {
        return 0;
    }
    found->has_fields = 1;
    int more;
    do {
        Text name;
        Value other, *value = &other;
        if (!take_name(it, &name)) {
            return 0;
        }
        for (Py_ssize_t index = 0; index < size_of(known->spellings); index++) {
            PyObject *spelling = PyTuple_GetItem(known->spellings, index);
            if (is(name, PyTuple_GetItem(spelling, QUEUE_NAME))) {
                value = &found->queue_id[index];
            } else if (is(name, PyTuple_GetItem(spelling, BORN_NAME))) {
                value = &found->born[index];
            } else if (is(name, PyTuple_GetItem(spelling, PROPERTIES_NAME))) {
                value = &found->properties[index];
            }
        }
        if (value == &other && is_literal(name, "Signature")) {
            value = &found->signature;
        }
        other.text.at = NULL;
        if (!take_once(it, value)) {
            return 0;
        }
        more = another(it);
    } while (more > 0);
    return more == 0;
}

static int
walk_header(const Spellings *known, Walk *it, Found *found)
{
    if (!take(it, '{')) {
        return 0;
    }
    int more;
    do {
        Text name;
        if (!take_name(it, &name)) {
            return 0;
        }
        int good;
        if (is_literal(name, "extFields")) {
            good = take_fields(known, it, found);
        } else {
            good = take_member(it, name, &found->members);
        }
        if (good && is_literal(name, "code")) { /* usually first, and decides whether to scan the rest */
            good = (found->spelling = find_spelling(known, found->members.code)) >= 0;
        }
        if (!good) {
            return 0;
        }
        more = another(it);
    } while (more > 0);
    skip_blanks(it);
    return more == 0 && it->at == it->end;
}

/* --- varying values --------------------------------------------------------------------------------------------------- */

static inline int
is_alphanumeric(char c)
{
    return ('0' <= c && c <= '9') || ('A' <= c && c <= 'Z') || ('a' <= c && c <= 'z');
}

static inline int
is_base64(char c)
{
    return is_alphanumeric(c) || c == '+' || c == '/' || c == '=';
}

/* Read a value of this kind at a position: digits without leading zeros, letters and digits, or base64. */
static inline int
read_varying(Varying *value, int kind, const char *at, const char *end)
{
    const char *const start = at;
    long long number = 0;
    if (kind == ID_VALUE) {
        while (at < end && is_alphanumeric(*at)) {
            at++;
        }
    } else if (kind == SIGNATURE_VALUE) {
        while (at < end && is_base64(*at)) {
            at++;
        }
    } else {
        for (; at < end && '0' <= *at && *at <= '9' && at - start < MAX_DIGITS; at++) {
            number = number * 10 + (*at - '0');
        }
        if ((*start == '0' && at - start > 1) || number > (kind == QUEUE_VALUE    ? MAX_QUEUE_ID
                                                           : kind == OPAQUE_VALUE ? INT32_HIGH
                                                                                  : INT64_HIGH)) {
            return 0;
        }
    }
    *value = (Varying){kind, {start, at - start}, number};
    return at > start;
}

/* Read a value that is a whole string or number; queue id and time may be either. */
static int
read_whole(Varying *value, int kind, Text text)
{
    return text.at != NULL && read_varying(value, kind, text.at, text.at + text.size) && value->text.size == text.size;
}

/* Find the unique id in the properties of a header: preceded by name and 0x01, followed by 0x02 or the end. */
static int
find_id(Varying *value, Value properties)
{
    static const char mark[] = "UNIQ_KEY\\u0001", pair_end[] = "\\u0002";
    enum { MARK_BYTES = sizeof mark - 1, PAIR_END_BYTES = sizeof pair_end - 1 };
    const char *at = properties.text.at, *end = at + properties.text.size;
    if (at == NULL || !properties.quoted) {
        return 0;
    }
    do {
        if (end - at < MARK_BYTES || (at = memchr(at, mark[0], (size_t)(end - at - MARK_BYTES + 1))) == NULL) {
            return 0;
        }
    } while (memcmp(at++, mark, MARK_BYTES) != 0);
    if (!read_varying(value, ID_VALUE, at + MARK_BYTES - 1, end)) {
        return 0;
    }
    at = value->text.at + value->text.size;
    return at == end || (end - at >= PAIR_END_BYTES && memcmp(at, pair_end, PAIR_END_BYTES) == 0);
}

PyObject *
find_language(const Spellings *known, Value value)
{
    if (value.text.at == NULL || !value.quoted) {
        return NULL;
    }
    PyObject *name = PyBytes_FromStringAndSize(value.text.at, value.text.size);
    PyObject *found = name == NULL ? NULL : PyDict_GetItemWithError(known->languages, name);
    Py_XDECREF(name);
    return found;
}

static void
sort_by_place(Varying *varying, int varies)
{
    for (int count = 1; count < varies; count++) {
        Varying moved = varying[count];
        int place = count;
        for (; place > 0 && varying[place - 1].text.at > moved.text.at; place--) {
            varying[place] = varying[place - 1];
        }
        varying[place] = moved;
    }
}

/* Return 1, or 0 if Python must decode the header, possibly with an error. */
static int
read_found(const Spellings *known, const Found *found, Said *said)
{
    const Members *members = &found->members;
    if (!found->has_fields || members->code.text.at == NULL) {
        return 0;
    }
    said->spelling = found->spelling;
    Value remark = members->remark;
    said->no_remark = remark.text.at == NULL || is_null(remark);
    if ((!said->no_remark && (!remark.quoted || remark.text.size > 0)) ||
        !read_integer(members->flag, INT64_LOW, INT64_HIGH, &said->flag) ||
        !read_integer(members->version, INT64_LOW, INT64_HIGH, &said->version) || members->opaque.quoted ||
        !read_whole(&said->varying[0], OPAQUE_VALUE, members->opaque.text) ||
        !read_whole(&said->varying[1], QUEUE_VALUE, found->queue_id[said->spelling].text) ||
        !read_whole(&said->varying[2], BORN_VALUE, found->born[said->spelling].text) ||
        !find_id(&said->varying[3], found->properties[said->spelling])) {
        return 0;
    }
    said->varies = VARYING - 1;
    if (found->signature.text.at != NULL) {
        if (!found->signature.quoted ||
            !read_whole(&said->varying[said->varies++], SIGNATURE_VALUE, found->signature.text)) {
            return 0;
        }
    }
    sort_by_place(said->varying, said->varies);
    said->language = find_language(known, members->language);
    return said->language != NULL;
}

int
is_utf8(const Walk *it, Text header)
{
    if (!it->wide) {
        return 1;
    }
    PyObject *text = PyUnicode_DecodeUTF8(header.at, header.size, NULL);
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
    }
    Py_XDECREF(text);
    return text != NULL;
}

int
read_header(const Spellings *known, Text header, Said *said)
{
    Walk it = {header.at, header.at + header.size, 0, 0};
    Found found = {0};
    if (!walk_header(known, &it, &found) || !read_found(known, &found, said) || !is_utf8(&it, header)) {
        return 0;
    }
    said->header = header;
    return 1;
}

int
read_alike(Text header, Said *said)
{
    Varying varying[VARYING];
    const char *at = header.at, *const end = at + header.size, *from = said->header.at;
    for (int index = 0; index < said->varies; index++) {
        Text before = said->varying[index].text;
        Py_ssize_t size = before.at - from;
        if (end - at < size || memcmp(at, from, (size_t)size) != 0 ||
            !read_varying(&varying[index], said->varying[index].kind, at + size, end)) {
            return 0;
        }
        at = varying[index].text.at + varying[index].text.size;
        from = before.at + before.size;
    }
    Py_ssize_t size = said->header.at + said->header.size - from;
    if (end - at != size || memcmp(at, from, (size_t)size) != 0) {
        return 0;
    }
    said->header = header;
    memcpy(said->varying, varying, (size_t)said->varies * sizeof *varying);
    return 1;
}
