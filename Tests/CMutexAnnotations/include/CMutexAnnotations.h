// Nothing to call: the linker finds the functions of CMutexAnnotations.c by their names.
#pragma once
