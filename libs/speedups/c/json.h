/* Scanner of JSON text that creates no objects. Each function consumes an element at the current position and returns
 * whether it was found in its usual spelling. Other text is left to the Python version. */
#ifndef GANTRYMQ_JSON_H
#define GANTRYMQ_JSON_H

#include "common.h"

enum { MAX_DIGITS = 18 };

/* A slice of the text. */
typedef struct {
    const char *at;
    Py_ssize_t size;
} Text;

/* A number, string or word in the text. Missing if text.at is NULL. */
typedef struct {
    Text text; /* without the quotes */
    int quoted;
} Value;

/* The state of a scan. */
typedef struct {
    const char *at, *end;
    int wide;    /* some bytes are not ASCII; UTF-8 is not validated */
    int escapes; /* number of escapes */
} Walk;

static inline void
skip_blanks(Walk *it)
{
    while (it->at < it->end && (*it->at == ' ' || *it->at == '\n' || *it->at == '\r' || *it->at == '\t')) {
        it->at++;
    }
}

static inline int
take(Walk *it, char mark)
{
    skip_blanks(it);
    if (it->at == it->end || *it->at != mark) {
        return 0;
    }
    it->at++;
    return 1;
}

static inline int
is_hex(char c)
{
    return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f') || ('A' <= c && c <= 'F');
}

/* Skip an escape after its backslash. Escaped surrogates and printable ASCII are left to Python, as names are compared as
 * written. */
static inline int
skip_escape(Walk *it)
{
    it->escapes++;
    if (it->at == it->end) {
        return 0;
    }
    char c = *it->at++;
    if (c != 'u') {
        return c != 0 && strchr("\"\\/bfnrt", c) != NULL;
    }
    if (it->end - it->at < 4 || !is_hex(it->at[0]) || !is_hex(it->at[1]) || !is_hex(it->at[2]) || !is_hex(it->at[3]) ||
        ((it->at[0] == 'd' || it->at[0] == 'D') && it->at[1] >= '8') ||
        (it->at[0] == '0' && it->at[1] == '0' && '2' <= it->at[2] && it->at[2] <= '7')) {
        return 0;
    }
    it->at += 4;
    return 1;
}

/* Whether a byte is ASCII and not a quote, backslash or control character. */
static inline int
is_ordinary(char c)
{
    return 0x20 <= (unsigned char)c && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* The same for eight bytes. */
static inline int
all_ordinary(const char *at)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    uint64_t quotes = bytes ^ ones * '"', slashes = bytes ^ ones * '\\';
    return (((quotes - ones) | (slashes - ones) | (bytes - ones * 0x20) | bytes) & tops) == 0;
}

/* Take a quoted string. */
static inline int
take_text(Walk *it, Text *text)
{
    if (!take(it, '"')) {
        return 0;
    }
    const char *start = it->at;
    for (;;) {
        while (it->end - it->at >= 8 && all_ordinary(it->at)) {
            it->at += 8;
        }
        while (it->at < it->end && is_ordinary(*it->at)) {
            it->at++;
        }
        if (it->at == it->end) {
            return 0;
        }
        unsigned char c = (unsigned char)*it->at++;
        if (c == '"') {
            *text = (Text){start, it->at - 1 - start};
            return 1;
        }
        if (c < 0x20 || (c == '\\' && !skip_escape(it))) {
            return 0;
        }
        it->wide |= c >= 0x80;
    }
}

/* Take the name of a member and the colon after it. */
static inline int
take_name(Walk *it, Text *name)
{
    int before = it->escapes;
    return take_text(it, name) && it->escapes == before && take(it, ':');
}

/* Take an integer without leading zeros, or one of three words. -0 is left to Python. */
static inline int
take_bare(Walk *it, Text *text)
{
    static const Text words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    for (size_t index = 0; index < sizeof words / sizeof *words; index++) {
        if (it->end - it->at >= words[index].size && memcmp(it->at, words[index].at, (size_t)words[index].size) == 0) {
            *text = (Text){it->at, words[index].size};
            it->at += words[index].size;
            return 1;
        }
    }
    const char *start = it->at, *digits = start + (start < it->end && *start == '-');
    for (it->at = digits; it->at < it->end && '0' <= *it->at && *it->at <= '9'; it->at++) {
    }
    *text = (Text){start, it->at - start};
    return it->at > digits && it->at - digits <= MAX_DIGITS && (*digits != '0' || it->at == start + 1);
}

static inline int
take_value(Walk *it, Value *value)
{
    skip_blanks(it);
    value->quoted = it->at < it->end && *it->at == '"';
    return value->quoted ? take_text(it, &value->text) : take_bare(it, &value->text);
}

/* Whether a present value is the word null. */
static inline int
is_null(Value value)
{
    return !value.quoted && *value.text.at == 'n';
}

static inline int
is_literal(Text text, const char *name)
{
    return text.size == (Py_ssize_t)strlen(name) && memcmp(text.at, name, (size_t)text.size) == 0;
}

/* Take a value that may occur once only. */
static inline int
take_once(Walk *it, Value *value)
{
    return value->text.at == NULL && take_value(it, value);
}

/* After a member: return 1 if another one follows, 0 at the end of the object, -1 on other text. */
static inline int
another(Walk *it)
{
    return take(it, ',') ? 1 : take(it, '}') ? 0 : -1;
}

#endif
