// What the agent sees of one row: 4 numbers a level, then 16 scalars, the last four from its own account.
// Differences, sums over levels and clips are integers; each quotient rounds numerator, denominator and result once.
#pragma once
#include "book.h"
#include "portable.h"
#include <tuple>

namespace fox {
constexpr int64_t feature_scalars = 16;

struct FeatureTape {
  TapeBook book;
  const int64_t *ts, *day_ns;
  const int32_t* moved;
  int64_t begin, end;
  // The segment's first row has no row before it: it is compared with itself.
  FOX_HD int64_t before(int64_t row) const { return row > begin && row > 0 ? row - 1 : row; }
};

struct Standing {
  int32_t pos, entry_ticks, hold_steps, pending, rest_side;
};

FOX_HD int64_t clip_int(int64_t x, int64_t low, int64_t high) { return x < low ? low : (x > high ? high : x); }
FOX_HD float ratio(int64_t numerator, int64_t denominator) {
  return denominator == 0 ? 0.f : static_cast<float>(numerator) / static_cast<float>(denominator);
}

FOX_HD void level_features(BookRow now, int64_t i, float* obs) {
  int64_t mid2 = now.mid2();
  int64_t below = now.has_bid(i) ? mid2 - 2 * static_cast<int64_t>(now.bid_px(i)) : 64;
  int64_t above = now.has_ask(i) ? 2 * static_cast<int64_t>(now.ask_px(i)) - mid2 : 64;
  obs[4 * i] = px::log1p(static_cast<float>(now.bid_sz(i))) * 0.125f;
  obs[4 * i + 1] = px::log1p(static_cast<float>(now.ask_sz(i))) * 0.125f;
  obs[4 * i + 2] = static_cast<float>(below < 64 ? below : 64) * 0.03125f;
  obs[4 * i + 3] = static_cast<float>(above < 64 ? above : 64) * 0.03125f;
}

// Order-flow imbalance of a level (Cont, Kukanov, Stoikov 2014): both comparisons of a side include equality. A level
// counts where both rows have both its sides.
FOX_HD float order_flow(BookRow now, BookRow was, int64_t i) {
  if (!(now.has_bid(i) && now.has_ask(i) && was.has_bid(i) && was.has_ask(i))) return 0.f;
  int64_t b = now.bid_sz(i), b_was = was.bid_sz(i), a = now.ask_sz(i), a_was = was.ask_sz(i);
  int64_t flow = (now.bid_px(i) >= was.bid_px(i) ? b : 0) - (now.bid_px(i) <= was.bid_px(i) ? b_was : 0) -
                 (now.ask_px(i) <= was.ask_px(i) ? a : 0) + (now.ask_px(i) >= was.ask_px(i) ? a_was : 0);
  return ratio(flow, b + b_was + a + a_was);
}

FOX_HD void book_scalars(BookRow now, BookRow was, float* scalar) {
  int64_t b = now.bid_sz(0), a = now.ask_sz(0), difference = 0, depth = 0;
  float flow = 0.f;
  for (int64_t i = 0; i < now.levels; ++i) {
    difference += static_cast<int64_t>(now.bid_sz(i)) - now.ask_sz(i);
    depth += static_cast<int64_t>(now.bid_sz(i)) + now.ask_sz(i);
    flow = flow + order_flow(now, was, i);
  }
  scalar[0] = static_cast<float>(clip_int(now.mid2() - was.mid2(), -16, 16)) * 0.125f;
  scalar[1] = 0.5f * static_cast<float>(now.spread()) * ratio(b - a, b + a);
  scalar[2] = px::log1p(static_cast<float>(now.spread())) * 0.5f;
  scalar[3] = ratio(b - a, b + a);
  scalar[4] = ratio(difference, depth);
  scalar[5] = order_flow(now, was, 0);
  scalar[6] = flow / static_cast<float>(now.levels);
}

FOX_HD void clock_scalars(const FeatureTape& tape, int64_t row, int64_t elapsed_ns, float* scalar) {
  // Microseconds: a day of them, 8.64e10, is a float32; a day of nanoseconds is not.
  float angle = static_cast<float>(tape.day_ns[row] / 1000) / 8.64e10f * 6.28318531f;
  scalar[7] = px::log1p(static_cast<float>(elapsed_ns) / 1e6f) * 0.125f;
  scalar[8] = px::sin(angle);
  scalar[9] = px::cos(angle);
  scalar[10] = px::log1p(static_cast<float>(tape.moved[row])) * 0.125f;
  scalar[11] = ratio(row - tape.begin, tape.end - 1 - tape.begin);
}

// The side of an action in flight: buy 1, sell -1; a flatten's is the side that closes the position.
FOX_HD int32_t action_side(int32_t action, int32_t pos) {
  if (action == 8) return -pos;
  if (action < 1 || action > 6) return 0;
  return action % 2 == 1 ? 1 : -1;
}

FOX_HD void account_scalars(BookRow now, Standing s, float* scalar) {
  int64_t open2 = s.pos * (now.mid2() - 2 * static_cast<int64_t>(s.entry_ticks));
  scalar[12] = static_cast<float>(s.pos);
  scalar[13] = static_cast<float>(clip_int(open2, -64, 64)) * 0.03125f;
  scalar[14] = s.pos != 0 ? px::log1p(static_cast<float>(s.hold_steps)) * 0.125f : 0.f;
  scalar[15] = static_cast<float>(action_side(s.pending, s.pos)) + 0.25f * static_cast<float>(s.rest_side);
}

// The features of a row in parts: its levels, then three of scalars.
FOX_HD int64_t feature_parts(const FeatureTape& tape) { return tape.book.levels + 3; }

struct FeatureWriter {
  const FeatureTape& tape;
  int64_t row, before;
  FOX_HD FeatureWriter(const FeatureTape& of, int64_t asked)
      : tape(of), row(of.book.inside(asked)), before(of.before(row)) {}
  FOX_HD int64_t elapsed_ns() const { return tape.ts[row] - tape.ts[before]; }
  FOX_HD void operator()(int64_t part, Standing standing, float* obs) const {
    int64_t levels = tape.book.levels;
    BookRow now = tape.book.at(row);
    if (part < levels) return level_features(now, part, obs);
    float* scalar = obs + 4 * levels;
    if (part == levels) return book_scalars(now, tape.book.at(before), scalar);
    if (part == levels + 1) return clock_scalars(tape, row, elapsed_ns(), scalar);
    account_scalars(now, standing, scalar);
  }
};

struct FeaturePart {  // one part of every environment after another, so that neighbours do the same
  FeatureTape tape;
  const int64_t* cursor;
  const int32_t *pos, *entry_ticks, *hold_steps, *pending, *rest_side;
  float *obs, *dt;
  int64_t batch;
  FOX_HD void operator()(int64_t i) const {
    int64_t part = quotient(i, batch), b = i - part * batch;
    Standing standing{pos[b], entry_ticks[b], hold_steps[b], pending[b], rest_side[b]};
    FeatureWriter write(tape, cursor[b]);
    write(part, standing, obs + b * (4 * tape.book.levels + feature_scalars));
    if (part == 0) dt[b] = static_cast<float>(clip_int(write.elapsed_ns(), 1000000, 10000000000)) / 1e9f;
  }
};

struct WindowShiftRow {  // one feature of one environment, where the window goes on
  const float* obs;
  const uint8_t* fresh;
  float* window;
  int64_t steps, columns;
  FOX_HD void operator()(int64_t i) const {
    int64_t b = quotient(i, columns);
    if (fresh[b]) return;
    float* to = window + b * steps * columns + (i - b * columns);
    for (int64_t t = 0; t + 1 < steps; ++t) to[t * columns] = to[(t + 1) * columns];
    to[(steps - 1) * columns] = obs[i];
  }
};

struct WindowRebuildRow {  // one row of one environment, where the window starts anew, flat
  FeatureTape tape;
  const int64_t* cursor;
  const uint8_t* fresh;
  float* window;
  int64_t steps, columns;
  FOX_HD void operator()(int64_t i) const {
    int64_t b = quotient(i, steps), row = cursor[b] - steps + 1 + (i - b * steps);
    if (!fresh[b]) return;
    FeatureWriter write(tape, row < tape.begin ? tape.begin : row);
    for (int64_t part = 0; part < feature_parts(tape); ++part) write(part, Standing{0, 0, 0, 0, 0}, window + i * columns);
  }
};

inline FeatureTape feature_tape_in(const Tensor& book, const Tensor& ts, const Tensor& moved, const Tensor& day_ns,
                                   int64_t begin, int64_t end) {
  TapeBook tape = tape_book_in(book);
  FOX_CHECK(0 <= begin && begin < end && end <= tape.rows, "rows ", begin, " to ", end, " must lie on the tape of ", tape.rows);
  return FeatureTape{tape, in<int64_t>(ts, "tape_ts", {tape.rows}), in<int64_t>(day_ns, "tape_day_ns", {tape.rows}),
                     in<int32_t>(moved, "tape_moved", {tape.rows}), begin, end};
}

template <class On>
std::tuple<Tensor, Tensor> features(Tensor book, Tensor ts, Tensor moved, Tensor day_ns, int64_t begin, int64_t end,
                                    Tensor cursor, Tensor pos, Tensor entry_ticks, Tensor hold_steps, Tensor pending,
                                    Tensor rest_side) {
  FeatureTape tape = feature_tape_in(book, ts, moved, day_ns, begin, end);
  int64_t batch = cursor.size(0);
  Tensor obs = make<float>(book, {batch, 4 * tape.book.levels + feature_scalars}), dt = make<float>(book, {batch});
  On::rows(book, batch * feature_parts(tape), 256,
           FeaturePart{tape, in<int64_t>(cursor, "cursor", {batch}), in<int32_t>(pos, "pos", {batch}),
                       in<int32_t>(entry_ticks, "entry_ticks", {batch}), in<int32_t>(hold_steps, "hold_steps", {batch}),
                       in<int32_t>(pending, "pending", {batch}), in<int32_t>(rest_side, "rest_side", {batch}),
                       out<float>(obs), out<float>(dt), batch});
  return {obs, dt};
}

template <class On>
void window_push(Tensor window, Tensor obs, Tensor fresh, Tensor book, Tensor ts, Tensor moved, Tensor day_ns,
                 int64_t begin, int64_t end, Tensor cursor) {
  FeatureTape tape = feature_tape_in(book, ts, moved, day_ns, begin, end);
  FOX_CHECK(window.dim() == 3 && window.size(1) > 0, "window must be [B, T, F] with T at least 1");
  int64_t batch = window.size(0), steps = window.size(1), columns = 4 * tape.book.levels + feature_scalars;
  float* to = inout<float>(window, "window", {batch, steps, columns});
  const uint8_t* starts = in<uint8_t>(fresh, "fresh", {batch});
  const int64_t* rows = in<int64_t>(cursor, "cursor", {batch});
  On::rows(book, batch * columns, 2048, WindowShiftRow{in<float>(obs, "obs", {batch, columns}), starts, to, steps, columns});
  On::rows(book, batch * steps, 64, WindowRebuildRow{tape, rows, starts, to, steps, columns});
}
}  // namespace fox
