// Which of the x86-64 levels the CPU and the operating system support. This file is compiled for
// any x86-64, since the kernels of a level must not be loaded to find out.
#include <cpuid.h>
#include <nanobind/nanobind.h>

namespace {

int level() {
  __builtin_cpu_init();
#ifdef ANTITHETIC_LEVELS_HAVE_NAMES
  return __builtin_cpu_supports("x86-64-v4")   ? 4
         : __builtin_cpu_supports("x86-64-v3") ? 3
         : __builtin_cpu_supports("x86-64-v2") ? 2
                                               : 1;
#else
  // Older compilers do not know all features by name either: the others are read from the CPU.
  unsigned eax = 0, ebx = 0, edx = 0, basic = 0, extended = 0;
  __get_cpuid(1, &eax, &ebx, &basic, &edx);
  __get_cpuid(0x80000001, &eax, &ebx, &extended, &edx);
  const auto has = [](unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; };
  const bool has_v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") &&
                      has(basic, bit_SSSE3 | bit_CMPXCHG16B) && has(extended, bit_LAHF_LM);
  // With AVX2 and AVX-512 the operating system must save the registers: the names include that.
  const bool has_v3 = has_v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
                      has(basic, bit_MOVBE | bit_F16C) && has(extended, bit_LZCNT);
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_v4 ? 4 : has_v3 ? 3 : has_v2 ? 2 : 1;
#endif
}

}  // namespace

NB_MODULE(_cpu, m) { m.def("level", &level, "Highest x86-64 level that can run here, 1 to 4."); }
