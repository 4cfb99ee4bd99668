// Which of the x86-64 levels the CPU and the operating system support. This file is compiled for
// any x86-64, since the kernels of a level must not be loaded to find out.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {

int level() {
  __builtin_cpu_init();
  const bool has_v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool has_v3 = has_v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_v4 ? 4 : has_v3 ? 3 : has_v2 ? 2 : 1;
}

PyObject* get_level(PyObject*, PyObject*) { return PyLong_FromLong(level()); }

PyMethodDef methods[] = {
    {"level", get_level, METH_NOARGS, "Highest x86-64 level that can run here, 1 to 4."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_cpu", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__cpu() {
  PyObject* made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
  if (made != nullptr) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);
#endif
  return made;
}
