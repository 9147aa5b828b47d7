// The congestion control of a network namespace.
#pragma once

#include <stddef.h>

#include "namespace.h"

// Sets it in all of them; ends the program where that cannot be done.
void congestion_set(const network_namespace *namespaces, unsigned count, const char *name);

void congestion_read(const network_namespace *in, char *name, size_t size);
