/* The module, and what common.h declares. */
#include "common.h"

#include <structmember.h>

int
find_slots(PyObject *type, const char *const *names, Py_ssize_t count, Py_ssize_t *offsets)
{
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "%R is no class", type);
        return -1;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *found = PyObject_GetAttrString(type, names[index]);
        if (found == NULL) {
            return -1;
        }
        PyMemberDef *member = Py_IS_TYPE(found, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)found)->d_member : NULL;
        int good = member != NULL && member->type == T_OBJECT_EX;
        if (good) {
            offsets[index] = member->offset; /* the class keeps the member as long as it lives */
        }
        Py_DECREF(found);
        if (!good) {
            PyErr_Format(PyExc_TypeError, "%R has no slot %s", type, names[index]);
            return -1;
        }
    }
    return 0;
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
    int good = PyTuple_GET_SIZE(texts) == count;
    for (Py_ssize_t index = 0; good && index < count; index++) {
        good = PyBytes_CheckExact(PyTuple_GET_ITEM(texts, index));
    }
    if (!good) {
        PyErr_Format(PyExc_TypeError, "a tuple of %zd bytes objects is needed", count);
    }
    return good ? 0 : -1;
}

/* Add a heap type of this specification to the module; -1 with an error. */
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
        &frame_cutter_spec,   &send_reader_spec,   &message_maker_spec,
        &record_encoder_spec, &answer_writer_spec, &entry_reader_spec,
    };
    make_crc_tables();
    for (size_t index = 0; index < sizeof specs / sizeof *specs; index++) {
        if (add_type(module, specs[index]) < 0) {
            return -1;
        }
    }
    if (PyModule_AddIntConstant(module, "INTERFACE", 3) < 0) { /* of gantrymq.speedups */
        return -1;
    }
    return PyModule_AddFunctions(module, index_methods);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gantrymq_speedups._compiled",
    .m_doc = "Twins of the functions of GantryMQ that run for every message.",
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
