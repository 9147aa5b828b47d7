#include "loss.h"

loss_state loss_from(uint64_t seed, uint64_t stream) {
  return (loss_state){.chain = random_from(seed, stream), .inside = random_from(seed, stream + 1)};
}

bool loss_takes(loss_state *state, double share, double burst, double burst_loss) {
  double draw = random_unit(&state->chain);
  bool falls = random_happens(&state->inside, burst_loss);
  if (burst <= 0) return draw < share;
  double bad = share / burst_loss;  // the share of packets that meet a bad time
  double leaves = 1 / burst;
  double enters = bad < 1 ? leaves * bad / (1 - bad) : 1;
  state->is_in_burst = state->is_in_burst ? draw >= leaves : draw < enters;
  return state->is_in_burst && falls;
}
