// The tape's books: int32 rows [bid_px | bid_sz | ask_px | ask_sz] of L levels each, prices in ticks.
#pragma once
#include "check.h"
#include "hd.h"

namespace fox {
struct BookRow {
  const int32_t* columns;
  int64_t levels;
  FOX_HD int32_t bid_px(int64_t level) const { return columns[level]; }
  FOX_HD int32_t bid_sz(int64_t level) const { return columns[levels + level]; }
  FOX_HD int32_t ask_px(int64_t level) const { return columns[2 * levels + level]; }
  FOX_HD int32_t ask_sz(int64_t level) const { return columns[3 * levels + level]; }
  FOX_HD int64_t mid2() const { return static_cast<int64_t>(bid_px(0)) + ask_px(0); }
  FOX_HD int64_t spread() const { return static_cast<int64_t>(ask_px(0)) - bid_px(0); }
  // A missing side of a level is written as price 0 and size 0.
  FOX_HD bool has_bid(int64_t level) const { return bid_px(level) != 0 || bid_sz(level) != 0; }
  FOX_HD bool has_ask(int64_t level) const { return ask_px(level) != 0 || ask_sz(level) != 0; }
};

struct TapeBook {
  const int32_t* book;
  int64_t rows, levels;
  // A row off the tape is a mistake that Python names on a CPU; here it must only never be read.
  FOX_HD int64_t inside(int64_t row) const { return row < 0 ? 0 : row < rows ? row : rows - 1; }
  FOX_HD BookRow at(int64_t row) const { return BookRow{book + inside(row) * 4 * levels, levels}; }
};

inline TapeBook tape_book_in(const Tensor& book) {
  FOX_CHECK(book.dim() == 2 && book.size(0) > 0 && book.size(1) > 0 && book.size(1) % 4 == 0,
            "tape_book must be [rows, 4 L] with at least one row and level");
  int64_t rows = book.size(0), columns = book.size(1);
  return TapeBook{in<int32_t>(book, "tape_book", {rows, columns}), rows, columns / 4};
}

struct BookGatherRow {  // one column of one environment's book
  TapeBook tape;
  const int64_t* cursor;
  int32_t* out;
  FOX_HD void operator()(int64_t i) const {
    int64_t columns = 4 * tape.levels;
    out[i] = tape.at(cursor[i / columns]).columns[i % columns];
  }
};

template <class On> Tensor book_gather(Tensor book, Tensor cursor) {
  TapeBook tape = tape_book_in(book);
  int64_t batch = cursor.size(0);
  Tensor result = make<int32_t>(book, {batch, 4 * tape.levels});
  On::rows(book, batch * 4 * tape.levels, 16384,
           BookGatherRow{tape, in<int64_t>(cursor, "cursor", {batch}), out<int32_t>(result)});
  return result;
}
}  // namespace fox
