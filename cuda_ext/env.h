// One row further for each environment: fills, orders, money. Integers throughout; floats begin at the reward.
#pragma once
#include "book.h"
#include <tuple>

namespace fox {
constexpr int32_t buy_market = 1, sell_market = 2, join_bid = 3, join_ask = 4, improve_bid = 5, improve_ask = 6,
                  cancel_rest = 7, flatten_all = 8;

// One environment's account in registers, and what this step does to it. At most one lot, one resting order and one
// close a step.
struct EnvAccount {
  int32_t pos, entry_ticks, rest_side, rest_px, rest_step, open_step, hold_steps;
  int64_t cash_half_ticks;
  int32_t fills = 0, trade_open_step = -1;
  int64_t trade_ticks = 0;
  uint8_t done = 0;

  FOX_HD void fill(int32_t side, int32_t price, int32_t sent_step) {
    cash_half_ticks -= 2 * static_cast<int64_t>(side) * price;
    ++fills;
    if (pos == 0) {
      entry_ticks = price, open_step = sent_step, hold_steps = 0;
    } else {
      trade_ticks = pos * (static_cast<int64_t>(price) - entry_ticks);
      trade_open_step = open_step, done = 1;
    }
    pos += side;
  }
  FOX_HD void drop_rest() { rest_side = 0; }
  FOX_HD void fill_rest(BookRow now) {
    bool reached = (rest_side > 0 && now.ask_px(0) <= rest_px) || (rest_side < 0 && now.bid_px(0) >= rest_px);
    if (!reached) return;
    fill(rest_side, rest_px, rest_step);
    drop_rest();
  }
  FOX_HD void flatten(BookRow now, int32_t sent_step) {
    if (pos != 0) fill(-pos, pos > 0 ? now.bid_px(0) : now.ask_px(0), sent_step);
    drop_rest();
  }
  FOX_HD void arrive(BookRow now, int32_t order, int32_t sent_step) {
    if (order == flatten_all) return flatten(now, sent_step);
    if (order == cancel_rest) return drop_rest();
    if (order < buy_market || order > improve_ask) return;
    int32_t side = order % 2 == 1 ? 1 : -1;
    if (pos == side) return;
    drop_rest();
    if (order <= sell_market) return fill(side, side > 0 ? now.ask_px(0) : now.bid_px(0), sent_step);
    int32_t inside = order >= improve_bid && now.spread() >= 2 ? 1 : 0;
    rest_px = side > 0 ? now.bid_px(0) + inside : now.ask_px(0) - inside;
    rest_side = side, rest_step = sent_step;
  }
  // Fields without a meaning have one value, so that equal states have equal bytes.
  FOX_HD void settle() {
    if (pos == 0) entry_ticks = 0, open_step = -1;
    if (rest_side == 0) rest_px = 0, rest_step = -1;
  }
};

struct EnvStepRow {  // one environment
  TapeBook tape;
  int64_t end, tick_value_e4, fee_e4;
  const int64_t* step;
  const int32_t* action;
  int64_t *cursor, *cash_half_ticks;
  int32_t *pos, *entry_ticks, *pending, *rest_side, *rest_px_ticks, *rest_step, *open_step, *hold_steps;
  int32_t *fills, *trade_open_step;
  uint8_t *done, *wrap;
  int64_t *trade_pnl_e4, *equity_half_ticks, *equity_delta;

