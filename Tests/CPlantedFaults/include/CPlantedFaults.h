#pragma once

/// Two threads write one variable with nothing between them.
void planted_c_race(void);

/// Writes one byte behind a block of the heap.
void planted_c_overflow(void);

/// Reads a block of the heap that was freed.
int planted_c_use_after_free(void);
