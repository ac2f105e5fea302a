/* The module, and the functions declared in common.h. */
#include "common.h"

#include <structmember.h>

/* Return the offset of the named slot in instances of a class, declared there or in a base class; 0 if missing. */
static Py_ssize_t
find_slot(PyTypeObject *type, const char *name)
{
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        const PyMemberDef *member = PyType_GetSlot(type, Py_tp_members);
        for (; member != NULL && member->name != NULL; member++) {
            if (member->type == T_OBJECT_EX && strcmp(member->name, name) == 0) {
                return member->offset;
            }
        }
    }
    return 0;
}

int
find_slots(PyObject *type, const char *const *names, Py_ssize_t count, Py_ssize_t *offsets)
{
    for (Py_ssize_t index = 0; index < count; index++) {
        offsets[index] = PyType_Check(type) ? find_slot((PyTypeObject *)type, names[index]) : 0;
        if (offsets[index] == 0) {
            PyErr_Format(PyExc_TypeError, "%R has no slot %s", type, names[index]);
            return -1;
        }
    }
    return 0;
}

PyObject *
new_named_tuple(PyTypeObject *type, PyObject **fields, Py_ssize_t count)
{
    PyObject *made = NULL;
    int good = 1;
    for (Py_ssize_t index = 0; index < count; index++) {
        good = good && fields[index] != NULL;
    }
    if (good && Py_Version < 0x030E0000) {
        made = PyType_GenericAlloc(type, count);
    } else if (good) {
        made = PyTuple_New(count);
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        if (made == NULL) {
            Py_XDECREF(fields[index]);
        } else {
            PyTuple_SetItem(made, index, fields[index]); /* the size is right, and there is no other reference yet */
        }
    }
    if (made == NULL || Py_Version < 0x030E0000) {
        return made;
    }
    /* Tuples cache their hash since 3.14, and only tuple.__new__ marks it as unknown. */
    newfunc make = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    PyObject *args = PyTuple_Pack(1, made);
    Py_DECREF(made);
    made = args == NULL ? NULL : make(type, args, NULL);
    Py_XDECREF(args);
    return made;
}

int
check_named_tuple(PyObject *type)
{
    if (PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type)) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%R is no named tuple", type);
    return -1;
}

int
check_texts(PyObject *texts, Py_ssize_t count)
{
    int good = size_of(texts) == count;
    for (Py_ssize_t index = 0; good && index < count; index++) {
        good = PyBytes_CheckExact(PyTuple_GetItem(texts, index));
    }
    if (!good) {
        PyErr_Format(PyExc_TypeError, "a tuple of %zd bytes objects is needed", count);
    }
    return good ? 0 : -1;
}

/* Create a heap type and add it to the module; -1 with an error. */
static int
add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}

static int
execute(PyObject *module)
{
    PyType_Spec *specs[] = {
        &frame_cutter_spec,   &command_reader_spec,   &message_maker_spec,
        &record_encoder_spec, &answer_writer_spec, &entry_reader_spec,
        &message_reader_spec,  &batch_encoder_spec,  &message_encoder_spec,
    };
    make_crc_tables();
    for (size_t index = 0; index < sizeof specs / sizeof *specs; index++) {
        if (add_type(module, specs[index]) < 0) {
            return -1;
        }
    }
    if (PyModule_AddIntConstant(module, "INTERFACE", 11) < 0) { /* must equal that of gantrymq.speedups */
        return -1;
    }
    if (PyModule_AddFunctions(module, index_methods) < 0 || PyModule_AddFunctions(module, fields_methods) < 0 ||
        PyModule_AddFunctions(module, requests_methods) < 0 || PyModule_AddFunctions(module, entries_methods) < 0 ||
        PyModule_AddFunctions(module, signatures_methods) < 0 || PyModule_AddFunctions(module, columns_methods) < 0 ||
        PyModule_AddFunctions(module, batches_methods) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, received_methods);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gantrymq_speedups._compiled",
    .m_doc = "Compiled versions of GantryMQ functions that run for every message.",
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
