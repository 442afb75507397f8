"""The native CPU backend: kernels in C++ for every instruction set, chosen at run time."""
