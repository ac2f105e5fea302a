/* Decoding of the headers of send requests and other commands. */
#ifndef GANTRYMQ_HEADER_H
#define GANTRYMQ_HEADER_H

#include "json.h"

/* One spelling: a request code, and the names of three ext fields. */
enum { SPELLING_CODE, QUEUE_NAME, BORN_NAME, PROPERTIES_NAME, SPELLING_FIELDS };

enum { MOST_SPELLINGS = 2, LONGEST_HEADER = 8192 };

/* The spellings of headers. */
typedef struct {
    PyObject *spellings; /* a tuple of at most MOST_SPELLINGS tuples */
    PyObject *languages; /* name to number */
} Spellings;

/* The values that vary between send requests: position and number. Only signed requests have the last one. */
enum { QUEUE_VALUE, BORN_VALUE, ID_VALUE, OPAQUE_VALUE, SIGNATURE_VALUE, VARYING };
typedef struct {
    int kind;
    Text text;
    long long number;
} Varying;

/* One decoded header. */
typedef struct {
    Text header;
    Varying varying[VARYING]; /* in the order of the text */
    int varies;               /* their number */
    Py_ssize_t spelling;
    long long flag, version;
    PyObject *language; /* borrowed */
    int no_remark;      /* it is null or missing, not empty */
} Said;

/* The members of a header other than its ext fields; a missing one has no text. */
typedef struct {
    Value code, language, version, flag, opaque, remark;
} Members;

/* Take the value of a known member once; skip that of an unknown one. */
static inline int
take_member(Walk *it, Text name, Members *members)
{
    Value other = {{NULL, 0}, 0};
    return take_once(it, is_literal(name, "code")       ? &members->code
                         : is_literal(name, "flag")     ? &members->flag
                         : is_literal(name, "language") ? &members->language
                         : is_literal(name, "opaque")   ? &members->opaque
                         : is_literal(name, "version")  ? &members->version
                         : is_literal(name, "remark")   ? &members->remark
                                                        : &other);
}

/* A command class and the offsets of its slots. */
enum { COMMAND_SLOTS = 9 };
typedef struct {
    PyTypeObject *type;
    Py_ssize_t at[COMMAND_SLOTS];
} Commands;

/* Look up the slots of a class and keep a reference to it; -1 with an error. */
int know_commands(Commands *commands, PyObject *type);

/* Return the command of a header that is not a send request; NULL if Python must decode it, possibly with an error. */
PyObject *read_command(const Commands *commands, const Spellings *known, Text header, PyObject *body);

/* Convert an integer whose form take_bare has checked. */
int read_integer(Value value, long long low, long long high, long long *number);

/* Return the index of the spelling for a code; -1 for other codes. */
Py_ssize_t find_spelling(const Spellings *known, Value code);

/* Return the number of a language, borrowed; NULL if unknown, possibly with an error. */
PyObject *find_language(const Spellings *known, Value name);

/* Whether the header of a scan is valid UTF-8; 0 possibly with an error. */
int is_utf8(const Walk *it, Text header);

/* Decode a header: 1, or 0 if Python must do it, possibly with an error. */
int read_header(const Spellings *known, Text header, Said *said);

/* Whether a header equals the previous one except for the varying values, which are then read. A full scan would give the
 * same result: the text before and after each value is equal, and no value contains a structural character. */
int read_alike(Text header, Said *said);

#endif