  FOX_HD void operator()(int64_t b) const {
    int64_t row = cursor[b] + 1;
    BookRow was = tape.at(row - 1), now = tape.at(row);
    bool last = row >= end - 1;
    int32_t sent = static_cast<int32_t>(*step);
    EnvAccount account{pos[b], entry_ticks[b], rest_side[b], rest_px_ticks[b], rest_step[b], open_step[b],
                       pos[b] != 0 ? hold_steps[b] + 1 : 0, cash_half_ticks[b]};
    int64_t equity_was = account.cash_half_ticks + account.pos * was.mid2();
    account.fill_rest(now);
    if (last)
      account.flatten(now, sent);
    else
      account.arrive(now, pending[b], sent - 1);
    account.settle();
    int64_t equity = account.cash_half_ticks + account.pos * now.mid2();
    write(b, account);
    cursor[b] = row;
    pending[b] = last ? 0 : action[b];
    wrap[b] = last;
    equity_half_ticks[b] = equity;
    equity_delta[b] = equity - equity_was;
  }
  FOX_HD void write(int64_t b, const EnvAccount& account) const {
    pos[b] = account.pos, entry_ticks[b] = account.entry_ticks, hold_steps[b] = account.hold_steps;
    open_step[b] = account.open_step, cash_half_ticks[b] = account.cash_half_ticks;
    rest_side[b] = account.rest_side, rest_px_ticks[b] = account.rest_px, rest_step[b] = account.rest_step;
    fills[b] = account.fills, done[b] = account.done, trade_open_step[b] = account.trade_open_step;
    trade_pnl_e4[b] = account.done ? account.trade_ticks * tick_value_e4 - 2 * fee_e4 : 0;
  }
};

template <class On>
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> env_step(
    Tensor book, int64_t end, Tensor step, int64_t tick_value_e4, int64_t fee_e4, Tensor action, Tensor cursor,
    Tensor pos, Tensor entry_ticks, Tensor cash_half_ticks, Tensor pending, Tensor rest_side, Tensor rest_px_ticks,
    Tensor rest_step, Tensor open_step, Tensor hold_steps) {
  TapeBook tape = tape_book_in(book);
  int64_t batch = cursor.size(0);
  FOX_CHECK(end >= 2 && end <= tape.rows, "end must lie on the tape of ", tape.rows, " rows, got ", end);
  Tensor fills = make<int32_t>(book, {batch}), done = make<uint8_t>(book, {batch}), wrap = make<uint8_t>(book, {batch});
  Tensor pnl = make<int64_t>(book, {batch}), trade_open = make<int32_t>(book, {batch});
  Tensor equity = make<int64_t>(book, {batch}), delta = make<int64_t>(book, {batch});
  On::rows(book, batch, 512,
           EnvStepRow{tape, end, tick_value_e4, fee_e4, in<int64_t>(step, "step", {}), in<int32_t>(action, "action", {batch}),
                      inout<int64_t>(cursor, "cursor", {batch}), inout<int64_t>(cash_half_ticks, "cash_half_ticks", {batch}),
                      inout<int32_t>(pos, "pos", {batch}), inout<int32_t>(entry_ticks, "entry_ticks", {batch}),
                      inout<int32_t>(pending, "pending", {batch}), inout<int32_t>(rest_side, "rest_side", {batch}),
                      inout<int32_t>(rest_px_ticks, "rest_px_ticks", {batch}), inout<int32_t>(rest_step, "rest_step", {batch}),
                      inout<int32_t>(open_step, "open_step", {batch}), inout<int32_t>(hold_steps, "hold_steps", {batch}),
                      out<int32_t>(fills), out<int32_t>(trade_open), out<uint8_t>(done), out<uint8_t>(wrap),
                      out<int64_t>(pnl), out<int64_t>(equity), out<int64_t>(delta)});
  return {fills, done, wrap, pnl, trade_open, equity, delta};
}

struct RewardRow {  // raw = delta / 2 - fees in ticks, each term rounded once; shaped by compare-and-select
  const int64_t* equity_delta;
  const int32_t* fills;
  const float* isv;
  int64_t tick_value_e4, fee_e4;
  float *raw, *shaped;
  FOX_HD void operator()(int64_t b) const {
    float fees = static_cast<float>(fills[b] * fee_e4) / static_cast<float>(tick_value_e4);
    float ticks = static_cast<float>(equity_delta[b]) * 0.5f - fees, scaled = isv[4] * ticks;
    raw[b] = ticks;
    shaped[b] = scaled < -1.f ? -1.f : (scaled > 1.f ? 1.f : scaled);
  }
};

template <class On>
std::tuple<Tensor, Tensor> reward(Tensor equity_delta, Tensor fills, Tensor isv, int64_t tick_value_e4, int64_t fee_e4) {
  FOX_CHECK(tick_value_e4 > 0, "tick_value_e4 must be positive, got ", tick_value_e4);
  int64_t batch = fills.size(0);
  Tensor raw = make<float>(fills, {batch}), shaped = make<float>(fills, {batch});
  On::rows(fills, batch, 8192,
           RewardRow{in<int64_t>(equity_delta, "equity_delta", {batch}), in<int32_t>(fills, "fills", {batch}),
                     in<float>(isv, "isv", {16}), tick_value_e4, fee_e4, out<float>(raw), out<float>(shaped)});
  return {raw, shaped};
}

struct EnvWrapRow {
  const uint8_t* wrap;
  int64_t* cursor;
  int64_t start;
  FOX_HD void operator()(int64_t b) const { cursor[b] = wrap[b] ? start : cursor[b]; }
};

template <class On> void env_wrap(Tensor cursor, Tensor wrap, int64_t start) {
  int64_t batch = cursor.size(0);
  FOX_CHECK(start >= 0, "start must be a row of the tape, got ", start);
  On::rows(cursor, batch, 16384,
           EnvWrapRow{in<uint8_t>(wrap, "wrap", {batch}), inout<int64_t>(cursor, "cursor", {batch}), start});
}

struct CarryRow {  // one element; a wrapped row restarts at +0
  const float* h;
  const uint8_t* wrap;
  float* carry;
  int64_t hidden;
  FOX_HD void operator()(int64_t i) const { carry[i] = wrap[i / hidden] ? 0.f : h[i]; }
};

template <class On> void carry_update(Tensor carry, Tensor h, Tensor wrap) {
  FOX_CHECK(carry.dim() == 2, "carry must be 2-D");
  int64_t batch = carry.size(0), hidden = carry.size(1);
  On::rows(carry, batch * hidden, 16384,
           CarryRow{in<float>(h, "h", {batch, hidden}), in<uint8_t>(wrap, "wrap", {batch}),
                    inout<float>(carry, "carry", {batch, hidden}), hidden});
}
}  // namespace fox
