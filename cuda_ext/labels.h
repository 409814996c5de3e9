// What a step is later judged by: where the mid went, and how the trade it belonged to ended.
#pragma once
#include "book.h"
#include "ring.h"
#include <vector>

namespace fox {
constexpr int64_t horizons_at_most = 8;

struct FrdLabelRow {  // one environment: whole ticks of the mid's move, halves to even, -10 .. 10 -> 0 .. 20
  TapeBook tape;
  int64_t end, horizons, ahead[horizons_at_most];
  const int64_t* cursor;
  int32_t* label;
  FOX_HD void operator()(int64_t b) const {
    for (int64_t s = 0; s < horizons; ++s) {
      int64_t row = cursor[b] + ahead[s];
      label[b * horizons + s] = row >= end ? -1 : bin(tape.at(row).mid2() - tape.at(cursor[b]).mid2());
    }
  }
  FOX_HD static int32_t bin(int64_t half_ticks) {
    int64_t parity = half_ticks & 1, floor = (half_ticks - parity) / 2, ticks = floor + (parity & floor & 1);
    return static_cast<int32_t>((ticks < -10 ? -10 : (ticks > 10 ? 10 : ticks)) + 10);
  }
};

template <class On> Tensor frd_labels(Tensor book, int64_t end, Tensor cursor, std::vector<int64_t> horizons) {
  int64_t batch = cursor.size(0), count = static_cast<int64_t>(horizons.size());
  FOX_CHECK(count <= horizons_at_most, "at most ", horizons_at_most, " horizons, got ", count);
  TapeBook tape = tape_book_in(book);
  FOX_CHECK(end <= tape.rows, "end must lie on the tape of ", tape.rows, " rows, got ", end);
  Tensor label = make<int32_t>(book, {batch, count});
  FrdLabelRow row{tape, end, count, {}, in<int64_t>(cursor, "cursor", {batch}), out<int32_t>(label)};
  for (int64_t s = 0; s < count; ++s) row.ahead[s] = horizons[s];
  On::rows(book, batch, 1024, row);
  return label;
}

struct AssignLabelRow {  // one environment: its slots are its own, so rows never meet
  const uint8_t* done;
  const int64_t* trade_pnl_e4;
  const int32_t* trade_open_step;
  const int64_t* step;
  int32_t* slot_outcome;
  int64_t batch, turns;
  FOX_HD void operator()(int64_t b) const {
    if (!done[b]) return;
    int32_t outcome = trade_pnl_e4[b] < 0 ? 0 : (trade_pnl_e4[b] > 0 ? 2 : 1);
    int64_t now = *step, oldest = now + 1 - turns, from = trade_open_step[b];
    from = from < oldest ? oldest : from;
    for (int64_t s = from < 0 ? 0 : from; s <= now; ++s) slot_outcome[turn_of(s, turns) * batch + b] = outcome;
  }
};

template <class On> void assign_labels(Tensor slot_outcome, Tensor step, Tensor done, Tensor trade_pnl_e4, Tensor trade_open_step) {
  int64_t batch = done.size(0), slots = slot_outcome.size(0);
  FOX_CHECK(batch > 0 && slots % batch == 0, "slots must be a multiple of the batch");
  On::rows(slot_outcome, batch, 512,
           AssignLabelRow{in<uint8_t>(done, "done", {batch}), in<int64_t>(trade_pnl_e4, "trade_pnl_e4", {batch}),
                          in<int32_t>(trade_open_step, "trade_open_step", {batch}),
                          in<int64_t>(step, "step", {}), inout<int32_t>(slot_outcome, "slot_outcome", {slots}), batch,
                          slots / batch});
}
}  // namespace fox
