/* gantrymq.remoting.command: decode, for JSON headers whose ext fields are plain strings */
#include "header.h"

enum { CODE, LANGUAGE, VERSION, FLAG, REMARK, SERIALIZE, EXT, BODY, OPAQUE };
static const char *const command_names[COMMAND_SLOTS] = {
    "code", "language", "version", "flag", "remark", "serialize", "ext", "body", "opaque",
};

/* Result of a scan. */
typedef struct {
    Members members;
    PyObject *ext; /* a dict or None, NULL if missing; owned */
} Found;

int
know_commands(Commands *commands, PyObject *type)
{
    commands->type = (PyTypeObject *)Py_NewRef(type);
    return find_slots(type, command_names, COMMAND_SLOTS, commands->at);
}

static inline int
take_plain_text(Walk *it, Text *text)
{
    int before = it->escapes;
    return take_text(it, text) && it->escapes == before && !it->wide;
}

/* Take the strings after the opening brace; 0 if Python must read them, possibly with an error. */
static int
take_texts(Walk *it, PyObject *ext)
{
    if (take(it, '}')) {
        return 1;
    }
    int more;
    do {
        Text name, text;
        if (!take_plain_text(it, &name) || !take(it, ':') || !take_plain_text(it, &text)) {
            return 0;
        }
        PyObject *key = PyUnicode_FromStringAndSize(name.at, name.size);
        PyObject *value = PyUnicode_FromStringAndSize(text.at, text.size);
        int failed = key == NULL || value == NULL || PyDict_SetItem(ext, key, value) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed) {
            return 0;
        }
        more = another(it);
    } while (more > 0);
    return more == 0;
}

static int
take_ext(Walk *it, Found *found)
{
    Value none = {{NULL, 0}, 0};
    if (found->ext != NULL) {
        return 0;
    }
    if (!take(it, '{')) {
        found->ext = Py_NewRef(Py_None);
        return take_value(it, &none) && is_null(none);
    }
    found->ext = PyDict_New();
    return found->ext != NULL && take_texts(it, found->ext);
}

static int
take_members(Walk *it, Found *found)
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
        int good = is_literal(name, "extFields") ? take_ext(it, found) : take_member(it, name, &found->members);
        if (!good) {
            return 0;
        }
        more = another(it);
    } while (more > 0);
    skip_blanks(it);
    return more == 0 && it->at == it->end && !it->wide;
}

static PyObject *
text_or_none(Value value)
{
    return value.quoted ? PyUnicode_FromStringAndSize(value.text.at, value.text.size) : Py_NewRef(Py_None);
}

PyObject *
read_command(const Commands *commands, const Spellings *known, Text header, PyObject *body)
{
    Walk it = {header.at, header.at + header.size, 0, 0};
    Found found = {0};
    const Members *members = &found.members;
    const Value *remark = &members->remark;
    long long code, version, flag, opaque;
    PyObject *language, *command = NULL;
    int escapes_of_remark = 0;
    if (!take_members(&it, &found)) {
        goto finish;
    }
    escapes_of_remark = remark->quoted && memchr(remark->text.at, '\\', (size_t)remark->text.size) != NULL;
    if (escapes_of_remark || !(remark->text.at == NULL || remark->quoted || is_null(*remark)) ||
        !read_integer(members->code, INT64_LOW, INT64_HIGH, &code) || find_spelling(known, members->code) >= 0 ||
        !read_integer(members->version, INT64_LOW, INT64_HIGH, &version) ||
        !read_integer(members->flag, INT64_LOW, INT64_HIGH, &flag) ||
        !read_integer(members->opaque, INT32_LOW, INT32_HIGH, &opaque) ||
        (language = find_language(known, members->language)) == NULL ||
        (command = new_instance(commands->type)) == NULL) {
        goto finish;
    }
    const Py_ssize_t *at = commands->at;
    set_slot(command, at[LANGUAGE], language);
    set_slot(command, at[EXT], found.ext == NULL ? Py_None : found.ext);
    set_slot(command, at[BODY], body);
    if (give_slot(command, at[CODE], PyLong_FromLongLong(code)) < 0 ||
        give_slot(command, at[VERSION], PyLong_FromLongLong(version)) < 0 ||
        give_slot(command, at[FLAG], PyLong_FromLongLong(flag)) < 0 ||
        give_slot(command, at[OPAQUE], PyLong_FromLongLong(opaque)) < 0 ||
        give_slot(command, at[SERIALIZE], PyLong_FromLong(0)) < 0 ||
        give_slot(command, at[REMARK], text_or_none(*remark)) < 0) {
        Py_CLEAR(command);
    }

finish:
    Py_XDECREF(found.ext);
    return command;
}
