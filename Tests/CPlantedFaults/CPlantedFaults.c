#include "CPlantedFaults.h"

#include <pthread.h>
#include <stdlib.h>

static int counter;

static void *count(void *unused) {
  for (int i = 0; i < 1000; i++) counter++;
  return unused;
}

void planted_c_race(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    if (pthread_create(&threads[i], NULL, count, NULL) != 0) abort();
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

// Volatile: the compiler must neither see through these nor leave them out.
void planted_c_overflow(void) {
  volatile size_t size = 16;
  volatile char *block = malloc(size);
  block[size] = 1;
  free((void *)block);
}

int planted_c_use_after_free(void) {
  volatile int *block = malloc(sizeof(int));
  *block = 1;
  free((void *)block);
  return *block;
}
