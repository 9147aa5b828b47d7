// libFuzzer's entry for programs that have a main of their own; no header of the toolchain declares it for C.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*test)(const uint8_t *data, size_t size));
