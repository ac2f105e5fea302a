/* Reading the headers of sends, and of other commands. */
#ifndef GANTRYMQ_HEADER_H
#define GANTRYMQ_HEADER_H

#include "json.h"

/* One spelling: a request code, and the names of three ext fields. */
enum { SPELLING_CODE, QUEUE_NAME, BORN_NAME, PROPERTIES_NAME, SPELLING_FIELDS };

enum { MOST_SPELLINGS = 2, LONGEST_HEADER = 8192 };

/* How headers are spelled. */
typedef struct {
    PyObject *spellings; /* a tuple of tuples, MOST_SPELLINGS at most */
    PyObject *languages; /* name to number */
} Spellings;

/* What differs from one send to the next: where it stands, and the number that it is. */
enum { QUEUE_VALUE, BORN_VALUE, ID_VALUE, OPAQUE_VALUE, VARYING };
typedef struct {
    int kind;
    Text text;
    long long number;
} Varying;

/* What one header says. */
typedef struct {
    Text header;
    Varying varying[VARYING]; /* in the order in which they stand */
    Py_ssize_t spelling;
    long long flag, version;
    PyObject *language; /* borrowed */
    int no_remark;      /* it is null or missing, where other sends have an empty one */
} Said;

/* The members of a header beside its fields; one that is not there has no text. */
typedef struct {
    Value code, language, version, flag, opaque, remark;
} Members;

/* As take_once, for the member of a name; another one is passed over. */
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

/* A class of commands, and where its slots are. */
enum { COMMAND_SLOTS = 9 };
typedef struct {
    PyTypeObject *type;
    Py_ssize_t at[COMMAND_SLOTS];
} Commands;

/* Look up the slots of a class, which is kept; -1 with an error. */
int know_commands(Commands *commands, PyObject *type);

/* The command in a header that is no send's; NULL where Python has to read it, perhaps with an error. */
PyObject *read_command(const Commands *commands, const Spellings *known, Text header, PyObject *body);

/* An integer, of which take_bare has looked at the form. */
int read_integer(Value value, long long low, long long high, long long *number);

/* The index of the spelling that belongs to a code; -1 where it is none of a send. */
Py_ssize_t find_spelling(const Spellings *known, Value code);

/* The number of a language, borrowed; NULL where it is not known, perhaps with an error. */
PyObject *find_language(const Spellings *known, Value name);

/* Read a header: 1, or 0 where Python has to do it, perhaps with an error. */
int read_header(const Spellings *known, Text header, Said *said);

/* Whether a header says what the one before it says but for the values; these are taken over then. A walk would go the
 * same way: it sees the same text up to each value, and behind it, and no value has anything in it that leads elsewhere. */
int read_alike(Text header, Said *said);

#endif
